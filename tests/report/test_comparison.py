"""Paired differences by hand: which pairs, which units, which marks."""

from __future__ import annotations

import math
import statistics

import pytest

from ol2r_cli.report.comparison import compare
from ol2r_cli.report.estimates import holm, paired_t
from ol2r_cli.report.labels import Labels
from tests.manifests import edited_summary
from tests.report.runs import groups_below, make

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
EASY = {seed: 0.25 + seed / 16 for seed in range(8)}  # seeds differ, and by the same for every ranker


def comparison(root, *arguments, metrics=("test_ndcg_10",), **keywords):
    groups = sorted(groups_below(root), key=lambda group: group.choices["ranker"])
    return groups, compare(groups, Labels(groups), metrics, *arguments, **keywords)


def better(by: float, noise: float = 0.001) -> dict[int, float]:
    """Values that are better by so much, give or take a little."""
    return {seed: value + by + noise * (-1) ** seed for seed, value in EASY.items()}


def test_differences_are_taken_pair_by_pair(tmp_path):
    make(tmp_path, "ranker=base", test={0: 0.25, 1: 0.75, 2: 0.5})
    make(tmp_path, "ranker=one", test={0: 0.5, 1: 0.875})
    make(tmp_path, "ranker=one", test={3: 0.5})  # without a pair
    _, (difference,) = (result := comparison(tmp_path, "base"))[0], result[1].differences
    assert (difference.group.choices["ranker"], difference.rival.choices["ranker"]) == ("one", "base")
    assert difference.estimate.mean == pytest.approx((0.25 + 0.125) / 2)
    assert difference.estimate.half_width == pytest.approx(T1 * 0.0625)
    assert (difference.p, difference.arrow) == (None, ""), "two pairs are too few for a test"
    assert (difference.wins, difference.ties, difference.losses, difference.missing) == (2, 0, 0, 2)
    assert difference.effect is None, "two values say too little about it"


def test_several_folds_are_the_units(tmp_path):
    """Differences .2 and .4 in fold 1, mean .3; .1 in fold 2: mean .2, standard error .1, one degree of freedom."""
    for fold, base, other in [(1, {0: 0.1, 1: 0.1}, {0: 0.3, 1: 0.5}), (2, {0: 0.7}, {0: 0.8})]:
        make(tmp_path, "ranker=base", f"dataset.fold={fold}", test=base)
        make(tmp_path, "ranker=one", f"dataset.fold={fold}", test=other)
    _, result = comparison(tmp_path, "base")
    (difference,) = result.differences
    assert difference.estimate.mean == pytest.approx(0.2)
    assert difference.estimate.half_width == pytest.approx(T1 * 0.1, rel=1e-5)
    assert (difference.estimate.n, difference.estimate.folds, difference.wins) == (3, 2, 3)
    assert difference.p is None, "two folds are too few for a test"
    for ranker, value in (("base", 0.5), ("one", 0.8)):
        make(tmp_path, f"ranker={ranker}", "dataset.fold=3", test={0: value})
    (difference,) = comparison(tmp_path, "base")[1].differences
    t = 0.7 / 3 / (statistics.stdev([0.3, 0.1, 0.3]) / 3**0.5)
    assert difference.p == pytest.approx(1 - t / (2 + t**2) ** 0.5, rel=1e-5)  # Student's t, two degrees of freedom


def test_holm_is_over_all_tasks_of_a_metric(tmp_path):
    for click in ("perfect", "cascade"):
        for place, ranker in enumerate(("base", "one", "two")):
            make(tmp_path, f"ranker={ranker}", f"click={click}", test=better(place * 0.0005 * (2 + len(click))))
    _, result = comparison(tmp_path, "base", metrics=("test_ndcg_10", "online_ndcg"))
    for metric in ("test_ndcg_10", "online_ndcg"):
        own = [d for d in result.differences if d.metric == metric]
        assert len(own) == 4
        assert [d.holm for d in own] == holm([d.p for d in own])


def test_arrows_say_which_way_and_only_where_it_is_significant(tmp_path):
    for ranker, by in [("base", 0), ("less", -0.1), ("more", 0.1), ("same", 0)]:
        make(tmp_path, f"ranker={ranker}", test=better(by, 0 if ranker == "base" else 0.002))
    groups, result = comparison(tmp_path, "base")
    assert [result.mark(group, "test_ndcg_10") for group in groups] == ["", "↓", "↑", ""]
    assert result.bases == {groups[0]}
    assert result.against_baseline(groups[0], "test_ndcg_10") is None


