"""From clicks to preferences (PairRank, WWW 2021, section 3.2.1): clicked documents beat examined unclicked ones."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import Preferences
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Int
from ol2r_cli.tensor.streams import Random

Pairs = Literal["matching", "adjacent", "all"]  # how a ranker's clicks become preferences


def infer_preferences(
    ranking: Int[Tensor, "B K"],
    clicks: Bool[Tensor, "B K"],
    shown: Bool[Tensor, "B K"],
    pairs: str,
    random: Random,
) -> Preferences:
    """Return preferences between candidates; `ranking` names the candidate at each place.

    `pairs` is one of `Pairs`, or `none` for rankers that do not learn from pairs.
    """
    if pairs == "none":
        nothing = torch.zeros(len(clicks), 0, dtype=torch.int64, device=clicks.device)
        return Preferences(nothing, nothing, nothing.bool())
    replicas, positions = clicks.shape
    most, device = most_pairs(pairs, positions), clicks.device
    winner, loser = torch.zeros(2, replicas, most, dtype=torch.int64, device=device).unbind()
    found = torch.empty(replicas, dtype=torch.int64, device=device)
    infer = loops.single.pairs_of(loops.rounds.INFER[pairs])
    lists = ranking.contiguous(), clicks.contiguous(), shown.contiguous()
    loops.launch.launch(infer, replicas, 2 * positions + 8, random.draw(), *lists, winner, loser, found)
    return Preferences(winner, loser, cached_arange(winner.shape[1], found.device) < found[:, None])


def most_pairs(pairs: str, positions: int) -> int:
    """Return M, the largest number of preferences that one round can yield."""
    return {"all": max(1, positions * positions // 4), "none": 0}.get(pairs, positions // 2)


def examined(clicks: Bool[Tensor, "*S K"], shown: Bool[Tensor, "*S K"]) -> Bool[Tensor, "*S K"]:
    """Return which places were examined: all down to the last click and the first one after it; none without a
    click."""
    above_a_click = clicks.flip(-1).cumsum(-1).flip(-1) > 0
    return torch.cat([above_a_click[..., :1], above_a_click[..., :-1]], -1) & shown
