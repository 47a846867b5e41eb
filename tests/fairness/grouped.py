"""Worlds with groups, and rounds as the plain ports in tests/reference see them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction
from ol2r_cli.tensor.shapes import Bool
from tests.reference.exposure import letters
from tests.worlds import handmade

LISTS = [
    [4],
    [0, 2],
    [1, 0, 3],
    [0, 4, 0, 1, 2, 0, 3],
    [3, 1, 0, 0, 2],
    [2, 0, 1, 0, 4, 1, 0, 0, 3],
    [0, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0],
]
ONE_GROUP = (4, 5)  # of the queries above: one of group 0 alone, one of group 1 alone


def grouped(seed: int = 0, groups: int = 2) -> Dataset:
    """Documents in random groups; a query of one document, queries shorter than any K, and queries of one group."""
    dataset = handmade(LISTS, seed=seed)
    group = torch.randint(groups, dataset.labels.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    for number, query in enumerate(ONE_GROUP):
        group[dataset.offsets[query] : dataset.offsets[query + 1]] = number
    return dataclasses.replace(dataset, group=group)


class Seen(NamedTuple):
    """One round of one replica."""

    groups: str
    proposal: list[int]
    blocks: list[list[int]]
    certain: Bool[np.ndarray, "D D"]
    order: tuple[int, ...]

    def kept(self) -> Bool[np.ndarray, "D D"]:
        """The certain pairs that the proposal keeps."""
        place = np.argsort(self.proposal)
        return self.certain & (place[:, None] < place[None, :])


def seen(interaction: Interaction, replica: int) -> Seen:
    """The proposal and the served order of one replica, without padding."""
    length = int(interaction.candidates.mask[replica].sum())
    proposal = interaction.proposal.order[replica, :length].tolist()
    block = interaction.proposal.block[replica].tolist()
    return Seen(
        groups=letters(interaction.candidates.group[replica, :length].tolist()),
        proposal=proposal,
        blocks=[[d for d in proposal if block[d] == number] for number in sorted({block[d] for d in proposal})],
        certain=interaction.proposal.certain[replica, :length, :length].numpy(),
        order=tuple(interaction.order[replica, :length].tolist()),
    )
