"""A forecast as one page: its lines, the gain over pages, and fitted users beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ol2r_cli.files import write_output
from ol2r_cli.plugins.advise.check import Checked
from ol2r_cli.plugins.advise.forecast import Forecast
from ol2r_cli.plugins.figures.drawing import check_installed, figure_settings, file_content
from ol2r_cli.plugins.page.html_page import templates
from ol2r_cli.plugins.page.page_figures import inline

_INCHES = 5.5
_FIRST = 100  # pages from which on a mean is shown


def write(
    file: Path,
    verdict: str,
    lines: Sequence[tuple[str, str]],
    found: Forecast,
    checked: Sequence[Checked],
    assumptions: Sequence[str],
) -> None:
    """Write the page; ValueError where the file cannot be written, and without matplotlib."""
    check_installed()
    with figure_settings():
        figures = {"gain": _gains(found), "users": _users(checked)}
    names = {
        "gain": "Mean gain of the pages so far, with its 95 % interval.",
        "users": "Clicks on the last pages of the log, and of users who were fitted to the others.",
    }
    inlined = {
        name: inline(file_content(figure, "svg", transparent=True).decode(), name, names[name], _INCHES)
        for name, figure in figures.items()
        if figure is not None
    }
    text = (
        templates(Path(__file__).parent)
        .get_template("advise.html.jinja")
        .render(lines=lines, verdict=verdict, figures=inlined, captions=names, assumptions=assumptions)
    )
    try:
        write_output(file, text.encode())
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {file} ({error.strerror})") from error


def _gains(found: Forecast) -> Figure:
    """Draw the mean gain of the pages so far."""
    figure = Figure(figsize=(_INCHES, 2.6), layout="constrained")
    panel = figure.add_subplot()
    pages, *curves = found.curve
    mean, low, high = (100 * curve / pages / found.production.mean for curve in curves)
    panel.fill_between(pages, low, high, alpha=0.25, linewidth=0)
    panel.plot(pages, mean)
    panel.axhline(0, color="0.4", linewidth=0.8)
    late = pages >= _FIRST
    panel.set(xscale="log", xlabel="pages", ylabel="gain a page so far, % of clicks", xlim=(_FIRST, pages[-1]))
    panel.set_ylim(min(0.0, low[late].min()) - 1, max(0.0, high[late].max()) + 1)
    return figure


def _users(checked: Sequence[Checked]) -> Figure | None:
    """Draw clicks and last clicks by rank, of the log and of fitted users."""
    if not checked:
        return None
    figure = Figure(figsize=(_INCHES, 2.4), layout="constrained")
    for number, (beginning, title) in enumerate({"clicks at": "clicks a page", "last click": "last click"}.items()):
        shown = [each for each in checked if each.name.startswith(beginning)]
        ranks: list[Any] = list(range(1, len(shown) + 1))
        panel = figure.add_subplot(1, 2, number + 1)
        panel.bar(ranks, [each.observed for each in shown], color="0.8", label="log")
        errors = [1.96 * each.deviation for each in shown]
        panel.errorbar(ranks, [each.simulated for each in shown], errors, fmt="o", markersize=3, label="fitted users")
        panel.set(xlabel="rank", title=title)
        panel.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        if not number:
            panel.legend()
    return figure
