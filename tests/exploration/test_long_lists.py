"""Proposals on long lists against the plain computation with the transitive closure, which short lists have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from ol2r_cli.exploration import divide_and_conquer, ordered_blocks
from ol2r_cli.exploration.divide_and_conquer import ScoreOrder
from ol2r_cli.exploration.long_lists import (
    CHUNK,
    LONG,
    compare_in_chunks,
    partition_direct,
    partition_unclosed,
    reachable,
    shuffle_long,
)
from ol2r_cli.exploration.ordered_blocks import close, partition, shuffle
from ol2r_cli.interfaces import Candidates, Prediction, Proposal, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.gather import gather_square
from ol2r_cli.tensor.streams import Streams
from tests.reference import blocks as reference
from tests.worlds import handmade, simulate, tiny


def relation(seed: int, documents: int, density: float, near: int) -> np.ndarray:
    """Random pairs that point down the list; pairs at least `near` apart are all certain, so that there are blocks."""
    place = np.arange(documents)
    certain = np.random.default_rng(seed).random((documents, documents)) < density
    certain |= place[None, :] - place[:, None] >= near
    return np.triu(certain, 1)


relations = st.builds(relation, st.integers(0, 10**6), st.integers(1, 14), st.floats(0, 1), st.integers(1, 14))
long_relations = st.builds(
    relation, st.integers(0, 10**6), st.integers(2 * CHUNK, 3 * CHUNK), st.floats(0, 1), st.integers(1, 3 * CHUNK)
)
two_by_two = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)
one_is_missing = two_by_two & ~np.eye(4, k=3, dtype=bool)


@given(relations)
@example(two_by_two)
@example(one_is_missing)
def test_blocks_are_those_of_the_closure(certain):
    found = partition_unclosed(torch.from_numpy(certain)).tolist()
    expected = reference.partition(reference.transitive_closure(certain))
    assert [{i for i, b in enumerate(found) if b == n} for n in range(max(found) + 1)] == expected


@given(long_relations)
def test_blocks_of_long_lists_are_those_of_the_closure(certain):
    pairs = torch.from_numpy(certain)
    assert torch.equal(partition_unclosed(pairs), partition(close(pairs[None]))[0])


@given(relations | long_relations)
def test_blocks_of_pairs_that_are_not_closed_are_the_same(certain):
    pairs = torch.from_numpy(certain)
    assert torch.equal(partition_direct(pairs), partition(pairs[None])[0])


@given(relations | long_relations, st.integers(0, 1000), st.integers(1, 20))
def test_paths_among_some_documents_are_those_of_the_closure(certain, seed, count):
    pairs = torch.from_numpy(certain)
    among = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))[:count]
    assert torch.equal(reachable(pairs, among), close(pairs[None])[0][among][:, among])


@given(relations | long_relations, st.integers(0, 1000), st.integers(1, 3 * CHUNK), st.booleans())
def test_an_order_is_bit_for_bit_that_of_the_closure(certain, round, places, conservative):
    pairs = torch.from_numpy(certain)
    closed = close(pairs[None])
    clock = Streams(torch.tensor([0])).at("explore", round).exponential(len(certain))
    expected = shuffle(partition(closed), clock, closed if conservative else None, places)
    found = shuffle_long(partition_unclosed(pairs), clock[0], pairs if conservative else None, places)
    assert torch.equal(found, expected[0])


@given(relations | long_relations, st.integers(1, 12), st.integers(0, 1000))
def test_documents_that_are_left_out_cannot_be_shown(certain, positions, round):
    pairs = torch.from_numpy(certain)
    top = compare_in_chunks(lambda rows, end: pairs[rows, rows.start : end], len(pairs), positions)
    assert torch.equal(top, pairs[: len(top), : len(top)])
    above = certain.sum(0)
    assert len(top) == max(np.flatnonzero(above < positions)) + 1
    clock = Streams(torch.tensor([0])).at("explore", round).exponential(len(certain))
    order = shuffle_long(partition_unclosed(pairs), clock[0], pairs, positions)
    shown = shuffle_long(partition_unclosed(top), clock[0, : len(top)], top, positions)
    assert torch.equal(shown[:positions], order[:positions])


def test_all_pairs_are_compared_where_nothing_may_be_left_out():
    pairs = torch.from_numpy(relation(0, 700, 0.3, 500))
    assert torch.equal(compare_in_chunks(lambda rows, end: pairs[rows, rows.start : end], 700, None), pairs)


class Given(divide_and_conquer.DivideAndConquer):
    """Has these certain pairs in score order."""

    def __init__(self, pairs: torch.Tensor, shuffle_: str, transitive: bool):
        super().__init__(shuffle_, transitive)
        self.pairs = pairs

    def certain(self, ranked):
        return self.pairs[None]


@given(relations, st.integers(0, 1000), st.integers(1, 14), st.sampled_from(["conservative", "random"]), st.booleans())
def test_a_proposal_on_any_pairs_is_that_of_a_short_list(certain, round, positions, shuffle_, transitive):
    documents = len(certain)
    scores = torch.rand(1, 1, documents, generator=torch.Generator().manual_seed(round)).double()
    features, slots = torch.zeros(1, documents, 1).double(), torch.arange(documents)[None]
    candidates = Candidates(torch.tensor([0]), slots, features, slots >= 0)
    prediction = Prediction(scores, lambda: LinearTangent(features))
    exploration = Given(torch.from_numpy(certain), shuffle_, transitive)
    context = RunContext(1, documents, 1, positions, 1, 1, 5, certain_places=positions)
    exploration.setup(context, torch.zeros(1, 1))

    def propose(long: int) -> Proposal:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(divide_and_conquer, "LONG", long)
            return exploration.propose(prediction, candidates, Streams(torch.tensor([0])).at("explore", round))

    found, expected = propose(1), propose(LONG)
    assert torch.equal(found.order, expected.order)
    assert torch.equal(found.block, expected.block)
    if positions < documents:
        assert found.certain is None
        assert torch.equal(found.certain_by_place, gather_square(expected.certain, expected.order[:, :positions]))


@pytest.mark.parametrize("words", ["exploration.alpha=0.01", "exploration.alpha=theory", "ranker=pepairrank"])
def test_some_documents_compare_as_all_do(words):
    """Also in an order that is not that of the scores, as rounding may make it."""
    simulation = simulate(tiny(*words.split()), [1], 20, handmade([[0, 1, 2, 3, 4] * 12]))
    for _, interaction in simulation.play():
        prediction, exploration = interaction.prediction, simulation.exploration
        order = prediction.scores.mean(1).argsort(1, descending=True)
        order[:, 10:20] = order[:, 10:20].flip(1)
        scores = prediction.scores.mean(1).gather(1, order)
        ranked = ScoreOrder(slice(None), prediction, order, scores, order >= 0)
        certain, compare = exploration.certain(ranked)[0], exploration.comparison(ranked)
        for rows, end in ((slice(0, 60), 60), (slice(5, 25), 41), (slice(59, 60), 60)):
            assert torch.equal(compare(rows, end), certain[rows, rows.start : end])


def played(words: list[str], seeds: list[int], **traces) -> list[torch.Tensor]:
    """What a simulation shows and measures in 30 rounds."""
    labels = [[(i * i + q) % 5 for i in range(length)] for q, length in enumerate((9, 40, 3, 25, 61, 1, 33))]
    simulation = simulate(tiny(*words), seeds, 30, handmade(labels), **traces)
    results = []
    for _, interaction in simulation.play():
        results += [interaction.ranking, interaction.clicks]
    measures = simulation.measurement.measures()[1]
    return [*results, *(measures[name] for name in sorted(measures))]


EXPLORATIONS = [
    "exploration.alpha=0.01",
    "exploration.alpha=0.01 exploration.transitive=false",
    "exploration.alpha=0.01 exploration.shuffle=random",
    "exploration.alpha=0.01 exploration.shuffle=random exploration.transitive=false",
    "exploration.alpha=0.05 exploration.covariance=diagonal",
    "exploration.alpha=0 exploration.covariance=inverse_diagonal",
    "exploration.alpha=theory",
    "ranker=pepairrank ranker.members=2",
    "ranker=pepairrank ranker.members=3 exploration.shuffle=random",
    "ranker=olranknet ranker.model.width=4 exploration.alpha=0.003",
]


@pytest.mark.parametrize("words", EXPLORATIONS)
@pytest.mark.parametrize(("seeds", "positions"), [([3], 15), ([1, 2, 3], 4)])
def test_what_is_shown_and_traced_is_that_of_short_lists(words, seeds, positions, monkeypatch):
    """Some rounds of a simulation have long lists and others short ones, and so have replicas of one round."""
    overrides = [*words.split(), f"positions={positions}"]
    for traces in (
        {"trace_blocks": True, "trace_regret": False},
        {"trace_blocks": False, "trace_regret": False},
        {"trace_blocks": True, "trace_regret": True},
    ):
        monkeypatch.setattr(ordered_blocks, "CELLS", 0)  # every replica is a group of its own
        monkeypatch.setattr(divide_and_conquer, "LONG", LONG)
        expected = played(overrides, seeds, **traces)
        monkeypatch.setattr(divide_and_conquer, "LONG", 20)
        for one, other in zip(played(overrides, seeds, **traces), expected, strict=True):
            assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1))


def test_kept_blocks_are_found_although_they_are_not_traced(monkeypatch):
    monkeypatch.setattr(divide_and_conquer, "LONG", 20)
    lists = handmade([[0, 1, 2, 0] * 10])
    traces = {"trace_blocks": False, "trace_regret": False}
    for block_rounds in (False, True):
        simulation = simulate(tiny("exploration.alpha=0"), [0], 1, lists, **traces, block_rounds=block_rounds)
        _, interaction = next(simulation.play())
        assert (interaction.proposal.block is not None) == block_rounds
        assert interaction.proposal.certain is None
