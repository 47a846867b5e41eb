"""Proposals of groups of replicas, put together."""

from __future__ import annotations

import torch

from ol2r_cli.exploration.divide_and_conquer import _combine
from ol2r_cli.interfaces import Proposal


def test_proposals_of_groups_are_those_of_all_replicas():
    scores = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)).double()
    certain = torch.tensor([[[False, True], [False, False]]])
    short = Proposal(torch.tensor([[1, 0]]), scores[1:2, :2], torch.tensor([[0, 1]]), certain)
    order = torch.tensor([[3, 1, 0, 2], [0, 1, 2, 3]])
    none = torch.zeros(2, 4, 4, dtype=torch.bool)
    long = Proposal(order, scores[[2, 0]], torch.zeros(2, 4, dtype=torch.long), none)
    together = _combine(scores, [(torch.tensor([2, 0]), long), (slice(1, 2), short)])
    assert torch.equal(together.order[[2, 0]], order)
    assert together.order[1].tolist() == [1, 0, 2, 3]
    assert together.block is not None
    assert together.block.tolist() == [[0] * 4, [0, 1, 4, 4], [0] * 4]
    assert together.certain is not None
    assert together.certain[1].tolist() == [[False, True, True, True], [False, False, True, True], *[[False] * 4] * 2]
    assert not together.certain[[0, 2]].any()


def test_without_the_blocks_of_one_group_there_are_none():
    scores = torch.zeros(2, 3).double()
    order, block = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 0, 1]])
    whole = Proposal(order, scores[:1], block, torch.zeros(1, 3, 3, dtype=torch.bool))
    pruned = Proposal(order.flip(1), scores[:1])
    together = _combine(scores, [(slice(0, 1), whole), (slice(1, 2), pruned)])
    assert together.order.tolist() == [[0, 1, 2], [2, 1, 0]]
    assert together.block is None
    assert together.certain is None
