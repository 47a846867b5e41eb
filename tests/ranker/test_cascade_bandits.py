"""Cascading bandits round by round against the plain ports, on the same clicks and random numbers."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from ol2r_cli.ranker.bandits import UNOBSERVED, kl_upper_bound
from tests.reference.cascade_bandits import CascadeBandit, kl, kl_ucb, observed, ucb1
from tests.reference.cascade_linear import CascadeLinear
from tests.rounds import LISTS, SEEDS, fresh, ranked, replicas, rounds
from tests.worlds import handmade, simulate, tiny

SHORT = [[4, 0, 2, 1], [0, 3], [2, 1, 0, 4, 0, 3], [1], [0, 0, 2]]


def bandits(ranker, *overrides, lists=SHORT, total=120, **more):
    return simulate(tiny(f"ranker={ranker}", *overrides), SEEDS, total, handmade(lists), **more)


@pytest.mark.parametrize(
    ("ranker", "settings", "feedback", "index", "lists", "places"),
    [
        ("cascade_ucb1", {"alpha": 1.5}, "first_click", ucb1, SHORT, 3),
        ("cascade_ucb1", {"alpha": 0.2}, "last_click", partial(ucb1, alpha=0.2), SHORT, 3),
        ("cascade_kl_ucb", {"c": 3}, "all", kl_ucb, SHORT, 3),
        ("cascade_kl_ucb", {"c": 0}, "last_click", partial(kl_ucb, c=0.0), SHORT, 3),
        ("cascade_ducb", {"epsilon": 0.5, "discount": 0.4}, "first_click", partial(ucb1, alpha=2), [[0, 1] * 20], 1),
        ("cascade_ducb", {"epsilon": 0.1, "discount": 0.98}, "last_click", partial(ucb1, alpha=0.4), SHORT, 3),
        ("cascade_ducb", {"epsilon": 0.2, "discount": 1.0}, "all", partial(ucb1, alpha=0.8), SHORT, 3),
        ("cascade_swucb", {"epsilon": 0.5, "window": 4}, "first_click", partial(ucb1, alpha=0.5), SHORT, 3),
        ("cascade_swucb", {"epsilon": 0.1, "window": 11}, "all", partial(ucb1, alpha=0.1), SHORT, 3),
    ],
)
def test_every_round_is_that_of_the_paper(ranker, settings, feedback, index, lists, places):
    """Indices, lists and sums of every query of every replica, with users who may click several documents. Some are
    forgotten altogether, and in a long list a discount leaves so little of some that they count as never examined."""
    words = [f"ranker.{name}={value}" for name, value in {**settings, "feedback": feedback}.items()]
    simulation = bandits(ranker, *words, "click=informational", f"positions={places}", lists=lists)
    memory = settings.get("discount", 1.0), settings.get("window")
    oracles = [[CascadeBandit(len(labels), feedback, index, *memory) for labels in lists] for _ in SEEDS]
    own, happened = simulation.ranker, Counter[str]()
    for t, one in rounds(simulation):
        chance = fresh(SEEDS).at("explore", t).uniform(max(map(len, lists)))
        for b, here in replicas(one):
            query, case = int(one.candidates.query[b]), (t, b)
            oracle, rows = oracles[b][query], one.candidates.document[b, : len(lists[query])]
            expected = [min(score, UNOBSERVED) for score in oracle.scores()]
            assert here.scores[0] == pytest.approx(expected, rel=1e-11), case
            assert here.ranking == ranked(np.round(expected, 9), chance[b].tolist())[:places], case
            happened["forgotten"] += UNOBSERVED in expected and len(oracle.rounds) > 2 * len(expected)
            happened["several"] += sum(here.clicks) > 1
            happened["partly"] += observed(here.clicks, feedback) < len(here.clicks)
            oracle.learn(here.ranking, here.clicks)
            sums = torch.stack([own.attractions[b, rows], own.observations[b, rows]], 1).numpy()
            assert sums == pytest.approx(np.array(list(map(oracle.sums, range(len(rows))))), abs=1e-12), case
            assert int(own.served[b, query]) == len(oracle.rounds), case
    forgets, shows_several = 0.4 in memory or 4 in memory, places > 1
    found = happened["forgotten"] > 10, happened["several"] > 30, happened["partly"] > 60
    assert found == (forgets, shows_several, shows_several and feedback != "all")


def test_null_is_what_the_paper_sets():
    """For the 24 rounds of a query."""
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
        chance, normal = fresh().at("explore", t).uniform(12), fresh().at("judge", t).normal(4).numpy()
        for b, here in replicas(one):
            oracle, case, documents = oracles[b], (t, b), list(here.features)
            scores = oracle.bounds(documents, 0.3) if alpha else oracle.drawn(documents, normal[b])
            assert here.scores[0] == pytest.approx(scores, rel=1e-9, abs=1e-11), case
            assert here.ranking == ranked(np.round(scores, 9), chance[b].tolist())[:4], case
            partly += observed(here.clicks, feedback) < len(here.clicks)
            oracle.learn([documents[document] for document in here.ranking], here.clicks)
            theta = simulation.ranker.deploy()
            assert theta[b].numpy() == pytest.approx(oracle.theta(), rel=1e-9, abs=1e-11), case
    assert (partly > 60) == (feedback != "all")
    expected = torch.einsum("sf,bdf->sbd", theta, one.candidates.features)
    torch.testing.assert_close(simulation.ranker.score(theta, one.candidates), expected)


def test_bounds_above_one_are_equal_and_in_random_order():
    """With alpha so large that every bound is 1, all orders are equally likely: each document comes first sometimes."""
    first = set()
    for _, one in rounds(bandits("cascade_linucb", "ranker.alpha=1e6", lists=[[0, 1, 2]], total=40)):
        assert (one.prediction.scores == 1).all()
        first.update(one.ranking[:, 0].tolist())
    assert first == {0, 1, 2}


@pytest.mark.parametrize("budget", [0.0, 1e-18, 1e-9, 1e-4, 0.03, 0.7, 4.0, 30.0, math.inf])
def test_a_bound_is_the_largest_number_within_the_budget(budget):
    """At a mean of 0 it is 1 - exp(-budget). Elsewhere the divergence meets the budget, up to how finely it can be
    written: its derivative times the spacing of numbers near the bound."""
    means = torch.tensor([[0.0, 1e-9, 0.02, 1 / 3, 0.5, 0.9, 0.999, 1.0]], dtype=torch.float64)
    bounds = kl_upper_bound(means, torch.full_like(means, budget))[0].tolist()
    assert bounds[0] == pytest.approx(-math.expm1(-budget), abs=2.0**-52)
    assert bounds[-1] == 1
    for mean, bound in zip(means[0, 1:-1].tolist(), bounds[1:-1], strict=True):
        assert mean <= bound <= 1
        if bound < 1 - 1e-12:
            slope = (bound - mean) / (bound * (1 - bound))
            assert kl(mean, bound) == pytest.approx(budget, rel=1e-12, abs=4e-16 * (1 + slope))


def test_bounds_of_rare_clicks_are_as_precise_as_float64():
    """Where the plain formula for the divergence has no correct digit. KL is d^2 / (2 p (1-p)) for small d = q - p."""
    p, d = 0.25, 1e-9
    budget = d**2 / (2 * p * (1 - p)) * (1 - 2 * (1 - 2 * p) * d / (3 * p * (1 - p)))
    bound = kl_upper_bound(torch.tensor([[p]], dtype=torch.float64), torch.tensor([[budget]], dtype=torch.float64))
    assert float(bound) - p == pytest.approx(d, rel=1e-6)
