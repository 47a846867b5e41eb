"""Compiled loops alone, against plain numpy; tests/test_two_forms.py plays whole rounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.tensor.streams import Streams

pytest.importorskip("numba")

from ol2r_cli import loops
from ol2r_cli.loops import compile as compiling


@pytest.mark.parametrize("round", [0, 255, 2**31])
def test_random_numbers_have_the_bits_of_the_tensors(round):
    seeds = torch.tensor([0, 7, 2**32 - 1, 2**32 + 5, 2**62 + 9])
    tensors, compiled = Streams(seeds), Streams(seeds, compiled=True)
    for name, count in ("a", 1), ("b", 11), ("a", 30):
        expected = tensors.at("click", round).uniform(count, name)
        assert torch.equal(compiled.at("click", round).uniform(count, name), expected)
        np.testing.assert_array_equal(compiled.at("click", round).array(count, name), expected.numpy())
    index = torch.tensor([[0, 7, 1, 2, 3], [4, 4, 9, 6, 1_000_003]] + 3 * [[5, 4, 3, 2, 1]])
    at = [streams.at("noise", round).normal_at(index, "b") for streams in (tensors, compiled)]
    assert torch.equal(*at)
    drawn = [streams.at("query", round).integer(1_000) for streams in (tensors, compiled)]
    assert torch.equal(*drawn)


@given(st.integers(1, 80), st.integers(1, 90), st.integers(0, 2**31))
def test_the_best_documents_come_first(documents, places, seed):
    keys = np.random.default_rng(seed).permutation(documents) - documents / 2
    order = np.full(min(places, documents), -1)
    loops.lists.best(keys, order)
    assert order.tolist() == np.argsort(-keys)[: len(order)].tolist()


@given(st.integers(0, 2**31), st.booleans())
def test_the_top_labels_are_those_of_sorted_keys(seed, tied):
    """Of equal scores the larger tail is first, of equal negative scores the smaller one, as in float64 keys."""
    rng = np.random.default_rng(seed)
    shape = snapshots, replicas, queries, documents = 2, 2, 3, 40
    scores = rng.normal(size=shape) * 3
    scores = np.round(scores) if tied else scores
    labels = rng.integers(0, 4, (queries, documents))
    ties = rng.permuted(np.broadcast_to(np.arange(documents), (replicas, queries, documents)), axis=2)
    length, places = rng.integers(1, documents + 1, queries), 5
    top = loops.lists.top_labels(scores, ties << 2 | labels, 2, length, places)
    for s, b, q in np.ndindex(snapshots, replicas, queries):

        def key(d, s=s, b=b, q=q):
            score = np.float32(scores[s, b, q, d])
            tail = ties[b, q, d] * 4 + labels[q, d]
            return -score, (tail if score < 0 else -tail)

        order = sorted(range(length[q]), key=key)[:places]
        expected = [int(labels[q, d]) for d in order] + [0] * (places - len(order))
        assert top[s, b, q].tolist() == expected


def test_loops_work_where_their_machine_code_cannot_be_kept(monkeypatch):
    njit = compiling.numba.njit

    def without_cache(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(compiling.numba, "njit", without_cache)
    monkeypatch.setattr(compiling, "FOLDER", compiling._folder())

    @compiling.compiled
    def twice(x):
        return 2 * x

    assert twice(3) == 6


def test_a_slip_in_the_name_of_a_module():
    with pytest.raises(AttributeError, match="no attribute ordres"):
        _ = loops.ordres


def test_keys_are_sorted_from_the_smallest_equal_ones_as_they_stand():
    for count in range(40):
        keys = np.random.default_rng(count).integers(0, 8, count).astype(float)
        assert loops.lists.ascending(keys).tolist() == np.argsort(keys, kind="stable").tolist(), keys
