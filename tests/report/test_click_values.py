"""What clicks say of lists: attractions by the user browsing model, values of cells, and the choice by them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import log2
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.commands.report import main as report
from ol2r_cli.report.best_settings import select
from ol2r_cli.report.click_values import attractions, click_values
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


def counts(*lists: tuple[int, ...], attraction: Mapping[int, float] = ATTRACTION) -> pl.DataFrame:
    rows = pl.DataFrame([row for shown in lists for row in expected_counts(shown, 1000, attraction)])
    return rows.group_by("query", "document", "rank", "last_click").agg(pl.col("shown", "clicked").sum())


def test_attraction_of_browsing_users_is_recovered():
    """From the exact expectation of a tiny world, in the units of the top rank."""
    found = dict(attractions(counts(*LISTS)).select("document", "attraction").iter_rows())
    assert found == pytest.approx(ATTRACTION, abs=2e-3)


def test_without_clicks_nothing_attracts():
    rows = counts(*LISTS).with_columns(clicked=pl.lit(0.0))
    assert attractions(rows)["attraction"].to_list() == [0.0] * 4


def run_with(
    root: Path, l2: int, seed: int, fold: int, *lists: tuple[int, ...], attraction: Mapping[int, float] = ATTRACTION
) -> Path:
    """A run whose sessions have these lists, 1000 times each."""
    words = f"ranker.l2={l2}", f"dataset.fold={fold}", "validation_sessions=1000"
    path = make(root, *words, test={seed: 0.5})
    rows = counts(*lists, attraction=attraction).with_columns(
        pl.lit(seed).alias("seed"), pl.col("shown", "clicked").round()
    )
    rows = rows.filter(pl.col("shown") > 0).sort(VALIDATION_CLICKS.key)
    rows = rows.select(pl.col(name).cast(kind) for name, kind in VALIDATION_CLICKS.schema.items())
    directory = RunDirectory(path)
    directory.write_parquet(VALIDATION_CLICKS.file, rows)
    accept_changes(path)
    return path


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
