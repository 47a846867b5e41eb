"""A table in words for eyes: markdown, LaTeX, a terminal. Rows of cells come in, text goes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "|": r"\textbar{}", "<": "$<$", ">": "$>$"},
}


class Cell(NamedTuple):
    """What stands in one place of a table: a text, a mark of significance (↑, ↓ or letters), whether it is the best."""

    text: str
    mark: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Headings, and rows of as many cells. `numbers` tells the columns that are aligned to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[bool]

    def without_empty(self) -> Table:
        """The same without columns that are empty in all rows."""
        kept = [place for place in range(len(self.headings)) if any(row[place].text for row in self.rows)]
        return Table(
            [self.headings[place] for place in kept],
            [[row[place] for place in kept] for row in self.rows],
            [self.numbers[place] for place in kept],
        )


def markdown(table: Table) -> str:
    """With columns that are aligned as text, too."""
    plain = [[*table.headings], *([shown(cell) for cell in row] for row in table.rows)]
    lines = [[text.replace("|", "\\|") for text in line] for line in plain]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = [
        "-" * (width - 1) + ":" if number else "-" * width for width, number in zip(widths, table.numbers, strict=True)
    ]
    return "\n".join(_line(line, widths, table.numbers) for line in (lines[0], rule, *lines[1:]))


def shown(cell: Cell) -> str:
    """Its text with the mark behind it, letters raised: `0.4123 ± 0.0021 ↑`, `0.4123 ᵃᶜ`."""
    mark = "".join(_RAISED.get(char, char) for char in cell.mark)
    return f"{cell.text} {mark}" if mark else cell.text


def latex(table: Table, notes: Sequence[str] = ()) -> str:
    """A tabular for \\usepackage{booktabs}, best values bold, marks as superscripts; notes are comments above it."""
    columns = "".join("r" if number else "l" for number in table.numbers)
    head = " & ".join(_escaped(text) for text in table.headings)
    rows = [" & ".join(_in_latex(cell) for cell in row) for row in table.rows]
    return "\n".join(
        [
            *(f"% {line}" for line in ("\\usepackage{booktabs}", *notes)),
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            f"{head} \\\\",
            "\\midrule",
            *(f"{row} \\\\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
        ]
    )


def terminal(tables: Sequence[Table], notes: Sequence[str]) -> None:
    """Print with rich, wrapped to the width of the terminal; best values are bold."""
    from rich.console import Console
    from rich.table import Table as Rich
    from rich.text import Text

    console = Console(highlight=False)
    for table in tables:
        rich = Rich(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for heading, number in zip(table.headings, table.numbers, strict=True):
            rich.add_column(Text(heading), justify="right" if number else "left", overflow="fold")
        for row in table.rows:
            rich.add_row(*(Text(shown(cell), style="bold" if cell.best else "") for cell in row))
        console.print(rich)
        console.print()
    for line in notes:
        console.print(Text(line, style="dim"))


def _in_latex(cell: Cell) -> str:
    text = _escaped(cell.text)
    mark = _escaped(cell.mark) if cell.mark in "↑↓" else f"$^{{{cell.mark}}}$"
    return (f"\\textbf{{{text}}}" if cell.best else text) + mark


def _escaped(text: str) -> str:
    """Minus signs before digits become those of mathematics."""
    escaped = "".join(_LATEX.get(char, char) for char in text)
    return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", escaped)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numbers, strict=True)
    )
    return f"| {' | '.join(padded)} |"
