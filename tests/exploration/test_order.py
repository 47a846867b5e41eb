"""Orders by score with uniformly random ties, epsilon-greedy and Plackett-Luce lists: against plain ports on the same
random numbers, and against their definitions by counting."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.exploration.order import (
    EpsilonGreedy,
    NoExploration,
    PlackettLuce,
    best,
    completed,
    sortable,
    take_turns,
)
from tests.reference.epsilon_greedy import order as greedy_order
from tests.reference.plackett_luce import enumerate_rankings, order_of, probability
from tests.rounds import LEAST_P, LISTS, REPLICAS, SEEDS, fresh, p_value, propose, ranked, rounds, shown, some_scores
from tests.worlds import handmade, simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


def keys(scores: torch.Tensor, mask: torch.Tensor | None = None, round: int = 0) -> torch.Tensor:
    """The scores [B N D] made distinct with the numbers of seeds 0, 1, .."""
    if mask is None:
        mask = torch.ones(len(scores), scores.shape[2], dtype=torch.bool)
    return sortable(scores, mask, fresh(range(len(scores))).at("explore", round))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=8), st.integers(0, 1000))
def test_scores_that_differ_in_single_precision_keep_their_order(scores, round):
    table = torch.tensor([[scores]])
    for dtype in torch.float32, torch.float64:
        found = keys(table.to(dtype), round=round)[0, 0].tolist()
        for i in range(len(scores)):
            assert found[i] == pytest.approx(scores[i], rel=2**-22, abs=1e-37)
            assert not any(scores[i] > scores[j] and found[i] <= found[j] for j in range(len(scores)))


def test_equal_scores_are_in_uniformly_random_order():
    for value in 0.0, 1.0, -1.0, 1e-3, -123.456:
        found = keys(torch.full((REPLICAS, 1, 4), value, dtype=torch.float64))[:, 0]
        assert (found.sort(1).values.diff(dim=1) > 0).all(), "distinct"
        orders = [tuple(order) for order in best(found, 4).tolist()]
        assert p_value(orders, dict.fromkeys(permutations(range(4)), 1 / 24)) > LEAST_P, value
    scores = torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=torch.float64).expand(REPLICAS, 1, 4)
    first = best(keys(scores)[:, 0], 1)[:, 0].tolist()
    assert p_value(first, dict.fromkeys(range(4), 1 / 4)) > LEAST_P, "zero has no sign"


def test_members_break_ties_alike_and_rounds_and_replicas_differently():
    """For positive and negative scores. Otherwise members would disagree about equal documents."""
    scores = torch.tensor([0.0, 1.0, -1.0, -0.3, 1e-9, -1e20], dtype=torch.float64)[:, None].expand(2, 6, 12)
    orders = best(keys(scores), 12)
    assert (orders == orders[:, :1]).all()
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(best(keys(scores, round=1), 12), orders)


def test_padding_is_last_and_does_not_change_how_ties_are_broken():
    scores = some_scores(50, 2, 6, seed=2)
    scores[:, :, 4:] = 1e300
    assert (best(keys(scores, (torch.arange(6) < 4).expand(50, -1)), 6)[:, :, :4] < 4).all()
    alone, padded = torch.zeros(1, 1, 5, dtype=torch.float64), torch.zeros(1, 1, 9, dtype=torch.float64)
    assert torch.equal(best(keys(alone), 5), best(keys(padded, (torch.arange(9) < 5)[None]), 5))


def test_turns_by_hand():
    queues = torch.tensor([[3, 1, 0, 2], [1, 3, 2, 0]])
    first_has_the_largest = -queues.argsort(1)[None].double()
    for turns, expected in (
        ([0, 0, 0, 0], [3, 1, 0, 2]),
        ([1, 1, 1, 1], [1, 3, 2, 0]),
        ([0, 1, 0, 1], [3, 1, 0, 2]),  # 1 has only 2 left when its second turn comes
        ([1, 0, 1, 0], [1, 3, 2, 0]),
        ([1, 0], [1, 3]),
    ):
        assert take_turns(first_has_the_largest, torch.tensor([turns])).tolist() == [expected], turns


def test_completed_by_the_remaining_scores():
    scores = torch.tensor([[0.5, -2.0, 3.0, 1.0, 1e30], [1e30, -1e30, 0.0, 2.0, 1.0]], dtype=torch.float64)
    first = torch.tensor([[1, 0], [3, 1]])
    expected = torch.tensor([[1, 0, 4, 2, 3], [3, 1, 0, 4, 2]])
    for count in range(1, 8):
        assert torch.equal(completed(first, scores, count), expected[:, : max(2, count)]), count


def by_score(scores, random, b, length):
    """Documents of replica b by score, and then by random number."""
    return ranked(scores, random.uniform(length)[b].tolist())


def by_clocks(scores, random, b, length):
    """The race of the same clocks."""
    return list(order_of(scores, random.exponential(length)[b].tolist()))


def by_coins(scores, random, b, length, epsilon=0.4):
    """The port's list for replica b, equal scores by chance."""
    chance, document, coin = (random.uniform(length, name)[b].tolist() for name in ("", "document", "coin"))
    distinct = [(score, -number) for score, number in zip(scores, chance, strict=True)]
    permutation = sorted(range(length), key=lambda d: document[d], reverse=True)
    return list(greedy_order(distinct, [number < epsilon for number in coin], permutation, length))


