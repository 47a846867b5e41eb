"""What swapping two documents of a list would change in NDCG, against doing it."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from ol2r_cli.learning.losses import Standing
from tests.reference.ollambdarank import swap_effect

K, LENGTHS = 7, [1, 2, 4, 6, 7, 7]
PLACES = list(permutations(range(K), 2))


def test_a_swap_changes_ndcg_by_what_the_port_says():
    """Two members; scores that tie stay in the order shown, and padding counts for nothing whatever its score."""
    for dtype in [torch.float64, torch.float32]:
        for ties in [True, False]:
            generator = torch.Generator().manual_seed(0)
            real = torch.arange(K) < torch.tensor(LENGTHS)[:, None, None]
            first, second = (
                torch.tensor([pair[side] for pair in PLACES]).expand(len(LENGTHS), 2, -1) for side in (0, 1)
            )
            effects = set()
            for padding in (-1e3, 0.0, 1e3):
                scores = torch.randn(len(LENGTHS), 2, K, generator=generator, dtype=dtype)
                scores = torch.where(real, scores.round() if ties else scores, padding)
                clicks = (torch.rand(len(LENGTHS), 1, K, generator=generator) < 0.4) & real
                found = Standing.of(scores, clicks.to(dtype), real).delta_ndcg(first, second)
                for b, length in enumerate(LENGTHS):
                    for n in range(2):
                        for pair, change in zip(PLACES, found[b, n].tolist(), strict=True):
                            if max(pair) < length:
                                clicked, values = clicks[b, 0, :length].int().tolist(), scores[b, n, :length].tolist()
                                assert change == pytest.approx(swap_effect(clicked, values, pair), abs=1e-6), (
                                    dtype,
                                    ties,
                                )
                                effects.add(round(change, 4))
            assert len(effects) > 20, (dtype, ties)


def test_tied_scores_are_told_apart_by_the_order_shown():
    """One click in the third place of three that tie: DCG 1/2, and 1 at the top of the list."""
    scores, real = torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    standing = Standing.of(scores, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), real)
    found = standing.delta_ndcg(torch.tensor([[2, 0]]), torch.tensor([[0, 1]]))
    assert found.tolist() == [[pytest.approx(1 - 1 / 2), 0.0]]


def test_a_list_without_a_click_weighs_nothing():
    scores, real = torch.tensor([[3.0, 1.0, 2.0]]), torch.ones(1, 3, dtype=torch.bool)
    found = Standing.of(scores, torch.zeros(1, 3), real).delta_ndcg(torch.tensor([[0, 1]]), torch.tensor([[1, 2]]))
    assert torch.equal(found, torch.zeros(1, 2))
