"""Paired differences by hand, with the lines below the table."""

from __future__ import annotations

import math
import statistics

import pytest

from ol2r_cli.report.collection import Collection
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import Document
from ol2r_cli.report.estimates import holm, paired_t
from ol2r_cli.report.names import Labels
from tests.manifests import edited_summary
from tests.report.runs import groups_below, make

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
EASY = {seed: 0.25 + seed / 16 for seed in range(8)}  # seeds differ, and by the same for every ranker
SEEDS = {0: 0.25, 1: 0.5, 2: 0.5}
FEW = "were tested: a test needs 3 seeds, or folds where there are several, that both rows have."


def comparison(root, *arguments, metrics=("test_ndcg_10",), **keywords):
    groups = sorted(groups_below(root), key=lambda group: group.choices["ranker"])
    return groups, compare(groups, Labels(groups), metrics, *arguments, **keywords)


def notes(root, *arguments, **keywords) -> list[str]:
    """The lines below the table, without the first, which is about the figures."""
    groups, result = comparison(root, *arguments, **keywords)
    return Document(Collection(), groups, Labels(groups), [], comparison=result).notes[1:]


def better(by: float, noise: float = 0.001) -> dict[int, float]:
    """Values that are better by so much, give or take a little."""
    return {seed: value + by + noise * (-1) ** seed for seed, value in EASY.items()}


@pytest.fixture
def pair(tmp_path):
    """Runs of `base`, and of `one` with two pairs and a seed without one."""
    make(tmp_path, "ranker=base", test={0: 0.25, 1: 0.75, 2: 0.5})
    make(tmp_path, "ranker=one", test={0: 0.5, 1: 0.875})
    make(tmp_path, "ranker=one", test={3: 0.5})
    return tmp_path


def test_differences_are_taken_pair_by_pair(pair):
    (difference,) = comparison(pair, "base")[1].differences
    assert (difference.group.choices["ranker"], difference.rival.choices["ranker"]) == ("one", "base")
    assert difference.estimate.mean == pytest.approx((0.25 + 0.125) / 2)
    assert difference.estimate.half_width == pytest.approx(T1 * 0.0625)
    assert (difference.p, difference.arrow, difference.effect) == (None, "", None), "two pairs are too few for a test"
    assert (difference.wins, difference.ties, difference.losses, difference.missing) == (2, 0, 0, 2)


def test_lines_say_which_differences_lack_pairs(pair):
    missing = "Not all (fold, seed) are in both rows of 1 comparison."
    assert notes(pair, "base") == [f"0 of 1 difference {FEW}", missing]
    for ranker in ("base", "one"):
        make(pair, f"ranker={ranker}", "click=cascade", test=SEEDS)
    assert notes(pair, "base")[1:] == [f"1 of 2 differences {FEW}", missing]


def test_rows_without_a_common_seed_have_no_difference(tmp_path):
    make(tmp_path, "ranker=base", test={0: 0.5})
    make(tmp_path, "ranker=one", test={1: 0.5})
    assert comparison(tmp_path, "base")[1].differences == []


@pytest.fixture
def folds(tmp_path):
    """Differences .2 and .4 in fold 1, mean .3; .1 in fold 2."""
    for fold, base, other in [(1, {0: 0.1, 1: 0.1}, {0: 0.3, 1: 0.5}), (2, {0: 0.7}, {0: 0.8})]:
        make(tmp_path, "ranker=base", f"dataset.fold={fold}", test=base)
        make(tmp_path, "ranker=one", f"dataset.fold={fold}", test=other)
    return tmp_path


def test_several_folds_are_the_units(folds):
    """Mean .2, standard error .1, one degree of freedom."""
    (difference,) = comparison(folds, "base")[1].differences
    assert difference.estimate.mean == pytest.approx(0.2)
    assert difference.estimate.half_width == pytest.approx(T1 * 0.1, rel=1e-5)
    assert (difference.estimate.n, difference.estimate.clusters, difference.wins, difference.p) == (3, 2, 3, None)


def test_the_test_is_over_the_means_of_folds(folds):
    for ranker, value in (("base", 0.5), ("one", 0.8)):
        make(folds, f"ranker={ranker}", "dataset.fold=3", test={0: value})
    (difference,) = comparison(folds, "base")[1].differences
    t = 0.7 / 3 / (statistics.stdev([0.3, 0.1, 0.3]) / 3**0.5)
    assert difference.p == pytest.approx(1 - t / (2 + t**2) ** 0.5, rel=1e-5)  # Student's t, two degrees of freedom
    for ranker in ("base", "one", "two"):
        make(folds, f"ranker={ranker}", "click=cascade", test=SEEDS)
    (line,) = [line for line in notes(folds) if "Letters name the rows" in line]
    assert "for the 4 comparisons of each metric" in line
    assert line.endswith("with the folds as units (degrees of freedom: folds - 1), or seeds as units (seeds - 1).")


