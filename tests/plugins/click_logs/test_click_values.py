"""What clicks say of lists: attractions by the user browsing model, values of cells, and the choice by them."""

from __future__ import annotations

import re
from itertools import product
from math import log2

import numpy as np
import polars as pl
import pytest

from ol2r_cli.commands.report import main as report
from ol2r_cli.plugins.click_logs.click_values import attractions, beside, click_values, values_of_seeds
from ol2r_cli.report.best_settings import select
from ol2r_cli.run.run import VALIDATION_CLICKS
from ol2r_cli.run.store import RunDirectory
from tests.finished import printed, refused
from tests.manifests import accept_changes
from tests.report.runs import groups_and_labels, groups_below, make

ATTRACTION = {10: 0.8, 11: 0.5, 12: 0.1, 13: 0.0}  # of documents of one query
LISTS = ((10, 11, 12), (12, 10, 11), (11, 12, 13))
EXAMINATION = {(1, 0): 1.0, (2, 0): 0.6, (2, 1): 0.9, (3, 0): 0.3, (3, 1): 0.5, (3, 2): 0.7}  # by rank and last click


def expected_counts(shown, sessions, attraction, examination):
    """What users of the user browsing model do on average: all patterns of clicks, with their probabilities."""
    rows = []
    for clicks in product((False, True), repeat=len(shown)):
        chance, last, met = sessions, 0, []
        for rank, (document, clicked) in enumerate(zip(shown, clicks, strict=True), 1):
            met.append({"query": 0, "document": document, "rank": rank, "last_click": last, "clicked": clicked})
            attracted = attraction[document] * examination[rank, last]
            chance *= attracted if clicked else 1 - attracted
            last = rank if clicked else last
        rows += [{**row, "shown": chance, "clicked": chance * row["clicked"]} for row in met]
    return rows


def counts(*lists, attraction=ATTRACTION, sessions=1000, examination=EXAMINATION):
    rows = pl.DataFrame([row for shown in lists for row in expected_counts(shown, sessions, attraction, examination)])
    return rows.group_by("query", "document", "rank", "last_click").agg(pl.col("shown", "clicked").sum())


@pytest.mark.parametrize("top", [1.0, 0.5])
def test_attractions_are_the_expected_clicks_at_the_top_rank(top):
    """Also where users look at another rank more often."""
    found = attractions(counts(*LISTS, examination=EXAMINATION | {(1, 0): top}))
    assert found["document"].to_list() == [*ATTRACTION]
    assert found["attraction"].to_list() == pytest.approx([top * chance for chance in ATTRACTION.values()], abs=1e-4)


def test_without_clicks_nothing_attracts():
    rows = counts(*LISTS).with_columns(clicked=pl.lit(0.0))
    assert attractions(rows)["attraction"].to_list() == [0.0] * 4


def run_with(root, l2, *lists, seed=0, fold=1, attraction=ATTRACTION, sessions=1000, ranker="pairrank"):
    """A run whose sessions have these lists, so many times each."""
    words = f"ranker={ranker}", f"ranker.l2={l2}", f"dataset.fold={fold}", f"validation_sessions={sessions}"
    path = make(root, *words, test={seed: 0.5})
    rows = counts(*lists, attraction=attraction, sessions=sessions).with_columns(
        pl.lit(seed).alias("seed"), pl.col("shown", "clicked").round()
    )
    rows = rows.filter(pl.col("shown") > 0).sort(VALIDATION_CLICKS.key)
    record(path, rows.select(pl.col(name).cast(kind) for name, kind in VALIDATION_CLICKS.schema.items()))
    return path


def recorded(path):
    return pl.read_parquet(path / VALIDATION_CLICKS.file)


def record(path, rows):
    """Replace the counts of a run."""
    RunDirectory(path).write_parquet(VALIDATION_CLICKS.file, rows)
    accept_changes(path)


def a_run_a_list(root, lists=LISTS, **more):
    """Settings 1, 2, .., of which each has a list."""
    return [run_with(root, l2, shown, **more) for l2, shown in enumerate(lists, 1)]


def values_below(root):
    """By setting, and by fold and seed."""
    values = click_values(tuple(groups_below(root)))
    return {cell.settings["ranker.l2"]: of_cell for cell, of_cell in values.items()}


def worth(shown, attraction=ATTRACTION):
    return sum(attraction[document] / log2(rank + 1) for rank, document in enumerate(shown, 1))


