"""The inverse of the Hessian of a pairwise ranker, whole and brought up to date, against a general inverse."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.launch import launch
from ol2r_cli.ranker.pairrank.newton_loops import add_few, invert

ROOM = 8192


@compiled
def inverts(b, space, matrix):
    invert(matrix[b], space)


@compiled
def adds_few(b, space, inverse, rows, weights, is_exact):
    is_exact[b] = add_few(inverse[b], rows[b], weights[b], space)


def hessian(size: int, pairs: int, seed: int) -> Tensor:
    """A symmetric matrix of two replicas, with eigenvalues from .01 up."""
    rows = torch.rand(2, pairs, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 0.5
    return rows.mT @ rows + 0.01 * torch.eye(size, dtype=torch.float64)


def test_sweeps_invert_a_matrix_of_any_size(played):
    """Below, at and above the sixteen rows of a sweep; the result is symmetric to the last bit."""
    for size in 1, 5, 15, 16, 17, 40:
        matrix = hessian(size, 2 * size, size)
        inverse = matrix.clone()
        launch(inverts, 2, ROOM, inverse)
        torch.testing.assert_close(inverse, torch.linalg.inv(matrix), rtol=1e-9, atol=1e-9)
        assert torch.equal(inverse, inverse.mT), size


def test_a_matrix_with_few_pairs_is_inverted(played):
    """Fewer pairs than features: most eigenvalues are the penalty."""
    matrix = hessian(20, 3, 0)
    inverse = matrix.clone()
    launch(inverts, 2, ROOM, inverse)
    torch.testing.assert_close(inverse, torch.linalg.inv(matrix), rtol=1e-9, atol=1e-9)


def test_a_few_pairs_change_an_inverse_as_they_change_the_matrix(played):
    """Pairs whose weights grow, and one whose weight falls."""
    matrix, weights = hessian(24, 30, 1), torch.tensor([[0.2, -0.1, 0.05], [0.1, 0.25, -0.02]], dtype=torch.float64)
    rows = torch.rand(2, 3, 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64) - 0.5
    matrix += rows.mT @ (0.2 * rows)  # what falls has been there
    inverse, is_exact = torch.linalg.inv(matrix), torch.zeros(2, dtype=torch.int64)
    launch(adds_few, 2, ROOM, inverse, rows, weights, is_exact)
    assert is_exact.tolist() == [1, 1]
    expected = torch.linalg.inv(matrix + rows.mT @ (weights[..., None] * rows))
    torch.testing.assert_close(inverse, expected, rtol=1e-9, atol=1e-9)


def test_a_pair_with_most_curvature_asks_for_a_new_inverse(played):
    """A pair that was nearly all of the curvature asks for a new inverse.

    It leaves a part of 1 / 10,001 of what was there in its direction, below the thousandth that is allowed.
    """
    row = torch.zeros(2, 1, 6, dtype=torch.float64)
    row[:, 0, 2] = 1.0
    matrix = torch.eye(6, dtype=torch.float64) + 10_000 * row.mT @ row
    inverse, is_exact = torch.linalg.inv(matrix), torch.ones(2, dtype=torch.int64)
    launch(adds_few, 2, ROOM, inverse, row, torch.full((2, 1), -10_000.0, dtype=torch.float64), is_exact)
    assert is_exact.tolist() == [0, 0]
