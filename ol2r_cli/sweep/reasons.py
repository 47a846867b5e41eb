"""Why jobs cannot be run, told once for all that have the same reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ol2r_cli.sweep.cell import Cell

SHOWN = 10  # reasons told one by one


class BadJobs(ValueError):
    """Some jobs of a sweep have a bad configuration, and nothing has been run."""

    def __init__(self, bad: Sequence[Cell], jobs: int):
        self.bad = bad
        super().__init__(refusal(bad, jobs))


def refusal(bad: Sequence[Cell], jobs: int) -> str:
    """A line a reason, with the jobs it holds for, and what to type to run the others; one line for one reason."""
    lines = told(bad, jobs)
    good = jobs - len(bad)
    rest = f"nothing has been run: --keep-going runs the other {good}" if good else ""
    if len(lines) == 1:
        return "; ".join([*lines, *([rest] if rest else [])])
    return "\n".join(
        [f"{len(bad)} of {jobs} jobs cannot be run, and nothing has been run:", *(f"  {line}" for line in lines)]
    ) + (f"\n  --keep-going runs the other {good}" if good else "")


def told(bad: Sequence[Cell], jobs: int) -> list[str]:
    """A line for each of the first reasons, and a count of the others."""
    cells_of: dict[str, list[Cell]] = defaultdict(list)
    for cell in bad:
        cells_of[cell.reason].append(cell)
    lines = []
    for reason, cells in list(cells_of.items())[:SHOWN]:
        more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
        lines.append(reason if len(cells) == jobs else f"{reason} (#{cells[0].number} {cells[0].name}{more})")
    if len(cells_of) > SHOWN:
        lines.append(f"and {len(cells_of) - SHOWN} more such reasons")
    return lines


def in_one_line(error: Exception) -> str:
    """An error's message; of the operating system's, what it is about."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
