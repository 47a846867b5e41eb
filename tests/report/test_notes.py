"""The notes below the tables: what the numbers are, how rows were compared, and which runs are left out."""

from __future__ import annotations

from itertools import product

from ol2r_cli.report.comparison import Selection, compare
from ol2r_cli.report.document import Document
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Collection, collect, group_runs
from tests.report.runs import groups_below, make

SEEDS = {0: 0.25, 1: 0.5, 2: 0.5}


def notes(collection, groups, chose=False, comparison=None):
    selection = Selection(groups, [2] if chose else [1], [])
    return Document(collection, groups, Labels(groups), [], selection, comparison).notes


def lines(root, *arguments, metrics=("test_ndcg_10",), **keywords) -> list[str]:
    """Without the first, which is about the figures."""
    groups = groups_below(root)
    comparison = compare(groups, Labels(groups), metrics, *arguments, **keywords)
    return notes(Collection(), groups, chose=False, comparison=comparison)[1:]


def test_units_and_the_number_of_comparisons(tmp_path):
    for ranker in ("a", "b", "c"):
        make(tmp_path, f"ranker={ranker}", test=SEEDS)
    (line,) = lines(tmp_path, "a", metrics=("test_ndcg_10", "online_ndcg"))
    assert line.startswith(
        "↑ and ↓ are significantly more and less than a, at 0.05 after Holm's correction for the 2 comp"
    )
    assert line.endswith(
        "paired t test over the (fold, seed) that both have, with the seeds as units (degrees of freedom: seeds - 1)."
    )
    for ranker, fold in product(("a", "b"), (2, 3)):
        make(tmp_path, f"ranker={ranker}", f"dataset.fold={fold}", test=SEEDS)
    (line,) = [one for one in lines(tmp_path) if "Letters name the rows" in one]
    assert "for the 3 comparisons of each metric" in line
    assert line.endswith("with the folds as units (degrees of freedom: folds - 1), or seeds as units (seeds - 1).")


def test_too_few_units_for_a_test_by_signs(tmp_path):
    for ranker in ("a", "b", "c"):
        make(tmp_path, f"ranker={ranker}", test=SEEDS)
    assert len(lines(tmp_path)) == 1, "Student's t has no least p"
    _, line = lines(tmp_path, test="permutation")
    assert line.startswith("With 3 seeds and 3 comparisons no p of this test can be below 0.75 after the correction")
    assert line.endswith("type --test t, or run more seeds.")


def test_pairs_that_are_missing(tmp_path):
    make(tmp_path, "ranker=a", test=SEEDS)
    make(tmp_path, "ranker=b", test={0: 0.5, 1: 0.5, 9: 0.5})
    _, line = lines(tmp_path, "a")
    assert line == "Not all (fold, seed) are in both rows of 1 comparison; where most are missing, 2 of 4 are."


def test_tasks_without_a_comparison(tmp_path):
    make(tmp_path, "ranker=a", test=SEEDS)
    make(tmp_path, "ranker=b", test=SEEDS)
    for rounds in (3, 4, 5, 6):
        make(tmp_path, "ranker=b", f"rounds={rounds}")
    _, line = lines(tmp_path, "a")
    assert line == (
        "Not compared, with no other row, or no baseline: dataset=mq2008 click=perfect rounds=3; dataset=mq2008 "
        "click=perfect rounds=4; dataset=mq2008 click=perfect rounds=5, and 1 more."
    )


def test_too_few_units_for_a_test(tmp_path):
    make(tmp_path, "ranker=a")
    make(tmp_path, "ranker=b")
    few = "too few seeds, or folds where there are several, that both have: a test needs 3."
    assert lines(tmp_path, "a") == [f"Nothing was tested: {few}"]
    for ranker in "ab":
        make(tmp_path, f"ranker={ranker}", "click=cascade", test=SEEDS)
    assert lines(tmp_path, "a")[1:] == [f"1 of 2 not tested: {few}"]


def test_lines_under_the_table(tmp_path):
    make(tmp_path)
    make(tmp_path, "dataset.fold=2")
    first, *others = notes(Collection(), groups_below(tmp_path), chose=False)
    assert "one for each (fold, seed)" in first
    assert others == []
    make(tmp_path / "more", status="failed")
    (make(tmp_path / "more") / "config.yaml").unlink()
    collection = collect([tmp_path])
    first, chosen, unfinished, damaged = notes(collection, group_runs(collection.runs)[:0], chose=True)
    assert first.startswith("2 runs. ")
    assert "one for each seed" in first
    assert "best mean validation NDCG" in chosen
    assert unfinished == f"1 run not finished: ol2r status {tmp_path}"
    assert damaged.startswith(f"1 run damaged: {tmp_path / 'more'}")
