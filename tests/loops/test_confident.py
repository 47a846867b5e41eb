"""Widths in single precision: the pairs are those of double precision, also where single precision cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from ol2r_cli.loops.certain_pairs import DIAGONAL, FULL, INVERSE_DIAGONAL, confident


def state(rng, features: int, pairs: int):
    """M and M^-1 after some pairs of features in [0, 1]."""
    rows = rng.random((pairs, features)) - rng.random((pairs, features))
    matrix = 0.1 * np.eye(features) + rows.T @ rows
    return matrix, np.linalg.inv(matrix)


def margins_and_widths(x, inverse, scores):
    """(sigma(s_i - s_j) - 1/2)^2 and |x_i - x_j|^2, in double precision, pair by pair."""
    margin = 1 / (1 + np.exp(np.minimum(scores[None] - scores[:, None], 700))) - 0.5
    differences = x[:, None] - x[None]
    return margin**2, np.einsum("ijf,fg,ijg->ij", differences, inverse, differences)


def certain_pairs(x, matrix, inverse, scores, scale, form=FULL):
    certain = np.zeros((len(x), len(x)), np.bool_)
    confident(x, matrix, inverse, form, scores, scale, certain)
    return certain


@pytest.mark.parametrize("documents", [1, 2, 63, 64, 65, 150])
@pytest.mark.parametrize("form", [FULL, DIAGONAL, INVERSE_DIAGONAL])
def test_pairs_of_a_list(documents, form):
    rng = np.random.default_rng(documents)
    matrix, inverse = state(rng, 30, 40)
    x, scores = rng.random((documents, 30)), np.sort(rng.normal(size=documents))[::-1].copy()
    used = {FULL: inverse, DIAGONAL: np.diag(np.diag(inverse)), INVERSE_DIAGONAL: np.diag(1 / np.diag(matrix))}[form]
    margin, width = margins_and_widths(x, used, scores)
    pairs = np.triu_indices(documents, 1)
    scale = float(np.median(margin[pairs] / width[pairs])) * 0.999 if documents > 2 else 0.1
    expected = np.triu(margin > scale * width, 1)
    np.testing.assert_array_equal(certain_pairs(x, matrix, inverse, scores, scale, form), expected)
    if documents > 2:
        assert 0.3 < expected.sum() / (documents * (documents - 1) / 2) < 0.7


@pytest.mark.parametrize(
    ("shift", "size"), [(0, 1), (1e4, 1), (0, 1e-9), (0, 1e-25), (0, 1e6), (0, 1e25)], ids=lambda value: f"{value:g}"
)
def test_a_pair_next_to_its_width(shift, size):
    """alpha^2 is chosen so that one pair is certain, or not, by a small share of its width."""
    rng = np.random.default_rng(1)
    matrix, inverse = state(rng, 20, 30)
    x, scores = size * rng.random((12, 20)) + shift, np.sort(rng.normal(size=12))[::-1].copy()
    centred = x - x.mean(0)
    margin, width = margins_and_widths(centred, inverse, scores)
    for i, j in zip(*np.triu_indices(12, 1), strict=True):
        for share in (-3e-8, -1e-9, 1e-9, 3e-8):
            scale = margin[i, j] / width[i, j] * (1 + share)
            certain = certain_pairs(x, matrix, inverse, scores, float(scale))
            assert certain[i, j] == (share < 0)


def test_equal_documents_and_far_scores():
    rng = np.random.default_rng(2)
    matrix, inverse = state(rng, 5, 10)
    x = rng.random((6, 5))
    x[3] = x[2]
    scores = np.array([3.0, 2, 1, 1, 0, -1])
    assert not certain_pairs(x, matrix, inverse, scores, 0.0)[2, 3]
    assert not certain_pairs(x, matrix, inverse, scores, 1e-300)[2, 3]
    far = 1000 * scores  # e^-4000 is not a number
    margin, width = margins_and_widths(x, inverse, far)
    np.testing.assert_array_equal(certain_pairs(x, matrix, inverse, far, 0.5), np.triu(margin > 0.5 * width, 1))
