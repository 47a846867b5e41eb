"""epsilon-greedy against the plain port on the same random numbers, and against its definition by counting."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product

import pytest
import torch
from ol2r_cli.exploration.order import EpsilonGreedy

from ol2r_cli.config.instantiate import build
from tests.reference.epsilon_greedy import order as reference
from tests.rounds import LEAST_P, LISTS, REPLICAS, SEEDS, fresh, p_value, propose, rounds, shown, some_scores
from tests.worlds import handmade, simulate, tiny

LENGTHS = [12, 1, 5, 2, 9]


def expected(scores, numbers, b, epsilon, places):
    """The port's list for replica b, equal scores by chance; `numbers` are (chance, document, coin) of all replicas."""
    chance, document, coin = (drawn[b, : len(scores)].tolist() for drawn in numbers)
    distinct = [(score, -number) for score, number in zip(scores, chance, strict=True)]
    permutation = sorted(range(len(scores)), key=lambda d: document[d], reverse=True)
    return list(reference(distinct, [number < epsilon for number in coin], permutation, places))


def drawn(random, documents):
    """The numbers of a round: for ties, for the permutation, and a coin for every place."""
    return random.uniform(documents), random.uniform(documents, "document"), random.uniform(documents, "coin")


@pytest.mark.parametrize("epsilon", [0, 0.2, 0.7, 1])
@pytest.mark.parametrize("ties", [False, True])
def test_every_list_is_that_of_the_definition(epsilon, ties):
    """The score is the mean of two members. A smaller ranking depth gives the first places of the same order."""
    scores = some_scores(5, 2, 12, seed=3, ties=ties)
    for round in range(12):
        proposal = propose(EpsilonGreedy(epsilon), scores, LENGTHS, 5, round=round)
        numbers = drawn(fresh(range(5)).at("explore", round), 12)
        for b, length in enumerate(LENGTHS):
            mean = scores[b, :, :length].mean(0).tolist()
            assert proposal.order[b, :length].tolist() == expected(mean, numbers, b, epsilon, length)
            assert proposal.scores[b, :length].tolist() == pytest.approx(mean, abs=1e-12)
        for depth in 1, 5, 40:
            shorter = propose(EpsilonGreedy(epsilon), scores, LENGTHS, 5, depth, round)
            assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :depth], LENGTHS)


@pytest.mark.parametrize("positions", [5, 10, 20])
def test_every_list_of_a_run_is_that_of_the_definition(positions):
    """Lists are the same whether the whole order is traced or only the shown places."""
    config = tiny("ranker=epsilon_greedy", "exploration.epsilon=0.4", f"positions={positions}", "click=navigational")
    traced, plain = (simulate(config, SEEDS, 25, handmade(LISTS), trace_regret=regret) for regret in (True, False))
    streams, greedy = fresh(), 0
    for (t, one), (_, other) in zip(rounds(traced), rounds(plain), strict=True):
        lengths = one.candidates.mask.sum(1).tolist()
        numbers = drawn(streams.at("explore", t), one.candidates.mask.shape[1])
        for b, length in enumerate(lengths):
            scores = one.prediction.scores[b, 0, :length].tolist()
            found = one.order[b, :length].tolist()
            assert found == expected(scores, numbers, b, 0.4, length), f"round {t}, replica {b}"
            greedy += found == expected(scores, numbers, b, 0, length)
        assert shown(one.ranking, lengths) == shown(other.ranking, lengths)
    assert torch.equal(traced.ranker.theta, plain.ranker.theta)
    assert 0 < greedy < 25 * len(SEEDS)


def test_lists_are_as_frequent_as_by_definition():
    """Every coin with its probability, every permutation equally likely; a replica in two is padded."""
    scores, epsilon = [0.3, -1.0, 2.0, 0.5], 0.3
    chances: Counter = Counter()
    for coins in product([False, True], repeat=3):
        chance = epsilon ** sum(coins) * (1 - epsilon) ** (3 - sum(coins))
        for permutation in permutations(range(4)):
            chances[reference(scores, coins, permutation, 3)] += chance / 24
    table = torch.tensor([[*scores, 9.0, 9.0]], dtype=torch.float64).expand(REPLICAS, 1, 6)
    lists = [tuple(row) for row in propose(EpsilonGreedy(epsilon), table, [4] * REPLICAS, 3).order[:, :3].tolist()]
    assert len(chances) == 4 * 3 * 2
    assert p_value(lists, chances) > LEAST_P


@pytest.mark.parametrize("epsilon", [0, 0.5, 1])
def test_equal_scores_are_in_uniformly_random_order(epsilon):
    proposal = propose(EpsilonGreedy(epsilon), torch.zeros(REPLICAS, 1, 4, dtype=torch.float64), [4] * REPLICAS, 2, 4)
    orders = [tuple(row) for row in proposal.order.tolist()]
    assert p_value(orders, dict.fromkeys(permutations(range(4)), 1 / 24)) > LEAST_P


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, float("nan")])
def test_bad_settings_are_refused(epsilon):
    with pytest.raises(ValueError, match=f"exploration.epsilon must be from 0 to 1, got {epsilon}"):
        build(tiny("exploration=epsilon_greedy", f"exploration.epsilon={epsilon}").exploration)
