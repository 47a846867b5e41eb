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
        """The same table where it has this width, otherwise `without_same`."""
        columns = [[heading, *map(str, cells)] for heading, *cells in zip(self.headings, *self.rows, strict=True)]
        is_narrow = sum(2 + max(map(len, column)) for column in columns) - 2 <= width
        return (self, "") if is_narrow else self.without_same()

    def without_same(self) -> tuple[TextTable, str]:
        """The same table without the columns that have one value in several rows, and a line with these, or none.

        With all columns where all rows are the same.
        """
        columns = [list(map(str, cells)) for cells in zip(*self.rows, strict=True)]
        same = [len(self.rows) > 1 and len(set(column)) == 1 for column in columns]
        if not any(same) or all(same):
            return self, ""
        told = [f"{heading} {column[0]}" for heading, column in zip(self.headings, columns, strict=True)]
        return self._with([not one for one in same]), f"In all rows: {', '.join(compress(told, same))}."

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
