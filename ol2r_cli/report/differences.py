"""The paired differences of a comparison as a table of their own: one row a comparison and metric."""

from __future__ import annotations

from collections import Counter

from ol2r_cli.report.comparison import Comparison, Difference, arrow
from ol2r_cli.report.formats import Cell, Table
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.table import plus_minus


def differences(comparison: Comparison, labels: Labels) -> Table:
    """Difference with its interval, p, p after Holm, effect size, wins/ties/losses and the number of pairs."""
    rows, name = [], names(comparison, labels)
    for d in comparison.differences:
        row = [heading(d.metric), d.group.choices["dataset"], d.group.choices["click"], name[d.group], name[d.rival]]
        numbers = [probability(d.p), probability(d.holm), "" if d.effect is None else f"{d.effect:+.2f}"]
        value = Cell(plus_minus(d.estimate, digits(d.metric) + 1, "+"), arrow(d))
        counts = [f"{d.wins}/{d.ties}/{d.losses}", _pairs(d)]
        rows.append([*map(Cell, row), value, *map(Cell, [*numbers, *counts])])
    words = ["metric", "dataset", "click", "ranker", "minus"]
    headings = [*words, "difference", "p", "p (Holm)", "g_z", "win/tie/loss", "pairs"]
    return Table(headings, rows, [place >= len(words) for place in range(len(headings))])


def names(comparison: Comparison, labels: Labels) -> dict[Group, str]:
    """The ranker of each group; with its settings where it would be several rows of one dataset and click model."""
    compared = dict.fromkeys(group for d in comparison.differences for group in (d.group, d.rival))

    def row(group: Group) -> tuple[str, str, str]:
        return group.choices["dataset"], group.choices["click"], labels.ranker(group)

    rows = Counter(map(row, compared))
    return {
        group: f"{labels.ranker(group)} {labels.short(group)}".rstrip()
        if rows[row(group)] > 1
        else labels.ranker(group)
        for group in compared
    }


def probability(p: float | None) -> str:
    """Three digits behind the point, so many more as a small one needs, <1e-6 below that."""
    if p is None:
        return ""
    return "<1e-6" if p < 1e-6 else f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _pairs(difference: Difference) -> str:
    folds = difference.estimate.folds
    return f"{difference.estimate.n}" + (f" in {folds} folds" if folds > 1 else "")
