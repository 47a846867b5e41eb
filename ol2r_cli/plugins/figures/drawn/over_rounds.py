"""The kinds of figures over rounds: which series of a group each of them shows, and how its axis is called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from ol2r_cli.columns import CUTOFFS, SPLITS, Column, main_cutoff
from ol2r_cli.plugins.figures.curves import curves, last_round
from ol2r_cli.plugins.figures.look import Integer, Shown, YAxis, choice, integer
from ol2r_cli.plugins.figures.series import Series, cumulative_series, evaluation_series, window_means
from ol2r_cli.report.measures import described
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.shown_metrics import known_metrics, ndcg_metrics

_POINTS = 50  # of a curve from a trace


def learning_curve(shown: Shown, split: str = "test", cutoff: Integer | None = None) -> Figure:
    """Draw NDCG at a cutoff of the deployable ranker on held-out queries."""
    split = choice("split", split, SPLITS)
    known = known_metrics(shown.groups)
    cutoff = choice("cutoff", main_cutoff(known) if cutoff is None else cutoff, _cutoffs(known, split) or CUTOFFS)
    read = partial(evaluation_series, column=f"ndcg_{cutoff}", split=split)
    return curves(shown, YAxis(f"{split} NDCG@{cutoff}", (0, 1)), {"": read}, evaluated=True)


def _cutoffs(metrics: Sequence[str], split: str) -> list[int]:
    """Return the cutoffs of NDCG on a split."""
    names = [name for name in metrics if re.fullmatch(rf"{split}_ndcg_\d+", name)]
    return [int(name.rpartition("_")[2]) for name in names]


def cosine(shown: Shown) -> Figure:
    """Draw the cosine between the deployed weights and those of the offline RankNet."""

    def read(group: Group) -> Series | None:
        return evaluation_series(group, "cosine", "test") or evaluation_series(group, "cosine", "validation")

    return curves(shown, YAxis("cosine to offline RankNet", (-1, 1)), {"": read}, evaluated=True)


def measure(shown: Shown, column: str = "", split: str = "test", window: Integer | None = None) -> Figure:
    """Draw a column of evaluation.parquet, or one of trace.parquet, smoothed unless it is a running total."""
    traced, evaluated = _columns(shown.groups)
    known = [*traced, *evaluated]
    if not column:
        raise ValueError(f"column must be one of {', '.join(known)}, got none: type --option column={known[0]}")
    column = choice("column", column, known)
    if column in evaluated:
        label = f"{choice('split', split, SPLITS)} {evaluated[column].heading}"
        read_evaluation = partial(evaluation_series, column=column, split=split)
        return curves(shown, YAxis(label), {"": read_evaluation}, evaluated=True)
    heading = traced[column].heading
    if traced[column].summary in ("last", "size"):
        read_total = partial(cumulative_series, column=column, every=spacing(shown, "window", window))
        return curves(shown, YAxis(heading), {"": read_total})
    return smoothed({"": column}, YAxis(heading), shown, window)


def _columns(groups: Sequence[Group]) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the columns of trace.parquet and of evaluation.parquet that some run has, by name."""
    traced: dict[str, Column] = {}
    evaluated: dict[str, Column] = {}
    for group in groups:
        for run in group.runs:
            traced |= run.columns.trace
            evaluated |= run.columns.evaluation
    traced.pop("query", None)
    return traced, evaluated


def smoothed(columns: Mapping[str, str], y: YAxis, shown: Shown, window: Integer | None = None) -> Figure:
    """Draw columns of trace.parquet, by the titles of their panels, as means over windows."""
    rounds = spacing(shown, "window", window)
    reads = {subtitle: partial(window_means, column=column, window=rounds) for subtitle, column in columns.items()}
    extent = "" if rounds == 1 else f"mean of the last {rounds} rounds"
    return curves(shown, y._replace(label=f"{y.label}, {extent}"), reads)


def online_ndcg(shown: Shown, window: Integer | None = None) -> Figure:
    """Draw NDCG of the shown lists."""
    y = YAxis(f"online NDCG@{main_cutoff(known_metrics(shown.groups))}", (0, 1))
    return smoothed({"": ndcg_metrics(shown.groups)[3]}, y, shown, window)


def cumulative_ndcg(shown: Shown, every: Integer | None = None) -> Figure:
    """Draw the discounted sum of online NDCG up to a round."""
    column = ndcg_metrics(shown.groups)[2]
    read = partial(cumulative_series, column=column, every=spacing(shown, "every", every))
    return curves(shown, YAxis(described(column).heading, (0, np.inf)), {"": read})


def unfairness(shown: Shown, signed: bool | str = False, scale: str = "auto", every: Integer | None = None) -> Figure:
    """Draw cumulative unfairness of exposure up to a round: its size, or with its sign (positive favours group 0).

    scale: that of `YAxis`.
    """
    with_sign = choice("signed", str(signed).lower(), ("true", "false")) == "true"
    scale = choice("scale", scale, ("auto", "linear", "log"))
    rounds = spacing(shown, "every", every)
    if with_sign and scale == "log":
        raise ValueError("scale must be linear where signed=true, got log")

    def read(group: Group) -> Series | None:
        return cumulative_series(group, "unfairness", rounds)

    def read_size(group: Group) -> Series | None:
        series = read(group)
        return series.size() if series else None

    if with_sign:
        return curves(shown, YAxis("cumulative unfairness UF"), {"": read})
    return curves(shown, YAxis("cumulative unfairness |UF|", (0, np.inf), scale), {"": read_size})


def spacing(shown: Shown, name: str, rounds: Integer | None) -> int:
    """Return the rounds between two points: those of the option, or one fiftieth of all."""
    last = last_round(shown.groups)
    return max(last // _POINTS, 1) if rounds is None else integer(name, rounds, last)
