"""Position bias of click logs: known parameters are recovered, fits are the maxima, and small logs are warned of."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.click.models import DependentByPlace, PositionBased
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.interfaces import RunContext
from ol2r_cli.plugins.click_logs.click_log import read
from ol2r_cli.plugins.click_logs.fit_clicks import main
from ol2r_cli.plugins.click_logs.position_bias import (
    BELOW_ONE,
    FITS,
    MOST_PAGES,
    dcm,
    doubts,
    estimated,
    harvesting_errors,
    held_out,
    pbm,
    some_queries,
    standard_errors,
)
from ol2r_cli.tensor.streams import Streams
from tests.finished import refused
from tests.plugins.click_logs.logs import counts, of_pages

PLACES, QUERIES, DOCUMENTS = 6, 40, 9
EXAMINED = [1, 0.7, 0.5, 0.35, 0.25, 0.2]
GOES_ON = [0.3, 0.5, 0.6, 0.45, 0.4, 0.7]
ATTRACTION = np.random.default_rng(7).uniform(0.1, 0.9, QUERIES * DOCUMENTS).tolist()
POSITION_BASED, DEPENDENT = PositionBased(ATTRACTION, {}, 1, EXAMINED), DependentByPlace(ATTRACTION, {}, GOES_ON)
HARVESTS = "adjacent", "all-pairs"


def sessions(model, pages):
    """Pages of random lists, in which every document of a query has an attraction of its own: a grade."""
    rng = np.random.default_rng(0)
    model.setup(RunContext(pages, 9, 1, PLACES, 1, 1, grades=QUERIES * DOCUMENTS), torch.zeros(1, 1))
    query = rng.integers(QUERIES, size=pages)
    documents = query[:, None] * DOCUMENTS + rng.random((pages, DOCUMENTS)).argsort(1)[:, :PLACES]
    shown = torch.ones(pages, PLACES, dtype=torch.bool)
    clicks = model.click(torch.tensor(documents), shown, Streams(torch.arange(pages), ahead=1).at("click", 0))
    table = {"session": np.repeat(np.arange(pages), PLACES), "query": np.repeat(query, PLACES)}
    table |= {"document": documents.ravel(), "position": np.tile(np.arange(PLACES) + 1, pages)}
    return pl.DataFrame({**table, "click": clicks.numpy().ravel()})


def attraction_of(log):
    """By document of the log, in which queries and documents are sorted as text."""
    return [ATTRACTION[int(document)] for document in log.document_ids]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """120,000 pages of position-based users, and counts of them."""
    folder, table = tmp_path_factory.mktemp("logs"), sessions(POSITION_BASED, 120_000)
    by = table.group_by("query", "document", place="position").agg(impressions=pl.len(), clicks=pl.col("click").sum())
    table.write_parquet(folder / "log.parquet")
    by.write_csv(folder / "counts.csv")
    return read(folder / "log.parquet")[0], read(folder / "counts.csv")[0]


@pytest.mark.parametrize("fit", ["adjacent", "all-pairs", "pbm"])
def test_position_bias_is_recovered_from_sessions_and_counts(logs, fit):
    """To .02: three standard errors of the last place, which has 5,000 clicks."""
    of_pages, of_counts = logs
    assert FITS[fit](of_pages) == pytest.approx(EXAMINED, abs=0.02)
    assert FITS[fit](of_counts) == pytest.approx(FITS[fit](of_pages), abs=1e-9), "whatever the order of rows"


def test_attraction_is_recovered_and_fits_that_are_true_predict(logs):
    log, _ = logs
    assert abs(pbm(log)[1] - attraction_of(log)).max() < 0.12  # four standard errors of 2,000 impressions
    table = held_out(log, 4)
    fitted = [table.pop(name) for name in ("adjacent", "all-pairs", "pbm")]
    assert max(fitted) - min(fitted) < 1e-4
    saturated = table.pop("saturated")
    assert saturated > min(fitted) > max(table["1 / rank"], table["dcm"]) > table["no bias"]


def test_dcm_is_recovered_from_sessions(tmp_path):
    sessions(DEPENDENT, 60_000).write_csv(tmp_path / "log.csv")
    log, _ = read(tmp_path / "log.csv")
    continuation, found, _ = dcm(log)
    assert continuation[:-1] == pytest.approx(GOES_ON[:-1], abs=0.03)
    assert abs(found - attraction_of(log)).max() < 0.12
    table = held_out(log, 4)
    assert table["dcm"] == max(value for name, value in table.items() if name != "saturated")


def step_of_dcm(pages, click, goes_on, a):
    """EM by page: below the last click, all was read with probability l prod (1 - a) / (1 - l + l prod (1 - a)).

    Returns how often users read on, how often documents were examined, and the log-likelihood.
    """
    examined, on, likelihood = np.zeros(len(a)), np.zeros(click.shape[1]), 0.0
    for page, clicked in zip(pages, click, strict=True):
        documents, clicks = page[page >= 0], np.flatnonzero(clicked)
        last = clicks[-1] if len(clicks) else len(documents)
        read, below = documents[: last + 1], documents[last + 1 :]
        silent = goes_on[last] * np.prod(1 - a[below]) if len(clicks) else 1.0
        leaves = 1 - goes_on[last] + silent if len(clicks) else 1.0
        examined[read] += 1
        examined[below] += silent / leaves
        on[clicks] += np.where(clicks == last, silent / leaves, 1)
        likelihood += np.log(np.where(clicked[: len(read)], a[read], 1 - a[read])).sum()
        likelihood += np.log(goes_on[clicks[:-1]]).sum() + np.log(leaves)
    return on, examined, likelihood


def test_dcm_is_the_maximum_that_em_approaches():
    """Also with given continuation, and from another start. Pages may be short, and one has no click."""
    rng = np.random.default_rng(5)
    pages = np.array([rng.permutation(6)[:3] for _ in range(60)])
    pages[::7, 2] = -1
    click = (rng.random((60, 3)) < [0.5, 0.3, 0.2]) & (pages >= 0)
    log = of_pages([0] * 6, pages, click)
    goes_on, a = np.full(3, 0.5), np.full(6, 0.5)
    for _ in range(300):
        on, examined, likelihood = step_of_dcm(pages, click, goes_on, a)
        goes_on, a = on / log.clicks.sum(0), log.clicks.sum(1) / examined
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
    chance, log = a[:, None] * theta, counts(shown, clicks)
    likelihood = (clicks * np.log(chance) + (shown - clicks) * np.log1p(-chance)).sum()
    found = pbm(log)
    assert found[2] == pytest.approx(likelihood, abs=1e-3)
    assert found[0] == pytest.approx(theta / theta.max(), abs=1e-3)
    assert pbm(log, found[0])[1] == pytest.approx(found[1], abs=2e-3)
    assert pbm(log, np.ones(4))[1] == pytest.approx(clicks.sum(1) / shown.sum(1))


@pytest.mark.parametrize("fit", HARVESTS)
def test_documents_count_their_smaller_number_of_impressions(fit):
    """Impressions 10 and 40, and 60 and 20; click rates .5 and .4, and .2 and .1. With two places all pairs are one."""
    ratio = (10 * 0.4 + 20 * 0.1) / (10 * 0.5 + 20 * 0.2)
    assert FITS[fit](counts([[10, 40], [60, 20]], [[5, 16], [12, 2]])) == pytest.approx([1, ratio], abs=1e-4)


@pytest.mark.parametrize("fit", [*HARVESTS, "pbm"])
def test_the_largest_examination_is_one(fit):
    """A document of each query at places 1 and 2, and at 2 and 3; all pairs have no more to say than their rates."""
    log = counts([[10, 10, 0], [0, 10, 10]], [[2, 4, 0], [0, 8, 6]])  # ratios 2 and 3 / 4
    assert FITS[fit](log) == pytest.approx([0.5, 1, 0.75], abs=1e-3)


def test_folds_hold_out_each_query_once():
    """Queries 0 and 2 are held out of the fit to query 1, whose documents have another examination, and the reverse."""
    shown, others = np.array([[100, 100], [100, 100], [50, 200]]), [[1, 0.25], [1, 0.5], [1, 0.25]]
    rates = np.array([[0.6], [0.4], [0.8]]) * [[1, 0.5], [1, 0.25], [1, 0.5]]

    def likelihood(chance):
        """Of an impression, of the largest of the chances [A, documents, places]."""
        of_documents = (shown * (rates * np.log(chance) + (1 - rates) * np.log(1 - chance))).sum(2)
        return of_documents.max(0).sum() / shown.sum()

    attraction = np.linspace(0.001, 0.999, 9981)[:, None, None]
    expected = {"no bias": [1, 1], "1 / rank": [1, 1 / 2], **dict.fromkeys([*HARVESTS, "pbm"], others)}
    expected = {name: likelihood(attraction * examined) for name, examined in expected.items()}
    table = held_out(counts(shown, shown * rates), 2)  # without dcm, which needs pages
    assert table == pytest.approx(expected | {"saturated": likelihood(rates[None])}, abs=1e-6)


def test_queries_of_a_long_log_are_drawn_with_all_of_their_pages():
    """Of 300 queries with a page for each of 1,000 users, and pages of two documents."""
    query = np.repeat(np.arange(300), 1000)
    document, click = np.stack([2 * query, 2 * query + 1], 1), np.zeros((300_000, 2), bool)
    click[::5, 0] = True
    log = of_pages(np.repeat(np.arange(300), 2).tolist(), document, click)
    some = some_queries(log, 2)
    number = MOST_PAGES // 1000
    assert np.bincount(some.query_of_pages()).tolist() in ([1000] * number, [1000] * (number + 1))
    assert (some.impressions.sum(0) == len(some.query_of_pages())).all()
    assert some.clicks.sum() == some.pages[1].sum() == some.impressions.sum() / 10
    assert len(some_queries(log, 250).query) == 2 * 250
    assert some_queries(some, 2).query.tolist() == some.query.tolist()


def test_short_logs_and_counts_are_not_drawn_from():
    pages, of_counts = of_pages([0, 0], [[0, 1]], [[1, 0]]), counts([[300_000, 1]], [[1, 1]])
    assert some_queries(pages, 2) is pages
    assert some_queries(of_counts, 2) is of_counts


def test_a_fold_that_cannot_be_harvested_has_no_number():
    """Without query 0 nothing was shown at both places."""
    log = counts([[9, 9], [9, 0], [0, 9]], [[3, 2], [3, 0], [0, 3]])
    table = held_out(log, 3)
    assert np.isnan(table["adjacent"])
    assert table["pbm"] < table["saturated"]


def test_dcm_says_nothing_of_the_last_place():
    """After a click at 1 the user reads on to a document that always attracts in 3 of 4 pages; without, always."""
    documents = [[0, 1]] * 4 + [[2, 1]] * 40
    log = of_pages([0, 1, 2], documents, [[1, 1]] * 3 + [[1, 0]] + [[0, 1]] * 40)
    assert estimated(log, "dcm") == pytest.approx([0.75, 0], abs=0.01)


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


@pytest.mark.parametrize("fit", ["adjacent", "all-pairs"])
def test_errors_of_harvesting_are_the_spread_over_logs(fit):
    """Of documents with Poisson numbers of impressions: many are shown once at a place, and hundred times at none."""
    logarithms, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shown = rng.poisson(2, (400, 4))
        clicks = rng.binomial(shown, rng.uniform(0.1, 0.7, (400, 1)) / np.arange(1, 5))
        log = counts(shown, clicks)
        examination = estimated(log, fit)
        logarithms.append(np.log(examination / examination[0]))
        errors.append(harvesting_errors(log, fit, examination) if examination[0] == 1 else np.full(4, np.nan))
    spread = np.std(logarithms, 0, ddof=1)
    assert np.nanmedian(errors, 0) == pytest.approx(spread, rel=0.25)
    assert spread[3] > 1.1 * standard_errors(log, examination)[3] or fit == "all-pairs"


def test_an_error_of_harvesting_is_of_documents():
    """Two groups of one document: the jackknife has both ratios, and half of the square of their difference. Where all
    clicks are of one document nothing is known."""
    log = counts([[100, 100], [100, 100]], [[20, 10], [20, 5]])
    of_two = (np.log(10 / 20) - np.log(5 / 20)) ** 2 / 4
    assert harvesting_errors(log, "adjacent", np.array([1, 0.4])) == pytest.approx([0, of_two**0.5])
    assert harvesting_errors(log.of(np.array([True, False])), "adjacent", np.ones(2)) == pytest.approx([0, np.inf])
    one_has_all = counts([[100, 100], [100, 100]], [[20, 10], [20, 0]])
    for fit in "adjacent", "all-pairs":
        assert harvesting_errors(one_has_all, fit, np.array([1, 0.4])) == pytest.approx([0, np.inf])


def test_dcm_needs_no_click_at_the_last_place():
    assert estimated(of_pages([0, 0, 0], [[0, 1, 2]] * 2, [[1, 0, 0], [0, 1, 0]]), "dcm")[-1] == 0


DENSE = np.full((200, 4), 200)
TWO = (np.random.default_rng(1).random((8_000, 4)).argsort(1) < 2).astype(int)  # 2 impressions a document


@pytest.mark.parametrize(("impressions", "fit", "expected"), [
    (DENSE, "pbm", []),
    (DENSE, "adjacent", []),
    (800 * np.eye(4, dtype=int)[np.arange(200) % 4], "pbm",
     [r"at 3 places: 2 \(unknown\), 3 \(unknown\), 4 \(unknown\); needed are more clicks on"]),
    (np.full((10, 4), 25), "all-pairs", ["examination has a standard error above 10 % at "]),
    (TWO, "pbm", ["have 2.0 impressions .*pbm, dcm, attraction .* or more, or --fit all-pairs"]),
    (TWO, "adjacent", ["examination has a standard error above 10 % at 1 place: 4 ",
                       "attraction by grade and held-out log-likelihoods are unreliable; needed are 20"]),
], ids=["pbm", "adjacent", "one place a document", "few clicks", "two impressions", "two, adjacent"])  # fmt: skip
def test_logs_that_are_too_small_are_warned_of(tmp_path, capsys, impressions, fit, expected):
    """Position-based users examine place k with probability 1 / k."""
    rng = np.random.default_rng(0)
    chance = rng.uniform(0.1, 0.9, (len(impressions), 1)) / np.arange(1, 5)
    clicks = rng.binomial(impressions, chance)
    document, place = np.nonzero(impressions)
    table = {"query": document, "document": document, "place": place + 1}
    table |= {"impressions": impressions[document, place], "clicks": clicks[document, place]}
    pl.DataFrame(table).write_parquet(log := tmp_path / "log.parquet")
    assert main([str(log), "--fit", fit]) == 0
    out, err = capsys.readouterr()
    warned = [line for line in err.splitlines() if line.startswith("warning: ") and "fitted user" not in line]
    assert len(warned) == len(expected)
    assert set(out.splitlines()) >= {line.replace("warning:", "# Warning:") + "." for line in warned}
    for line, words in zip(warned, expected, strict=True):
        assert re.search(words, line)


def test_twenty_impressions_of_clicked_documents_are_enough():
    """The harmonic mean over clicks: documents without a click do not count, and a mean of 19.9 is too little."""
    clicks, bias = [[5, 5], [5, 5], [0, 0]], np.ones(2)
    assert doubts(counts([[10, 10], [10, 10], [1, 0]], clicks), "dcm", bias) == []
    (line,) = doubts(counts([[9, 10], [10, 10], [1, 0]], clicks), "dcm", bias)  # half of the clicks are on 19
    assert line.startswith(f"clicked documents have {1 / (0.5 / 19 + 0.5 / 20):.1f} impressions")


@pytest.mark.parametrize(("fit", "kind"), [("pbm", PositionBased), ("dcm", DependentByPlace)])
def test_the_file_that_is_printed_is_a_choice_at_once(tmp_path, capsys, caplog, fit, kind):
    caplog.set_level("INFO")
    log, folder = tmp_path / "log.parquet", tmp_path / "choices"
    sessions(POSITION_BASED, 4_000).write_parquet(log)
    (folder / "click").mkdir(parents=True)
    assert main([str(log), "--fit", fit]) == 0
    assert "fold 5 of 5" in caplog.text
    (folder / "click/mine.yaml").write_text(capsys.readouterr().out)
    user = build(compose(["click=mine", *as_options([folder])]).config.click, "click")
    assert isinstance(user, kind)
    user.setup(RunContext(1, 9, 1, PLACES, 1, 1, grades=3), torch.zeros(1, 1))
    assert not user.warnings


COUNTS = "query,document,place,impressions,clicks\n"


@pytest.mark.parametrize(("content", "words", "message"), [
    (f"{COUNTS}q,a,1,9,3\nr,a,1,9,3\n", ["--fit", "dcm"], "dcm needs sessions, and {file} has counts: type --fit pbm"),
    (f"{COUNTS}q,a,1,9,3\n", [], "{file} must have two queries or more, as others are held out, got one"),
    (f"{COUNTS}q,a,1,9,3\nr,a,2,9,3\n", [], "documents that were shown at both of places 1 and 2 must have clicks at "
     "each of these, got none, which harvesting needs: type --fit pbm"),
    ("session,query,document,place,click\n1,q,a,1,1\n1,q,b,2,0\n1,q,c,3,1\n2,r,a,1,0\n2,r,b,2,0\n2,r,c,3,0\n",
     ["--fit", "dcm"], "--fit dcm needs clicks at all places but the last, got none at place 2"),
    (None, [], "{file} must be a csv, parquet or json lines file ([Errno 2] No such file"),
])  # fmt: skip
def test_what_cannot_be_fitted_is_one_line(tmp_path, capsys, content, words, message):
    file = tmp_path / "log.csv"
    if content is not None:
        file.write_text(content)
    assert message.format(file=file) in refused(capsys, "data", "fit-clicks", file, *words)


@pytest.mark.parametrize("words", [["data", "fit-clicks", "--help"], ["help", "data", "fit-clicks"]])
def test_help_of_two_words_is_that_of_their_command(words, capsys):
    with pytest.raises(SystemExit):
        cli.main(words)
    assert capsys.readouterr().out.startswith("usage: ol2r data fit-clicks ")
