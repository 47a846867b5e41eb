"""Numbers, durations, names and tables as text. Imports only the standard library, and rich for a terminal."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection, Sequence


def nearest(name: str, names: Collection[str], prefix: str = "") -> str:
    """`: did you mean X?` for the name with the most similar spelling; empty when no name is similar."""
    similar = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name.lower(), names, n=1)
    return f": did you mean {prefix}{similar[0]}?" if similar else ""


def must_be_one_of(what: str, names: Collection[str], given: str, prefix: str = "", meant: str = "") -> str:
    """The message for a name that is none of `names`: first one that is similar to it, or to what is `meant` by it."""
    listed = f"{what} must be one of {', '.join(names)}"
    near = nearest(meant or given, names, prefix)
    return f"{prefix or f'{what} '}{given}{near} {listed}" if near else f"{listed}, got '{given}'"


def duration(seconds: float) -> str:
    """Seconds in the two largest units: 8.2s, 3m 05s, 2h 07m, 3d 04h."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02d}h"
    if hours:
        return f"{hours}h {minute:02d}m"
    return f"{minutes}m {second:02d}s" if minutes else f"{seconds:.1f}s"


def byte_size(count: float) -> str:
    """A number of bytes in decimal units: 812 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """A count with its noun: 1 job, 2 jobs."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path, from the working directory on if it is below it."""
    text, below = os.fspath(path), os.getcwd() + os.sep
    return text.removeprefix(below)


def one_line(text: object) -> str:
    """Text, such as the message of an error, without line breaks and repeated blanks."""
    return " ".join(str(text).split())


def error_line(error: BaseException) -> str:
    """The type and the message of an error in one line: `RuntimeError: a slip`."""
    return one_line(f"{type(error).__name__}: {error}")


def show(rows: Sequence[Sequence[str]], headings: Sequence[str] = (), indent: int = 0, numbers: bool = False) -> None:
    """Prints `rows`, all of the same length, in aligned columns with two blanks between them.

    `numbers` aligns all but the first column right. On a terminal the widest columns are wrapped, none with `numbers`.
    """
    if sys.stdout.isatty():
        _show_wrapped(rows, headings, indent, numbers)
        return
    table = [*([headings] if headings else []), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            cell.rjust(width) if numbers and column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print((" " * indent + "  ".join(cells)).rstrip())


def _show_wrapped(rows: Sequence[Sequence[str]], headings: Sequence[str], indent: int, numbers: bool) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    columns = max(map(len, [headings, *rows]))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(headings), header_style="bold")
    for column in range(columns):
        table.add_column(
            Text(headings[column]) if headings else "",
            justify="right" if numbers and column else "left",
            no_wrap=numbers,  # else the widest columns share what is left
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console(soft_wrap=False).print(Padding(table, (0, 0, 0, indent)))


def plus_minus(mean: float, spread: float | None, digits: int, sign: str = "", separator: str = "") -> str:
    """`0.4123 ± 0.0021`, or `0.4123` where `spread` is None.

    sign "+" marks positive means; separator "," groups thousands.
    """
    text = f"{mean:{sign}{separator}.{digits}f}"
    return text if spread is None else f"{text} ± {spread:{separator}.{digits}f}"
