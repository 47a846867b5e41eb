"""Ranges and spaces: how they are read, what is drawn from them, and the check before the first trial."""

from __future__ import annotations

import shlex

import optuna
import pytest

from ol2r_cli.search.space import Interval, OptionList, Space, read_range
from ol2r_cli.search.trial import check_space
from tests.search.spaces import TINY


@pytest.mark.parametrize(
    ("word", "range"),
    [
        ("ranker.l2=log(1e-4,10)", Interval("ranker.l2", 1e-4, 10, log=True)),
        ("exploration.alpha=float( 0, 1 )", Interval("exploration.alpha", 0, 1)),
        ("ranker.steps=int(1,10)", Interval("ranker.steps", 1, 10, whole=True)),
        ("ranker.steps=logint(1,1000)", Interval("ranker.steps", 1, 1000, log=True, whole=True)),
        ("ranker.loss=choice(ranknet,lambdarank)", OptionList("ranker.loss", ("ranknet", "lambdarank"))),
        ("ranker=pairrank,pdgd", OptionList("ranker", ("pairrank", "pdgd"))),
        ("ranker.model.widths=[8],[16,[4,2]]", OptionList("ranker.model.widths", ("[8]", "[16,[4,2]]"))),
        ("a.b='x,y',z", OptionList("a.b", ("'x,y'", "z"))),
    ],
)
def test_ranges_are_read(word, range):
    assert read_range(word) == range


@pytest.mark.parametrize(
    "word", ["rounds=500", "~fairness", "block_rounds=[1,2]", "dataset.queries={train: 1, test: 2}", "a='x,y'", "DIR"]
)
def test_ordinary_overrides_are_not_ranges(word):
    assert read_range(word) is None


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a.b=log(0,1)", "a.b must be log(LOW,HIGH) with LOW above 0, got log(0,1)"),
        ("a.b=float(1,1)", "a.b must be float(LOW,HIGH) with LOW below HIGH, got float(1,1)"),
        ("a.b=float(0,inf)", "a.b must be float(LOW,HIGH) with LOW below HIGH, got float(0,inf)"),
        ("a.b=int(1,2.5)", "a.b must be int(LOW,HIGH) of two whole numbers, got int(1,2.5)"),
        ("a.b=float(1)", "a.b must be float(LOW,HIGH) of two numbers, got float(1)"),
        ("a.b=float(1,2", "a.b must be float(LOW,HIGH), log(LOW,HIGH)"),
        ("a.b=choice(1,2", "a.b must be float(LOW,HIGH), log(LOW,HIGH)"),
        ("a.b=range(0,3)", "a.b must be float(LOW,HIGH), log(LOW,HIGH)"),
        ("a.b=choice(1)", "a.b must be choice(A,B,..) of two or more different values, got choice(1)"),
        ("a.b=1,1", "a.b must be choice(A,B,..) of two or more different values, got 1,1"),
        ("a.b=1,,2", "a.b must be choice(A,B,..) of two or more different values, got 1,,2"),
    ],
)
def test_a_bad_range_is_one_line(word, message):
    with pytest.raises(ValueError) as error:
        read_range(word)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "typed"),
    [(0.00345678, "0.00346"), (0.000100049, "0.0001"), (3.0, "3"), (9.99999, "10"), (1.234e-4, "0.000123")],
)
def test_numbers_have_three_digits(value, typed):
    assert Interval("a.b", 1e-4, 10, log=True).typed(value) == typed


def test_a_rounded_number_stays_within_its_interval():
    narrow = Interval("a.b", 0.12344, 0.12346)
    assert narrow.typed(0.12345) == "0.12344", "0.123 would be below"
    assert Interval("a.b", 0.6, 0.98765).typed(0.98765) == "0.98765", "0.988 would be above"


def test_values_drawn_by_optuna_are_within_the_range_and_cover_it():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    log, whole = Interval("l", 1e-4, 1, log=True), Interval("w", 1, 4, whole=True)
    drawn = [(log.suggest(trial), whole.suggest(trial)) for trial in (study.ask() for _ in range(200))]
    assert {word for _, word in drawn} == {"1", "2", "3", "4"}
    small = sum(float(word) < 1e-2 for word, _ in drawn)
    assert 75 < small < 125, "half of the decades, half of the draws"
    assert all(1e-4 <= float(word) <= 1 for word, _ in drawn)


