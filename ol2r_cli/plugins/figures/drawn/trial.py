"""The figure of a trial: what users see of each row minus what they would have seen of a baseline, up to each page."""

from __future__ import annotations

from matplotlib.figure import Figure

from ol2r_cli.plugins.figures.curves import curves
from ol2r_cli.plugins.figures.drawn.over_rounds import spacing
from ol2r_cli.plugins.figures.look import Integer, Shown, YAxis
from ol2r_cli.plugins.figures.series import Series
from ol2r_cli.plugins.figures.trial import Pages, paired_pages, read_pages, rivals
from ol2r_cli.report.measures import heading
from ol2r_cli.report.names import Legend
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.styles import INK


def trial(shown: Shown, baseline: str = "", metric: str = "clicks", every: Integer | None = None) -> Figure:
    """Draw the sums of differences to the baseline of each task, from 0 before the first page.

    baseline, metric: as of `trial_table`. every: pages between two points.
    """
    found = rivals(shown.groups, shown.labels, baseline)
    pages_between = spacing(shown, "every", every)
    pages: dict[Group, Pages] = {rival: read_pages(rival, metric, "metric") for rival in found.values()}

    def read(group: Group) -> Series | None:
        if group not in found:
            return None
        pair = paired_pages(read_pages(group, metric, "metric"), pages[found[group]])
        return pair.sums(pages_between) if pair else None

    legend = Legend(shown.groups, shown.labels)
    names = dict.fromkeys(legend.names[rival] for rival in pages)
    figure = curves(shown, YAxis(f"sum of {heading(metric)}, minus that of {' or '.join(names)}"), {"": read})
    for axes in figure.axes:
        axes.axhline(0, color=INK, linewidth=0.8, zorder=0)
    return figure
