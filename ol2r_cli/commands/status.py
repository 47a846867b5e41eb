"""`ol2r status [DIR]`: the runs below a folder: how far, how fast, and what to type where one has stopped."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.results.manifest import duration
from ol2r_cli.results.survey import STATES, RunState, find_runs, read_state

HEADINGS = ("state", "run", "rounds", "rounds/s", "time", "note")
_COLOURS = {"running": "cyan", "finished": "green", "interrupted": "yellow"}  # everything else is red


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when DIR does not exist."""
    parser = argparse.ArgumentParser("ol2r status", description=__doc__.partition(": ")[2])
    parser.add_argument("directory", metavar="DIR", nargs="?", default="outputs", help="default: outputs")
    root = Path(parser.parse_args(arguments).directory)
    if not root.is_dir():
        print(
            f"ol2r status: DIR must be a folder with runs, got {root}, which does not exist: "
            "start a run with `ol2r run`",
            file=sys.stderr,
        )
        return 2
    states = [state for path in find_runs(root) if (state := read_state(path)) is not None]
    if not states:
        print(f"no runs below {root}: start one with `ol2r run`")
        return 0
    rows = [_row(state, root) for state in states]
    if sys.stdout.isatty():
        _print_table(rows)
    else:
        _print_lines(rows)
    counts = Counter(state.state for state in states)
    print(
        f"{len(states)} run{'s' * (len(states) > 1)}: "
        + ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    )
    return 0


def _row(run: RunState, root: Path) -> tuple[str, ...]:
    name = run.path.name if run.path == root else str(run.path.relative_to(root))
    if not run.manifest:
        return run.state, name, "", "", "", run.error or ""
    speed = run.manifest.get("rounds_per_second")
    percent = f" ({run.round / run.rounds:.0%})" if run.round < run.rounds else ""
    return (
        run.state,
        name,
        f"{run.round}/{run.rounds}{percent}",
        f"{speed:.1f}" if speed else "",
        duration(run.manifest.get("seconds") or 0.0),
        _note(run),
    )


def _note(run: RunState) -> str:
    """When it will be done, or why it is not and what to type."""
    if run.state == "running":
        return "" if run.remaining is None else f"{duration(run.remaining)} to go"
    if run.state == "finished":
        return ""
    again = {"failed": "run again", "killed": "go on", "interrupted": "go on"}[run.state]
    return (f"{run.error}; " if run.error else "") + f"{again}: {run.manifest.get('command', '')}"


def _print_lines(rows: Sequence[tuple[str, ...]]) -> None:
    """One run a line, columns two blanks apart, for grep and awk."""
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
    for row in (HEADINGS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("rounds/s", "time") else "left", overflow="fold")
    for state, *rest in rows:
        table.add_row(Text(state, _COLOURS.get(state, "red")), *map(Text, rest))
    Console().print(table)
