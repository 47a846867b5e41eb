"""Layers of a stated relation against the plain port of algorithm 1, and the order in which they are served."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ol2r_cli.exploration.divide_and_conquer import Stated, layers

from ol2r_cli.interfaces import Candidates, Prediction
from ol2r_cli.learning.tangents import LinearTangent
from tests.reference.relations import from_edges, random_relation
from tests.reference.shuffles import order_by_clocks
from tests.reference.toprank import TopRank
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, rounds
from tests.worlds import handmade, simulate, tiny

relations = st.lists(
    st.builds(
        lambda seed, documents, density, acyclic: random_relation(
            np.random.default_rng(seed), documents, density, acyclic
        ),
        st.integers(0, 10**6),
        st.integers(1, 9),
        st.floats(0, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


def partition(certain: np.ndarray) -> list[list[int]]:
    """Line 4 of the algorithm."""
    worse = {(int(j), int(i)) for i, j in np.argwhere(certain)}
    return TopRank(len(certain), 0.1, worse).partition()


def batch(certain: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Relations of queries of different length as one tensor, and which of its documents are real."""
    longest = max(map(len, certain))
    above = torch.zeros(len(certain), longest, longest, dtype=torch.bool)
    for b, one in enumerate(certain):
        above[b, : len(one), : len(one)] = torch.from_numpy(one)
    return above, torch.arange(longest) < torch.tensor([len(one) for one in certain])[:, None]


def propose(certain: list[np.ndarray]):
    above, mask = batch(certain)
    features = torch.zeros(*mask.shape, 1, dtype=torch.float64)
    prediction = Prediction(
        torch.zeros(len(certain), 1, mask.shape[1]).double(), lambda: LinearTangent(features), above
    )
    slots = torch.arange(mask.shape[1]).expand_as(mask)
    candidates = Candidates(torch.zeros(len(certain), dtype=torch.int64), slots, features, mask)
    return Stated().propose(prediction, candidates, fresh(range(len(certain))).at("explore", 0))


@given(relations)
def test_layers_are_those_of_algorithm_1(certain):
    """For lists of different length in one batch. Padding is the last layer."""
    above, mask = batch(certain)
    found = layers(above, mask)
    for one, layer in zip(certain, found.tolist(), strict=True):
        by_number = [[i for i in range(len(one)) if layer[i] == number] for number in range(max(layer) + 1)]
        assert [documents for documents in by_number if documents] == partition(one)
        assert sorted({*layer[: len(one)]}) == list(range(len(partition(one)))), "numbers without a gap"
        assert all(number > max(layer[: len(one)]) for number in layer[len(one) :])


def test_a_cycle_and_all_that_it_holds_back_are_one_last_layer():
    """0 above 1, a cycle 2, 3, 4 below 1, and 5 below the cycle; 6 has nothing to do with it."""
    certain = from_edges(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 2), (4, 5)])
    assert layers(*batch([certain])).tolist() == [[0, 1, 2, 2, 2, 2, 0]]


def test_layers_are_no_blocks_of_certain_pairs():
    """Document 2 is in no certain pair: it is in the top layer although it is not certainly above 1."""
    assert layers(*batch([from_edges(3, [(0, 1)])])).tolist() == [[0, 1, 0]]


@given(relations)
def test_the_order_is_that_of_the_clocks_layer_by_layer(certain):
    proposal = propose(certain)
    clocks = fresh(range(len(certain))).at("explore", 0).exponential(proposal.order.shape[1])
    for b, one in enumerate(certain):
        expected = order_by_clocks(one, [set(layer) for layer in partition(one)], clocks[b].tolist(), "random")
        assert tuple(proposal.order[b, : len(one)].tolist()) == expected
        assert sorted(proposal.order[b].tolist()) == list(range(proposal.order.shape[1]))


def test_every_order_of_a_layer_is_equally_likely():
    """2 and 3 below 0; 1 and 4 are free: three on top, two below them, inside a layer also against no stated pair."""
    certain = from_edges(5, [(0, 2), (0, 3)])
    proposal = propose([certain] * REPLICAS)
    drawn = [(tuple(order[:3]), tuple(order[3:])) for order in proposal.order.tolist()]
    top = [(a, b, c) for a in (0, 1, 4) for b in (0, 1, 4) for c in (0, 1, 4) if len({a, b, c}) == 3]
    chances = {(upper, lower): 1 / (factorial(3) * 2) for upper in top for lower in ((2, 3), (3, 2))}
    assert p_value(drawn, chances) > LEAST_P


@pytest.mark.parametrize(("positions", "number"), [(10, 150), pytest.param(2, 400, marks=pytest.mark.slow)])
def test_every_round_serves_the_layers_of_what_the_ranker_states(positions, number):
    lists = [[4, 0, 2, 1], [0, 3], [2, 1, 0, 4, 0]]
    config = tiny("ranker=toprank", "ranker.delta=0.5", "click=perfect", f"positions={positions}")
    clocks, deepest = fresh(), 0
    for t, one in rounds(simulate(config, [0, 1, 5], number, handmade(lists))):
        drawn = clocks.at("explore", t).exponential(one.candidates.mask.shape[1])
        for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
            certain = one.prediction.certain[b, :length, :length].numpy()
            served = order_by_clocks(certain, [set(p) for p in partition(certain)], drawn[b].tolist(), "random")
            assert tuple(one.order[b, :length].tolist()) == served, f"round {t}, replica {b}"
            assert (one.proposal.certain[b, :length, :length].numpy() == certain).all()
            deepest = max(deepest, len(partition(certain)))
    assert deepest >= 3
