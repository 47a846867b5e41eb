"""The exposure of places and the exposure due to groups (Jia and Wang, "Calibrating Explore-Exploit Trade-off for
Fair Online Learning to Rank", 2021, sections 3.2 and 4.2.1).

Group 0 is the paper's A, group 1 its B. Unfairness is Exposure(A) - beta Exposure(B), summed over rounds. For more
groups the paper lets every pair have its own beta, if they are transitive: beta_gh = beta_0h / beta_0g. So one number
for each group but the first says it all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from ol2r_cli.config.ranges import NonNegative, Positive, Share, check_settings
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import ClickModel, Exposure, Oracle, RunContext
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.tensor.streams import Streams

USERS, ROUNDS = 500, 100  # size of the simulation that estimates exposure


def exposure_of(
    dataset: Dataset,
    click: ClickModel,
    positions: int,
    model: str | Sequence[float],
    beta: str | float | Sequence[float],
    needed: bool = True,
) -> Exposure | None:
    """Return the exposure due to each group in the training split; None if the dataset does not have groups.

    `model` is the setting `exposure`: reciprocal, log, numbers per place, or estimated from a simulation of `click`, a
    click model that is used for nothing else. ValueError for other values of `model` and `beta`, and, if `needed`, if
    `beta` cannot be computed; otherwise the result is then None.
    """
    check_exposure_settings(model, beta, positions)
    oracle = dataset.oracle()
    if dataset.group is None:
        return None
    rows, last = oracle.rows(), max(1, int(dataset.group.max()))
    listed = isinstance(beta, Sequence) and not isinstance(beta, str)
    if not isinstance(beta, str) and (listed != (last > 1) or (listed and len(beta) != last)):  # type: ignore[arg-type]
        numbers = "a number" if last == 1 else f"a list of {last} numbers"
        raise ValueError(f"beta must be merit, parity or {numbers}, as the dataset has {last + 1} groups, got {beta}")
    try:
        ratios = coefficients(beta, oracle.labels[rows], dataset.group[rows], last)
    except ValueError:
        if needed:
            raise
        return None
    if model == "estimated":
        return Exposure(click_through(oracle, dataset.grades, click, positions), ratios)
    return Exposure(position_exposure(model, positions), ratios)


def check_exposure_settings(model: str | Sequence[float], beta: str | float | Sequence[float], positions: int) -> None:
    """Raise ValueError unless `exposure` and `beta` are valid settings of a run with so many positions."""
    check_settings(_ranges, {"exposure": model, "beta": beta}, "")
    if not isinstance(model, str) and len(model) < positions:
        raise ValueError(f"exposure must be at least {positions} numbers from 0 to 1, got {list(model)}")


def _ranges(
    exposure: Literal["reciprocal", "log", "estimated"] | Sequence[Share],
    beta: Literal["merit", "parity"] | NonNegative | Sequence[Positive],
) -> None:
    """Declare the ranges of the run's settings `exposure` and `beta` for `check_settings`."""


def position_exposure(model: str | Sequence[float], positions: int) -> Float[Tensor, "K"]:
    """Return the exposure of ranks 1 .. K: `reciprocal` 1/r, `log` 1/(1 + log2 r), or the first K of some numbers."""
    ranks = range(1, positions + 1)
    if model == "reciprocal":
        values = [1 / rank for rank in ranks]
    elif model == "log":
        values = [1 / (1 + math.log2(rank)) for rank in ranks]
    else:
        values = [float(value) for value in model[:positions]]
    return torch.tensor(values, dtype=torch.float64)


def coefficients(
    beta: str | float | Sequence[float], labels: Int[Tensor, "N"], group: Int[Tensor, "N"], last: int
) -> float | tuple[float, ...]:
    """Return beta as a number for two groups (`last` is 1), and as one for each of the groups 1 .. `last` for more."""
    if not isinstance(beta, str):
        return tuple(map(float, beta)) if isinstance(beta, Sequence) else float(beta)
    ratios = tuple(coefficient(beta, labels, group, other) for other in range(1, last + 1))
    if last > 1 and not all(ratios):
        missing = "documents" if beta == "parity" else "relevant document"
        raise ValueError(
            f"beta must be a list of {last} numbers, as group 0 has no {missing} in the training split, got {beta!r}"
        )
    return ratios if last > 1 else ratios[0]


def coefficient(beta: str, labels: Int[Tensor, "N"], group: Int[Tensor, "N"], other: int = 1) -> float:
    """Return the exposure due to group 0 per unit of group `other`.

    `merit` is the ratio of their mean labels, `parity` that of their sizes. ValueError if the divisor, that of group
    `other`, is 0.
    """
    first, second = (labels[group == number].double() for number in (0, other))
    over, under = (
        (float(first.numel()), float(second.numel()))
        if beta == "parity"
        else (float(first.sum()) / max(len(first), 1), float(second.sum()) / max(len(second), 1))
    )
    if not under:
        missing = "documents" if beta == "parity" else "relevant document"
        numbers = "a number" if int(group.max()) <= 1 else "a list of numbers"
        raise ValueError(
            f"beta must be {numbers}, as group {other} has no {missing} in the training split, got {beta!r}"
        )
    return over / under


def click_through(oracle: Oracle, grades: int, click: ClickModel, positions: int) -> Float[Tensor, "K"]:
    """Return clicks by place over clicks on the first place, for uniformly random lists of training queries.

    The simulation has 50,000 lists and fixed seeds. ValueError if there is no click on the first place.
    """
    longest = int(oracle.length.max())
    click.setup(RunContext(USERS, longest, 1, positions, len(oracle.length), ROUNDS, grades), torch.zeros(1, 1))
    streams, slots = Streams(torch.arange(USERS)), torch.arange(longest)
    clicks, shown = torch.zeros(positions, dtype=torch.float64), torch.zeros(positions, dtype=torch.float64)
    for t in range(ROUNDS):
        query = streams.at("exposure/query", t).integer(len(oracle.length))
        chance = streams.at("exposure/order", t).uniform(longest)
        mask = slots < oracle.length[query][:, None]
        slot = chance.masked_fill(~mask, 2).argsort(1)[:, :positions]
        labels = oracle.labels[(oracle.start[query][:, None] + slot).clamp(max=len(oracle.labels) - 1)].long()
        real = mask[:, :positions]
        clicked = click.click(labels * real, real, streams.at("exposure/click", t))
        clicks[: slot.shape[1]] += clicked.sum(0)
        shown[: slot.shape[1]] += real.sum(0)
    rate = clicks / shown.clamp(min=1)
    if not rate[0]:
        raise ValueError("exposure=estimated needs users who click: use exposure=reciprocal")
    return (rate / rate[0]).clamp(max=1)
