"""Position bias of click logs: known parameters are recovered, fits are the maxima, and malformed rows are told."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from numpy.typing import ArrayLike

from ol2r_cli import cli
from ol2r_cli.click.models import DependentByPlace, PositionBased
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.interfaces import ClickModel, RunContext
from ol2r_cli.plugins.click_logs.click_log import ClickLog, read
from ol2r_cli.plugins.click_logs.fit_clicks import main
from ol2r_cli.plugins.click_logs.position_bias import (
    BELOW_ONE,
    FITS,
    dcm,
    doubts,
    estimated,
    held_out,
    pbm,
    some_queries,
    standard_errors,
)
from ol2r_cli.tensor.streams import Streams

PLACES, QUERIES, DOCUMENTS = 6, 40, 9
EXAMINED = [1, 0.7, 0.5, 0.35, 0.25, 0.2]
GOES_ON = [0.3, 0.5, 0.6, 0.45, 0.4, 0.7]


def sessions(model: ClickModel, pages: int, seed: int = 0) -> pl.DataFrame:
    """Pages of random lists, in which every document of a query has an attraction of its own: a grade."""
    rng = np.random.default_rng(seed)
    model.setup(RunContext(pages, 9, 1, PLACES, 1, 1, grades=QUERIES * DOCUMENTS), torch.zeros(1, 1))
    query = rng.integers(QUERIES, size=pages)
    documents = query[:, None] * DOCUMENTS + rng.random((pages, DOCUMENTS)).argsort(1)[:, :PLACES]
    shown = torch.ones(pages, PLACES, dtype=torch.bool)
    clicks = model.click(torch.tensor(documents), shown, Streams(torch.arange(pages), ahead=1).at("click", seed))
    table = {"session": np.repeat(np.arange(pages), PLACES), "query": np.repeat(query, PLACES)}
    table |= {"document": documents.ravel(), "position": np.tile(np.arange(PLACES) + 1, pages)}
    return pl.DataFrame({**table, "click": clicks.numpy().ravel()})


def attraction() -> list[float]:
    return np.random.default_rng(7).uniform(0.1, 0.9, QUERIES * DOCUMENTS).tolist()


def as_read(values: list[float]) -> list[float]:
    """By document in the order of a log, in which queries and documents are sorted as text."""
    order = sorted(range(len(values)), key=lambda document: (str(document // DOCUMENTS), str(document)))
    return [values[document] for document in order]


def position_based() -> ClickModel:
    return PositionBased(attraction(), {}, 1, EXAMINED)


def written(table: pl.DataFrame, path: Path) -> ClickLog:
    table.write_parquet(path) if path.suffix == ".parquet" else table.write_csv(path)
    log, skipped = read(path)
    assert skipped == 0
    return log


def test_position_bias_is_recovered_from_sessions_and_counts(tmp_path: Path):
    """Position bias is recovered from sessions and from their counts.

    To .02 from 120,000 pages: three standard errors of the last place, which has 5,000 clicks.
    """
    table = sessions(position_based(), 120_000)
    log = written(table, tmp_path / "log.parquet")
    by = table.group_by("query", "document", place="position").agg(impressions=pl.len(), clicks=pl.col("click").sum())
    counts = written(by, tmp_path / "counts.csv")
    for name in "adjacent", "all-pairs", "pbm":
        assert FITS[name](log) == pytest.approx(EXAMINED, abs=0.02), name
        assert FITS[name](counts) == pytest.approx(FITS[name](log), abs=1e-9), "whatever the order of rows"
    assert abs(pbm(log)[1] - as_read(attraction())).max() < 0.12  # four standard errors of 2,000 impressions
    table = held_out(log, 4)
    fitted = [table.pop(name) for name in ("adjacent", "all-pairs", "pbm")]
    assert max(fitted) - min(fitted) < 1e-4
    saturated = table.pop("saturated")
    assert saturated > min(fitted) > max(table["1 / rank"], table["dcm"]) > table["no bias"]


def test_dcm_is_recovered_from_sessions(tmp_path: Path):
    log = written(sessions(DependentByPlace(attraction(), {}, GOES_ON), 60_000), tmp_path / "log.csv")
    continuation, found, _ = dcm(log)
    assert continuation[:-1] == pytest.approx(GOES_ON[:-1], abs=0.03)
    assert abs(found - as_read(attraction())).max() < 0.12
    table = held_out(log, 4)
    assert table["dcm"] == max(value for name, value in table.items() if name != "saturated")


def test_dcm_is_the_maximum_that_em_approaches():
    """EM page by page: below the last click, all was read with probability l prod (1 - a) / (1 - l + l prod (1 - a)).
    Also with given continuation, and from another start. Pages may be short, and one has no click."""
    rng = np.random.default_rng(5)
    pages = np.array([rng.permutation(6)[:3] for _ in range(60)])
    pages[::7, 2] = -1
    click = (rng.random((60, 3)) < [0.5, 0.3, 0.2]) & (pages >= 0)
    shown, clicks = np.zeros((2, 6, 3))
    for page, clicked in zip(pages, click, strict=True):
        for place in np.flatnonzero(page >= 0):
            shown[page[place], place] += 1
            clicks[page[place], place] += clicked[place]
    log = ClickLog(np.zeros(6, int), shown, clicks, (pages, click))
    goes_on, a = np.full(3, 0.5), np.full(6, 0.5)
    for _ in range(300):
        examined, on, likelihood = np.zeros(6), np.zeros(3), 0.0
        for page, clicked in zip(pages, click, strict=True):
            last = max(np.flatnonzero(clicked), default=3)
            below = [document for document in page[last + 1 :] if document >= 0]
            silent = (goes_on[last] if last < 3 else 1) * np.prod([1 - a[document] for document in below])
            leaves = 1 - goes_on[last] + silent if last < 3 else 1.0
            for place, document in enumerate(page):
                if document >= 0:
                    examined[document] += 1 if place <= last else silent / leaves
                    likelihood += np.log(a[document] if clicked[place] else 1 - a[document]) if place <= last else 0
            on += [silent / leaves if place == last else clicked[place] for place in range(3)]
            likelihood += np.log(leaves) + np.log(goes_on[:last][clicked[:last]]).sum() if last < 3 else 0
        a, goes_on = clicks.sum(1) / examined, on / clicks.sum(0)
    found = dcm(log)
    assert found[2] == pytest.approx(likelihood, abs=1e-3)
    assert found[0] == pytest.approx([*goes_on[:2], 0], abs=2e-3)
    assert found[1] == pytest.approx(a, abs=2e-3)
    again = dcm(log, start=(np.array([0.9, 0.1, 0.5]), np.full(6, 0.2)))
    assert again[0] == pytest.approx(found[0], abs=2e-3)
    assert dcm(log, goes_on)[1] == pytest.approx(a, abs=2e-3)


def test_pbm_is_the_maximum_that_em_approaches():
    """EM: a document that was not clicked was examined with probability theta (1 - a) / (1 - a theta)."""
    rng = np.random.default_rng(3)
    shown = rng.integers(0, 60, (12, 4)).astype(float)
    clicks = rng.binomial(shown.astype(int), 0.5 / np.arange(1, 5)).astype(float)
    theta, a = np.full(4, 0.5), np.full(12, 0.5)
    for _ in range(20_000):
        missed = (shown - clicks) / (1 - a[:, None] * theta)
        both = clicks + missed * a[:, None] * (1 - theta), clicks + missed * theta * (1 - a[:, None])
        a = np.minimum(both[0].sum(1) / shown.sum(1), BELOW_ONE)
        theta = np.minimum(both[1].sum(0) / shown.sum(0), BELOW_ONE)
    chance = a[:, None] * theta
    likelihood = (clicks * np.log(chance) + (shown - clicks) * np.log1p(-chance)).sum()
    found = pbm(ClickLog(np.arange(12), shown, clicks))
    assert found[2] == pytest.approx(likelihood, abs=1e-3)
    assert found[0] == pytest.approx(theta / theta.max(), abs=1e-3)
    alone = pbm(ClickLog(np.arange(12), shown, clicks), found[0])
    assert alone[1] == pytest.approx(found[1], abs=2e-3)
    assert pbm(ClickLog(np.arange(12), shown, clicks), np.ones(4))[1] == pytest.approx(clicks.sum(1) / shown.sum(1))


def counts(impressions: ArrayLike, clicks: ArrayLike) -> ClickLog:
    """Documents of a query each."""
    shown = np.asarray(impressions, dtype=float)
    return ClickLog(np.arange(len(shown)), shown, np.asarray(clicks, dtype=float))


def test_documents_count_their_smaller_number_of_impressions():
    """Impressions 10 and 40, and 60 and 20; click rates .5 and .4, and .2 and .1. With two places all pairs are one."""
    log = counts([[10, 40], [60, 20]], [[5, 16], [12, 2]])
    ratio = (10 * 0.4 + 20 * 0.1) / (10 * 0.5 + 20 * 0.2)
    for name in "adjacent", "all-pairs":
        assert FITS[name](log) == pytest.approx([1, ratio], abs=1e-4), name


def test_the_largest_examination_is_one():
    """A document of each query at places 1 and 2, and at 2 and 3; all pairs have no more to say than their rates."""
    log = counts([[10, 10, 0], [0, 10, 10]], [[2, 4, 0], [0, 8, 6]])  # ratios 2 and 3 / 4
    for name in "adjacent", "all-pairs", "pbm":
        assert FITS[name](log) == pytest.approx([0.5, 1, 0.75], abs=1e-3), name


def test_folds_hold_out_each_query_once(monkeypatch: pytest.MonkeyPatch):
    """Query q is held out of the fit of fold q % 2. Its documents have the click rates of a bias that only this fit
    returns, so that the fit reaches the saturated log-likelihood, which is written out."""
    seen, bias = [], {0: np.array([1.0, 0.5]), 1: np.array([1.0, 0.25])}

    def fit(log: ClickLog) -> np.ndarray:
        seen.append(sorted(set(log.query.tolist())))
        return bias[1 - seen[-1][0] % 2]  # queries of the other fold are there

    monkeypatch.setattr("ol2r_cli.plugins.click_logs.position_bias.FITS", {"mine": fit, "dcm": dcm})
    rates = np.array([0.6, 0.4, 0.8])[:, None] * np.stack([bias[0], bias[1], bias[0]])
    shown = np.array([[100, 100], [100, 100], [50, 200]])
    table = held_out(counts(shown, shown * rates), 2)
    assert seen == [[1], [0, 2]]
    likelihood = (shown * (rates * np.log(rates) + (1 - rates) * np.log(1 - rates))).sum() / shown.sum()
    assert table["saturated"] == pytest.approx(likelihood)
    assert table["mine"] == pytest.approx(likelihood, abs=1e-6)
    pooled = (shown * rates).sum(1, keepdims=True) / shown.sum(1, keepdims=True)  # without bias
    without = (shown * (rates * np.log(pooled) + (1 - rates) * np.log(1 - pooled))).sum() / shown.sum()
    assert table["no bias"] == pytest.approx(without, abs=1e-6)
    assert list(table) == ["no bias", "1 / rank", "mine", "saturated"]  # dcm needs pages
    table = held_out(counts(shown[::2], (shown * rates)[::2]), 2)  # 1 and .5 is 1 / rank
    assert table["1 / rank"] == pytest.approx(table["saturated"], abs=1e-6)


def test_queries_of_a_long_log_are_drawn_with_all_of_their_pages(monkeypatch: pytest.MonkeyPatch):
    query = np.repeat([0, 1, 2, 3], [5, 40, 5, 10])
    document = np.stack([2 * query, 2 * query + 1], 1)
    click = np.zeros(document.shape, bool)
    click[::5, 0] = True
    shown = np.zeros((8, 2))
    np.add.at(shown, (document, np.arange(2)), 1)
    clicks = np.zeros((8, 2))
    np.add.at(clicks, (document[click[:, 0], 0], 0), 1)
    log = ClickLog(np.repeat(np.arange(4), 2), shown, clicks, (document, click))
    module = "ol2r_cli.plugins.click_logs.position_bias"
    monkeypatch.setattr(f"{module}.MOST_PAGES", 60)
    assert some_queries(log, 2) is log
    monkeypatch.setattr(f"{module}.MOST_PAGES", 12)
    some = some_queries(log, 2)
    assert some.pages is not None
    assert len(set(some.query)) >= 2
    assert len(some.pages[0]) == some.impressions[:, 0].sum() == some.impressions[:, 1].sum() < 60
    assert set(some.query_of_pages()) == set(range(some.query.max() + 1))
    assert all(count in (5, 10, 40) for count in np.bincount(some.query_of_pages()))
    assert some.clicks.sum() == some.pages[1].sum()
    counted = replace(log, pages=None)
    assert some_queries(counted, 2) is counted
    assert set(held_out(some, 2)) == {"no bias", "1 / rank", *FITS, "saturated"}


def test_a_fold_that_cannot_be_harvested_has_no_number():
    """Without query 0 nothing was shown at both places."""
    log = counts([[9, 9], [9, 0], [0, 9]], [[3, 2], [3, 0], [0, 3]])
    table = held_out(log, 3)
    assert np.isnan(table["adjacent"])
    assert table["pbm"] < table["saturated"]


def test_dcm_says_nothing_of_the_last_place():
    """Two places. After a click at 1 the user reads on to a document that always attracts in 3 of 4 pages."""
    documents, clicks = np.tile([0, 1], (4, 1)), np.array([[1, 1], [1, 1], [1, 1], [1, 0]], dtype=bool)
    more = (
        np.tile([2, 1], (40, 1)),
        np.tile([False, True], (40, 1)),
    )  # without a click at 1 it is always read, and clicked
    pages = np.concatenate([documents, more[0]]), np.concatenate([clicks, more[1]])
    log = replace(counts([[4, 0], [0, 44], [40, 0]], [[4, 0], [0, 43], [0, 0]]), pages=pages)
    assert estimated(log, "dcm") == pytest.approx([0.75, 0], abs=0.01)


def simulated(impressions: np.ndarray) -> ClickLog:
    """Clicks of position-based users who examine place k with probability 1 / k."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.9, (len(impressions), 1)) / np.arange(1, impressions.shape[1] + 1)
    return counts(impressions, rng.binomial(impressions, chance))


