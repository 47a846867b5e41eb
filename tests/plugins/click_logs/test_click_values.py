"""What clicks say of lists: attractions by the user browsing model, values of cells, and the choice by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import log2
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ol2r_cli.commands.report import main as report
from ol2r_cli.plugins.click_logs.click_values import attractions, beside, click_values, values_of_seeds
from ol2r_cli.report.best_settings import select
from ol2r_cli.run.run import VALIDATION_CLICKS
from ol2r_cli.run.store import RunDirectory
from tests.manifests import accept_changes
from tests.report.runs import groups_and_labels, make

ATTRACTION = {10: 0.8, 11: 0.5, 12: 0.1, 13: 0.0}  # of documents of one query
LISTS = ((10, 11, 12), (12, 10, 11), (11, 12, 13))
EXAMINATION = {(1, 0): 1.0, (2, 0): 0.6, (2, 1): 0.9, (3, 0): 0.3, (3, 1): 0.5, (3, 2): 0.7}  # by rank and last click


def expected_counts(shown: tuple[int, ...], sessions: float, attraction: Mapping[int, float]) -> list[dict[str, float]]:
    """What users of the user browsing model do on average: all patterns of clicks, with their probabilities."""
    rows = []
    for clicks in product((False, True), repeat=len(shown)):
        chance, last = sessions, 0
        met = []
        for rank, (document, clicked) in enumerate(zip(shown, clicks, strict=True), 1):
            met.append({"query": 0, "document": document, "rank": rank, "last_click": last, "clicked": clicked})
            attracted = attraction[document] * EXAMINATION[rank, last]
            chance *= attracted if clicked else 1 - attracted
            last = rank if clicked else last
        rows += [{**row, "shown": chance, "clicked": chance * row["clicked"]} for row in met]
    return rows


def counts(
    *lists: tuple[int, ...], attraction: Mapping[int, float] = ATTRACTION, sessions: float = 1000
) -> pl.DataFrame:
    rows = pl.DataFrame([row for shown in lists for row in expected_counts(shown, sessions, attraction)])
    return rows.group_by("query", "document", "rank", "last_click").agg(pl.col("shown", "clicked").sum())


def test_attraction_of_browsing_users_is_recovered():
    """From the exact expectation of a tiny world, in the units of the top rank."""
    found = dict(attractions(counts(*LISTS)).select("document", "attraction").iter_rows())
    assert found == pytest.approx(ATTRACTION, abs=2e-3)


def test_without_clicks_nothing_attracts():
    rows = counts(*LISTS).with_columns(clicked=pl.lit(0.0))
    assert attractions(rows)["attraction"].to_list() == [0.0] * 4


def run_with(
    root: Path,
    l2: int,
    seed: int,
    fold: int,
    *lists: tuple[int, ...],
    attraction: Mapping[int, float] = ATTRACTION,
    sessions: int = 1000,
    ranker: str = "pairrank",
) -> Path:
    """A run whose sessions have these lists, so many times each."""
    words = f"ranker={ranker}", f"ranker.l2={l2}", f"dataset.fold={fold}", f"validation_sessions={sessions}"
    path = make(root, *words, test={seed: 0.5})
    rows = counts(*lists, attraction=attraction, sessions=sessions).with_columns(
        pl.lit(seed).alias("seed"), pl.col("shown", "clicked").round()
    )
    rows = rows.filter(pl.col("shown") > 0).sort(VALIDATION_CLICKS.key)
    rows = rows.select(pl.col(name).cast(kind) for name, kind in VALIDATION_CLICKS.schema.items())
    record(path, rows)
    return path


def record(path: Path, rows: pl.DataFrame) -> None:
    """Replace the counts of a run."""
    RunDirectory(path).write_parquet(VALIDATION_CLICKS.file, rows)
    accept_changes(path)


def worth(shown: tuple[int, ...], attraction: Mapping[int, float]) -> float:
    return sum(attraction[document] / log2(rank + 1) for rank, document in enumerate(shown, 1))


def test_a_cell_is_worth_the_attraction_of_its_lists(tmp_path):
    """DCG with attraction as gain, by fold and seed; attractions are of all cells on the same data.

    A number is another document in another fold.
    """
    attraction = {1: ATTRACTION, 2: dict(zip(ATTRACTION, reversed(ATTRACTION.values()), strict=True))}
    for fold, l2 in product((1, 2), (1, 2, 3)):
        run_with(tmp_path, l2, 7, fold, LISTS[(l2 + fold) % 3], attraction=attraction[fold])
    cells, _ = groups_and_labels(tmp_path)
    values = click_values(tuple(cells))
    for cell in cells:
        l2 = cell.settings["ranker.l2"]
        expected = {(fold, 7): worth(LISTS[(l2 + fold) % 3], attraction[fold]) for fold in (1, 2)}
        assert values[cell] == pytest.approx(expected, abs=0.01)


def test_clicks_choose_the_cell_with_the_best_lists(tmp_path, capsys):
    """Also where labels would choose another one, and by the command line, with what to type."""
    for l2, shown in ((1, LISTS[1]), (2, LISTS[0]), (3, LISTS[2])):
        run_with(tmp_path, l2, 0, 1, shown)
    rows, labels = groups_and_labels(tmp_path)
    (chosen,) = select(rows, labels, by="clicks").cells
    assert chosen.settings["ranker.l2"] == 2
    report([str(tmp_path), "--select", "clicks", "--overrides"])
    assert " ranker.l2=2" in capsys.readouterr().out
    report([str(tmp_path), "--select", "clicks"])
    assert "highest mean DCG@10 that clicks on validation queries say" in capsys.readouterr().out


def test_only_the_first_ten_ranks_count(tmp_path):
    path = run_with(tmp_path, 1, 0, 1, LISTS[0])
    rows = pl.read_parquet(path / VALIDATION_CLICKS.file)
    below = rows.filter(rank=3).with_columns(pl.lit(11, pl.Int32).alias("rank"))
    run_with(tmp_path, 2, 0, 1, LISTS[1])
    before = click_values(tuple(groups_and_labels(tmp_path)[0]))
    RunDirectory(path).write_parquet(VALIDATION_CLICKS.file, pl.concat([rows, below]))
    accept_changes(path)
    after = click_values(tuple(groups_and_labels(tmp_path)[0]))
    assert sorted(map(str, after.values())) == sorted(map(str, before.values()))


def test_a_seed_may_have_its_sessions_in_another_run(tmp_path):
    """Sessions are recorded besides: of two runs of a seed, that with sessions counts."""
    make(tmp_path, "ranker.l2=1", test={0: 0.5, 1: 0.5})
    for seed in (0, 1):
        run_with(tmp_path, 1, seed, 1, LISTS[0])
    (cell,) = groups_and_labels(tmp_path)[0]
    assert list(click_values((cell,))[cell]) == [(1, 0), (1, 1)]
    path = make(tmp_path, "ranker.l2=1", test={2: 0.5})
    (cell,) = groups_and_labels(tmp_path)[0]
    with pytest.raises(ValueError, match=f"^{path} has no validation sessions: "):
        click_values((cell,))


def test_runs_without_sessions_are_named(tmp_path, capsys):
    path = make(tmp_path, "ranker.l2=1")
    make(tmp_path, "ranker.l2=2")
    assert report([str(tmp_path), "--select", "clicks"]) == 2
    line = f"ol2r report: {path} has no validation sessions: run it with validation_sessions=500"
    assert capsys.readouterr().err.splitlines() == [line]


def without_clicks(where: pl.Expr) -> pl.Expr:
    return pl.when(where).then(0).otherwise(pl.col("clicked")).alias("clicked")


APART = "100% of the clicks below rank 1 are at ranks that no clicked document joins to it"


@pytest.mark.parametrize(("lists", "clicked", "why"), [
    (LISTS, without_clicks(pl.lit(True)), "no session has a click: type"),
    (LISTS, without_clicks(pl.col("rank") == 1), "no session has a click at rank 1, by which"),
    ([LISTS[0]] * 3, pl.col("clicked"), APART),
])  # fmt: skip
def test_where_clicks_decide_nothing_no_cell_is_chosen(tmp_path, capsys, lists, clicked, why):
    """Where lists are the same, ranks and documents cannot be told apart. Another competitor is decided."""
    for l2, shown in enumerate(lists, 1):
        path = run_with(tmp_path, l2, 0, 1, shown)
        record(path, pl.read_parquet(path / VALIDATION_CLICKS.file).with_columns(clicked))
    for words in [], ["--overrides"]:
        assert report([str(tmp_path), "--select", "clicks", *words]) == 2
        out, err = capsys.readouterr()
        assert not out
        assert err.startswith(f"ol2r report: not decided, mq2008, perfect, pairrank, 3 settings: {why}")
    for l2, shown in enumerate(LISTS, 1):
        run_with(tmp_path, l2, 0, 1, shown, ranker="pdgd")
    assert report([str(tmp_path), "--select", "clicks", "--overrides"]) == 0
    out, err = capsys.readouterr()
    assert ["ranker=pdgd" in line for line in out.splitlines()] == [True]
    assert "ol2r report: not decided, mq2008, perfect, pairrank, 3 settings: " in err


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_of_clicks_is_one_line(tmp_path, capsys, number: float):
    paths = [run_with(tmp_path, l2, 0, 1, shown) for l2, shown in enumerate(LISTS, 1)]
    rows = pl.read_parquet(paths[1] / VALIDATION_CLICKS.file)
    first = pl.int_range(pl.len()) == 0
    record(paths[1], rows.with_columns(pl.when(first).then(number).otherwise(pl.col("clicked")).alias("clicked")))
    assert report([str(tmp_path), "--select", "clicks"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ol2r report: the tables of {paths[1]} cannot be read (")


def test_counts_may_be_of_another_whole_type(tmp_path):
    """As another program writes them."""
    paths = [run_with(tmp_path, l2, 0, 1, shown) for l2, shown in enumerate(LISTS, 1)]
    before = click_values(tuple(groups_and_labels(tmp_path)[0]))
    rows = pl.read_parquet(paths[1] / VALIDATION_CLICKS.file)
    record(paths[1], rows.cast({"seed": pl.Int32, "rank": pl.Int64, "shown": pl.UInt16, "query": pl.Int8}))
    after = click_values(tuple(groups_and_labels(tmp_path)[0]))
    assert [*after.values()] == [*before.values()]


def test_of_several_numbers_of_sessions_the_largest_counts(tmp_path):
    """Whichever run is the first, and also if the other one has more seeds."""
    for l2 in 1, 2:
        for fewer in 10, 20:
            run_with(tmp_path, l2, 0, 1, LISTS[1], sessions=fewer)
        run_with(tmp_path, l2, 0, 1, LISTS[l2 - 1], sessions=5000)
    cells, _ = groups_and_labels(tmp_path)
    assert len(cells) == 2
    assert {value.sessions for value in beside(tuple(cells), cells[0])} == {5000}
    values = click_values(tuple(cells))
    for cell in cells:
        assert values[cell][1, 0] == pytest.approx(worth(LISTS[cell.settings["ranker.l2"] - 1], ATTRACTION), abs=0.01)


def drawn(root: Path, cells: Sequence[Sequence[tuple[int, ...]]], seeds: int, sessions: int) -> None:
    """Runs of a cell for each row of lists, whose clicks are drawn."""
    rng = np.random.default_rng(0)
    for (l2, lists), seed in product(enumerate(cells, 1), range(seeds)):
        path = run_with(root, l2, seed, 1, *lists, sessions=sessions)
        rows = pl.read_parquet(path / VALIDATION_CLICKS.file).sort(*VALIDATION_CLICKS.key, "document")
        chance = rows["clicked"].to_numpy() / rows["shown"].to_numpy()
        record(path, rows.with_columns(clicked=pl.Series(rng.binomial(rows["shown"].to_numpy(), chance))))


def test_intervals_leave_each_seed_out_of_attractions_too(tmp_path):
    """The pseudo-values of a cell are n x - (n - 1) x_s, where x_s is without seed s in all cells."""
    drawn(tmp_path, [LISTS[:1], LISTS[1:2], LISTS[2:]], seeds=3, sessions=300)
    cells, _ = groups_and_labels(tmp_path)
    rows = {cell: pl.concat(run_rows(cell)) for cell in cells}

    def of(seeds: Sequence[int]) -> np.ndarray:
        some = {cell: table.filter(pl.col("seed").is_in(seeds)) for cell, table in rows.items()}
        attraction = attractions(pl.concat([*some.values()]))
        return np.array([np.mean([value for _, value in values_of_seeds(some[cell], attraction)]) for cell in cells])

    without = [of([1, 2]), of([0, 2]), of([0, 1])]
    pseudo = 3 * of([0, 1, 2]) - 2 * np.array(without)
    best = int(of([0, 1, 2]).argmax())
    t = 4.302653  # of two degrees of freedom
    found = {value.cell: value for value in beside(tuple(cells), cells[best])}
    for number, cell in enumerate(cells):
        behind = pseudo[:, best] - pseudo[:, number]
        assert found[cell].value == pytest.approx(of([0, 1, 2])[number])
        assert found[cell].half_width == pytest.approx(t * pseudo[:, number].std(ddof=1) / 3**0.5)
        assert found[cell].behind_half_width == pytest.approx(t * behind.std(ddof=1) / 3**0.5)


def run_rows(cell) -> list[pl.DataFrame]:
    return [pl.read_parquet(run.path / VALIDATION_CLICKS.file) for run in cell.runs]


def test_values_of_a_choice_are_shown_with_what_is_alike(tmp_path, capsys):
    """Two cells with the same lists, which are not told apart, and one with a worse list, which is."""
    drawn(tmp_path, [LISTS[:2], LISTS[:2], LISTS[2:]], seeds=4, sessions=400)
    assert report([str(tmp_path), "--select", "clicks"]) == 0
    out, err = capsys.readouterr()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
    heading = next(row for row in rows if "DCG@10 by clicks" in row)
    values = [dict(zip(heading, row, strict=True)) for row in rows if len(row) == len(heading) and row[-1] == "3,200"]
    values += [dict(zip(heading, row, strict=True)) for row in rows if len(row) == len(heading) and row[-1] == "1,600"]
    assert [value[""] for value in values] == ["chosen", "not told apart", ""]
    assert all("±" in value["DCG@10 by clicks"] for value in values)
    assert float(values[2]["p (Holm)"].removeprefix("<")) < 0.05
    assert "pairrank: clicks do not tell 1 of 2 other settings from the chosen one" in err
    report([str(tmp_path), "--select", "clicks", "--out", str(tmp_path / "report.html")])
    assert "not told apart" in (tmp_path / "report.html").read_text()


def test_few_clicks_are_a_doubt(tmp_path, capsys):
    """The harmonic mean over clicks: half of the clicks with 9 impressions of a document, and half with 11, are 9.9."""
    for l2, shown in enumerate(LISTS, 1):
        run_with(tmp_path, l2, 0, 1, shown, sessions=5)
    rows = pl.concat(run_rows(cell)[0] for cell in groups_and_labels(tmp_path)[0])
    of_document = rows.group_by("document").agg(pl.col("shown", "clicked").sum())
    inverse = (of_document["clicked"] / of_document["shown"]).sum() / of_document["clicked"].sum()
    report([str(tmp_path), "--select", "clicks", "--overrides"])
    err = capsys.readouterr().err
    assert f"clicked documents have {1 / inverse:.1f} impressions (harmonic mean over clicks), of which" in err
    assert "clicks do not tell 2 of 2 other settings from the chosen one, as it takes two seeds or folds" in err
