"""No exploration: the order of the members' mean score, with random ties that do not depend on the file order."""

from __future__ import annotations

from itertools import permutations

import pytest
from ol2r_cli.exploration.order import NoExploration

from tests.rounds import LEAST_P, LISTS, REPLICAS, SEEDS, fresh, p_value, propose, ranked, rounds, shown, some_scores
from tests.worlds import handmade, simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_documents_by_the_mean_score_of_the_members(members, ties):
    scores = some_scores(5, members, 12, seed=members, ties=ties)
    for round in range(10):
        proposal = propose(NoExploration(), scores, LENGTHS, 5, round=round)
        chance = fresh(range(5)).at("explore", round).uniform(12).tolist()
        for b, length in enumerate(LENGTHS):
            mean = scores[b, :, :length].mean(0).tolist()
            assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-12)
            assert proposal.order[b, :length].tolist() == ranked(mean, chance[b][:length])
            assert sorted(proposal.order[b].tolist()) == list(range(12))
        for depth in (1, 5, 40):
            shorter = propose(NoExploration(), scores, LENGTHS, 5, depth, round)
            assert shorter.order.shape[1] == min(depth, 12)
            assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


@pytest.mark.parametrize("positions", [5, 10, 20])
def test_every_list_of_a_run_is_in_the_order_of_the_scores(positions):
    """Lists are the same whether the whole order is traced or only the shown places."""
    config = tiny("ranker=sgd_ranknet", f"positions={positions}")
    traced, plain = (simulate(config, SEEDS, 20, handmade(LISTS), trace_regret=regret) for regret in (True, False))
    streams = fresh()
    for (t, one), (_, other) in zip(rounds(traced), rounds(plain), strict=True):
        documents = one.candidates.mask.shape[1]
        assert one.order.shape[1] == documents
        lengths = one.candidates.mask.sum(1).tolist()
        assert shown(one.ranking, lengths) == shown(other.ranking, lengths)
        assert other.order.shape[1] == min(positions, documents)
        chance = streams.at("explore", t).uniform(documents).tolist()
        for b, length in enumerate(lengths):
            expected = ranked(one.prediction.scores[b, 0, :length].tolist(), chance[b][:length])
            assert one.order[b, :length].tolist() == expected, f"round {t}, replica {b}"


def test_without_knowledge_all_orders_are_equally_likely():
    """Documents sorted by label, as some files are: all orders are equally likely in the first round."""
    simulation = simulate(tiny("ranker=sgd_ranknet"), list(range(REPLICAS)), 1, handmade([[4, 3, 2, 1, 0]]))
    _, one = next(simulation.play())
    orders = [tuple(order) for order in one.order.tolist()]
    assert p_value(orders, dict.fromkeys(permutations(range(5)), 1 / 120)) > LEAST_P
