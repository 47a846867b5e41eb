"""A table of text, as markdown, LaTeX or on a terminal. The template of report.html renders the same record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from ol2r_cli.formatting import print_table
from ol2r_cli.program import as_called

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

    def __str__(self) -> str:
        """Text and mark, letters as superscripts: `0.4123 ± 0.0021 ↑`, `0.4123 ᵃᶜ`."""
        return " ".join(filter(None, [self.text, "".join(_RAISED.get(char, char) for char in self.mark)]))


@dataclass(frozen=True)
class TextTable:
    """Headings, and rows with one cell for each. numbers: for each column, whether it is aligned to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[bool]

    @classmethod
    def of(cls, words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> TextTable:
        """A table with columns of words, aligned to the left, and then of numbers."""
        cells = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        return cls([*words, *numbers], cells, [False] * len(words) + [True] * len(numbers))

    def without_empty(self) -> TextTable:
        """The same table without the columns that are empty in all rows."""
        return self._with([any(row[column].text for row in self.rows) for column in range(len(self.headings))])

    def fitting(self, width: int) -> tuple[TextTable, str]:
        """The same table where it has this width, otherwise without columns with one value, and a line with these."""
        columns = [[heading, *map(str, cells)] for heading, *cells in zip(self.headings, *self.rows, strict=True)]
        same = [len(self.rows) > 1 and len(set(column[1:])) == 1 for column in columns]
        if sum(2 + max(map(len, column)) for column in columns) - 2 <= width or not any(same):
            return self, ""
        said = ", ".join(" ".join(column[:2]) for column in compress(columns, same))
        return self._with([not one for one in same]), f"In all rows: {said}."

    def _with(self, kept: Sequence[bool]) -> TextTable:
        rows = [list(compress(row, kept)) for row in self.rows]
        return TextTable(list(compress(self.headings, kept)), rows, list(compress(self.numbers, kept)))


def markdown(table: TextTable) -> str:
    """A markdown table whose columns are aligned as text, too."""
    aligned = []
    for column, number in zip(zip(table.headings, *table.rows, strict=True), table.numbers, strict=True):
        texts = [in_markdown(str(cell)) for cell in column]
        width = max(3, *map(len, texts))
        cells = [text.rjust(width) if number else text.ljust(width) for text in texts]
        aligned.append([cells[0], "-" * (width - 1) + "-:"[number], *cells[1:]])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*aligned, strict=True))


def in_markdown(text: str) -> str:
    """Text that ends no cell, and is no HTML, link or image."""
    return re.sub(r"[\\|]|<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", text)


def latex(table: TextTable, notes: Sequence[str] = ()) -> str:
    """A tabular for \\usepackage{booktabs}: best values bold, marks as superscripts, notes as comments above."""

    def escaped(text: str) -> str:  # a minus before a digit is set in math mode
        return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", "".join(_LATEX.get(char, char) for char in text))

    def cell(cell: Cell) -> str:
        text = f"\\textbf{{{escaped(cell.text)}}}" if cell.best else escaped(cell.text)
        return text + (escaped(cell.mark) if cell.mark in "↑↓" else f"$^{{{cell.mark}}}$")

    columns = "".join("r" if number else "l" for number in table.numbers)
    lines = [*(f"% {line}" for line in ("\\usepackage{booktabs}", *notes)), f"\\begin{{tabular}}{{{columns}}}"]
    lines += ["\\toprule", f"{' & '.join(map(escaped, table.headings))} \\\\", "\\midrule"]
    lines += [f"{' & '.join(map(cell, row))} \\\\" for row in table.rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def terminal(tables: Sequence[TextTable], notes: Sequence[str]) -> None:
    """Print tables and notes with rich, wrapped to the width of the terminal; best values are bold."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for table, same in (table.fitting(console.width) for table in tables):
        rows = [[Text(str(cell), style="bold" if cell.best else "") for cell in row] for row in table.rows]
        print_table(table.headings, rows, table.numbers)
        console.print(Text(same and f"{same}\n", style="dim"))
    for line in notes:
        console.print(Text(as_called(line), style="dim"))