@pytest.mark.parametrize(
    ("exploration", "expected"),
    [(NoExploration(), by_score), (PlackettLuce(), by_clocks), (EpsilonGreedy(0.4), by_coins)],
    ids=["score", "clocks", "coins"],
)
def test_every_order_is_that_of_the_definition(exploration, expected):
    """The score is the members' mean. A smaller ranking depth gives the first places of the same order."""
    for members, spread, ties in (1, 1, False), (3, 1, True), (1, 900, False):
        scores = spread * some_scores(5, members, 12, seed=members, ties=ties)
        for round in range(8):
            proposal = propose(exploration, scores, LENGTHS, 5, round=round)
            for b, length in enumerate(LENGTHS):
                mean, random = scores[b, :, :length].mean(0).tolist(), fresh(range(5)).at("explore", round)
                assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-9)
                assert proposal.order[b, :length].tolist() == expected(mean, random, b, length), (members, spread)
                assert sorted(proposal.order[b].tolist()) == list(range(12))
            for depth in (1, 5, 40):
                shorter = propose(exploration, scores, LENGTHS, 5, depth, round)
                assert shorter.order.shape[1] == min(depth, 12)
                assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


@pytest.mark.parametrize(
    ("ranker", "expected"), [("sgd_ranknet", by_score), ("pdgd", by_clocks), ("epsilon_greedy", by_coins)]
)
def test_every_list_of_a_run_is_that_of_the_definition(ranker, expected):
    """Lists are the same whether the whole order is traced or only the shown places."""
    more = ["exploration.epsilon=0.4"] if ranker == "epsilon_greedy" else []
    for positions in 5, 20:
        config = tiny(f"ranker={ranker}", "ranker.learning_rate=2", f"positions={positions}", *more)
        traced, plain = (simulate(config, SEEDS, 20, handmade(LISTS), trace_regret=regret) for regret in (True, False))
        streams = fresh()
        for (t, one), (_, other) in zip(rounds(traced), rounds(plain), strict=True):
            lengths = one.candidates.mask.sum(1).tolist()
            assert shown(one.ranking, lengths) == shown(other.ranking, lengths)
            for b, length in enumerate(lengths):
                scores = one.prediction.scores[b, 0, :length].tolist()
                assert one.order[b, :length].tolist() == expected(scores, streams.at("explore", t), b, length), t
        assert torch.equal(traced.ranker.theta, plain.ranker.theta)


def test_epsilon_greedy_lists_are_as_frequent_as_by_definition():
    """Every coin with its probability, every permutation equally likely; half of the documents are padding."""
    scores, epsilon = [0.3, -1.0, 2.0, 0.5], 0.3
    chances: Counter = Counter()
    for coins in product([False, True], repeat=3):
        chance = epsilon ** sum(coins) * (1 - epsilon) ** (3 - sum(coins))
        for permutation in permutations(range(4)):
            chances[greedy_order(scores, coins, permutation, 3)] += chance / 24
    table = torch.tensor([[*scores, 9.0, 9.0]], dtype=torch.float64).expand(REPLICAS, 1, 6)
    lists = [tuple(row) for row in propose(EpsilonGreedy(epsilon), table, [4] * REPLICAS, 3).order[:, :3].tolist()]
    assert p_value(lists, chances) > LEAST_P


def test_plackett_luce_lists_are_as_frequent_as_the_model_says():
    """Padding has the highest scores, so it would win every race if it took part."""
    for scores in [0.5, -0.3, 1.0, 0.0], [100.5, 99.7, 101.0, 100.0], [0.0, 0.0, 0.0, 0.0]:
        for dtype, places in (torch.float32, 2), (torch.float64, 3):
            table = torch.tensor([[*scores, 999.0, 999.0]], dtype=dtype).expand(REPLICAS, 1, 6)
            lists = propose(PlackettLuce(), table, [4] * REPLICAS, places, places).order.tolist()
            chances = {ranking: probability(ranking, scores) for ranking in enumerate_rankings(4, places)}
            assert p_value([tuple(row) for row in lists], chances) > LEAST_P, (scores, dtype)
    far = torch.tensor([[[-1000.0, 1000.0, 0.0]]], dtype=torch.float64).expand(100, 1, 3)
    assert propose(PlackettLuce(), far, [3] * 100, 3).order.tolist() == [[1, 2, 0]] * 100
