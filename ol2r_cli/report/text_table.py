"""A table of text, as markdown, LaTeX or on a terminal. The template of report.html renders the same record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ol2r_cli.formatting import print_table

_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
LETTERS = "".join(_RAISED)  # Unicode has no superscript q
_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "↑": r"$^{\uparrow}$", "↓": r"$^{\downarrow}$", "|": r"\textbar{}", "<": "$<$", ">": "$>$"},
}


class Cell(NamedTuple):
    """One cell of a table: its text, a mark of significance (↑, ↓ or letters), and whether it is the best value."""

    text: str
    mark: str = ""
    best: bool = False


@dataclass(frozen=True)
class TextTable:
    """Headings, and rows with one cell for each. numbers: for each column, whether it is aligned to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[bool]

    @classmethod
    def of_text(cls, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
        """A table without marks, aligned to the left."""
        return cls(headings, [[Cell(text) for text in row] for row in rows], [False] * len(headings))

    def without_empty(self) -> TextTable:
        """The same table without the columns that are empty in all rows."""
        return self._with([any(row[column].text for row in self.rows) for column in range(len(self.headings))])

    def fitting(self, width: int) -> tuple[TextTable, str]:
        """The same table where it has this width, otherwise without columns with one value, and a line with these."""
        columns = [
            [heading, *map(_with_mark, cells)] for heading, *cells in zip(self.headings, *self.rows, strict=True)
        ]
        same = [len(self.rows) > 1 and len(set(column[1:])) == 1 for column in columns]
        if sum(2 + max(map(len, column)) for column in columns) - 2 <= width or not any(same):
            return self, ""
        said = ", ".join(" ".join(column[:2]) for column, one in zip(columns, same, strict=True) if one)
        return self._with([not one for one in same]), f"In all rows: {said}."

    def _with(self, kept: Sequence[bool]) -> TextTable:
        columns = [column for column, keep in enumerate(kept) if keep]
        return TextTable(
            [self.headings[column] for column in columns],
            [[row[column] for column in columns] for row in self.rows],
            [self.numbers[column] for column in columns],
        )


def markdown(table: TextTable) -> str:
    """A markdown table whose columns are aligned as text, too."""
    texts = [[*table.headings], *([_with_mark(cell) for cell in row] for row in table.rows)]
    lines = [list(map(in_markdown, line)) for line in texts]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    rule = [
        "-" * (width - 1) + ":" if number else "-" * width for width, number in zip(widths, table.numbers, strict=True)
    ]
    return "\n".join(_markdown_line(line, widths, table.numbers) for line in (lines[0], rule, *lines[1:]))


def in_markdown(text: str) -> str:
    """Text that ends no cell, and is no HTML, link or image."""
    return re.sub(r"[\\|]|<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", text)


def _markdown_line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numbers, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _with_mark(cell: Cell) -> str:
    """Text and mark, letters as superscripts: `0.4123 ± 0.0021 ↑`, `0.4123 ᵃᶜ`."""
    mark = "".join(_RAISED.get(char, char) for char in cell.mark)
    return f"{cell.text} {mark}" if mark else cell.text


def latex(table: TextTable, notes: Sequence[str] = ()) -> str:
    """A tabular for \\usepackage{booktabs}: best values bold, marks as superscripts, notes as comments above."""
    columns = "".join("r" if number else "l" for number in table.numbers)
    head = " & ".join(_escaped(text) for text in table.headings)
    rows = [" & ".join(_latex_cell(cell) for cell in row) for row in table.rows]
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


def _latex_cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    mark = _escaped(cell.mark) if cell.mark in "↑↓" else f"$^{{{cell.mark}}}$"
    return (f"\\textbf{{{text}}}" if cell.best else text) + mark


def _escaped(text: str) -> str:
    """LaTeX for the text; a minus before a digit is set in math mode."""
    escaped = "".join(_LATEX.get(char, char) for char in text)
    return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", escaped)


def terminal(tables: Sequence[TextTable], notes: Sequence[str]) -> None:
    """Print tables and notes with rich, wrapped to the width of the terminal; best values are bold."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for table, same in (table.fitting(console.width) for table in tables):
        rows = [[Text(_with_mark(cell), style="bold" if cell.best else "") for cell in row] for row in table.rows]
        print_table(table.headings, rows, table.numbers)
        console.print(Text(same and f"{same}\n", style="dim"))
    for line in notes:
        console.print(Text(line, style="dim"))
