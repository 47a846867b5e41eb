"""A table of text: one record, and how it is printed on a terminal, in a pipe and as Markdown.

Other formats of a report render the same record.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from ol2r_cli.text.program import as_called
from ol2r_cli.text.widths import fitting_widths, longest_line, possible_widths, split_columns, total_width

if TYPE_CHECKING:
    from rich.text import Text

_RAISED = dict(zip("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", strict=True))
LETTERS = "".join(_RAISED)  # Unicode has no superscript q
_GAP, _NARROW_GAP = 2, 1  # blanks between two columns; where there is no room, one

Item = TypeVar("Item")


class Cell(NamedTuple):
    """One cell of a table.

    mark: of significance (↑, ↓ or letters). best: whether it is the best value. values: what a frame has in its place,
    by the name of the column, in full precision.
    """

    text: str
    mark: str = ""
    best: bool = False
    values: Mapping[str, Any] = {}

    def __str__(self) -> str:
        """Return text and mark, letters as superscripts: `0.4123 ± 0.0021 ↑`, `0.4123 ᵃᶜ`."""
        raised = "".join(_RAISED.get(char, char) for char in self.mark)
        return " ".join(filter(None, [self.text, raised]))


@dataclass(frozen=True)
class TableColumn(Generic[Item]):
    """A column of a table about items: its heading, its cell for an item, and whether it is aligned to the right."""

    heading: str
    cell: Callable[[Item], Cell]
    is_number: bool = False


@dataclass(frozen=True)
class TextTable:
    """Headings, and rows with one cell for each. numbers: for each column, whether it is aligned to the right.

    below: lines on what its numbers are, where they are not those of every report.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[bool]
    below: Sequence[str] = ()

    @classmethod
    def of(cls, words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> TextTable:
        """Return a table with columns of words, aligned to the left, and then of numbers."""
        cells = [[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        return cls([*words, *numbers], cells, [False] * len(words) + [True] * len(numbers))

    @classmethod
    def about(cls, items: Iterable[Item], columns: Sequence[TableColumn[Item]]) -> TextTable:
        """Return a table with a row for each item."""
        return cls(
            [column.heading for column in columns],
            [[column.cell(item) for column in columns] for item in items],
            [column.is_number for column in columns],
        )

    def values(self) -> list[dict[str, Any]]:
        """Return what a frame has in place of each row."""
        rows: list[dict[str, Any]] = []
        for row in self.rows:
            rows.append({})
            for cell in row:
                rows[-1].update(cell.values)
        return rows

    def without_empty(self) -> TextTable:
        """Return the table without the columns that are empty in all rows."""
        return self._with([any(row[column].text for row in self.rows) for column in range(len(self.headings))])

    def fitting(self, width: int) -> tuple[TextTable, str]:
        """Return the table where it has this width, otherwise `without_same`."""
        columns = [[heading, *map(str, cells)] for heading, *cells in zip(self.headings, *self.rows, strict=True)]
        return (self, "") if total_width(map(longest_line, columns), _GAP) <= width else self.without_same()

    def without_same(self) -> tuple[TextTable, str]:
        """Return the table without the columns that have one value in several rows, and a line with these, or none.

        With all columns where all rows are the same.
        """
        columns = [list(map(str, cells)) for cells in zip(*self.rows, strict=True)]
        same = [len(self.rows) > 1 and len(set(column)) == 1 for column in columns]
        if not any(same) or all(same):
            return self, ""
        told = [f"{heading} {column[0]}" for heading, column in zip(self.headings, columns, strict=True)]
        return self._with([not is_same for is_same in same]), f"In all rows: {', '.join(compress(told, same))}."

    def _with(self, kept: Sequence[bool]) -> TextTable:
        rows = [list(compress(row, kept)) for row in self.rows]
        return TextTable(list(compress(self.headings, kept)), rows, list(compress(self.numbers, kept)))


def markdown(table: TextTable) -> str:
    """Return a markdown table whose columns are aligned as text, too."""
    aligned = []
    for column, number in zip(zip(table.headings, *table.rows, strict=True), table.numbers, strict=True):
        texts = [in_markdown(str(cell)) for cell in column]
        heading, *cells, rule = _aligned([*texts, "---"], number)
        rule = "-" * (len(rule) - 1) + (":" if number else "-")
        aligned.append([heading, rule, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*aligned, strict=True))


def in_markdown(text: str) -> str:
    """Return text that ends no cell, and is no HTML, link or image."""
    return re.sub(r"[\\|]|<(?=[A-Za-z/!?])|(?<=\])\(", r"\\\g<0>", text)


def show(rows: Sequence[Sequence[str]], headings: Sequence[str] = (), indent: int = 0, numbers: bool = False) -> None:
    """Print `rows`, all of the same length, in aligned columns; `numbers` aligns all but the first column right."""
    count = len(rows[0]) if rows else len(headings)
    cells = [list(map(Cell, row)) for row in rows]
    print_table(TextTable(headings, cells, [numbers and column > 0 for column in range(count)]), indent)


def print_table(table: TextTable, indent: int = 0) -> None:
    """Print a table, which may have no headings: on a terminal as wide as it, elsewhere with one line for each row."""
    if sys.stdout.isatty() and table.numbers:
        _print_wrapped(table, indent)
        return
    lines = [[str(cell) for cell in row] for row in table.rows]
    if table.headings:
        lines.insert(0, list(table.headings))
    columns = list(map(_aligned, zip(*lines, strict=True), table.numbers))
    for line in zip(*columns, strict=True):
        print((" " * indent + (" " * _GAP).join(line)).rstrip())


def _aligned(texts: Sequence[str], is_number: bool) -> list[str]:
    """Return the texts of a column in its width."""
    width = max(map(len, texts))
    return [text.rjust(width) if is_number else text.ljust(width) for text in texts]


def print_tables(tables: Sequence[TextTable], notes: Sequence[str]) -> None:
    """Print tables on a terminal, without columns that say nothing where there is no room, and notes below them."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for table in tables:
        shown, same = table.fitting(console.width)
        _print_wrapped(shown)
        console.print(Text(f"{same}\n" if same else "", style="dim"))
    for note in notes:
        console.print(Text(as_called(note), style="dim"))


def print_result(table: TextTable, notes: Sequence[str] = ()) -> None:
    """Print a table with notes below it: for a terminal, or as markdown."""
    if sys.stdout.isatty():
        print_tables([table], notes)
    else:
        print(markdown(table), *notes, sep="\n\n")


def _print_wrapped(table: TextTable, indent: int = 0) -> None:
    """Print a table as wide as the terminal: text is wrapped between words, numbers never are; best values are bold.

    Where the numbers need more columns than the terminal has, headings are wrapped, and what still has no room is a
    second table with the same first columns.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    room, gap = console.width - indent, _GAP
    headings = list(table.headings) or [""] * len(table.numbers)
    texts = [[str(row[place]) for row in table.rows] for place in range(len(headings))]
    columns = possible_widths(headings, texts, table.numbers, room)
    if total_width([column.full for column in columns], gap) > room:
        headings = [re.sub(r" |(?<=-)\b", "\n", heading) for heading in headings]
        columns, gap = possible_widths(headings, texts, table.numbers, room), _NARROW_GAP
    for number, places in enumerate(split_columns(columns, room, gap)):
        widths = fitting_widths([columns[place] for place in places], room, gap)
        rich_table = Table(
            box=None,
            pad_edge=False,
            padding=(0, gap, 0, 0),
            show_header=bool(table.headings),
            header_style="bold",
        )
        for place, width in zip(places, widths, strict=True):
            justify: Literal["right", "left"] = "right" if table.numbers[place] else "left"
            rich_table.add_column(Text(headings[place]), justify=justify, width=width, overflow="fold")
        for row in table.rows:
            rich_table.add_row(*(_rich_text(row[place], width) for place, width in zip(places, widths, strict=True)))
        above = 1 if number else 0
        console.print(Padding(rich_table, (above, 0, 0, indent)))


def _rich_text(cell: Cell, width: int) -> Text:
    """Return a cell for a column of this width, in which a setting that is longer is broken before its value."""
    from rich.text import Text

    words = re.split(r"(\s)", str(cell))
    text = "".join(word.replace("=", "=\n") if len(word) > width else word for word in words)
    return Text(text, style="bold" if cell.best else "")
