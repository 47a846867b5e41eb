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
ORDERS = "clicks a page in the usual order less those in others"
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
    document: Int[np.ndarray, "S K"],
    click: Bool[np.ndarray, "S K"],
    worlds: Sequence[DrawnWorld],
    query: Int[np.ndarray, "S"],
    rank: Int[np.ndarray, "D"],
) -> list[Checked]:
    """Return clicks a page, clicks by rank and the rank of the last click, of held-out pages and of users of worlds.

    document: rows of the documents of the log at each place, -1 where there is none. query: of pages. rank: of each
    document in production. A number passes where it is within `TOLERANCE`, or within the interval in which all numbers
    are with probability .99 if the user is as fitted. Where queries have pages in production's order and in others, the
    last number is the difference of clicks between the two: it does not pass with another sign outside this interval.
    """
    document, click, query = document[:_MOST_PAGES], click[:_MOST_PAGES], query[:_MOST_PAGES]
    weight = _of_orders(document, query, rank)
    drawn = []
    for number, world in enumerate(worlds):
        user = world.user.model(document.shape[1])
        grades = np.where(document >= 0, world.grades[document], -1)
        drawn.append(_numbers(simulated(user, grades, seed=number), weight))
    observed, simulations = _numbers(click, weight), np.stack(drawn)
    mean, deviation = simulations.mean(0), simulations.std(0, ddof=1)
    places = document.shape[1]
    names = ["clicks a page", *(f"clicks at rank {place}" for place in range(1, places + 1)), "no click"]
    names += [f"last click at rank {place}" for place in range(1, places + 1)]
    tolerances = TOLERANCE * mean
    if weight.any():
        names.append(ORDERS)
        tolerances[-1] = TOLERANCE * mean[0] if observed[-1] * mean[-1] > 0 else 0
    most = NormalDist().inv_cdf(1 - _ERROR / len(names) / 2)  # standard deviations, of the largest of all numbers
    found = []
    for name, seen, expected, spread, tolerance in zip(names, observed, mean, deviation, tolerances, strict=True):
        near = abs(seen - expected) <= max(tolerance, most * spread, most / len(document))
        found.append(Checked(name, float(seen), float(expected), float(spread), bool(near)))
    return found


def _of_orders(
    document: Int[np.ndarray, "S K"], query: Int[np.ndarray, "S"], rank: Int[np.ndarray, "D"]
) -> Float[np.ndarray, "S"]:
    """Return the weight of each page in the mean difference between production's order and others, of queries that have
    both: a query counts n m / (n + m) for n pages of one and m of the other. All are 0 where there is none."""
    shown = np.where(document >= 0, rank[document], np.iinfo(np.int64).max)
    is_usual = (np.diff(shown, axis=1) >= 0).all(1)
    usual, other = (np.bincount(query[part], minlength=query.max() + 1) for part in (is_usual, ~is_usual))
    of_query = usual * other / np.maximum(usual + other, 1)
    each = np.where(
        is_usual, of_query[query] / np.maximum(usual[query], 1), -of_query[query] / np.maximum(other[query], 1)
    )
    return each / max(of_query.sum(), 1)


def _numbers(click: Bool[np.ndarray, "S K"], weight: Float[np.ndarray, "S"]) -> Float[np.ndarray, "X"]:
    """Return clicks a page, by rank, the shares of pages without a click and with the last one at each rank, and the
    sum of weighted clicks, if there are weights."""
    places = click.shape[1]
    last = np.where(click.any(1), places - click[:, ::-1].argmax(1), 0)
    of_page = click.sum(1)
    depth = np.bincount(last, minlength=places + 1) / len(click)
    return np.concatenate([[of_page.mean()], click.mean(0), depth, [weight @ of_page] if weight.any() else []])