def test_standard_errors_are_those_of_ratios_of_counts():
    """Of c and d rare clicks, log(c / d) has variance 1 / c + 1 / d; those of a chain add up. c and d are the clicks
    that impressions and examination predict: of 30 two thirds, and of 24 the shares 100 x .5 and 300 x .25. Nothing
    was shown at the fourth place and another one."""
    shown = [[100, 100, 0, 0], [0, 100, 300, 0], [0, 0, 0, 100]]
    log = counts(shown, [[25, 5, 0, 0], [0, 10, 14, 0], [0, 0, 0, 9]])
    errors = standard_errors(log, np.array([1, 0.5, 0.25, 0.1]))
    first, second = 1 / 20 + 1 / 10, 1 / (24 * 0.4) + 1 / (24 * 0.6)
    assert errors == pytest.approx([0, first**0.5, (first + second) ** 0.5, np.inf])
    errors = standard_errors(counts([[100] * 4], [[16, 8, 4, 2]]), np.array([1, 0.5, 0.25, 0.125]))
    assert errors[1:] == pytest.approx([(1 / 16 + 1 / clicks) ** 0.5 for clicks in (8, 4, 2)])
    one_click = standard_errors(counts([[9, 9]], [[1, 0]]), np.ones(2))  # half of it is predicted at each place
    assert one_click == pytest.approx([0, 2])


