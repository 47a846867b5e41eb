"""Whether a fitted user clicks as the last fifth of a log does, to which he was not fitted: no forecast without it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ol2r_cli.plugins.advise.pages import simulated
from ol2r_cli.plugins.advise.play import DrawnWorld
from ol2r_cli.tensor.shapes import Bool, Float, Int

TOLERANCE = 0.05  # of clicks: smaller differences pass, however certain they are
_ERROR = 0.01  # probability that a user who is as fitted fails
_MOST_PAGES = 50_000


class Checked(NamedTuple):
    """A number of held-out pages beside what fitted users do on them: mean and standard deviation over worlds."""

    name: str
    observed: float
    simulated: float
    deviation: float
    passes: bool


def check(
    document: Int[np.ndarray, "S K"], click: Bool[np.ndarray, "S K"], worlds: Sequence[DrawnWorld]
) -> list[Checked]:
    """Return clicks a page, clicks by rank and the rank of the last click, of held-out pages and of users of worlds.

    document: rows of the documents of the log at each place, -1 where there is none. A number passes where it is within
    `TOLERANCE`, or within the interval in which all numbers are with probability .99 if the user is as fitted.
    """
    if len(document) > _MOST_PAGES:
        document, click = document[:_MOST_PAGES], click[:_MOST_PAGES]
    drawn = []
    for number, world in enumerate(worlds):
        user = world.user.model(document.shape[1])
        grades = np.where(document >= 0, world.grades[document], -1)
        drawn.append(_numbers(simulated(user, grades, seed=number)))
    observed, simulations = _numbers(click), np.stack(drawn)
    mean, deviation = simulations.mean(0), simulations.std(0, ddof=1)
    places = document.shape[1]
    names = ["clicks a page", *(f"clicks at rank {rank}" for rank in range(1, places + 1)), "no click"]
    names += [f"last click at rank {rank}" for rank in range(1, places + 1)]
    most = NormalDist().inv_cdf(1 - _ERROR / len(names) / 2)  # standard deviations, of the largest of all numbers
    found = []
    for name, seen, expected, spread in zip(names, observed, mean, deviation, strict=True):
        near = abs(seen - expected) <= max(TOLERANCE * expected, most * spread, most / len(document))
        found.append(Checked(name, float(seen), float(expected), float(spread), bool(near)))
    return found


def _numbers(click: Bool[np.ndarray, "S K"]) -> Float[np.ndarray, "X"]:
    """Return clicks a page, by rank, and the shares of pages without a click and with the last one at each rank."""
    places = click.shape[1]
    last = np.where(click.any(1), places - click[:, ::-1].argmax(1), 0)
    return np.concatenate([[click.sum(1).mean()], click.mean(0), np.bincount(last, minlength=places + 1) / len(click)])
