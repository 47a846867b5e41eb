"""Metrics against the definitions in tests/reference and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.metrics.ranking import block_sizes, certain_ratio, dcg, ideal_dcg, ndcg, regret
from tests.reference import metrics as reference
from tests.reference.relations import random_relation

label_lists = st.lists(st.integers(0, 4), min_size=1, max_size=15)


def value(labels: list[int], k: int) -> float:
    shown = torch.tensor([labels])
    return float(ndcg(dcg(shown[:, :k]), ideal_dcg(shown, k))[0])


@given(label_lists, st.integers(1, 12))
def test_ndcg_and_regret_are_their_definitions(labels, k):
    padded = torch.tensor([[*labels, 0, 0]])
    assert int(regret(padded, 5)[0]) == reference.pairwise_regret(range(len(labels)), labels)
    assert math.isclose(value(labels, k), reference.ndcg(range(len(labels)), labels, k), abs_tol=1e-12)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=15).filter(any))
def test_ndcg_is_that_of_scikit_learn(labels):
    from sklearn.metrics import ndcg_score

    gains, falling = [2.0**label - 1 for label in labels], -np.arange(len(labels), dtype=float)
    assert math.isclose(value(labels, 10), ndcg_score([gains], [falling], k=10, ignore_ties=True), rel_tol=1e-9)


def test_block_sizes_at_ranks():
    block = torch.tensor([[0, 0, 1, 2, 2, 2]])
    assert block_sizes(block, torch.tensor([[1, 2, 3, 6]])).tolist() == [[2, 2, 1, 3]]


def test_certain_ratio_is_its_definition():
    for documents in (1, 2, 7, 14):
        certain = np.triu(random_relation(np.random.default_rng(documents), documents, 0.5, False), 1)
        top, held = np.zeros((10, 10), dtype=bool), min(10, documents)
        top[:held, :held] = certain[:held, :held]
        found = float(certain_ratio(torch.from_numpy(top)[None], torch.tensor([documents]))[0])
        expected = reference.certain_ratio(range(documents), certain)
        assert math.isnan(found) if documents == 1 else math.isclose(found, expected, rel_tol=1e-6)