def test_fits_need_clicks_but_dcm_none_at_the_last_place():
    clicked = np.array([[True, False, False], [False, True, False]])
    pages = np.tile(np.arange(3), (2, 1)), clicked
    log = replace(counts(2 * np.eye(3), np.diag([1, 1, 0])), pages=pages)
    assert estimated(log, "dcm")[-1] == 0
    silent = replace(log, clicks=np.diag([1.0, 0, 1]))
    with pytest.raises(ValueError, match=r"clicks at all places but the last, got none at place 2$"):
        estimated(silent, "dcm")
    with pytest.raises(ValueError, match=r"^documents that were shown at both of places 1 and 2 .* type --fit pbm$"):
        estimated(counts([[9, 9]], [[3, 0]]), "adjacent")


def test_logs_that_are_too_small_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Two impressions a document; one place a document; few of them; and 200 at each place, without a warning."""
    rng = np.random.default_rng(1)
    dense, one, few = np.full((200, 4), 200), 800 * np.eye(4, dtype=int)[np.arange(200) % 4], np.full((10, 4), 25)
    two = (rng.random((8_000, 4)).argsort(1) < 2).astype(int)  # 16,000 impressions
    for name, shown, fit, expected in [
        ("dense", dense, "pbm", []),
        ("dense", dense, "adjacent", []),
        ("one place", one, "pbm", ["at 3 places: 2 (unknown), 3 (unknown), 4 (unknown); needed are more clicks on"]),
        ("few clicks", few, "all-pairs", ["examination has a standard error above 10 % at "]),
        (
            "two",
            two,
            "pbm",
            ["have 2.0 impressions", "pbm, dcm, attraction", "or more, or --fit all-pairs"],
        ),
        ("two", two, "adjacent", ["attraction by grade and held-out log-likelihoods are unreliable; needed are 20"]),
    ]:
        log = simulated(shown)
        document, place = np.nonzero(log.impressions)
        table = {"query": log.query[document], "document": document, "place": place + 1}
        table |= {"impressions": log.impressions[document, place], "clicks": log.clicks[document, place]}
        pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
        assert main([str(tmp_path / "log.parquet"), "--fit", fit]) == 0
        out, err = capsys.readouterr()
        warned = [line for line in err.splitlines() if line.startswith("warning: ") and "fitted user" not in line]
        assert len(warned) == min(1, len(expected)), name
        assert set(out.splitlines()) >= {line.replace("warning:", "# Warning:") + "." for line in warned}
        for words in expected:
            assert words in warned[0], name


def test_twenty_impressions_of_clicked_documents_are_enough():
    """The harmonic mean over clicks: documents without a click do not count, and a mean of 19.9 is too little."""
    clicks, bias = [[5, 5], [5, 5], [0, 0]], np.ones(2)
    assert doubts(counts([[10, 10], [10, 10], [1, 0]], clicks), "dcm", bias) == []
    (line,) = doubts(counts([[9, 10], [10, 10], [1, 0]], clicks), "dcm", bias)  # half of the clicks are on 19
    assert line.startswith(f"clicked documents have {1 / (0.5 / 19 + 0.5 / 20):.1f} impressions")


HEADER, GOOD = "query,document,place,impressions,clicks", "q,a,1,10,3\nq,b,2,10,1\nr,a,1,10,4\nr,a,2,9,3"
SHOWN = "session,query,document,place,click"


@pytest.mark.parametrize(("header", "row", "found"), [
    (HEADER, "q,a,1,10,11", "clicks from 0 to impressions, got query q, document a, place 1, impressions 10, clicks"),
    (HEADER, "q,a,0,10,1", "place from 1 to 1000, got query q, document a, place 0"),
    (HEADER, "q,a,first,10,1", "place from 1 to 1000, got query q, document a, place first, impressions 10"),
    (HEADER, "q,a,1,-1,0", "impressions from 0, got"),
    (HEADER, "q,a,1,10,some", "clicks from 0, got"),
    (HEADER, ",a,1,10,1", "query and document, got query None"),
    (SHOWN, "1,q,a,1,2", "clicks from 0 to impressions, got session 1"),
    (SHOWN, ",q,a,1,1", "session, got session None"),
    (SHOWN, "1,q,a,1,1\n1,q,b,1,0", "each place of a session once, got session 1"),
])  # fmt: skip
def test_a_malformed_row_is_told_with_its_line_or_left_out(tmp_path, capsys, header: str, row: str, found: str):
    good = GOOD if header == HEADER else "7,q,a,1,1\n7,q,b,2,0"
    file = tmp_path / "log.csv"
    file.write_text(f"{header}\n{good}\n{row}\n")
    assert main([str(file)]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"ol2r data fit-clicks: {file}, line {len(good.splitlines()) + 2}: a row must have {found}")
    number = len(row.splitlines())
    assert error.endswith(f" (malformed rows in all: {number}): type --skip-bad to leave malformed rows out")
    assert read(file, "malformed")[1] == number


def test_repeats_of_a_session_are_left_out_and_counted_apart(tmp_path: Path, capsys, caplog):
    """Of 160 rows that are there twice or three times one counts, with --skip-bad and without it. A place with two
    documents, or with a click and without one, is malformed in all its rows."""
    caplog.set_level("INFO")
    pages, file = sessions(position_based(), 100), tmp_path / "log.csv"
    log = written(pages, file)
    written_twice = pl.concat([pages, pages[50:130], pages[90:170]]).sample(fraction=1, shuffle=True, seed=1)
    written_twice.write_csv(file)
    for leave_out in "none", "malformed":
        again, left_out = read(file, leave_out)
        assert (again.repeats, left_out) == (160, 0)
        assert (again.impressions == log.impressions).all()
        assert (again.clicks == log.clicks).all()
        assert len(again.pages[0]) == 100
    other_click = pages[:2].with_columns(~pl.col("click"))  # of two places
    other_document = pages[7:8].with_columns(pl.col("document") + 1)
    pl.concat([pages, other_click, pages[:1], other_document, pages[20:21]]).write_csv(file)
    again, left_out = read(file, "malformed")
    assert (again.impressions.sum(), left_out, again.repeats) == (597, 7, 1)
    assert main([str(file)]) == 2
    error = capsys.readouterr().err
    assert f"{file}, line 2: a row must have each place of a session once, got session 0," in error
    assert "(malformed rows in all: 7)" in error
    main([str(file), "--skip-bad", "--fit", "pbm"])
    assert {"7 malformed rows left out", "1 repeated row left out"} <= {*caplog.messages}


def test_a_log_is_read_in_parts_as_it_is_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where a part would end within a quoted field, and with the line of a malformed row."""
    pages = sessions(position_based(), 40).with_columns(pl.format('a "quoted"\nline, {}', "query").alias("query"))
    lists = pages.group_by("session", "query").agg("document", "click")
    lists = lists.rename({"query": "query_id", "document": "query_doc_ids", "click": "clicks"})
    pages.write_csv(tmp_path / "log.csv")
    for table, name in (pages, "log.parquet"), (lists, "lists.parquet"):
        table.write_parquet(tmp_path / name)
    bad = tmp_path / "bad.csv"
    bad.write_text((tmp_path / "log.csv").read_text() + '9999,"two\nlines",1,0,1\n')
    whole = read(tmp_path / "log.csv")[0]
    sizes = {"_BLOCK_BYTES": 64, "_BLOCK_ROWS": 7, "_BLOCK_LISTS": 3}
    for name, size in sizes.items():
        monkeypatch.setattr(f"ol2r_cli.plugins.click_logs.log_file.{name}", size)
    for name in "log.csv", "log.parquet", "lists.parquet":
        log, _ = read(tmp_path / name)
        assert (log.impressions == whole.impressions).all(), name
        assert (log.clicks == whole.clicks).all(), name
        assert (log.query_ids, log.document_ids) == (whole.query_ids, whole.document_ids), name
        assert sorted(map(tuple, log.pages[0].tolist())) == sorted(map(tuple, whole.pages[0].tolist())), name
    with pytest.raises(ValueError, match=r"line 482: a row must have place from 1 to 1000, got session 9999"):
        read(bad)


