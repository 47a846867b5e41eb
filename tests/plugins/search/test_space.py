"""Ranges and spaces: how they are read, what is drawn from them, and the check before the first trial."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace

import optuna
import pytest

from ol2r_cli.plugins.search.space import SearchRange, Space, check_metric, check_space, read_range
from tests.plugins.search.spaces import TINY


def interval(low: float, high: float, **kind: bool) -> SearchRange:
    return SearchRange("a.b", (), low, high, **kind)


LOG = interval(1e-4, 10, log=True)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("log(1e-4,10)", interval(1e-4, 10, log=True)),
        ("float( 0, 1 )", interval(0, 1)),
        ("int(1,10)", interval(1, 10, whole=True)),
        ("logint(1,1000)", interval(1, 1000, log=True, whole=True)),
        ("choice(ranknet,lambdarank)", SearchRange("a.b", ("ranknet", "lambdarank"))),
        ("pairrank,pdgd", SearchRange("a.b", ("pairrank", "pdgd"))),
        ("[8],[16,[4,2]]", SearchRange("a.b", ("[8]", "[16,[4,2]]"))),
        ("'x,y',z", SearchRange("a.b", ("'x,y'", "z"))),
        ("range(0,3)", SearchRange("a.b", ("0", "1", "2"))),
        ("[1,2]", None),
        ("{train: 1, test: 2}", None),
        ("'x,y'", None),
    ],
)
def test_a_range_is_read(word, expected):
    assert read_range(f"a.b={word}") == expected


def test_a_group_that_is_left_out_is_no_range():
    assert read_range("~fairness") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("log(0,1)", "a.b must be log(LOW,HIGH) with LOW above 0, got log(0,1)"),
        ("float(0,inf)", "a.b must be float(LOW,HIGH) with LOW below HIGH, got float(0,inf)"),
        ("int(1,2.5)", "a.b must be int(LOW,HIGH) of two whole numbers, got int(1,2.5)"),
        ("float(1)", "a.b must be float(LOW,HIGH) of two numbers, got float(1)"),
        ("choice(1)", "a.b must be choice(A,B,..) of two or more different values, got choice(1)"),
        ("1,1", "a.b must be choice(A,B,..) of two or more different values, got 1,1"),
        ("1,,2", "a.b=1,,2 cannot be read"),
        ("loguniform(1,2)", "a.b: there is no function loguniform"),
        ("float(1,2", "a.b=float(1,2 must have as many closing as opening brackets"),
    ],
)
def test_a_bad_range_is_one_line(value, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}[^\n]*$"):
        read_range(f"a.b={value}")


def test_what_cannot_be_read_is_answered_by_what_a_range_is():
    kinds = "; a range is float(LOW,HIGH), log(LOW,HIGH), int(LOW,HIGH), logint(LOW,HIGH) or choice(A,B,..)"
    with pytest.raises(ValueError, match=f"{re.escape(kinds)}$"):
        read_range("a.b=float(1,2")


@pytest.mark.parametrize(
    ("drawn_from", "value", "typed"),
    [
        (LOG, 0.00345678, "0.00346"),
        (LOG, 0.000100049, "0.0001"),
        (LOG, 3.0, "3"),
        (LOG, 9.99999, "10"),
        (interval(0.12344, 0.12346), 0.12345, "0.12344"),  # 0.123 would be below
        (interval(0.6, 0.98765), 0.98765, "0.98765"),  # 0.988 would be above
    ],
)
def test_a_number_has_three_digits_within_its_interval(drawn_from, value, typed):
    assert drawn_from.typed(value) == typed


def test_numbers_are_drawn_within_their_interval():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    log, whole = SearchRange("l", (), 1e-4, 1, log=True), SearchRange("w", (), 1, 4, whole=True)
    drawn = [(float(log.suggest(trial)), whole.suggest(trial)) for trial in (study.ask() for _ in range(200))]
    assert {word for _, word in drawn} == {"1", "2", "3", "4"}
    assert 75 < sum(number < 1e-2 for number, _ in drawn) < 125, "half of the decades, half of the draws"
    assert all(1e-4 <= number <= 1 for number, _ in drawn)


def test_ranges_that_decide_which_settings_exist_are_drawn_first():
    assert Space(["click=nav", "ranker.l2=log(1,10)", "rounds=50"]).fixed == ["click=navigational", "rounds=50"]
    words = ["ranker.l2=1,2", "ranker.model.width=8,16", "ranker/model=linear,mlp", "exploration=none,confidence"]
    names = [range.name for range in Space([*words, "ranker=pairrank,olranknet"]).ranges]
    assert names == ["ranker", "exploration", "ranker/model", "ranker.l2", "ranker.model.width"]


def test_a_setting_is_drawn_only_when_the_drawn_ranker_has_it():
    """pairrank has l2, pdgd a learning rate; a combination with one has no value of the other."""
    space = Space(["ranker=pairrank,pdgd", "ranker.l2=0.1,1,10", "ranker.learning_rate=0.01,0.1"])
    combinations = [space.overrides(values) for values in space.combinations()]
    assert combinations == [
        *(["ranker=pairrank", f"ranker.l2={l2}"] for l2 in ("0.1", "1", "10")),
        *(["ranker=pdgd", f"ranker.learning_rate={rate}"] for rate in ("0.01", "0.1")),
    ]
    space = Space(["ranker=olranknet", "ranker/model=linear,mlp", "ranker.model.width=int(8,10)"])
    assert [space.overrides(values) for values in space.combinations()] == [
        ["ranker/model=linear"],
        *(["ranker/model=mlp", f"ranker.model.width={width}"] for width in (8, 9, 10)),
    ]
    assert Space(["ranker.l2=log(1,10)", "ranker.reduction=sum,mean"]).combinations() is None
    assert Space(["ranker.l2=int(1,200)", "exploration.alpha=int(1,200)"]).combinations() is None, "40,000 are too many"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rounds=50", "a search needs a range: type SETTING=RANGE"),
        ("click=nav,inf", "click must have one value"),
        ("rankr.l2=1,2", "rankr.l2 must have one value: a search chooses settings of ranker, exploration, fairness;"),
        ("ranker.l2=1,2 ranker.l2=3", "ranker.l2 must be given once"),
        ("ranker=pairrank,pdgt", "ranker=pdgt: did you mean ranker=pdgd?"),
        ("ranker=pairrank,pdgd ranker.steps=int(1,5)", "ranker=pairrank has no setting 'steps'"),
        ("ranker.l2=float(-1,1)", "ranker.l2 must be above 0, got -1"),
        ("ranker.reduction=sum,mean,avg", "ranker.reduction must be one of sum, mean, got 'avg'"),
        ("ranker=pairrank,toprank", "ranker=toprank is not evaluated on queries that are new to it"),
        ("ranker=pairrank,pdgd exploration=none", "the ranker PDGD needs lists drawn from the Plackett-Luce model"),
        ("ranker.l2=1,2 evaluate_on=[test]", "evaluate_on must have validation"),
        ("ranker.l2=1,2 'dataset.queries={train: 9, validation: 0, test: 3}'", "dataset must have a validation split"),
    ],
)
def test_a_bad_space_is_an_error_before_the_first_trial(words, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}[^\n]*$"):
        check_space(Space([*TINY, *shlex.split(words)]), "validation_ndcg_10")


def test_a_range_replaces_no_part_of_a_grid():
    with pytest.raises(ValueError, match=r"is a grid, .* in exploration\.alpha: give a range or a value to each"):
        Space([*TINY, "experiment=grid_pairrank", "ranker.l2=1,2"]).composed()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("regret", "measures must have regret for --metric regret"),
        ("validation_ndcg_5", "evaluate_on must have validation"),
    ],
)
def test_a_metric_must_be_measured(metric, message):
    with pytest.raises(ValueError, match=message):
        check_space(Space([*TINY, "ranker.l2=1,2", "evaluate_on=[test]"]), metric)


def test_unfairness_needs_groups():
    without_groups = SimpleNamespace(dataset=SimpleNamespace(group=None))
    with pytest.raises(ValueError, match=r"^dataset must have two groups for --metric unfairness: "):
        check_metric("unfairness", without_groups)


@pytest.mark.parametrize(
    ("words", "metric"),
    [("ranker=pairrank,pdgd", "validation_ndcg_10"), ("measures=[ndcg,regret]", "regret")],
)
def test_a_good_space_is_accepted(words, metric):
    check_space(Space([*TINY, words, "ranker.l2=log(1e-4,1)"]), metric)


def test_glob_chooses_among_the_names_of_a_group():
    (ranker,) = Space(["ranker=glob(*pairrank)"]).ranges
    assert ranker.options == ("pairrank", "pepairrank")


def test_an_order_by_chance_is_refused():
    with pytest.raises(ValueError, match=r"a\.b must have its values without shuffle\(\.\.\), since a search draws"):
        read_range("a.b=shuffle(1,2,3)")