def test_letters_name_those_that_are_worse(tmp_path):
    for ranker, by in [("a", 0), ("b", 0.1), ("c", 0.2), ("d", 0.2)]:
        make(tmp_path, f"ranker={ranker}", test=better(by, {"d": 0.004}.get(ranker, 0.002)))
    groups, result = comparison(tmp_path)
    assert [result.letters[group] for group in groups] == ["a", "b", "c", "d"]
    assert [result.mark(group, "test_ndcg_10") for group in groups] == ["", "a", "ab", "ab"]
    assert len(result.differences) == 6


def test_less_regret_is_better(tmp_path):
    for ranker, regret in (("base", 100), ("good", 50)):
        for seed in range(6):
            value = regret + seed % 2 * (ranker == "good")
            with edited_summary(make(tmp_path, f"ranker={ranker}", test={seed: 0.5})) as summary:
                summary["metrics"]["regret"] = {"mean": value, "sd": None, "n": 1}
                summary["by_seed"]["regret"] = [value]
    groups, result = comparison(tmp_path, "base", metrics=("regret",))
    assert result.mark(groups[1], "regret") == "↓", "it is less"
    assert (result.differences[0].wins, result.differences[0].better) == (6, True)
    groups, result = comparison(tmp_path, metrics=("regret",))
    assert [result.mark(group, "regret") for group in groups] == ["", "a"], "and that is better"


def test_the_same_values_are_ties(tmp_path):
    make(tmp_path, "ranker=base", test=EASY)
    make(tmp_path, "ranker=twin", test=EASY)
    _, result = comparison(tmp_path, "base", test="permutation")
    (difference,) = result.differences
    assert (difference.ties, difference.p, difference.significant) == (8, 1.0, False)


def test_tasks_without_a_comparison_are_named(tmp_path):
    make(tmp_path, "ranker=base", test=EASY)
    make(tmp_path, "ranker=one", test=EASY)
    make(tmp_path, "ranker=one", "click=cascade")
    make(tmp_path, "ranker=base", "rounds=9")
    _, result = comparison(tmp_path, "base")
    assert sorted(result.alone) == [
        "dataset=mq2008 click=cascade rounds=2",
        "dataset=mq2008 click=perfect rounds=9",
    ]
    assert len(result.differences) == 1


def test_without_a_common_seed_there_is_no_difference(tmp_path):
    make(tmp_path, "ranker=base", test={0: 0.5})
    make(tmp_path, "ranker=one", test={1: 0.5})
    assert comparison(tmp_path, "base")[1].differences == []


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"baseline": "dbgd"}, "--baseline must be a ranker, or choices and settings, of some row, got dbgd"),
        ({"baseline": "a0", "test": "sign"}, "--test must be t or permutation, got sign"),
        ({}, "--compare all needs at most 2 rows of a task, got 3 with dataset=mq2008 click=perfect: type --select"),
    ],
)
def test_errors(tmp_path, monkeypatch, keywords, message):
    monkeypatch.setattr("ol2r_cli.report.comparison.LETTERS", "ab")
    for number in range(3):
        make(tmp_path, f"ranker=a{number}")
    with pytest.raises(ValueError, match=message):
        comparison(tmp_path, **keywords)


def test_a_single_row_cannot_be_compared(tmp_path):
    make(tmp_path)
    for keywords in ({}, {"baseline": "pairrank"}):
        with pytest.raises(ValueError, match="there is nothing to compare: no two rows have the same dataset, click"):
            comparison(tmp_path, **keywords)


def test_the_test_of_the_option_is_used(tmp_path):
    make(tmp_path, "ranker=base", test=EASY)
    make(tmp_path, "ranker=one", test=better(0.1))
    differences = [0.1 + 0.001 * (-1) ** seed for seed in EASY]
    assert comparison(tmp_path, "base")[1].differences[0].p == pytest.approx(paired_t(differences), rel=1e-2)
    assert comparison(tmp_path, "base", test="permutation")[1].differences[0].p == 2 / 2**8
