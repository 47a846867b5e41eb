"""`ol2r status [DIR]`: the runs below a folder: state, progress and speed, and the command that resumes one."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

from ol2r_cli.cli import argument, command
from ol2r_cli.config.catalogue import default_output_dir
from ol2r_cli.config.overrides import split_words
from ol2r_cli.files import as_json
from ol2r_cli.formatting import duration, plural, printable, show
from ol2r_cli.report.run_groups import RunFilter
from ol2r_cli.run.run import STATES, Run, find_runs

HEADINGS = ("state", "run", "rounds", "rounds/s", "time", "note")
# What the command in the note does.
_RESUME = {"failed": "run again", "damaged": "run again", "killed": "go on", "interrupted": "go on"}


@command(
    argument(
        "directory",
        metavar="DIR|NAME=VALUE",
        nargs="*",
        help="default: output_dir of ol2r.yaml, or outputs; of these the runs with these settings",
    ),
    argument("--json", action="store_true", help="a JSON list: path, state and the content of run.json"),
)
def main(given: argparse.Namespace) -> None:
    folders, words = split_words(given.directory)
    if len(folders) > 1:
        raise ValueError(f"DIR must be one folder, got {' '.join(map(str, folders))}")
    root = folders[0] if folders else default_output_dir()
    if not root.is_dir():
        missing = f"DIR must be a folder with runs, got {root}, which does not exist"
        raise ValueError(f"{missing}: start a run with `ol2r run`")
    runs = [run for path in find_runs(root) if (run := Run.read(path)) is not None]
    if words:
        chosen = RunFilter(words)
        runs = list(filter(chosen.run, runs))
        chosen.check()
    if given.json:
        print(as_json([{"path": str(r.path), "state": r.state, **r.manifest, "error": r.error} for r in runs]))
        return
    if not runs:
        print(f"no runs below {root}: start one with `ol2r run`")
        return
    on_terminal, columns = sys.stdout.isatty(), list(range(len(HEADINGS)))
    if on_terminal:
        root = Path(os.path.commonpath([run.path.parent for run in runs]))
    rows = [tuple(map(printable, _row(run, root))) for run in runs]
    if on_terminal and len(rows) > 1:  # columns that differ, and above them what the others have in every row
        columns = [column for column in columns if len({row[column] for row in rows}) > 1]
        same = [f"{HEADINGS[c]} {cell.strip()}" for c, cell in enumerate(rows[0]) if cell and c not in columns]
        print(printable(", ".join([f"all below {root}", *same])))
        if sum(max(len(row[column]) for row in rows) for column in columns) > shutil.get_terminal_size().columns:
            rows = [(row[0], re.sub("/|-(?=[0-9a-f]{10}$)", r"\g<0>\n", row[1]), *row[2:]) for row in rows]  # whole ids
    show([[row[column] for column in columns] for row in rows], [HEADINGS[column] for column in columns])
    counts = Counter(run.state for run in runs)
    print(f"{plural(len(runs), 'run')}: {', '.join(f'{counts[name]} {name}' for name in STATES if counts[name])}")


def _row(run: Run, root: Path) -> tuple[str, ...]:
    name = run.path.name if run.path == root else str(run.path.relative_to(root))
    if not run.manifest:
        return run.state, name, "", "", "", run.error or ""
    speed = run.manifest.get("rounds_per_second")
    percent = f" ({run.round / run.rounds:.0%})" if run.round < run.rounds else ""
    note = [run.manifest.get("note", ""), (run.error or "") if run.state in _RESUME else ""]
    if run.state == "running" and run.remaining is not None:
        note.append(f"{duration(run.remaining)} to go")
    if run.state in _RESUME:
        note.append(f"{_RESUME[run.state]}: {run.command}")
    return (
        *(run.state, name, f"{run.round}/{run.rounds}{percent}", f"{speed:8,.1f}" if speed else ""),
        *(duration(run.manifest.get("seconds") or 0.0), "; ".join(filter(None, note))),
    )
