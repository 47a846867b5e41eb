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
from ol2r_cli.tensor.shapes import Float
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
    `beta` cannot be computed; otherwise it is then NaN, so that measures of what is due are not there.
    """
    check_settings(_ranges, {"exposure": model, "beta": beta}, "")
    if not isinstance(model, str) and len(model) < positions:
        raise ValueError(f"exposure must be at least {positions} numbers from 0 to 1, got {list(model)}")
    if dataset.group is None:
        return None
    others = max(1, int(dataset.group.max()))  # groups beside group 0
    if isinstance(beta, str):
        worth = _worth(dataset, beta, others + 1)
        worthless = _worthless(worth)
        if worthless and needed:
            missing = f"group {worthless[0]} has no {'documents' if beta == 'parity' else 'relevant document'}"
            raise ValueError(f"beta must be {_numbers(others)}, as {missing} in the training split, got {beta!r}")
        betas = [math.nan] * others if worthless else (worth[0] / worth[1:]).tolist()
    else:
        betas = _given_betas(beta, others)
    if model == "estimated":
        by_place = click_through(dataset.oracle(), dataset.grades, click, positions)
    else:
        by_place = position_exposure(model, positions)
    return Exposure(by_place, tuple(betas) if others > 1 else betas[0])


def _worth(dataset: Dataset, beta: str, groups: int) -> Float[Tensor, "G"]:
    """Return what exposure is due to each group for in the training split: its size, or by `merit` its mean label."""
    oracle = dataset.oracle()
    assert dataset.group is not None
    group, labels = dataset.group[oracle.rows()].long(), oracle.labels[oracle.rows()].double()
    sizes = torch.bincount(group, minlength=groups).double()
    return torch.bincount(group, labels, groups) / sizes.clamp(min=1) if beta == "merit" else sizes


def _worthless(worth: Float[Tensor, "G"]) -> list[int]:
    """Return the groups to which no exposure is due, so that no beta follows.

    Of two groups, group 0 does not count: its beta is 0 then.
    """
    first = 1 if len(worth) == 2 else 0
    return [group for group in range(first, len(worth)) if not worth[group]]


def _given_betas(beta: float | Sequence[float], others: int) -> list[float]:
    """Return the setting `beta` as a list; ValueError unless it has a number for each group beside group 0."""
    betas = [float(number) for number in beta] if isinstance(beta, Sequence) else [float(beta)]
    if len(betas) != others or isinstance(beta, Sequence) != (others > 1):
        has = f"the dataset has {others + 1} groups"
        raise ValueError(f"beta must be merit, parity or {_numbers(others)}, as {has}, got {beta}")
    return betas


def _numbers(others: int) -> str:
    return "a number" if others == 1 else f"a list of {others} numbers"


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
