"""Orders by score with random ties, epsilon-greedy and Plackett-Luce lists, against plain ports on the same random
numbers, and how likely a list is."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.exploration.order import EpsilonGreedy, NoExploration, PlackettLuce
from ol2r_cli.loops.orders import sortable
from tests.reference.epsilon_greedy import order as greedy_order
from tests.reference.plackett_luce import order_of, probability
from tests.rounds import fresh, propose, ranked, shown, some_scores
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


def test_zero_has_no_sign():
    zeros = torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=torch.float64).expand(50, 1, 4)
    signed, plain = (propose(NoExploration(), scores, [4] * 50, 4).order for scores in (zeros, zeros.abs()))
    assert torch.equal(signed, plain)


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
)
@pytest.mark.parametrize(
    ("members", "spread", "ties", "dtype"),
    [
        (1, 1, False, torch.float64),
        (3, 1, True, torch.float64),
        (1, 900, False, torch.float64),
        (1, 1, False, torch.float32),
        (1, 1, True, torch.float32),
    ],
)
def test_every_order_is_that_of_the_definition(exploration, expected, members, spread, ties, dtype):
    """The score is the members' mean; padding takes no part, however high its scores. A smaller ranking depth gives the
    first places of the same order."""
    scores = (spread * some_scores(5, members, 12, seed=members, ties=ties)).to(dtype)
    for b, length in enumerate(LENGTHS):
        scores[b, :, length:] = 999
    for round in range(4):
        proposal, random = propose(exploration, scores, LENGTHS, 5, round=round), fresh(range(5)).at("explore", round)
        for b, length in enumerate(LENGTHS):
            mean = scores[b, :, :length].mean(0).tolist()
            assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-9)
            assert proposal.order[b, :length].tolist() == expected(mean, random, b, length)
            assert sorted(proposal.order[b].tolist()) == list(range(12))
        for depth in (1, 5, 40):
            shorter = propose(exploration, scores, LENGTHS, 5, depth, round)
            assert shorter.order.shape[1] == min(depth, 12)
            assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


def lists_of_three():
    """All lists of three of four documents, two of which have equal scores, and a round in which they are shown."""
    lists = [*permutations(range(4), 3)]
    played = next(iter(simulate(tiny("ranker=pdgd"), list(range(len(lists))), 1).play()))[1]
    slots = torch.arange(played.candidates.mask.shape[1]).expand(len(lists), -1)
    mask, scores = slots < 4, torch.tensor([0.5, -0.3, 0.5, 1.0, 9.0])[slots.clamp(max=4)]
    return lists, replace(
        played,
        candidates=replace(played.candidates, mask=mask),
        proposal=replace(played.proposal, scores=scores),
        ranking=torch.tensor(lists),
        shown=mask[:, :3],
        clicks=~mask[:, :3],
    )


def test_probabilities_of_plackett_luce_lists():
    """Padding stays out of every sum."""
    lists, shown = lists_of_three()
    expected = [probability(ranking, [0.5, -0.3, 0.5, 1.0]) for ranking in lists]
    assert PlackettLuce().list_probability(shown).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_probabilities_of_epsilon_greedy_lists(epsilon):
    lists, shown = lists_of_three()
    for chance, ranking in zip(EpsilonGreedy(epsilon).list_probability(shown).tolist(), lists, strict=True):
        expected, left = 1.0, [0, 1, 2, 3]
        for document in ranking:
            best = {3} & {*left} or {0, 2} & {*left} or {1}
            expected *= epsilon / len(left) + (1 - epsilon) * (document in best) / len(best)
            left.remove(document)
        assert chance == pytest.approx(expected), ranking
