"""From clicks to preferences (PairRank, WWW 2021, section 3.2.1): clicked documents beat examined unclicked ones."""

from __future__ import annotations

from collections.abc import Callable
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
    by_loops: bool = False,
) -> Preferences:
    """Return preferences between candidates; `ranking` names the candidate at each place.

    `pairs` is one of `Pairs`, or `none` for rankers that do not learn from pairs.
    """
    if pairs == "none":
        nothing = torch.zeros(len(clicks), 0, dtype=torch.int64, device=clicks.device)
        return Preferences(nothing, nothing, nothing.bool())
    if by_loops:
        drawn = (random.array(clicks.shape[1]),) if pairs == "matching" else ()
        infer = getattr(loops.lists, "every_pair" if pairs == "all" else pairs)
        found = torch.empty(2, len(clicks), most_pairs(pairs, clicks.shape[1]), dtype=torch.int64)
        winner, loser, valid = *found, torch.empty_like(found[0], dtype=torch.bool)
        given = ranking.numpy(), clicks.numpy(), shown.numpy(), *drawn
        infer(*given, winner.numpy(), loser.numpy(), valid.numpy())
        return Preferences(winner, loser, valid)
    seen = examined(clicks, shown)
    by_place = _PAIRINGS[pairs](clicks, seen & ~clicks, random)
    winner, loser = ranking.gather(1, by_place.winner), ranking.gather(1, by_place.loser)
    return Preferences(winner, loser, by_place.valid)


def most_pairs(pairs: str, positions: int) -> int:
    """M: the largest number of preferences that one round can yield."""
    return {"all": max(1, positions * positions // 4), "none": 0}.get(pairs, positions // 2)


def examined(clicks: Bool[Tensor, "*S K"], shown: Bool[Tensor, "*S K"]) -> Bool[Tensor, "*S K"]:
    """All places down to the last click and the first one after it; none without a click."""
    return (clicks.float() @ _reaches(clicks.shape[-1], clicks.device) > 0) & shown


@cache
def _reaches(positions: int, device: torch.device) -> Float[Tensor, "K K"]:
    """[q, p]: 1 where a click at place q implies that place p was examined; shared, not to be written to."""
    return torch.ones(positions, positions, device=device).triu(-1).mT.contiguous()


def log_left(scores: Float[Tensor, "*S D"], ranking: Int[Tensor, "*S K"]) -> Float[Tensor, "*S K"]:
    """The logarithm of the sum of e^score over what was left when each place of a list was filled.

    A sum of probabilities of the Plackett-Luce model; `scores` of documents that are not drawn are about -inf.
    """
    below = scores.scatter(-1, ranking, -torch.inf).logsumexp(-1, keepdim=True)
    listed = scores.gather(-1, ranking)
    return torch.cat([below, listed.flip(-1)], dim=-1).logcumsumexp(-1)[..., 1:].flip(-1)


def _matching(won: Bool[Tensor, "B K"], lost: Bool[Tensor, "B K"], random: Random) -> Preferences:
    """Winners and losers matched one to one at random, so that pairs are disjoint (the authors' code)."""
    positions = won.shape[1]
    chance = random.uniform(positions)  # no place both wins and loses: one number each serves both shuffles
    drawn, place = torch.where(torch.stack([won, lost]), chance, 2.0).sort(2)
    most = positions // 2
    return Preferences(place[0, :, :most], place[1, :, :most], (drawn[:, :, :most] < 2).all(0))


def _adjacent(won: Bool[Tensor, "B K"], lost: Bool[Tensor, "B K"], random: Random) -> Preferences:
    """Places (1, 2), (3, 4), .. where exactly one was clicked (the papers' text)."""
    most = won.shape[1] // 2
    upper = cached_arange(most, won.device) * 2
    up, down = won[:, upper] & lost[:, upper + 1], lost[:, upper] & won[:, upper + 1]
    return Preferences(torch.where(down, upper + 1, upper), torch.where(down, upper, upper + 1), up | down)


def _all(won: Bool[Tensor, "B K"], lost: Bool[Tensor, "B K"], random: Random) -> Preferences:
    """Every winner against every loser, at most K^2/4 pairs."""
    positions = won.shape[1]
    grid = (won[:, :, None] & lost[:, None, :]).flatten(1)
    most = max(1, positions * positions // 4)
    valid, place = grid.int().sort(dim=1, descending=True, stable=True)
    valid, place = valid[:, :most].bool(), place[:, :most]
    return Preferences(place // positions, place % positions, valid)


_PAIRINGS: dict[str, Callable[[Tensor, Tensor, Random], Preferences]] = {
    "matching": _matching,
    "adjacent": _adjacent,
    "all": _all,
}
