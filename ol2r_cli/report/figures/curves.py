"""Curves over rounds: the mean over (fold, seed) with its 95 % interval as a band, a panel per dataset and users."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from ol2r_cli.report.figures.options import Switch, Whole, Width, choice, switch, whole
from ol2r_cli.report.figures.panels import curves
from ol2r_cli.report.figures.series import Series, evaluated, last_round, recent, so_far
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels

_POINTS = 50  # of a curve that is drawn from a trace
_RANKS = (1, 5, 10)  # whose blocks are traced


def learning_curve(
    groups: Sequence[Group], labels: Labels, split: str = "test", cutoff: Whole = 10, width: Width = None
) -> Figure:
    """NDCG at a cutoff of the deployable ranker on held-out queries."""
    column = f"ndcg_{choice('cutoff', cutoff, (1, 3, 5, 10))}"
    split = choice("split", split, ("test", "validation"))
    read = partial(evaluated, column=column, split=split)
    return curves(groups, labels, {"": read}, f"{split} NDCG@{cutoff}", width, bounds=(0, 1))


def cosine(groups: Sequence[Group], labels: Labels, width: Width = None) -> Figure:
    """Cosine between the deployed weights and those of the offline RankNet."""

    def read(group: Group) -> Series | None:
        return evaluated(group, "cosine", "test") or evaluated(group, "cosine", "validation")

    return curves(groups, labels, {"": read}, "cosine to offline RankNet", width, bounds=(-1, 1))


def online_ndcg(groups: Sequence[Group], labels: Labels, window: Whole | None = None, width: Width = None) -> Figure:
    """NDCG of the lists that were shown."""
    return _recent(groups, labels, "online_ndcg", "online NDCG@10", window, width, bounds=(0, 1))


def blocks(groups: Sequence[Group], labels: Labels, window: Whole | None = None, width: Width = None) -> Figure:
    """Number of blocks of a query."""
    return _recent(groups, labels, "blocks", "number of blocks", window, width)


def certain_ratio(groups: Sequence[Group], labels: Labels, window: Whole | None = None, width: Width = None) -> Figure:
    """Share of certain pairs among the first ten places."""
    return _recent(groups, labels, "certain_top10", "certain pairs in the top 10", window, width, bounds=(0, 1))


def violations(groups: Sequence[Group], labels: Labels, window: Whole | None = None, width: Width = None) -> Figure:
    """Certain pairs that the shown list reverses, per round."""
    return _recent(groups, labels, "violations", "reversed pairs per round", window, width)


def block_size(groups: Sequence[Group], labels: Labels, window: Whole | None = None, width: Width = None) -> Figure:
    """Size of the block that holds rank 1, 5 and 10: a column of panels for each."""
    window = _window(groups, window)
    reads = {f"rank {rank}": partial(recent, column=f"block_size_{rank}", window=window) for rank in _RANKS}
    return curves(groups, labels, reads, f"block size, {_mean_of(window)}", width, bounds=(0, np.inf))


def cumulative_ndcg(groups: Sequence[Group], labels: Labels, every: Whole | None = None, width: Width = None) -> Figure:
    """Discounted sum of online NDCG so far."""
    read = partial(so_far, column="cumulative_ndcg", every=_window(groups, every, "every"))
    return curves(groups, labels, {"": read}, "cumulative NDCG", width, bounds=(0, np.inf))


def unfairness(
    groups: Sequence[Group],
    labels: Labels,
    signed: Switch = False,
    scale: str = "auto",
    every: Whole | None = None,
    width: Width = None,
) -> Figure:
    """Cumulative unfairness of exposure so far, its size or with its sign (above 0 where group 0 gets too much).

    `scale`: linear, log, or auto: log where the groups end more than a hundredfold apart.
    """
    signed, scale = switch("signed", signed), choice("scale", scale, ("auto", "linear", "log"))
    every = _window(groups, every, "every")
    if signed and scale == "log":
        raise ValueError("scale must be linear where signed=true, got log")

    def read(group: Group) -> Series | None:
        found = so_far(group, "unfairness", every)
        return found if found is None or signed else Series(found.x, np.abs(found.values))

    label = "cumulative unfairness UF" if signed else "cumulative unfairness |UF|"
    bounds = (-np.inf, np.inf) if signed else (0, np.inf)
    return curves(groups, labels, {"": read}, label, width, bounds, "linear" if signed else scale)


def _recent(
    groups: Sequence[Group],
    labels: Labels,
    column: str,
    label: str,
    window: Whole | None,
    width: Width,
    bounds: tuple[float, float] = (0, np.inf),
) -> Figure:
    window = _window(groups, window)
    read = partial(recent, column=column, window=window)
    return curves(groups, labels, {"": read}, f"{label}, {_mean_of(window)}", width, bounds)


def _window(groups: Sequence[Group], given: Whole | None, name: str = "window") -> int:
    last = max(map(last_round, groups))
    return max(last // _POINTS, 1) if given is None else whole(name, given, last)


def _mean_of(window: int) -> str:
    return "" if window == 1 else f"mean of the last {window} rounds"