def test_a_cell_is_worth_the_attraction_of_its_lists(tmp_path):
    """DCG with attraction, in the units of the top rank, as gain, by fold and seed. Attractions are of all cells on the
    same data; a number is another document in another fold."""
    attraction = {1: ATTRACTION, 2: dict(zip(ATTRACTION, reversed(ATTRACTION.values()), strict=True))}
    expected = {1: {}, 2: {}, 3: {}}
    for fold, l2 in product(attraction, expected):
        shown = LISTS[(l2 + fold) % 3]
        run_with(tmp_path, l2, shown, seed=7, fold=fold, attraction=attraction[fold])
        expected[l2][fold, 7] = pytest.approx(worth(shown, attraction[fold]), abs=0.01)
    assert values_below(tmp_path) == expected


def test_clicks_choose_the_cell_with_the_best_lists(tmp_path, capsys):
    """Also where labels would choose another one, and by the command line, with what to type."""
    a_run_a_list(tmp_path, (LISTS[1], LISTS[0], LISTS[2]))
    (chosen,) = select(*groups_and_labels(tmp_path), by="clicks").cells
    assert chosen.settings["ranker.l2"] == 2
    select_by = "report", tmp_path, "--select", "clicks"
    assert " ranker.l2=2" in printed(capsys, *select_by, "--overrides")
    assert "highest mean DCG@10 that clicks on validation queries say" in printed(capsys, *select_by)


def test_only_the_first_ten_ranks_count(tmp_path):
    path, _ = a_run_a_list(tmp_path, LISTS[:2])
    rows, before = recorded(path), values_below(tmp_path)
    record(path, pl.concat([rows, rows.filter(rank=3).with_columns(pl.lit(11, pl.Int32).alias("rank"))]))
    assert values_below(tmp_path) == before


def test_counts_may_be_of_another_whole_type(tmp_path):
    """As another program writes them."""
    path, before = a_run_a_list(tmp_path)[1], values_below(tmp_path)
    record(path, recorded(path).cast({"seed": pl.Int32, "rank": pl.Int64, "shown": pl.UInt16, "query": pl.Int8}))
    assert values_below(tmp_path) == before


def test_a_seed_may_have_its_sessions_in_another_run(tmp_path):
    """Sessions are recorded besides: of two runs of a seed, that with sessions counts."""
    make(tmp_path, "ranker.l2=1", test={0: 0.5, 1: 0.5})
    for seed in (0, 1):
        run_with(tmp_path, 1, LISTS[0], seed=seed)
    assert list(values_below(tmp_path)[1]) == [(1, 0), (1, 1)]
    path = make(tmp_path, "ranker.l2=1", test={2: 0.5})
    with pytest.raises(ValueError, match=f"^{path} has no validation sessions: "):
        values_below(tmp_path)


def test_runs_without_sessions_are_named(tmp_path, capsys):
    path = make(tmp_path, "ranker.l2=1")
    make(tmp_path, "ranker.l2=2")
    told = f"{path} has no validation sessions: run it with validation_sessions=500"
    assert refused(capsys, "report", tmp_path, "--select", "clicks") == told


