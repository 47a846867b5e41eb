"""Spans of vectors that may be zero, equal or collinear, against the singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from ol2r_cli.learning.subspace import orthonormal_basis, projected
from tests.reference.document_space import project

SHAPES = st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(0, 10), st.integers(0, 10**6))


def vectors_of(shape: tuple[int, int, int, int]) -> torch.Tensor:
    """Vectors [2 M P] of any rank: combinations of a few, of which some are repeated, and some zero."""
    count, parameters, rank, seed = shape
    random = np.random.default_rng(seed)
    few = random.random((2, rank, parameters)).astype(np.float32)
    vectors = torch.from_numpy(random.integers(-2, 3, size=(2, count, rank)) @ few.astype(np.float64))
    sizes = torch.linalg.svdvals(vectors)
    assume(not ((sizes > 1e-12 * sizes[:, :1]) & (sizes < 1e-3 * sizes[:, :1])).any())  # of a clear rank
    return vectors


@given(SHAPES)
def test_the_basis_is_orthonormal_and_projects_onto_the_span(shape):
    vectors = vectors_of(shape)
    basis = orthonormal_basis(vectors)
    ranks = torch.linalg.matrix_rank(vectors, rtol=1e-6)
    assert basis.shape == (2, min(shape[0], shape[1]), shape[1])
    lengths = torch.arange(basis.shape[1]) < ranks[:, None]
    expected = torch.diag_embed(lengths.double())
    torch.testing.assert_close(basis @ basis.mT, expected, atol=1e-12, rtol=0)
    normal = torch.randn(2, 3, shape[1], generator=torch.Generator().manual_seed(shape[3]), dtype=torch.float64)
    once = projected(normal, basis)
    torch.testing.assert_close(projected(once, basis), once, atol=1e-12, rtol=0)
    for rows, before, after in zip(vectors.numpy(), normal.numpy(), once.numpy(), strict=True):
        assert after == pytest.approx(np.array([project(each, rows, False) for each in before]), abs=1e-8)


@given(SHAPES)
def test_repeated_vectors_and_zeros_change_nothing(shape):
    vectors = vectors_of(shape)
    more = torch.cat([vectors, 2 * vectors[:, :1], torch.zeros_like(vectors[:, :1]), vectors], dim=1)
    normal = torch.randn(2, 3, shape[1], generator=torch.Generator().manual_seed(shape[3]), dtype=torch.float64)
    expected = projected(normal, orthonormal_basis(vectors))
    torch.testing.assert_close(projected(normal, orthonormal_basis(more)), expected, atol=1e-8, rtol=0)


def test_single_precision_and_many_vectors():
    """As many as a run stores: the ring of lost directions, in the precision of a GPU."""
    vectors = torch.randn(3, 60, 46, generator=torch.Generator().manual_seed(2))
    basis = orthonormal_basis(vectors)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(46, dtype=torch.float64).repeat(3, 1, 1))
