"""Blocks, layers and shuffles against the graph library and algorithm 1 of TopRank."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli import loops
from ol2r_cli.exploration.divide_and_conquer import Stated, certain_pair_loops, layers
from ol2r_cli.interfaces import Candidates, Prediction
from ol2r_cli.learning.tangents import LinearTangent
from tests.reference import blocks as reference
from tests.reference.relations import random_relation
from tests.reference.shuffles import order_by_clocks
from tests.reference.toprank import TopRank
from tests.rounds import fresh, rounds
from tests.worlds import handmade, simulate, tiny


def downward(seed: int, documents: int, density: float) -> np.ndarray:
    """A relation in score order, in which every certain pair points down the list."""
    return np.triu(random_relation(np.random.default_rng(seed), documents, density, False), 1)


relations = st.builds(downward, st.integers(0, 10**6), st.integers(1, 12), st.floats(0.1, 1))


def by_loops(certain: np.ndarray, chance: np.ndarray, transitive: bool, conservative: bool):
    """Order, blocks and pairs by document of one list, whose documents are in score order."""
    d = len(certain)
    order, block = torch.empty(2, 1, d, dtype=torch.int64)
    pairs, length = torch.zeros(1, d, d, dtype=torch.bool), torch.tensor([d])
    lists = torch.from_numpy(certain)[None], length, length, torch.arange(d)[None], torch.from_numpy(chance)[None]
    written = (int(transitive), int(conservative), d), order, block, pairs, 0
    room = certain_pair_loops.room_of_lists(d)
    loops.launch.launch(certain_pair_loops.proposes, 1, room, *lists, *written)
    return order[0].tolist(), block[0].numpy(), pairs[0].numpy()


def check(certain: np.ndarray, round: int) -> None:
    """Closure, blocks and orders are those of the oracles on the same clocks."""
    random = fresh([0]).at("explore", round)
    clock, chance = random.exponential(len(certain)), random.uniform(len(certain))[0].numpy()
    for transitive, relation in (False, certain), (True, reference.transitive_closure(certain)):
        blocks = reference.partition(relation)
        for conservative in (False, True):
            kind = "conservative" if conservative else "random"
            expected = list(order_by_clocks(relation, blocks, clock[0].tolist(), kind))
            order, block, pairs = by_loops(certain, chance, transitive, conservative)
            assert order == expected, (transitive, kind)
            assert [set(np.flatnonzero(block == n)) for n in range(block.max() + 1)] == blocks
            assert (pairs == relation).all()


@given(relations, st.integers(0, 1000))
def test_blocks_and_orders_are_those_of_the_oracles(certain, round):
    check(certain, round)


@pytest.mark.parametrize(("documents", "density"), [(63, 0.1), (64, 0.3), (65, 0.1), (129, 0.02), (300, 0.02)])
def test_those_of_long_lists_too(documents, density):
    check(downward(documents, documents, density), 3)


seeds = st.builds(np.random.default_rng, st.integers(0, 10**6))
relation = st.builds(random_relation, seeds, st.integers(1, 9), st.floats(0, 1), st.booleans())
stated = st.lists(relation, min_size=1, max_size=5)


@given(stated)
def test_layers_are_those_of_algorithm_1_and_shuffled(certain):
    """Each by its clocks, for lists of different length in one batch. Padding is the last layer."""
    longest = max(map(len, certain))
    above = torch.zeros(len(certain), longest, longest, dtype=torch.bool)
    for b, one in enumerate(certain):
        above[b, : len(one), : len(one)] = torch.from_numpy(one)
    mask = torch.arange(longest) < torch.tensor([len(one) for one in certain])[:, None]
    features, slots = torch.zeros(*mask.shape, 1, dtype=torch.float64), torch.arange(longest).expand_as(mask)
    prediction = Prediction(features[:, None, :, 0], lambda: LinearTangent(features), above)
    candidates = Candidates(torch.zeros(len(certain), dtype=torch.int64), slots, features, mask)
    random = fresh(range(len(certain))).at("explore", 0)
    proposal, clocks = Stated().propose(prediction, candidates, random), random.exponential(longest)
    for b, (one, layer) in enumerate(zip(certain, layers(above, mask).tolist(), strict=True)):
        worse, length = {(int(j), int(i)) for i, j in np.argwhere(one)}, len(one)
        expected = TopRank(length, 0.1, worse).partition()  # line 4 of the algorithm
        assert layer[:length] == [[i in documents for documents in expected].index(True) for i in range(length)]
        assert min(layer[length:], default=length) > max(layer[:length])
        served = order_by_clocks(one, list(map(set, expected)), clocks[b].tolist(), "random")
        assert tuple(proposal.order[b, :length].tolist()) == served
        assert sorted(proposal.order[b].tolist()) == list(range(longest))


def test_a_long_list_is_served_like_any_other():
    """More documents than any public dataset has for a query, whose pairs are compared in parts: what the roles show
    are the grades and clicks of rounds that are played together."""
    lists = [[d % 5 for d in range(1_500)], [1, 0, 2]]
    config = tiny("ranker=pairrank", "click=perfect", "exploration.alpha=0.02")
    single, together = (simulate(config, [3], 4, handmade(lists), regret=False, blocks=False) for _ in range(2))
    with torch.inference_mode():
        played = [one for _, one in rounds(single)]
        assert len(list(together.play_until(lambda t: False))) == 1
    for one, query, clicks in zip(played, together.measurement.query, together.measurement.clicks, strict=False):
        assert int(one.candidates.query[0]) == int(query[0])
        assert one.clicks[0].tolist() == clicks[0, : one.clicks.shape[1]].tolist()
