"""Orders by score with uniformly random ties, epsilon-greedy and Plackett-Luce lists: against plain ports on the same
random numbers, and against their definitions by counting."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.exploration.order import EpsilonGreedy, NoExploration, PlackettLuce
from ol2r_cli.loops.orders import sortable
from tests.reference.epsilon_greedy import order as greedy_order
from tests.reference.plackett_luce import enumerate_rankings, order_of, probability
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, propose, ranked, shown, some_scores
from tests.worlds import simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


def keys(scores: torch.Tensor, round: int) -> list[float]:
    """The scores [d] made distinct with the numbers of seed 0."""
    chance = fresh([0]).at("explore", round).uniform(len(scores))[0].tolist()
    return [sortable(*pair) for pair in zip(scores.tolist(), chance, strict=True)]


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=8), st.integers(0, 1000))
def test_scores_that_differ_in_single_precision_keep_their_order(scores, round):
    for dtype in torch.float32, torch.float64:
        found = keys(torch.tensor(scores).to(dtype), round)
        for i in range(len(scores)):
            assert found[i] == pytest.approx(scores[i], rel=2**-22, abs=1e-37)
            assert not any(scores[i] > scores[j] and found[i] <= found[j] for j in range(len(scores)))


def test_equal_scores_are_in_uniformly_random_order():
    for value in 0.0, 1e-3, -123.456:
        equal = torch.full((REPLICAS, 1, 4), value, dtype=torch.float64)
        orders = [tuple(order) for order in propose(NoExploration(), equal, [4] * REPLICAS, 4).order.tolist()]
        assert p_value(orders, dict.fromkeys(permutations(range(4)), 1 / 24)) > LEAST_P, value
    zeros = torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=torch.float64).expand(REPLICAS, 1, 4)
    first = propose(NoExploration(), zeros, [4] * REPLICAS, 4).order[:, 0].tolist()
    assert p_value(first, dict.fromkeys(range(4), 1 / 4)) > LEAST_P, "zero has no sign"


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


def test_every_order_is_that_of_the_definition():
    """The score is the members' mean. A smaller ranking depth gives the first places of the same order."""
    explorations = (NoExploration(), by_score), (PlackettLuce(), by_clocks), (EpsilonGreedy(0.4), by_coins)
    kinds = (1, 1, False), (3, 1, True), (1, 900, False)
    for (exploration, expected), (members, spread, ties) in product(explorations, kinds):
        scores = spread * some_scores(5, members, 12, seed=members, ties=ties)
        for round in range(4):
            proposal = propose(exploration, scores, LENGTHS, 5, round=round)
            for b, length in enumerate(LENGTHS):
                mean, random = scores[b, :, :length].mean(0).tolist(), fresh(range(5)).at("explore", round)
                assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-9)
                assert proposal.order[b, :length].tolist() == expected(mean, random, b, length), (exploration, members)
                assert sorted(proposal.order[b].tolist()) == list(range(12))
            for depth in (1, 5, 40):
                shorter = propose(exploration, scores, LENGTHS, 5, depth, round)
                assert shorter.order.shape[1] == min(depth, 12)
                assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


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


def test_list_probabilities_are_those_of_the_definition():
    """Of all lists of three of four documents, two of which have equal scores; padding stays out of every sum."""
    lists = [*permutations(range(4), 3)]
    played = next(iter(simulate(tiny("ranker=pdgd"), list(range(len(lists))), 1).play()))[1]
    slots = torch.arange(played.candidates.mask.shape[1]).expand(len(lists), -1)
    mask, scores = slots < 4, torch.tensor([0.5, -0.3, 0.5, 1.0, 9.0])[slots.clamp(max=4)]
    shown = replace(
        played,
        candidates=replace(played.candidates, mask=mask),
        proposal=replace(played.proposal, scores=scores),
        ranking=torch.tensor(lists),
        shown=mask[:, :3],
        clicks=~mask[:, :3],
    )
    found = PlackettLuce().list_probability(shown)
    assert found.tolist() == pytest.approx([probability(each, scores[0, :4].tolist()) for each in lists])
    for epsilon in 0.0, 0.3, 1.0:
        found = EpsilonGreedy(epsilon).list_probability(shown)
        for chance, ranking in zip(found.tolist(), lists, strict=True):
            expected, left = 1.0, [0, 1, 2, 3]
            for document in ranking:
                best_left = [other for other in left if scores[0, other] == max(scores[0, left])]
                greedy = (document in best_left) / len(best_left)
                expected *= epsilon / len(left) + (1 - epsilon) * greedy
                left.remove(document)
            assert chance == pytest.approx(expected), (epsilon, ranking)
