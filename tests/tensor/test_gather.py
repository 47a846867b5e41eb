"""Picking rows equals plain indexing."""

from __future__ import annotations

import torch

from ol2r_cli.tensor.gather import gather, gather_square


def test_rows_are_those_of_plain_indexing():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(3, 5, 2, generator=generator)
    index = torch.randint(5, (3, 4), generator=generator)
    replica = torch.arange(3)[:, None]
    assert torch.equal(gather(table, index), table[replica, index])
    assert torch.equal(gather(table[:, 1:4], index % 3), table[:, 1:4][replica, index % 3])  # not contiguous


def test_both_axes_are_picked():
    matrix = torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([[3, 0, 1], [2, 2, 0]])
    replica = torch.arange(2)[:, None, None]
    assert torch.equal(gather_square(matrix, index), matrix[replica, index[:, :, None], index[:, None, :]])
