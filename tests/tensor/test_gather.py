"""Picking rows equals plain indexing."""

from __future__ import annotations

import torch

from ol2r_cli.tensor.gather import gather, gather_square


def test_rows_and_cells_are_those_of_plain_indexing():
    generator = torch.Generator().manual_seed(0)
    table, square = torch.rand(3, 5, 2, generator=generator), torch.rand(3, 4, 4, generator=generator)
    index, replica = torch.randint(4, (3, 4), generator=generator), torch.arange(3)[:, None]
    assert torch.equal(gather(table, index), table[replica, index])
    assert torch.equal(gather(table[:, 1:4], index % 3), table[:, 1:4][replica, index % 3])  # not contiguous
    assert torch.equal(gather_square(square, index), square[replica[:, None], index[:, :, None], index[:, None, :]])
