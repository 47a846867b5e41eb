"""Settings that are chosen from clicks: what is said of the choice, and the table of values."""

from __future__ import annotations

from collections.abc import Sequence

from ol2r_cli.plugins.click_logs import click_values
from ol2r_cli.plugins.click_logs.click_values import ClickValue
from ol2r_cli.report.best_settings import Selection
from ol2r_cli.report.columns import p_text, unless_none
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.text.formatting import plural, plus_minus
from ol2r_cli.text.table import Cell, TableColumn, TextTable


def doubts(cells: Sequence[Group], best: Group, values: Sequence[ClickValue]) -> list[str]:
    """Return lines on a choice by clicks: what it does not tell apart, and for what the sessions are too few."""
    lines = click_values.doubts(tuple(cells))
    alike = sum(not value.told_apart for value in values if value.cell is not best)
    if alike:
        why = "" if values[0].half_width is not None else ", as it takes two seeds or folds"
        others = plural(len(cells) - 1, "other setting")
        lines.append(f"clicks do not tell {alike} of {others} from the chosen one{why}")
    return lines


def table(selection: Selection, groups: Sequence[Group], labels: Labels) -> TextTable:
    """Return a row for each cell of the grids that clicks chose from, the chosen one first."""

    def is_chosen(value: ClickValue) -> str:
        return "chosen" if value.cell in selection.cells else "" if value.told_apart else "not told apart"

    def behind(value: ClickValue) -> str:
        return "" if value.cell in selection.cells else plus_minus(value.behind, value.behind_half_width, 4)

    columns = [
        TableColumn[ClickValue]("dataset", lambda value: Cell(value.cell.choices["dataset"])),
        TableColumn("click", lambda value: Cell(unless_none(value.cell, "click"))),
        TableColumn("ranker", lambda value: Cell(labels.ranker(value.cell))),
        TableColumn("settings", lambda value: Cell(labels.short(value.cell))),
        TableColumn("", lambda value: Cell(is_chosen(value))),
        TableColumn("DCG@10 by clicks", lambda value: Cell(plus_minus(value.value, value.half_width, 4)), True),
        TableColumn("less than the chosen", lambda value: Cell(behind(value)), True),
        TableColumn("p (Holm)", lambda value: Cell(p_text(value.p)), True),
        TableColumn("sessions", lambda value: Cell(f"{value.sessions:,}"), True),
    ]
    return TextTable.about([value for group in groups for value in selection.compared.get(group, ())], columns)
