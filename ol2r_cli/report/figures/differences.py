"""Paired differences to a baseline: what the intervals of two rows do not show, because a fold or a seed is common."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ol2r_cli.report.comparison import compare
from ol2r_cli.report.estimates import ALPHA
from ol2r_cli.report.figures.curves import NamedRows
from ol2r_cli.report.figures.drawing import NothingToDraw, Shown
from ol2r_cli.report.legend import INK, SOLID, Legend, Style
from ol2r_cli.report.measures import check_metrics, described, ndcg_metrics


def differences(shown: Shown, baseline: str = "", metric: str = "", test: str = "t") -> Figure:
    """The differences of a metric of summary.json to the baseline of each task, with their intervals.

    A dot is filled where the difference is significant after Holm's correction for all of the figure. baseline: words
    that match one row of each task. test: t or permutation.
    """
    if not baseline:
        raise ValueError(
            "baseline must be a ranker, or choices and settings, of some row, got none: type --baseline pdgd"
        )
    metric = metric or ndcg_metrics(shown.groups)[0]
    check_metrics([metric], shown.groups, "metric")
    comparison = compare(shown.groups, shown.labels, [metric], baseline, test)
    found = {difference.group: difference for difference in comparison.differences}
    if not found:
        raise NothingToDraw
    rivals = {difference.rival for difference in found.values()}
    legend = Legend([*found, *rivals], shown.labels)
    names = {legend.names[group] for group in found}
    rows = NamedRows(legend, shown.look, [name for name in legend.styles if name in names])
    edges = [0.0]
    for group, axes in rows.axes.items():
        if group not in found:
            continue
        estimate, style = found[group].estimate, legend.styles[legend.names[group]]
        half = shown.look.band(estimate) or 0.0
        axes.errorbar(
            estimate.mean,
            rows.places[legend.names[group]],
            xerr=half,
            color=style.colour,
            marker="o",
            markersize=4,
            markerfacecolor=style.colour if found[group].significant else "white",
            elinewidth=1.2,
            capsize=2,
        )
        edges += [estimate.mean - half, estimate.mean + half]
    margin = 0.06 * (max(edges) - min(edges)) or 0.05
    for axes in rows.panels.axes:
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_xlim(min(edges) - margin, max(edges) + margin)
        axes.xaxis.set_major_locator(MaxNLocator(4 if rows.panels.panel_width < 3 else 5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.6g}" if value else "0"))
    names_of_rivals = " or ".join(dict.fromkeys(legend.names[group] for group in legend.names if group in rivals))
    rows.panels.label(f"{described(metric).axis or described(metric).heading} minus that of {names_of_rivals}", "")
    significant = Style(INK, SOLID, "o")
    told = {f"significant, p < {ALPHA} by Holm": significant, "not significant": significant._replace(hollow=True)}
    rows.panels.legend(told, lines=False)
    return rows.panels.figure