UNDECIDED = {  # lists of the cells, ranks without clicks, the reason
    "no click": (LISTS, [1, 2, 3], "no session has a click"),
    "no click at the top": (LISTS, [1], "no session has a click at rank 1, by which"),
    "ranks and documents are not told apart": (
        [LISTS[0]] * 3, [], "100% of the clicks below rank 1 are at ranks that no clicked document joins to it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNDECIDED)
def test_where_clicks_decide_nothing_no_cell_is_chosen(tmp_path, capsys, case):
    """Another competitor is decided."""
    lists, ranks, why = UNDECIDED[case]
    for path in a_run_a_list(tmp_path, lists):
        record(path, recorded(path).with_columns(pl.col("clicked") * ~pl.col("rank").is_in(ranks)))
    told = f"not decided, mq2008, perfect, pairrank, 3 settings: {why}"
    for words in [], ["--overrides"]:
        assert refused(capsys, "report", tmp_path, "--select", "clicks", *words).startswith(told)
    a_run_a_list(tmp_path, ranker="pdgd")
    assert report([str(tmp_path), "--select", "clicks", "--overrides"]) == 0
    out, err = capsys.readouterr()
    assert ["ranker=pdgd" in line for line in out.splitlines()] == [True]
    assert told in err


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_of_clicks_is_one_line(tmp_path, capsys, number):
    path = a_run_a_list(tmp_path)[1]
    first = pl.int_range(pl.len()) == 0
    record(path, recorded(path).with_columns(pl.when(first).then(number).otherwise("clicked").alias("clicked")))
    told = refused(capsys, "report", tmp_path, "--select", "clicks")
    assert told.startswith(f"the tables of {path} cannot be read (")


def test_of_several_numbers_of_sessions_the_largest_counts(tmp_path):
    """Whichever run is the first."""
    for l2, shown in (1, LISTS[0]), (2, LISTS[1]):
        for fewer in 10, 20:
            run_with(tmp_path, l2, LISTS[1], sessions=fewer)
        run_with(tmp_path, l2, shown, sessions=5000)
    cells = tuple(groups_below(tmp_path))
    assert [value.sessions for value in beside(cells, cells[0])] == [5000] * 2
    expected = {l2: {(1, 0): pytest.approx(worth(LISTS[l2 - 1]), abs=0.01)} for l2 in (1, 2)}
    assert values_below(tmp_path) == expected


def drawn(root, cells, seeds, sessions):
    """Runs of a cell for each row of lists, whose clicks are drawn."""
    rng = np.random.default_rng(0)
    for (l2, lists), seed in product(enumerate(cells, 1), range(seeds)):
        path = run_with(root, l2, *lists, seed=seed, sessions=sessions)
        rows = recorded(path).sort(*VALIDATION_CLICKS.key, "document")
        chance = rows["clicked"].to_numpy() / rows["shown"].to_numpy()
        record(path, rows.with_columns(clicked=pl.Series(rng.binomial(rows["shown"].to_numpy(), chance))))


def test_intervals_leave_each_seed_out_of_attractions_too(tmp_path):
    """The pseudo-values of a cell are n x - (n - 1) x_s, where x_s is without seed s in all cells."""
    drawn(tmp_path, [LISTS[:1], LISTS[1:2], LISTS[2:]], seeds=3, sessions=300)
    cells = tuple(groups_below(tmp_path))
    rows = [pl.concat(recorded(run.path) for run in cell.runs) for cell in cells]

    def of(*seeds):
        some = [table.filter(pl.col("seed").is_in(seeds)) for table in rows]
        attraction = attractions(pl.concat(some))
        return np.array([np.mean([value for _, value in values_of_seeds(table, attraction)]) for table in some])

    everything = of(0, 1, 2)
    pseudo = 3 * everything - 2 * np.array([of(1, 2), of(0, 2), of(0, 1)])
    behind = pseudo[:, [everything.argmax()]] - pseudo
    half = 4.302653 / 3**0.5  # Student's t of two degrees of freedom
    found = {value.cell: value for value in beside(cells, cells[int(everything.argmax())])}
    values = np.array([[of.value, of.half_width, of.behind_half_width] for of in (found[cell] for cell in cells)])
    assert values[:, 0] == pytest.approx(everything)
    assert values[:, 1] == pytest.approx(half * pseudo.std(0, ddof=1))
    assert values[:, 2] == pytest.approx(half * behind.std(0, ddof=1))


def test_values_of_a_choice_are_shown_with_what_is_alike(tmp_path, capsys):
    """Two cells with the same lists, which are not told apart, and one with a worse list, which is."""
    drawn(tmp_path, [LISTS[:2], LISTS[:2], LISTS[2:]], seeds=4, sessions=400)
    assert report([str(tmp_path), "--select", "clicks", "--out", str(tmp_path / "report.html")]) == 0
    assert "not told apart" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert report([str(tmp_path), "--select", "clicks"]) == 0
    out, err = capsys.readouterr()
    assert "pairrank: clicks do not tell 1 of 2 other settings from the chosen one" in err
    heading, *rows = re.findall(r"^.* DCG@10 by clicks .*$|^.* [31],[26]00 \|$", out, re.MULTILINE)
    names, *cells = ([cell.strip() for cell in row.split("|")[1:-1]] for row in (heading, *rows))
    best, alike, worse = (dict(zip(names, cell, strict=True)) for cell in cells)
    assert [value[""] for value in (best, alike, worse)] == ["chosen", "not told apart", ""]
    assert all("±" in value["DCG@10 by clicks"] for value in (best, alike, worse))
    assert float(worse["p (Holm)"].removeprefix("<")) < 0.05


def test_few_clicks_are_a_doubt(tmp_path, capsys):
    """The harmonic mean over clicks: half of the clicks with 9 impressions of a document, and half with 11, are 9.9."""
    rows = pl.concat(map(recorded, a_run_a_list(tmp_path, sessions=5)))
    of_document = rows.group_by("document").agg(pl.col("shown", "clicked").sum())
    inverse = (of_document["clicked"] / of_document["shown"]).sum() / of_document["clicked"].sum()
    report([str(tmp_path), "--select", "clicks", "--overrides"])
    err = capsys.readouterr().err
    assert f"clicked documents have {1 / inverse:.1f} impressions (harmonic mean over clicks), of which" in err
    assert "clicks do not tell 2 of 2 other settings from the chosen one, as it takes two seeds or folds" in err