METRICS = ("test_ndcg_10", "online_ndcg")


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """For each of two users four rankers, of which one is worse and one is better."""
    root = tmp_path_factory.mktemp("four")
    for click in ("perfect", "cascade"):
        for ranker, by in [("base", 0), ("less", -0.1), ("more", 0.1), ("same", 0)]:
            make(root / click, f"ranker={ranker}", f"click={click}", test=better(by, 0.002 * (by != 0)))
    return root


def test_marks_say_which_way_rows_differ_from_a_baseline(four):
    groups, result = comparison(four / "perfect", "base")
    assert [result.mark(group, METRICS[0]) for group in groups] == ["", "↓", "↑", ""]
    assert result.bases == {groups[0]}
    (line,) = notes(four / "perfect", "base", metrics=METRICS)
    assert line == (
        "↑ and ↓ are significantly higher and lower than base: p < 0.05 after Holm's correction for the 3 comparisons "
        "of each metric. p is that of the paired t test over the (fold, seed) that both have, with the seeds as units "
        "(degrees of freedom: seeds - 1)."
    )


def test_marks_say_which_rows_are_worse(four):
    groups, result = comparison(four / "perfect")
    assert "".join(result.letters[group] for group in groups) == "abcd"
    assert [result.mark(group, METRICS[0]) for group in groups] == ["b", "", "abd", "b"]
    assert len(result.differences) == 6


@pytest.mark.parametrize("metric", METRICS)
def test_holm_is_over_all_tasks_of_a_metric(four, metric):
    _, result = comparison(four, "base", metrics=METRICS)
    own = [difference for difference in result.differences if difference.metric == metric]
    assert [difference.holm for difference in own] == holm([difference.p for difference in own])
    assert len(own) == 6


def test_less_regret_is_better(tmp_path):
    for ranker, regret in (("base", 100), ("good", 50)):
        for seed in range(3):
            with edited_summary(make(tmp_path, f"ranker={ranker}", test={seed: 0.5})) as summary:
                summary["by_seed"]["regret"] = [regret + seed % 2 * (ranker == "good")]
    groups, result = comparison(tmp_path, "base", metrics=("regret",))
    assert result.mark(groups[1], "regret") == "↓", "it is less"
    assert result.differences[0].wins == 3
    groups, result = comparison(tmp_path, metrics=("regret",))
    assert [result.mark(group, "regret") for group in groups] == ["", "a"], "and that is better"


def test_tests_are_of_the_paired_differences(tmp_path):
    for ranker, values in {"base": EASY, "one": better(0.1), "twin": EASY}.items():
        make(tmp_path, f"ranker={ranker}", test=values)
    differences = [0.1 + 0.001 * (-1) ** seed for seed in EASY]
    assert comparison(tmp_path, "base")[1].differences[0].p == pytest.approx(paired_t(differences), rel=1e-2)
    one, twin = comparison(tmp_path, "base", test="permutation")[1].differences
    assert (one.p, twin.ties, twin.p, twin.significant) == (2 / 2**8, 8, 1.0, False)


def test_a_line_says_where_a_test_has_too_few_units(tmp_path):
    for ranker in "abc":
        make(tmp_path, f"ranker={ranker}", test=SEEDS)
    assert len(notes(tmp_path)) == 1, "Student's t has no least p"
    _, line = notes(tmp_path, test="permutation")
    least = "With 3 seeds and 3 comparisons no p of this test can be below 0.75 after the correction, so nothing can be"
    assert line == f"{least} significant: type --test t, or run more seeds."


@pytest.mark.parametrize("baseline", [None, "pairrank"])
def test_a_row_alone_cannot_be_compared(tmp_path, baseline):
    make(tmp_path)
    with pytest.raises(ValueError, match="there is nothing to compare: no two rows have the same dataset, click"):
        comparison(tmp_path, baseline)


@pytest.fixture
def three(tmp_path):
    for number in range(3):
        make(tmp_path, f"ranker=a{number}")
    return tmp_path


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"baseline": "a0", "test": "sign"}, "--test must be t or permutation, got sign"),
        ({}, "--compare all needs at most 2 rows of a task, got 3 with dataset=mq2008 click=perfect: type --select"),
    ],
)
def test_what_cannot_be_compared_is_refused(three, monkeypatch, keywords, message):
    monkeypatch.setattr("ol2r_cli.report.comparison.LETTERS", "ab")
    with pytest.raises(ValueError, match=message):
        comparison(three, **keywords)


def test_a_line_names_tasks_that_are_not_compared(three):
    for rounds in (3, 4, 5, 6):
        make(three, "ranker=a0", f"rounds={rounds}")
    _, result = comparison(three, "a1")
    assert result.alone == [f"dataset=mq2008 click=perfect rounds={rounds}" for rounds in (3, 4, 5, 6)]
    last = f"Not compared, without a second row or a baseline: {'; '.join([*result.alone[:3], 'others'])}."
    assert notes(three, "a1")[-1] == last
