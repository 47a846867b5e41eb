"""Exposure of document groups, and what each is due (Jia and Wang, "Calibrating Explore-Exploit Trade-off for Fair
Online Learning to Rank", 2021, sections 3.2 and 4.2.1).

Group 0 is the papers' A, group 1 their B. Unfairness is Exposure(A) - beta Exposure(B), summed over rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ol2r_cli.shapes import Bool, Float, Int

EXPOSURES = ("reciprocal", "log", "estimated")


@dataclass(frozen=True, slots=True)
class Exposure:
    """What a place in the list is worth, and what group 0 is due for each unit that group 1 gets."""

    position: Float[Tensor, "K"]  # float64, of ranks 1 .. K: how likely a user is to look there
    beta: float

    def to(self, device: torch.device) -> Exposure:
        """The same on another device."""
        return Exposure(self.position.to(device), self.beta)

    def of_groups(self, group: Int[Tensor, "*S K"], shown: Bool[Tensor, "*T K"]) -> Float[Tensor, "*U 2"]:
        """Exposure of both groups, given the group of the document at each of the K places, or of the first of them."""
        worth = self.position[: group.shape[-1]] * shown
        return torch.stack([(worth * (group == number)).sum(-1) for number in (0, 1)], -1)

    def unfairness(self, exposed: Float[Tensor, "*S 2"]) -> Float[Tensor, "*S"]:
        """Exposure(A) - beta Exposure(B); above 0 where A gets more than its due."""
        return exposed[..., 0] - self.beta * exposed[..., 1]


def check_exposure(model: str | Sequence[float], positions: int) -> None:
    """ValueError unless `exposure` can be had for so many positions."""
    if isinstance(model, str):
        if model not in EXPOSURES:
            raise ValueError(f"exposure must be one of {', '.join(EXPOSURES)} or a list of numbers, got {model!r}")
    elif len(model) < positions or any(not 0 <= value <= 1 for value in model):
        raise ValueError(f"exposure must be at least {positions} numbers from 0 to 1, got {list(model)}")


def position_exposure(model: str | Sequence[float], positions: int) -> Float[Tensor, "K"]:
    """Of ranks 1 .. K: `reciprocal` 1/r, `log` 1/(1 + log2 r), or the first of some numbers."""
    ranks = range(1, positions + 1)
    if model == "reciprocal":
        values = [1 / rank for rank in ranks]
    elif model == "log":
        values = [1 / (1 + math.log2(rank)) for rank in ranks]
    else:
        values = [float(value) for value in model[:positions]]
    return torch.tensor(values, dtype=torch.float64)


def check_beta(beta: str | float) -> None:
    """ValueError unless it is one of the words or a number."""
    if isinstance(beta, bool) or not (beta in ("merit", "parity") or (isinstance(beta, int | float) and beta >= 0)):
        raise ValueError(f"beta must be 'merit', 'parity' or a number from 0 up, got {beta!r}")


def coefficient(beta: str | float, labels: Int[Tensor, "N"], group: Int[Tensor, "N"]) -> float:
    """beta: `merit` is the ratio of the groups' mean labels, `parity` that of their sizes; a number is itself."""
    if isinstance(beta, int | float):
        return float(beta)
    first, second = (labels[group == number].double() for number in (0, 1))
    over, under = (
        (float(first.numel()), float(second.numel()))
        if beta == "parity"
        else (float(first.sum()) / max(len(first), 1), float(second.sum()) / max(len(second), 1))
    )
    if not under:
        what = "documents" if beta == "parity" else "relevant document"
        raise ValueError(f"beta must be a number, as group 1 has no {what} in the training split, got {beta!r}")
    return over / under