@pytest.mark.parametrize(("encoding", "line"), [("utf-8-sig", 0), ("latin-1", 3), ("utf-16", 1)])
def test_marks_of_utf8_are_read_and_other_encodings_named(tmp_path: Path, encoding: str, line: int):
    file = tmp_path / "log.csv"
    file.write_text(f"{HEADER}\nq,a,1,10,3\nq,ü,2,10,1\n", encoding=encoding)
    if line:
        with pytest.raises(ValueError, match=rf"{file}, line {line}: found text in another encoding, .* type iconv"):
            read(file)
    else:
        assert read(file)[0].document_ids == ["a", "ü"]


def test_the_line_is_that_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A quoted field with a line break makes a row of two lines, which has the number of the first; blank lines are no
    rows."""
    file, first = tmp_path / "log.csv", f'{HEADER}\n"two\nlines",a,1,9,3\n\n'
    file.write_text(f'{first}"two\nlines",a,2,9,2\n\n')
    assert read(file)[0].clicks.tolist() == [[3, 2]]
    for row, said in (
        ('"two\nlines",a,2,9,10\n', "line 5: a row must"),
        ('"two\nlines,a,2,9,1\n', "(line 5 has a quote"),
    ):
        file.write_text(first + row)
        assert main([str(file)]) == 2
        assert said in capsys.readouterr().err


def test_true_and_false_are_clicks_as_any_tool_writes_them(tmp_path: Path):
    """Pandas writes True, polars true; in a parquet file the column is of booleans."""
    rows = [("1", "q", "a", 1, True), ("1", "q", "b", 2, False), ("2", "q", "b", 1, True), ("2", "q", "a", 2, True)]
    table = pl.DataFrame(rows, schema=SHOWN.split(","), orient="row")
    text = table.write_csv()
    (tmp_path / "polars.csv").write_text(text)
    (tmp_path / "pandas.csv").write_text(text.replace("true", "True").replace("false", "False"))
    table.write_parquet(tmp_path / "log.parquet")
    for name in "polars.csv", "pandas.csv", "log.parquet":
        assert read(tmp_path / name)[0].clicks.tolist() == [[1, 1], [1, 0]], name


def test_other_columns_do_not_matter_and_lists_are_refused(tmp_path: Path):
    """Sessions with a column of counts beside `click`: the click counts."""
    rows = [(1, "q", "a", 1, 1, 0, 7), (1, "q", "b", 2, 0, 1, 7)]
    table = pl.DataFrame(rows, schema=[*SHOWN.split(","), "clicks", "impressions"], orient="row")
    assert written(table, tmp_path / "both.csv").clicks.tolist() == [[1, 0], [0, 0]]
    file = tmp_path / "lists.parquet"
    table.group_by("session").agg("query", "document", "place", "click").write_parquet(file)
    with pytest.raises(ValueError, match=r"lists\.parquet: column query must have one number or text a row, got List"):
        read(file)


@pytest.mark.parametrize("kind", [pl.Float32, pl.Boolean, pl.Int8])
def test_sessions_of_clax_are_rows_of_lists(tmp_path: Path, kind: type[pl.DataType]):
    """Documents and clicks from the top, with clicks of any type."""
    rows = {"query_id": [7, 7, 9], "query_doc_ids": [[1, 2], [2, 1, 3], [4]], "clicks": [[1, 0], [0, 0, 1], [1]]}
    table = pl.DataFrame(rows).with_columns(pl.col("clicks").list.eval(pl.element().cast(kind)))
    table.write_parquet(tmp_path / "clax.parquet")
    log, left_out = read(tmp_path / "clax.parquet")
    assert log.impressions.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert log.clicks.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert (log.query.tolist(), log.query_ids, left_out) == ([0, 0, 0, 1], ["7", "9"], 0)
    assert log.pages is not None
    assert log.pages[0].tolist() == [[0, 1, -1], [1, 0, 2], [3, -1, -1]]


def test_lists_of_different_lengths_are_malformed(tmp_path: Path):
    table = pl.DataFrame({"query_id": [7, 7], "query_doc_ids": [[1, 2], [1, 2]], "clicks": [[1, 0], [1]]})
    table.write_parquet(tmp_path / "clax.parquet")
    with pytest.raises(
        ValueError, match=r"clax\.parquet, row 2: a row must have 0 or 1 for each document in clicks, got"
    ):
        read(tmp_path / "clax.parquet")
    assert read(tmp_path / "clax.parquet", "malformed")[1] == 1


def test_repeated_rows_are_added_and_pos_counts_from_0(tmp_path: Path):
    """Rows of the columns of Yandex's published counts; one without impressions says nothing."""
    file = tmp_path / "log.csv"
    file.write_text("query,url,pos,Impression,Click\nq,a,0,1000,900\nq,b,0,7,1\nq,a,0,10,1\nq,a,1,5,2\nq,c,2,0,0\n")
    log, left_out = read(file)
    assert log.impressions.tolist() == [[1010, 5], [7, 0]]
    assert log.clicks.tolist() == [[901, 2], [1, 0]]
    assert (left_out, log.query_ids) == (0, ["q"])


