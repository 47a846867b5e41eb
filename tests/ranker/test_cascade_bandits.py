"""Cascading bandits round by round against the plain ports, on the same clicks and random numbers."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from ol2r_cli.ranker.bandits import UNOBSERVED, kl_upper_bound
from tests.reference.cascade_bandits import CascadeBandit, ForgettingBandit, kl, kl_ucb, observed, ucb1
from tests.reference.cascade_linear import CascadeLinear
from tests.rounds import LISTS, SEEDS, fresh, ranked, replicas, rounds
from tests.worlds import handmade, simulate, tiny

SHORT = [[4, 0, 2, 1], [0, 3], [2, 1, 0, 4, 0, 3], [1], [0, 0, 2]]


def bandits(ranker, *overrides, lists=SHORT, total=120, **more):
    return simulate(tiny(f"ranker={ranker}", *overrides), SEEDS, total, handmade(lists), **more)


@pytest.mark.parametrize(
    ("ranker", "setting", "feedback", "index"),
    [
        ("cascade_ucb1", "alpha=1.5", "first_click", ucb1),
        ("cascade_ucb1", "alpha=0.2", "last_click", partial(ucb1, alpha=0.2)),
        ("cascade_kl_ucb", "c=3", "all", kl_ucb),
        ("cascade_kl_ucb", "c=0", "last_click", partial(kl_ucb, c=0.0)),
    ],
)
def test_every_round_is_that_of_the_paper(ranker, setting, feedback, index):
    """Indices, lists and counts of every query of every replica, with users who may click several documents."""
    words = f"ranker.{setting}", f"ranker.feedback={feedback}", "click=informational", "positions=3"
    simulation, happened = bandits(ranker, *words), Counter[str]()
    oracles = [[CascadeBandit(len(labels), feedback, index) for labels in SHORT] for _ in SEEDS]
    for t, one in rounds(simulation):
        chance = fresh(SEEDS).at("explore", t).uniform(6)
        for b, here in replicas(one):
            query, case = int(one.candidates.query[b]), (ranker, setting, t, b)
            oracle, scores = oracles[b][query], oracles[b][query].scores()
            expected = [UNOBSERVED if math.isinf(score) else score for score in scores]
            assert here.scores[0] == pytest.approx(expected, rel=1e-12), case
            assert here.ranking == ranked(scores, chance[b].tolist())[:3], case
            happened["several"] += sum(here.clicks) > 1
            happened["partly"] += observed(here.clicks, feedback) < len(here.clicks)
            oracle.learn(here.ranking, here.clicks)
            rows = one.candidates.document[b, : len(scores)]
            assert simulation.ranker.observations[b, rows].tolist() == oracle.count, case
            assert simulation.ranker.attractions[b, rows].tolist() == oracle.clicks, case
            assert int(simulation.ranker.served[b, query]) == oracle.t - 1, case
    assert happened["several"] > 30, ranker
    assert (happened["partly"] > 60) == (feedback != "all"), ranker


@pytest.mark.parametrize(
    ("ranker", "feedback", "settings", "lists", "places"),
    [
        ("cascade_ducb", "first_click", {"epsilon": 0.5, "discount": 0.4}, [[0, 1] * 20], 1),
        ("cascade_ducb", "last_click", {"epsilon": 0.1, "discount": 0.98}, SHORT, 3),
        ("cascade_ducb", "all", {"epsilon": 0.2, "discount": 1.0}, SHORT, 3),
        ("cascade_swucb", "first_click", {"epsilon": 0.5, "window": 4}, SHORT, 3),
        ("cascade_swucb", "all", {"epsilon": 0.1, "window": 11}, SHORT, 3),
    ],
)
def test_every_round_of_those_that_forget(ranker, feedback, settings, lists, places):
    """Bounds, lists and sums, with sums over all earlier rounds in the oracle; documents are forgotten altogether, and
    in a long list a discount leaves so little of some that they count as never examined."""
    words = [f"ranker.{name}={value}" for name, value in {**settings, "feedback": feedback}.items()]
    words += ["click=informational", f"positions={places}"]
    simulation, forgotten = bandits(ranker, *words, lists=lists), 0
    oracles = [[ForgettingBandit(len(labels), feedback, **settings) for labels in lists] for _ in SEEDS]
    for t, one in rounds(simulation):
        chance = fresh(SEEDS).at("explore", t).uniform(max(map(len, lists)))
        for b, here in replicas(one):
            oracle, case = oracles[b][int(one.candidates.query[b])], (ranker, settings, t, b)
            expected = [min(score, UNOBSERVED) for score in oracle.scores()]
            assert here.scores[0] == pytest.approx(expected, rel=1e-11), case
            assert here.ranking == ranked(np.round(expected, 9), chance[b].tolist())[:places], case
            forgotten += UNOBSERVED in expected and len(oracle.rounds) > len(expected) * 2
            oracle.learn(here.ranking, here.clicks)
            rows = one.candidates.document[b, : len(expected)]
            clicks, count = zip(*map(oracle.sums, range(len(expected))), strict=True)
            assert simulation.ranker.attractions[b, rows].tolist() == pytest.approx(clicks, abs=1e-12), case
            assert simulation.ranker.observations[b, rows].tolist() == pytest.approx(count, abs=1e-12), case
    assert (forgotten > 10) == (0.4 in settings.values() or 4 in settings.values()), (ranker, settings, forgotten)


def test_a_window_of_all_rounds_is_cascade_ucb1():
    """A window of all rounds is CascadeUCB1, and null is what the paper sets."""
    lists = [
        [one.ranking.tolist() for _, one in rounds(bandits(*words, "click=cascade"))]
        for words in (
            ("cascade_ucb1", "ranker.alpha=0.3"),
            ("cascade_swucb", "ranker.epsilon=0.3", "ranker.window=999"),
            ("cascade_swucb", "ranker.epsilon=0.3"),
        )
    ]
    assert lists[0] == lists[1] != lists[2]  # the last window is 18 of the 24 rounds of a query
    assert bandits("cascade_swucb").ranker.tau == math.ceil(2 * math.sqrt(24 * math.log(24)))
    assert bandits("cascade_ducb").ranker.gamma == pytest.approx(1 - 1 / (4 * math.sqrt(24)))


@pytest.mark.parametrize(
    ("ranker", "feedback", "sigma"),
    [
        ("cascade_linucb", "first_click", 1.0),
        ("cascade_lints", "last_click", 0.5),
        ("cascade_linucb", "all", 2.0),
    ],
)
def test_every_round_of_the_linear_ones(ranker, feedback, sigma):
    """Scores, lists and theta; of queries that were never served, the evaluation is that of theta alone."""
    alpha = ("ranker.alpha=0.3",) if ranker == "cascade_linucb" else ()
    words = f"ranker.sigma={sigma}", f"ranker.feedback={feedback}", "click=informational", "positions=4", *alpha
    simulation, partly = bandits(ranker, *words, lists=LISTS, total=60), 0
    oracles = [CascadeLinear(4, sigma, feedback) for _ in SEEDS]
    for t, one in rounds(simulation):
        chance = fresh().at("explore", t).uniform(12)
        normal = fresh().at("judge", t).normal(4).numpy()
        for b, here in replicas(one):
            oracle, case, documents = oracles[b], (ranker, sigma, t, b), list(here.features)
            scores = oracle.bounds(documents, 0.3) if alpha else oracle.drawn(documents, normal[b])
            assert here.scores[0] == pytest.approx(scores, rel=1e-9, abs=1e-11), case
            assert here.ranking == ranked(np.round(scores, 9), chance[b].tolist())[:4], case
            partly += observed(here.clicks, feedback) < len(here.clicks)
            oracle.learn([documents[document] for document in here.ranking], here.clicks)
            theta = simulation.ranker.deploy()
            assert theta[b].numpy() == pytest.approx(oracle.theta(), rel=1e-9, abs=1e-11), case
    assert (partly > 60) == (feedback != "all"), (ranker, sigma)
    expected = torch.einsum("sf,bdf->sbd", theta, one.candidates.features)
    torch.testing.assert_close(simulation.ranker.score(theta, one.candidates), expected)


def test_bounds_above_one_are_equal_and_in_random_order():
    """With alpha so large that every bound is 1, all orders are equally likely: each document comes first sometimes."""
    first = set()
    for _, one in rounds(bandits("cascade_linucb", "ranker.alpha=1e6", lists=[[0, 1, 2]], total=40)):
        assert (one.prediction.scores == 1).all()
        first.update(one.ranking[:, 0].tolist())
    assert first == {0, 1, 2}


def test_a_bound_is_the_largest_number_within_the_budget():
    """At a mean of 0 it is 1 - exp(-budget). Elsewhere the divergence meets the budget, up to how finely it can be
    written: its derivative times the spacing of numbers near the bound."""
    for budget in [0.0, 1e-18, 1e-9, 1e-4, 0.03, 0.7, 4.0, 30.0, math.inf]:
        means = torch.tensor([[0.0, 1e-9, 0.02, 1 / 3, 0.5, 0.9, 0.999, 1.0]], dtype=torch.float64)
        bounds = kl_upper_bound(means, torch.full_like(means, budget))[0].tolist()
        assert bounds[0] == pytest.approx(-math.expm1(-budget), abs=2.0**-52), budget
        assert bounds[-1] == 1, budget
        for mean, bound in zip(means[0, 1:-1].tolist(), bounds[1:-1], strict=True):
            assert mean <= bound <= 1, budget
            if bound < 1 - 1e-12:
                slope = (bound - mean) / (bound * (1 - bound))
                assert kl(mean, bound) == pytest.approx(budget, rel=1e-12, abs=4e-16 * (1 + slope)), budget


def test_bounds_of_rare_clicks_are_as_precise_as_float64():
    """Where the plain formula for the divergence has no correct digit. KL is d^2 / (2 p (1-p)) for small d = q - p."""
    p, d = 0.25, 1e-9
    budget = d**2 / (2 * p * (1 - p)) * (1 - 2 * (1 - 2 * p) * d / (3 * p * (1 - p)))
    bound = kl_upper_bound(torch.tensor([[p]], dtype=torch.float64), torch.tensor([[budget]], dtype=torch.float64))
    assert float(bound) - p == pytest.approx(d, rel=1e-6)
