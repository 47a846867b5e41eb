"""How reports show a metric of summary.json: heading, axis label, digits and direction."""

from __future__ import annotations

from ol2r_cli.columns import Column, RunColumns, metrics_of

# What real users do, below a table that has the metric: docs/algorithms/real_users.md has the sources.
BESIDE = {
    "page_clicks": (
        "Logs of search engines, for comparison: Baidu-ULTR has .69 clicks a page, a click on .466 and several on .131 "
        "of the pages, click rates of .278, .142, .073, .034 and .007 at ranks 1, 2, 3, 5 and 10; sixty navigational "
        "queries of Yandex have .687, .082, .033, .012 and .003 there."
    )
}
_shared = metrics_of([RunColumns()])
_declared: dict[str, Column] = {}  # metrics of the measures of runs that have been read


def declare(columns: RunColumns) -> None:
    """Remember how the metrics of a run are shown, for the functions below."""
    if columns.declared():
        _declared.update(metrics_of([columns]))


def described(metric: str) -> Column:
    """Return how reports show a metric of summary.json; one that no run declares keeps its name."""
    return _shared.get(metric) or _declared.get(metric) or Column(metric, digits=2)


def heading(metric: str) -> str:
    """Return the name of a metric in a table."""
    return described(metric).heading


def axis_label(metric: str) -> str:
    """Return the name of a metric beside the axis of a figure."""
    return described(metric).axis or heading(metric)


def digits(metric: str) -> int:
    """Return the number of digits shown behind the decimal point."""
    return described(metric).digits


def gain(metric: str, difference: float) -> float:
    """Return a difference so that it is above 0 where it is an improvement; as it is where no direction is better."""
    return -difference if described(metric).higher_is_better is False else difference
