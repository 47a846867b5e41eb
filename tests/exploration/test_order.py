"""Orders by score with uniformly random ties, and by taking turns."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli import loops
from ol2r_cli.exploration.order import best, completed, sortable, take_turns_in_step
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, ranked, some_scores

FULL = torch.ones(1, 5, dtype=torch.bool)


def keys(scores: torch.Tensor, mask: torch.Tensor | None = None, round: int = 0) -> torch.Tensor:
    """The scores [B N D] made distinct with the numbers of seeds 0, 1, .."""
    if mask is None:
        mask = torch.ones(len(scores), scores.shape[2], dtype=torch.bool)
    return sortable(scores, mask, fresh(range(len(scores))).at("explore", round))


@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=8), st.integers(0, 1000))
def test_scores_that_differ_in_single_precision_keep_their_order(scores, round):
    table = torch.tensor([[scores]])
    for dtype in torch.float32, torch.float64:
        found = keys(table.to(dtype), round=round)[0, 0].tolist()
        for i in range(len(scores)):
            assert found[i] == pytest.approx(scores[i], rel=2**-22, abs=1e-37)
            assert not any(scores[i] > scores[j] and found[i] <= found[j] for j in range(len(scores)))


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e-3, -123.456])
def test_equal_scores_are_in_uniformly_random_order(value):
    found = keys(torch.full((REPLICAS, 1, 4), value, dtype=torch.float64))[:, 0]
    assert (found.sort(1).values.diff(dim=1) > 0).all(), "distinct"
    orders = [tuple(order) for order in best(found, 4).tolist()]
    assert p_value(orders, dict.fromkeys(permutations(range(4)), 1 / 24)) > LEAST_P


def test_zero_has_no_sign():
    scores = torch.tensor([0.0, -0.0, 0.0, -0.0], dtype=torch.float64).expand(REPLICAS, 1, 4)
    first = best(keys(scores)[:, 0], 1)[:, 0].tolist()
    assert p_value(first, dict.fromkeys(range(4), 1 / 4)) > LEAST_P


def test_members_break_ties_alike_and_rounds_and_replicas_differently():
    """For positive and negative scores. Otherwise members would disagree about equal documents."""
    scores = torch.tensor([0.0, 1.0, -1.0, -0.3, 1e-9, -1e20], dtype=torch.float64)[:, None].expand(2, 6, 12)
    orders = best(keys(scores), 12)
    assert (orders == orders[:, :1]).all()
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(best(keys(scores, round=1), 12), orders)


@pytest.mark.parametrize("ties", [False, True])
def test_the_order_is_by_score_and_then_by_random_number(ties):
    scores = some_scores(4, 2, 9, seed=1, ties=ties)
    for round in range(30):
        orders = best(keys(scores, round=round), 9).tolist()
        chance = fresh(range(4)).at("explore", round).uniform(9).tolist()
        for b in range(4):
            for n in range(2):
                assert orders[b][n] == ranked(scores[b, n].tolist(), chance[b])


def test_padding_is_last_for_all_scores():
    scores = some_scores(50, 2, 6, seed=2)
    scores[:, :, 4:] = 1e300
    mask = (torch.arange(6) < 4).expand(50, -1)
    orders = best(keys(scores, mask), 6)
    assert (orders[:, :, :4] < 4).all()


def test_padding_does_not_change_how_ties_are_broken():
    alone, padded = torch.zeros(1, 1, 5, dtype=torch.float64), torch.zeros(1, 1, 9, dtype=torch.float64)
    mask = (torch.arange(9) < 5)[None]
    assert torch.equal(best(keys(alone), 5), best(keys(padded, mask), 5))


def test_best_is_the_beginning_of_the_order_or_all_of_it():
    scores = some_scores(3, 2, 7, seed=3)
    for count in range(1, 10):
        assert torch.equal(best(scores, count), scores.argsort(dim=2, descending=True)[:, :, :count])


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([0, 0, 0, 0], [3, 1, 0, 2]),
        ([1, 1, 1, 1], [1, 3, 2, 0]),
        ([0, 1, 0, 1], [3, 1, 0, 2]),  # 1 has only 2 left when its second turn comes
        ([1, 0, 1, 0], [1, 3, 2, 0]),
        ([1, 0], [1, 3]),
        ([], []),
    ],
)
def test_turns_by_hand(turns, expected):
    queues = torch.tensor([[3, 1, 0, 2], [1, 3, 2, 0]])
    keys = -queues.argsort(1)[None].double()  # the first of a queue has the largest key
    if turns:
        assert take_turns_in_step(keys, torch.tensor([turns])).tolist() == [expected]
    if loops.available():
        order = np.empty(len(turns), dtype=np.int64)
        loops.lists.take_turns(queues.numpy(), np.array(turns, dtype=np.int64), np.empty(4, dtype=np.bool_), order)
        assert order.tolist() == expected


def test_completed_by_the_remaining_scores():
    scores = torch.tensor([[0.5, -2.0, 3.0, 1.0, 1e30], [1e30, -1e30, 0.0, 2.0, 1.0]], dtype=torch.float64)
    first = torch.tensor([[1, 0], [3, 1]])
    expected = torch.tensor([[1, 0, 4, 2, 3], [3, 1, 0, 4, 2]])
    for count in range(1, 8):
        assert torch.equal(completed(first, scores, count), expected[:, : max(2, count)])
    assert torch.equal(completed(expected, scores, 5), expected)