@pytest.mark.parametrize("extra", ["url", "position"])
def test_columns_of_both_names_are_read_by_the_usual_one(tmp_path: Path, extra: str):
    """`document` beside `url`, and `position`, which counts from 1, beside `pos`."""
    columns = {"query": "q", "document": "d", "position": 1, "pos": 7, "impressions": 10, "clicks": 4}
    if extra == "url":
        del columns["position"]
        columns |= {"url": "u", "pos": 0}
    file = tmp_path / "log.csv"
    pl.DataFrame([columns]).write_csv(file)
    assert read(file)[0].clicks.tolist() == [[4]]


def test_a_log_may_be_gzipped_and_other_compressions_are_named(tmp_path: Path):
    text = b"query,document,place,impressions,clicks\nq,a,1,10,4\nq,a,2,10,2\n"
    (zipped := tmp_path / "log.csv.gz").write_bytes(gzip.compress(text))
    assert read(zipped)[0].clicks.tolist() == [[4, 2]]
    zipped.write_bytes(gzip.compress(text + b'"q\n2",a,1,10,4\nq,a,3,10,11\n'))
    with pytest.raises(ValueError, match="line 6: a row must have clicks from 0 to impressions"):
        read(zipped)
    zipped.write_bytes(gzip.compress(text + b"q,a,3,10,11,5\n"))
    with pytest.raises(ValueError, match="line 4 has more fields than the first"):
        read(zipped)
    (other := tmp_path / "log.csv.bz2").write_bytes(bz2.compress(text))
    with pytest.raises(ValueError, match=r"log\.csv\.bz2: found a file .* type bzip2 -dc .*log\.csv\.bz2 > NEW"):
        read(other)


