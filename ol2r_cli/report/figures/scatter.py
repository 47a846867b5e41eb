"""Two final metrics, a point for each group: what fairness costs, or exploration brings."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.figures.options import NothingToDraw, Width, known_metric
from ol2r_cli.report.figures.sheet import Sheet, drawn
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels

_LOG = 100  # a metric whose values are further apart is drawn on a logarithmic axis


def scatter(
    groups: Sequence[Group],
    labels: Labels,
    x: str = "unfairness",
    y: str = "test_ndcg_10",
    width: Width = None,
) -> Figure:
    """Points with their 95 % intervals in both directions."""
    if x == "unfairness" and not any(x in run.metrics for group in groups for run in group.runs):
        raise NothingToDraw("there is no unfairness without two groups: name another metric, such as x=online_ndcg")
    known_metric("x", x, groups)
    known_metric("y", y, groups)
    groups = [group for group in groups if group.estimate(x) and group.estimate(y)]
    if not groups:
        raise NothingToDraw
    legend = Legend(groups, labels)
    rows = legend.rows(width)
    sheet = Sheet([[legend.title(panel) for panel in row] for row in rows], width, share=legend.in_rows, height=0.75)
    for axes, panel in zip(sheet.axes, [panel for row in rows for panel in row], strict=True):
        for group in legend.panels[panel]:
            across, up = group.estimate(x), group.estimate(y)
            assert across is not None
            assert up is not None
            look = drawn(legend.style(group)) | {"markersize": 5, "linestyle": "none"}
            axes.errorbar(
                across.mean,
                up.mean,
                xerr=across.half_width,
                yerr=up.half_width,
                label=legend.label(group),
                elinewidth=0.7,
                **look,
            )
    means = [estimate.mean for group in groups if (estimate := group.estimate(x))]
    if min(means) > 0 and max(means) > _LOG * min(means):
        for axes in sheet.axes:
            axes.set_xscale("log")
            axes.set_xlim(min(means) / 3, max(means) * 3)
    elif min(means) >= 0:  # intervals may reach below, but the metric does not
        for axes in sheet.axes:
            axes.set_xlim(left=max(axes.get_xlim()[0], -0.05 * max(means)))
    sheet.label(names.metric(x), names.metric(y))
    sheet.legend(legend.entries(), lines=False)
    return sheet.figure