def test_arguments_are_ranges_and_overrides():
    space = Space(["click=nav", "ranker.l2=log(1,10)", "rounds=50"])
    assert space.fixed == ["click=navigational", "rounds=50"]
    assert [range.name for range in space.ranges] == ["ranker.l2"]


def test_ranges_that_decide_which_settings_exist_are_drawn_first():
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


def test_a_setting_is_drawn_only_when_the_drawn_part_has_it():
    space = Space(["ranker=olranknet", "ranker/model=linear,mlp", "ranker.model.width=int(8,10)"])
    assert [space.overrides(values) for values in space.combinations()] == [
        ["ranker/model=linear"],
        *(["ranker/model=mlp", f"ranker.model.width={width}"] for width in (8, 9, 10)),
    ]


def test_combinations_are_listed_only_when_they_are_few():
    assert Space(["ranker.l2=log(1,10)", "ranker.reduction=sum,mean"]).combinations() is None
    assert Space(["ranker.l2=int(1,200)", "exploration.alpha=int(1,200)"]).combinations() is None, "40,000 are too many"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rounds=50", "a search needs a range: type SETTING=RANGE"),
        ("seed=int(0,9)", "seed must have one value"),
        ("click=nav,inf", "click must have one value"),
        ("dataset.documents=5,10", "dataset.documents must have one value"),
        ("rankr.l2=1,2", "there is no setting or group 'rankr.l2': did you mean ranker?"),
        ("ranker.l2=1,2 ranker.l2=3", "ranker.l2 must be given once"),
        ("ranker.l2=1,2 ranker.l2=3,4", "ranker.l2 must be given once"),
        (
            "experiment=grid_pairrank ranker.l2=1,2",
            "experiment=grid_pairrank is a grid: give a range",
        ),
        ("ranker.l3=1,2", "ranker=pairrank has no setting 'l3'"),
        ("ranker=pairrank,pdgt", "ranker=pdgt: did you mean ranker=pdgd? ranker must be one of"),
        ("ranker=pairrank,pdgd ranker.steps=int(1,5)", "ranker=pairrank has no setting 'steps'"),
        ("ranker.l2=float(-1,1)", "ranker.l2 must be above 0, got -1"),
        ("ranker.l2=1,x", "ranker.l2 must be a number, got 'x'"),
        ("ranker.reduction=sum,mean,avg", "ranker.reduction must be one of sum, mean, got 'avg'"),
        ("ranker=pairrank,toprank", "ranker=toprank is not evaluated on queries that are new to it"),
        ("ranker=pairrank,pdgd exploration=none", "the ranker PDGD needs lists drawn from the Plackett-Luce model"),
        ("ranker.l2=1,2 evaluate_on=[test]", "evaluate_on must have validation"),
        ("ranker.l2=1,2 'dataset.queries={train: 9, validation: 0, test: 3}'", "dataset must have a validation split"),
    ],
)
def test_a_bad_space_is_an_error_before_the_first_trial(words, message):
    with pytest.raises(ValueError) as error:
        check_space(Space([*TINY, *shlex.split(words)]), "validation_ndcg_10")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("regret", "trace_regret must be true for --metric regret"),
        ("validation_ndcg_5", "evaluate_on must have validation"),
    ],
)
def test_a_metric_that_the_summary_would_not_have_is_an_error(metric, message):
    with pytest.raises(ValueError, match=message):
        check_space(Space([*TINY, "ranker.l2=1,2", "evaluate_on=[test]"]), metric)


def test_a_good_space_is_no_error():
    check_space(Space([*TINY, "ranker=pairrank,pdgd", "ranker.l2=log(1e-4,1)"]), "validation_ndcg_10")
    check_space(Space([*TINY, "ranker.l2=log(1e-4,1)", "trace_regret=true"]), "regret")
