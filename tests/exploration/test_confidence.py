"""Widths and certain pairs against an explicit inverse and the paper's definition, pair by pair."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ol2r_cli import loops
from ol2r_cli.exploration.confidence import Ensemble, interval_loops
from tests.reference.blocks import partition
from tests.reference.ensemble import certain as unanimous
from tests.reference.relations import from_edges
from tests.reference.shuffles import order_by_clocks
from tests.rounds import fresh, propose, some_scores


def state(rng, features: int, pairs: int):
    """M and M^-1 after some pairs of features in [0, 1]."""
    rows = rng.random((pairs, features)) - rng.random((pairs, features))
    matrix = 0.1 * np.eye(features) + rows.T @ rows
    return matrix, np.linalg.inv(matrix)


def falling(rng, documents):
    """Scores, highest first."""
    return np.sort(rng.normal(size=documents))[::-1].copy()


def margins_and_widths(x, inverse, scores):
    """(sigma(s_i - s_j) - 1/2)^2 and |x_i - x_j|^2, in double precision, pair by pair."""
    margin = 1 / (1 + np.exp(np.minimum(scores[None] - scores[:, None], 700))) - 0.5
    apart = x[:, None] - x[None]
    return margin**2, np.einsum("ijf,fg,ijg->ij", apart, inverse, apart)


def confident(x, matrix, inverse, scores, scale, form=interval_loops.FULL):
    """The certain pairs of one list."""
    documents, features = x.shape
    state = interval_loops.Intervals(*map(batch, (matrix, inverse, scale)), form, 0, 0, 0, batch([]), batch([]))
    certain = torch.zeros(1, documents, documents, dtype=torch.bool)
    room = interval_loops.room_of_intervals(documents, features, 0)
    lists = batch(x), torch.arange(documents)[None], batch(scores), torch.tensor([documents])
    loops.launch.launch(interval_loops.compares_lists, 1, room, *lists, state, certain)
    return certain[0].numpy()


def batch(values):
    """One replica with these values."""
    return torch.as_tensor(values, dtype=torch.float64)[None]


FORMS = {  # and the matrix of the norm
    interval_loops.FULL: lambda matrix, inverse: inverse,
    interval_loops.DIAGONAL: lambda matrix, inverse: np.diag(np.diag(inverse)),
    interval_loops.INVERSE_DIAGONAL: lambda matrix, inverse: np.diag(1 / np.diag(matrix)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("documents", [1, 2, 63, 64, 65, 150])
def test_pairs_in_single_precision_are_those_of_double_precision(documents, form):
    rng = np.random.default_rng(documents)
    matrix, inverse = state(rng, 30, 40)
    x, scores = rng.random((documents, 30)), falling(rng, documents)
    margin, width = margins_and_widths(x, FORMS[form](matrix, inverse), scores)
    pairs = np.triu_indices(documents, 1)
    scale = float(np.median(margin[pairs] / width[pairs])) * 0.999 if documents > 2 else 0.1
    found = confident(x, matrix, inverse, scores, scale, form)
    np.testing.assert_array_equal(found, np.triu(margin > scale * width, 1))


@pytest.mark.parametrize(("shift", "size"), [(0, 1), (1e4, 1), (0, 1e-9), (0, 1e-25), (0, 1e6), (0, 1e25)])
def test_a_pair_next_to_its_width(shift, size):
    """alpha^2 is chosen so that one pair is certain, or not, by a small share of its width."""
    rng = np.random.default_rng(1)
    matrix, inverse = state(rng, 20, 30)
    x, scores = size * rng.random((12, 20)) + shift, falling(rng, 12)
    margin, width = margins_and_widths(x - x.mean(0), inverse, scores)
    for (i, j), share in product(zip(*np.triu_indices(12, 1), strict=True), (-3e-8, -1e-9, 1e-9, 3e-8)):
        scale = margin[i, j] / width[i, j] * (1 + share)
        assert confident(x, matrix, inverse, scores, float(scale))[i, j] == (share < 0), (i, j)


def test_equal_documents_and_far_scores():
    rng = np.random.default_rng(2)
    matrix, inverse = state(rng, 5, 10)
    x, scores = rng.random((6, 5)), np.array([3.0, 2, 1, 1, 0, -1])
    x[3] = x[2]
    for scale in 0.0, 1e-300:
        assert not confident(x, matrix, inverse, scores, scale)[2, 3], scale
    far = 1000 * scores  # e^-4000 is not a number
    margin, width = margins_and_widths(x, inverse, far)
    np.testing.assert_array_equal(confident(x, matrix, inverse, far, 0.5), np.triu(margin > 0.5 * width, 1))


def check_ensemble(proposal, scores, lengths, clocks, shuffle):
    """Pairs, blocks and order of every replica, by the oracles."""
    for b, length in enumerate(lengths):
        certain = from_edges(length, unanimous(scores[b, :, :length].tolist()))
        assert (proposal.certain[b, :length, :length].numpy() == certain).all()
        blocks = [set(np.flatnonzero(proposal.block[b, :length].numpy() == n)) for n in range(length)]
        assert [block for block in blocks if block] == partition(certain)
        served = order_by_clocks(certain, partition(certain), clocks[b].tolist(), shuffle)
        assert tuple(proposal.order[b, :length].tolist()) == served
    torch.testing.assert_close(proposal.scores, scores.mean(1))


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_opinions(members, seed, ties, alike):
    """With equal scores, which are never certain, and with members that mostly agree."""
    lengths = [12, 1, 5, 2, 9]
    scores = some_scores(len(lengths), members, 12, seed, ties)
    scores = scores[:, :1] + 0.3 * scores if alike else scores
    clocks = fresh(range(len(lengths))).at("explore", 0).exponential(12)
    for shuffle in "conservative", "random":
        check_ensemble(propose(Ensemble(shuffle), scores, lengths, 10), scores, lengths, clocks, shuffle)
