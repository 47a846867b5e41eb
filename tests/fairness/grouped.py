"""Worlds with two groups, and rounds as the plain ports in tests/reference see them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Interaction
from ol2r_cli.shapes import Bool
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


def grouped(seed: int = 0) -> Dataset:
    """Documents in random groups; a query of one document, queries shorter than any K, and queries of one group."""
    dataset = handmade(LISTS, seed=seed)
    group = torch.randint(2, dataset.labels.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
    for number, query in enumerate(ONE_GROUP):
        group[dataset.offsets[query] : dataset.offsets[query + 1]] = number
    return dataclasses.replace(dataset, group=group)


class Seen(NamedTuple):
    """One round of one replica."""

    groups: str
    draft: list[int]
    blocks: list[list[int]]
    certain: Bool[np.ndarray, "D D"]
    order: tuple[int, ...]

    def kept(self) -> Bool[np.ndarray, "D D"]:
        """The certain pairs that the draft keeps."""
        place = np.argsort(self.draft)
        return self.certain & (place[:, None] < place[None, :])


def seen(interaction: Interaction, replica: int) -> Seen:
    """What was drafted and served, without padding."""
    length = int(interaction.candidates.mask[replica].sum())
    draft = interaction.draft.order[replica, :length].tolist()
    block = interaction.draft.block[replica].tolist()
    return Seen(
        groups=letters(interaction.candidates.group[replica, :length].tolist()),
        draft=draft,
        blocks=[[d for d in draft if block[d] == number] for number in sorted({block[d] for d in draft})],
        certain=interaction.draft.certain[replica, :length, :length].numpy(),
        order=tuple(interaction.order[replica, :length].tolist()),
    )
