"""`ol2r status [DIR]`: the runs below a folder: state, progress and speed, and the command that resumes one."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.overrides import split_words
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.files import as_json
from ol2r_cli.run.run import STATES, Run, find_runs
from ol2r_cli.run.run_filter import RunFilter
from ol2r_cli.text.formatting import duration, plural, printable, wrapped
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import TextTable, print_table, show

HEADINGS = ("state", "run", "rounds", "rounds/s", "time", "note")
_EFFECT = {"failed": "run again", "damaged": "run again", "killed": "go on", "interrupted": "go on"}  # of the command
_ID = "-(?=[0-9a-f]{10}$)"
_BREAKS = ("$^", _ID, f"/|{_ID}")  # where the name of a run is broken: nowhere, before its id, behind its folder, too
_GAP, _NOTE = 2, 16  # blanks between columns, and columns that a note keeps
_COMMANDS = 10  # that a terminal shows; a file has all


@command(
    argument(
        "directory",
        metavar="DIR|NAME=VALUE",
        nargs="*",
        help="folders with runs (default: output_dir of ol2r.yaml, or outputs), and settings that the runs have",
    ),
    argument("--json", action="store_true", help="a JSON list: path, state and the content of run.json"),
)
def main(given: argparse.Namespace) -> None:
    folders, words = split_words(given.directory)
    root = _folder(folders)
    runs = _chosen_runs(root, words)
    if given.json:
        records = [{"path": str(run.path), "state": run.state, **run.manifest, "error": run.error} for run in runs]
        print(as_json(records))
    elif not runs:
        print(as_called(f"no runs below {root}: start one with `ol2r run`"))
    else:
        _show_runs(runs, root)


def _folder(folders: Sequence[Path]) -> Path:
    """Return the folder that is typed, or the default one; ValueError for several, and for one that does not exist."""
    if len(folders) > 1:
        raise ValueError(f"DIR must be one folder, got {' '.join(map(str, folders))}")
    root = folders[0] if folders else default_output_dir()
    if not root.is_dir():
        missing = f"DIR must be a folder with runs, got {root}, which does not exist"
        raise ValueError(f"{missing}: start a run with `ol2r run`")
    return root


def _chosen_runs(root: Path, words: Sequence[str]) -> list[Run]:
    """Return the runs below a folder, with `words` those with these settings; ValueError for a word that no run has."""
    below = [Run.read(path) for path in find_runs(root)]
    runs = [run for run in below if run is not None]
    if words:
        chosen = RunFilter(words)
        runs = list(filter(chosen.run, runs))
        chosen.check()
    return runs


def _show_runs(runs: Sequence[Run], root: Path) -> None:
    """Print a table of runs, how many there are in each state, and the commands by which some of them go on."""
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        root = Path(os.path.commonpath([run.path.parent for run in runs]))
    names = [_name(run, root) for run in runs]
    rows = [tuple(map(printable, _row(run, name))) for run, name in zip(runs, names, strict=True)]
    if on_terminal:
        _show_differences(rows, root)
    else:
        show(rows, HEADINGS)
    counts = Counter(run.state for run in runs)
    states = [f"{counts[state]} {state}" for state in STATES if counts[state]]
    print(f"{plural(len(runs), 'run')}: {', '.join(states)}")
    stopped = [(name, run) for name, run in zip(names, runs, strict=True) if run.state in _EFFECT and run.command]
    shown = stopped[:_COMMANDS] if on_terminal else stopped
    for name, run in shown:
        print(printable(f"{name}, to {_EFFECT[run.state]}:"))
        print(printable(f"  {as_called(run.command)}"))  # in one line, whatever the width, so that it can be copied
    if len(stopped) > len(shown):
        more = f"and {len(stopped) - len(shown)} more"
        print(f"{more}: {as_called('ol2r status')} {shlex.quote(str(root))} | less")


def _name(run: Run, root: Path) -> str:
    """Return the path of a run below a folder, or its own name where it is this folder."""
    return run.path.name if run.path == root else str(run.path.relative_to(root))


def _show_differences(rows: Sequence[Sequence[str]], root: Path) -> None:
    """Print the columns in which rows differ, and above them what all rows have in the others."""
    room = shutil.get_terminal_size().columns
    for breaks in _BREAKS:  # a table of short lines is easier to read than one of many
        broken = [_with_broken_name(row, breaks) for row in rows]
        table, same = TextTable.of(HEADINGS, (), broken).without_empty().without_same()
        if _width(table) <= room:
            break
    print(wrapped(printable(f"below {root}. {same}")))
    print_table(table)


def _with_broken_name(row: Sequence[str], breaks: str) -> list[str]:
    """Return a row in which the name of the run has a line break behind what `breaks` matches."""
    state, name, *others = row
    return [state, re.sub(breaks, r"\g<0>\n", name), *others]


def _width(table: TextTable) -> int:
    """Return the columns of a terminal that a table takes, whose last column is a text that may be wrapped."""
    *texts, notes = zip(*table.rows, strict=True)
    widths = [max(len(line) for cell in cells for line in str(cell).split("\n")) for cells in texts]
    return sum(widths) + _GAP * len(widths) + min(_NOTE, max(len(str(note)) for note in notes))


def _row(run: Run, name: str) -> tuple[str, ...]:
    """Return the cells of a run."""
    if not run.manifest:
        return run.state, name, "", "", "", run.error or ""
    speed = run.manifest.get("rounds_per_second")
    done = run.kept if run.state == "killed" else run.round  # what a process has played after that is lost with it
    percent = f" ({done / run.rounds:.0%})" if done < run.rounds else ""
    seconds = run.manifest.get("seconds") or 0.0
    return (
        run.state,
        name,
        f"{done}/{run.rounds}{percent}",
        f"{speed:8,.1f}" if speed else "",
        duration(seconds),
        "; ".join(_notes(run)),
    )


def _notes(run: Run) -> list[str]:
    """Return what the user wrote, the reason of a failure and the time left, as far as there are such."""
    notes = [run.manifest.get("note", "")]
    if run.state in _EFFECT:
        notes.append(run.error or "")
    if run.state == "running" and run.remaining is not None:
        notes.append(f"{duration(run.remaining)} to go")
    return [note for note in notes if note]
