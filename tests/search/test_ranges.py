from __future__ import annotations

import optuna
import pytest

from ol2r_cli.search.ranges import Interval, Options, read_range


@pytest.mark.parametrize(
    ("word", "range"),
    [
        ("ranker.l2=log(1e-4,10)", Interval("ranker.l2", 1e-4, 10, log=True)),
        ("exploration.alpha=float( 0, 1 )", Interval("exploration.alpha", 0, 1)),
        ("ranker.steps=int(1,10)", Interval("ranker.steps", 1, 10, whole=True)),
        ("ranker.steps=logint(1,1000)", Interval("ranker.steps", 1, 1000, log=True, whole=True)),
        ("ranker.loss=choice(ranknet,lambdarank)", Options("ranker.loss", ("ranknet", "lambdarank"))),
        ("ranker=pairrank,pdgd", Options("ranker", ("pairrank", "pdgd"))),
        ("ranker.model.widths=[8],[16,[4,2]]", Options("ranker.model.widths", ("[8]", "[16,[4,2]]"))),
        ("a.b='x,y',z", Options("a.b", ("'x,y'", "z"))),
    ],
)
def test_ranges_are_read(word, range):
    assert read_range(word) == range


@pytest.mark.parametrize(
    "word", ["rounds=500", "~fairness", "block_rounds=[1,2]", "dataset.queries={train: 1, test: 2}", "a='x,y'", "DIR"]
)
def test_other_words_are_no_ranges(word):
    assert read_range(word) is None


@pytest.mark.parametrize(
    ("word", "complaint"),
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
def test_a_bad_range_is_one_line(word, complaint):
    with pytest.raises(ValueError) as raised:
        read_range(word)
    assert str(raised.value).startswith(complaint)
    assert "\n" not in str(raised.value)


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


def test_what_optuna_draws_is_within_and_covers_the_range():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    log, whole = Interval("l", 1e-4, 1, log=True), Interval("w", 1, 4, whole=True)
    drawn = [(log.suggest(trial), whole.suggest(trial)) for trial in (study.ask() for _ in range(200))]
    assert {word for _, word in drawn} == {"1", "2", "3", "4"}
    small = sum(float(word) < 1e-2 for word, _ in drawn)
    assert 75 < small < 125, "half of the decades, half of the draws"
    assert all(1e-4 <= float(word) <= 1 for word, _ in drawn)
