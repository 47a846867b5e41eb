"""From clicks to preferences (PairRank, WWW 2021, section 3.2.1): clicked documents beat examined unclicked ones."""

from __future__ import annotations

from functools import cache
from typing import Literal

import torch
from torch import Tensor

from ol2r_cli import loops
from ol2r_cli.interfaces import Preferences
from ol2r_cli.tensor.gather import cached_arange
from ol2r_cli.tensor.shapes import Bool, Float, Int
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
    return (clicks.float() @ _reaches(clicks.shape[-1], clicks.device) > 0) & shown


@cache
def _reaches(positions: int, device: torch.device) -> Float[Tensor, "K K"]:
    """Return [q, p], 1 where a click at place q implies that place p was examined; shared, not to be written to."""
    return torch.ones(positions, positions, device=device).triu(-1).mT.contiguous()


def log_left(scores: Float[Tensor, "*S D"], ranking: Int[Tensor, "*S K"]) -> Float[Tensor, "*S K"]:
    """Return the logarithm of the sum of e^score over what was left when each place of a list was filled.

    A sum of probabilities of the Plackett-Luce model; `scores` of documents that are not drawn are about -inf.
    """
    below = scores.scatter(-1, ranking, -torch.inf).logsumexp(-1, keepdim=True)
    listed = scores.gather(-1, ranking)
    return torch.cat([below, listed.flip(-1)], dim=-1).logcumsumexp(-1)[..., 1:].flip(-1)
