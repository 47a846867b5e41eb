"""Rows of text in columns: wrapped to the width of a terminal, one line a row where a program reads along."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def show(rows: Sequence[Sequence[str]], headings: Sequence[str] = (), indent: int = 0, numbers: bool = False) -> None:
    """Print `rows`, all of the same length, two blanks apart; `numbers` aligns all but the first column right.

    Only the last column is wrapped on a terminal, or with `numbers` none.
    """
    if sys.stdout.isatty():
        _show_wrapped(rows, headings, indent, numbers)
        return
    table = [*([headings] if headings else []), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print((" " * indent + "  ".join(cells)).rstrip())


def _show_wrapped(rows: Sequence[Sequence[str]], headings: Sequence[str], indent: int, numbers: bool) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    columns = max(map(len, [headings, *rows]))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings), header_style="bold")
    for place in range(columns):
        last = place == columns - 1
        table.add_column(
            Text(headings[place]) if headings else "",
            justify="right" if numbers and place else "left",
            no_wrap=numbers or not last,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console(soft_wrap=False).print(Padding(table, (0, 0, 0, indent)))
