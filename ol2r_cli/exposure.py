"""What the places of a list and the groups of a dataset are worth: settings `exposure` and `beta` of a run."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import ClickModel, Oracle, Sizes
from ol2r_cli.metrics.exposure import Exposure, check_beta, check_exposure, coefficient, position_exposure
from ol2r_cli.random import Streams
from ol2r_cli.shapes import Float

USERS, ROUNDS = 500, 100  # of the simulation that estimates exposure


def exposure_of(
    dataset: Dataset,
    click: ClickModel,
    positions: int,
    model: str | Sequence[float],
    beta: str | float,
    needed: bool = True,
) -> Exposure | None:
    """What two groups are due, on the training split; None where the dataset has no groups, or more than two.

    `model` is reciprocal, log, a number per place, or estimated from a simulation of `click`, a click model that is
    used for nothing else. ValueError for anything else, and where beta cannot be had, unless it is not `needed`.
    """
    check_exposure(model, positions)
    check_beta(beta)
    oracle = dataset.oracle()
    if dataset.group is None or int(dataset.group.max()) > 1:
        return None
    rows = oracle.rows()
    try:
        due = coefficient(beta, oracle.labels[rows], dataset.group[rows])
    except ValueError:
        if needed:
            raise
        return None
    if model == "estimated":
        return Exposure(click_through(oracle, dataset.grades, click, positions), due)
    return Exposure(position_exposure(model, positions), due)


def click_through(oracle: Oracle, grades: int, click: ClickModel, positions: int) -> Float[Tensor, "K"]:
    """Clicks by place over those on the first place, of uniformly random lists of training queries: 50,000 of them, the
    same every time. ValueError where nobody clicks."""
    longest = int(oracle.length.max())
    click.setup(Sizes(USERS, longest, 1, positions, len(oracle.length), ROUNDS, grades), torch.zeros(1, 1))
    streams, slots = Streams(torch.arange(USERS)), torch.arange(longest)
    clicks, shown = torch.zeros(positions, dtype=torch.float64), torch.zeros(positions, dtype=torch.float64)
    for t in range(ROUNDS):
        query = streams.at("exposure/query", t).integer(len(oracle.length))
        chance = streams.at("exposure/order", t).uniform(longest)
        there = slots < oracle.length[query][:, None]
        slot = chance.masked_fill(~there, 2).argsort(1)[:, :positions]
        labels = oracle.labels[(oracle.start[query][:, None] + slot).clamp(max=len(oracle.labels) - 1)].long()
        real = there[:, :positions]
        clicked = click.click(labels * real, real, streams.at("exposure/click", t))
        clicks[: slot.shape[1]] += clicked.sum(0)
        shown[: slot.shape[1]] += real.sum(0)
    ratio = clicks / shown.clamp(min=1)
    if not ratio[0]:
        raise ValueError("exposure=estimated needs users who click: use exposure=reciprocal")
    return (ratio / ratio[0]).clamp(max=1)
