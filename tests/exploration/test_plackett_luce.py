"""Plackett-Luce lists against the race of the same clocks, and against the probabilities of the model by counting."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from ol2r_cli.exploration.order import PlackettLuce

from tests.reference.plackett_luce import enumerate_rankings, order_of, probability
from tests.rounds import LEAST_P, LISTS, REPLICAS, SEEDS, fresh, p_value, propose, rounds, shown, some_scores
from tests.worlds import handmade, simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


@pytest.mark.parametrize("spread", [0, 1, 30, 900])
@pytest.mark.parametrize("members", [1, 3])
def test_every_order_is_that_of_the_race(spread, members):
    """The score is the members' mean. A smaller ranking depth gives the first places of the same order."""
    scores = spread * some_scores(5, members, 12, seed=7)
    for round in range(12):
        proposal = propose(PlackettLuce(), scores, LENGTHS, 5, round=round)
        clocks = fresh(range(5)).at("explore", round).exponential(12)
        for b, length in enumerate(LENGTHS):
            mean = scores[b, :, :length].mean(0).tolist()
            assert tuple(proposal.order[b, :length].tolist()) == order_of(mean, clocks[b, :length].tolist())
            assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-9)
        for depth in 1, 5, 40:
            shorter = propose(PlackettLuce(), scores, LENGTHS, 5, depth, round)
            assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


@pytest.mark.parametrize("positions", [5, 10, 20])
def test_every_list_of_a_run_is_that_of_the_race(positions):
    """Lists are the same whether the whole order is traced or only the shown places."""
    config = tiny("ranker=pdgd", "ranker.learning_rate=2", f"positions={positions}")
    traced, plain = (simulate(config, SEEDS, 25, handmade(LISTS), trace_regret=regret) for regret in (True, False))
    streams = fresh()
    for (t, one), (_, other) in zip(rounds(traced), rounds(plain), strict=True):
        lengths = one.candidates.mask.sum(1).tolist()
        clocks = streams.at("explore", t).exponential(one.candidates.mask.shape[1])
        for b, length in enumerate(lengths):
            scores = one.prediction.scores[b, 0, :length].tolist()
            assert tuple(one.order[b, :length].tolist()) == order_of(scores, clocks[b, :length].tolist())
        assert shown(one.ranking, lengths) == shown(other.ranking, lengths)
    assert torch.equal(traced.ranker.theta, plain.ranker.theta)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scores", [[0.5, -0.3, 1.0, 0.0], [100.5, 99.7, 101.0, 100.0], [0.0, 0.0, 0.0, 0.0]])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_lists_are_as_frequent_as_the_model_says(dtype, scores, places):
    """Padding has the highest scores, so it would win every race if it took part."""
    table = torch.tensor([[*scores, 999.0, 999.0]], dtype=dtype).expand(REPLICAS, 1, 6)
    lists = propose(PlackettLuce(), table, [4] * REPLICAS, places, places).order.tolist()
    chances = {ranking: probability(ranking, scores) for ranking in enumerate_rankings(4, places)}
    assert p_value([tuple(row) for row in lists], chances) > LEAST_P


def test_equal_scores_are_in_uniformly_random_order():
    orders = propose(PlackettLuce(), torch.zeros(REPLICAS, 1, 4, dtype=torch.float64), [4] * REPLICAS, 4).order
    chances = dict.fromkeys(permutations(range(4)), 1 / 24)
    assert p_value([tuple(row) for row in orders.tolist()], chances) > LEAST_P


def test_scores_far_apart_leave_one_order():
    scores = torch.tensor([[[-1000.0, 1000.0, 0.0]]], dtype=torch.float64).expand(100, 1, 3)
    assert propose(PlackettLuce(), scores, [3] * 100, 3).order.tolist() == [[1, 2, 0]] * 100