def test_whole_numbers_may_have_a_point(tmp_path: Path):
    file = tmp_path / "log.csv"
    file.write_text(f"{HEADER}\n{GOOD}\n")
    log, _ = read(file)
    file.write_text(f"{HEADER}\n{GOOD}\n".replace("10,", "10.0,").replace(",1,", ",1.,"))
    assert (read(file)[0].impressions == log.impressions).all()
    assert (read(file)[0].clicks == log.clicks).all()


def test_the_file_that_is_printed_is_a_choice_at_once(tmp_path: Path, capsys, caplog):
    caplog.set_level("INFO")
    log, folder = tmp_path / "log.parquet", tmp_path / "choices"
    sessions(position_based(), 4_000).write_parquet(log)
    (folder / "click").mkdir(parents=True)
    for fit, kind in ("pbm", PositionBased), ("dcm", DependentByPlace):
        assert main([str(log), "--fit", fit]) == 0
        assert "fold 5 of 5" in caplog.text
        (folder / "click" / f"mine_{fit}.yaml").write_text(capsys.readouterr().out)
        composed = compose([f"click=mine_{fit}", *as_options([folder])]).config.click
        user = build(composed, "click")
        assert isinstance(user, kind)
        user.setup(RunContext(1, 9, 1, PLACES, 1, 1, grades=3), torch.zeros(1, 1))
        assert not user.warnings


