"""No exploration: the best order by the members' mean, ties at random, whatever way files are sorted."""

from __future__ import annotations

from itertools import permutations

import pytest

from ol2r_cli.exploration.none import NoExploration
from tests.rounds import LEAST_P, LISTS, REPLICAS, SEEDS, fresh, p_value, propose, ranked, rounds, shown, some_scores
from tests.worlds import handmade, simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_documents_by_the_mean_score_of_the_members(members, ties):
    scores = some_scores(5, members, 12, seed=members, ties=ties)
    for round in range(10):
        draft = propose(NoExploration(), scores, LENGTHS, 5, round=round)
        chance = fresh(range(5)).at("explore", round).uniform(12).tolist()
        for b, length in enumerate(LENGTHS):
            mean = scores[b, :, :length].mean(0).tolist()
            assert draft.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-12)
            assert draft.order[b, :length].tolist() == ranked(mean, chance[b][:length])
            assert sorted(draft.order[b].tolist()) == list(range(12))
        for looked_at in (1, 5, 40):
            shorter = propose(NoExploration(), scores, LENGTHS, 5, looked_at, round)
            assert shorter.order.shape[1] == min(looked_at, 12)
            assert shown(shorter.order, LENGTHS) == shown(draft.order[:, :looked_at], LENGTHS)


@pytest.mark.parametrize("positions", [5, 10, 20])
def test_every_list_of_a_run_is_the_ranker_s_own(positions):
    """With the whole order traced or only what is shown: the lists are the same."""
    config = tiny("ranker=sgd_ranknet", f"positions={positions}")
    traced, plain = (simulate(config, SEEDS, 60, handmade(LISTS), trace_regret=regret) for regret in (True, False))
    streams = fresh()
    for (t, one), (_, other) in zip(rounds(traced), rounds(plain), strict=True):
        documents = one.candidates.mask.shape[1]
        assert one.order.shape[1] == documents
        lengths = one.candidates.mask.sum(1).tolist()
        assert shown(one.ranking, lengths) == shown(other.ranking, lengths)
        assert other.order.shape[1] == min(positions, documents)
        chance = streams.at("explore", t).uniform(documents).tolist()
        for b, length in enumerate(lengths):
            expected = ranked(one.belief.scores[b, 0, :length].tolist(), chance[b][:length])
            assert one.order[b, :length].tolist() == expected, f"round {t}, replica {b}"


def test_a_ranker_that_knows_nothing_cannot_tell_how_the_file_is_sorted():
    """Documents sorted by label, as some files are: all orders are equally likely in the first round."""
    simulation = simulate(tiny("ranker=sgd_ranknet"), list(range(REPLICAS)), 1, handmade([[4, 3, 2, 1, 0]]))
    _, one = next(simulation.play())
    orders = [tuple(order) for order in one.order.tolist()]
    assert p_value(orders, dict.fromkeys(permutations(range(5)), 1 / 120)) > LEAST_P
