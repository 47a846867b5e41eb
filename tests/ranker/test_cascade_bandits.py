"""CascadeUCB1 and CascadeKL-UCB round by round against the plain ports, on the same clicks and random numbers."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from ol2r_cli.ranker.bandits import UNOBSERVED, kl_upper_bound
from tests.reference.cascade_bandits import CascadeBandit, kl, kl_ucb, observed, ucb1
from tests.rounds import fresh, ranked, rounds
from tests.worlds import handmade, simulate, tiny

LISTS = [[4, 0, 2, 1], [0, 3], [2, 1, 0, 4, 0, 3], [1], [0, 0, 2]]
SEEDS = [0, 1, 5]
INDICES = {
    ("cascade_ucb1", "ranker.alpha=1.5"): ucb1,
    ("cascade_ucb1", "ranker.alpha=0.2"): partial(ucb1, alpha=0.2),
    ("cascade_kl_ucb", "ranker.c=3"): kl_ucb,
    ("cascade_kl_ucb", "ranker.c=0"): partial(kl_ucb, c=0.0),
}


def bandits(ranker, *overrides, lists=LISTS, seeds=SEEDS, total=200, **more):
    return simulate(tiny(f"ranker={ranker}", *overrides), seeds, total, handmade(lists), **more)


def test_every_round_is_that_of_the_paper():
    """Indices, lists and counts of every query of every replica, with users who may click several documents."""
    for chosen, feedback in [*zip(INDICES, ["first_click", "last_click", "all", "last_click"], strict=True)]:
        ranker, setting = chosen
        settings = setting, f"ranker.feedback={feedback}", "click=informational", "positions=3"
        simulation = bandits(ranker, *settings, total=120, loops=True)
        oracles = [[CascadeBandit(len(labels), feedback, INDICES[chosen]) for labels in LISTS] for _ in SEEDS]
        several, above = 0, 0
        for t, one in rounds(simulation):
            chance = fresh(SEEDS).at("explore", t).uniform(6)
            for b, query in enumerate(one.candidates.query.tolist()):
                oracle, n = oracles[b][query], len(LISTS[query])
                scores = oracle.scores()
                expected = [UNOBSERVED if math.isinf(score) else score for score in scores]
                assert one.prediction.scores[b, 0, :n].tolist() == pytest.approx(expected, rel=1e-12), f"round {t}"
                shown = ranked(scores, chance[b].tolist())[:3]
                assert one.ranking[b, : len(shown)].tolist() == shown, f"round {t}, replica {b}"
                clicks = one.clicks[b, : len(shown)].int().tolist()
                several += sum(clicks) > 1
                above += observed(clicks, feedback) < len(clicks)
                oracle.learn(shown, clicks)
                rows = one.candidates.document[b, :n]
                assert simulation.ranker.observations[b, rows].tolist() == oracle.count, (chosen, feedback)
                assert simulation.ranker.attractions[b, rows].tolist() == oracle.clicks, (chosen, feedback)
                assert int(simulation.ranker.served[b, query]) == oracle.t - 1, (chosen, feedback)
        assert several > 30, "too few rounds with several clicks to compare"
        assert (above > 60) == (feedback != "all"), (chosen, feedback)


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


def test_documents_are_counted_in_the_query_they_belong_to():
    """A document of another query, with the same features and labels, is unknown."""
    simulation = bandits("cascade_ucb1", "click=perfect", lists=[[4, 0, 1]] * 40, total=30)
    known = [set() for _ in SEEDS]
    for _, one in rounds(simulation):
        for b, query in enumerate(one.candidates.query.tolist()):
            assert (one.prediction.scores[b] == UNOBSERVED).all() == (query not in known[b])
            known[b].add(query)