def test_what_cannot_be_fitted_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "log.csv"
    for text, words, message in [
        ("a,b\n1,2", [], "must have the columns query, document, place, impressions, clicks, or session, query,"),
        (f"{HEADER}\n{GOOD}", ["--fit", "dcm"], f"--fit dcm needs sessions, and {file} has counts: type --fit pbm"),
        (f"{HEADER}\nq,a,1,9,3", [], f"{file} must have two queries or more, as others are held out, got one"),
        (f"{HEADER}\nq,a,1,9,3\nr,a,2,9,3", [], "at both of places 1 and 2 must have clicks at each of these"),
        (f"{HEADER}\nq,a,1,9,3\nr,a,3,9,3", [], "must have impressions at each place from 1 to 3, got none at place 2"),
        (f"{HEADER}\nq,a,1,9,0\nr,a,1,9,0", [], f"{file} has no click"),
        (f"{HEADER}\nq,a,1,0,0", [], f"{file} has no row that can be used"),
        (
            f"{SHOWN}\n1,q,a,1,0\n1,q,b,2,1\n2,r,a,1,0\n2,r,b,2,0",
            ["--fit", "dcm"],
            "all places but the last, got none at",
        ),
    ]:
        file.write_text(f"{text}\n")
        assert main([str(file), *words]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]
    assert main(["info", "--skip-bad"]) == 2
    assert main([str(tmp_path / "none.csv")]) == 2
    assert "none.csv must be a csv, parquet or json lines file" in capsys.readouterr().err
    (tmp_path / "long.csv").write_text("query,document,place,impressions,clicks\na,b,1,9,1\na,c,2,9,1,7\n")
    assert main([str(tmp_path / "long.csv")]) == 2
    assert "line 3 has more fields than the first" in capsys.readouterr().err


def test_help_of_two_words_is_that_of_their_command(capsys: pytest.CaptureFixture[str]):
    for words in ["data", "fit-clicks", "--help"], ["help", "data", "fit-clicks"]:
        with pytest.raises(SystemExit):
            cli.main(words)
        assert capsys.readouterr().out.startswith("usage: ol2r data fit-clicks ")
