"""Counts of blocks and of broken certain pairs that exceed 16 bits."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ol2r_cli.interfaces import Rounds
from ol2r_cli.measure.blocks import Blocks
from tests.worlds import handmade, simulate, tiny


def columns(documents: int, places: int, **reasons: Tensor) -> dict[str, int]:
    """The columns of a round that shows the first places of a list, in the order of the file, for these reasons."""
    config = tiny("ranker=random", "exploration=none", f"positions={places}")
    measure = Blocks()
    simulation = simulate(config, [0], 1, handmade([[0] * documents]), measures={"blocks": measure})
    ((_, interaction),) = simulation.play()
    order = torch.arange(documents)[None]
    proposal = replace(interaction.proposal, order=order, **reasons)
    shown = replace(interaction, proposal=proposal, order=order, ranking=order[:, :places])
    measure.record(0, shown, torch.zeros(1, documents, dtype=torch.int64))
    one = torch.ones(1, 1, places, dtype=torch.bool)
    rounds = Rounds(1, torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 1), documents), one.char(), one, one)
    return {name: values.item() for name, values in measure.of_rounds(rounds).items()}


def test_all_pairs_of_a_long_list_may_be_broken():
    """Of 300 places each is certainly below all later ones: 300 x 299 / 2 pairs are reversed."""
    reversed_pairs = torch.ones(1, 300, 300, dtype=torch.bool).tril(-1)
    block = torch.zeros(1, 300, dtype=torch.int64)
    assert columns(300, 300, block=block, certain_by_place=reversed_pairs)["violations"] == 44_850


def test_a_long_list_may_have_a_block_for_each_document():
    assert columns(33_000, 10, block=torch.arange(33_000)[None])["blocks"] == 33_000
