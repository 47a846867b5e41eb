"""`ol2r clean [DIR]`: what runs take on disk, by kind; removes what options name, after a question.

examples:
  ol2r clean                                       sizes by kind; offers to remove left-over temporaries only
  ol2r clean outputs --state failed damaged        whole runs without a result
  ol2r clean outputs --state interrupted killed --older-than 30d
  ol2r clean outputs --checkpoints --interactions  these files of finished runs; the runs stay
  ol2r clean --logs --yes                          the output of failed jobs of sweeps, without a question
  ol2r clean --cache                               parsed datasets, too: they are parsed again when needed
Runs that are running, and files that ol2r has not written, are never removed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.plugins.look_after.removal import REMOVABLE, Removal, RunFiles, cache_entries, files_of_runs, sweep_logs
from ol2r_cli.run import CHECKPOINT, DONE, FAILED, INTERACTIONS
from ol2r_cli.text.formatting import byte_size, plural, printable, wrapped
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import show

_HOURS = {"h": 1, "d": 24, "w": 168}
_LISTED = 10  # removals that are listed one by one
_STATES = ("finished", "running", *REMOVABLE)


@command(
    argument("directory", metavar="DIR", nargs="?", type=Path, help="default: output_dir of ol2r.yaml, or outputs"),
    argument(
        "--state", metavar="STATE", nargs="+", action=Listed, choices=REMOVABLE, default=[], help=", ".join(REMOVABLE)
    ),
    argument(
        "--checkpoints", action="append_const", dest="files", const=CHECKPOINT, help="checkpoint.pt of finished runs"
    ),
    argument(
        "--interactions",
        action="append_const",
        dest="files",
        const=INTERACTIONS,
        help="interactions.parquet of finished runs",
    ),
    argument("--logs", action="store_true", help="the output of failed jobs of sweeps"),
    argument("--cache", action="store_true", help="the cache of parsed datasets and offline fits"),
    argument("--cache-dir", metavar="DIR", type=Path, help="the cache (default: $OL2R_CACHE, or ~/.cache)"),
    argument("--older-than", metavar="AGE", help="only what has not changed for so long: 12h, 30d, 8w"),
    argument("--yes", action="store_true", help="do not ask"),
)
def main(given: argparse.Namespace) -> int:
    before = _before(given.older_than)
    root = _root(given)
    runs, logs = list(files_of_runs(root)), list(sweep_logs(root))
    cached = list(cache_entries(_cache(given.cache_dir))) if given.cache else []
    print(f"{plural(len(runs), 'run')} below {root}, {byte_size(sum(run.size for run in runs))}")
    _print_sizes(_sizes(runs, logs, cached))
    print()
    of_runs = [removal for run in runs for removal in run.removals(given.state, given.files or (), root)]
    chosen = [*of_runs, *(logs if given.logs else ()), *cached]
    removals = [removal for removal in chosen if removal.changed < before]
    if not removals:
        advice = "" if _is_specific(given) else ": choose with --state, --checkpoints, .. (ol2r clean --help)"
        print(wrapped(f"nothing to remove{as_called(advice)}"))
        return DONE
    _print_removals(removals)
    if given.yes or _is_confirmed(given):
        return _remove(removals)
    print("nothing was removed")
    return DONE


def _root(given: argparse.Namespace) -> Path:
    """Return the folder with runs; ValueError unless it exists, or only the cache is asked for."""
    root: Path = given.directory or default_output_dir()
    if not root.is_dir() and (given.directory or not given.cache):
        raise ValueError(f"DIR must be a folder with runs, got {root}, which does not exist")
    return root


def _is_specific(given: argparse.Namespace) -> bool:
    """Return whether it was typed what to remove."""
    return any((given.state, given.files, given.logs, given.cache))


def _before(age: str | None) -> float:
    """Return the time, in seconds since the epoch, before which something must have changed last to be so old."""
    if not age:
        return float("inf")
    written = re.fullmatch(r"(\d+)([hdw])", age)
    if written is None:
        raise ValueError(f"--older-than must be hours, days or weeks such as 12h, 30d or 8w, got {age}")
    return time.time() - 3600 * int(written[1]) * _HOURS[written[2]]


def _cache(folder: Path | None) -> Path:
    """Return the folder of the cache that was typed, or that runs use by default."""
    default = os.environ.get("OL2R_CACHE") or "~/.cache/ol2r/parsed"
    return Path(os.path.expanduser(os.path.expandvars(folder or default)))


def _sizes(runs: Sequence[RunFiles], logs: Sequence[Removal], cached: Sequence[Removal]) -> dict[str, list[int]]:
    """Return the bytes of each thing on disk, by what it is."""
    finished = [run.files for run in runs if run.run.state == "finished"]
    unfinished = [run.files for run in runs if run.run.state != "finished"]
    idle = [run.temporaries for run in runs if run.run.state != "running"]
    return {
        **{f"{state} runs": [run.size for run in runs if run.run.state == state] for state in _STATES},
        "  checkpoints of finished runs": _sizes_of(CHECKPOINT, finished),
        "  checkpoints to go on from": _sizes_of(CHECKPOINT, unfinished),
        "  interactions": _sizes_of(INTERACTIONS, [*finished, *unfinished]),
        "  temporaries": [sum(temporaries.values()) for temporaries in idle if temporaries],
        "logs of sweeps": [log.size for log in logs],
        "cached datasets and fits": [entry.size for entry in cached],
    }


def _sizes_of(name: str, runs: Sequence[Mapping[str, int]]) -> list[int]:
    return [files[name] for files in runs if name in files]


def _print_sizes(sizes: Mapping[str, Sequence[int]]) -> None:
    rows = [(kind, str(len(of_kind)), byte_size(sum(of_kind))) for kind, of_kind in sizes.items() if of_kind]
    if rows:
        show(rows, ("kind", "number", "size"), numbers=True)


def _print_removals(removals: Sequence[Removal]) -> None:
    print(f"to remove: {byte_size(sum(removal.size for removal in removals))}")
    shown = removals[:_LISTED]
    show([(f"  {removal.kind}", byte_size(removal.size), printable(removal.path)) for removal in shown])
    if len(removals) > _LISTED:
        print(f"  and {len(removals) - _LISTED} more")


def _remove(removals: Sequence[Removal]) -> int:
    """Remove all, print what was left and what was freed, and return the exit code."""
    removed, code = list[Removal](), DONE
    for removal in removals:
        try:
            removal.act()
            removed.append(removal)
        except ValueError as reason:
            print(f"ol2r clean: left: {removal.path} ({reason})", file=sys.stderr)
        except OSError as error:
            print(f"ol2r clean: left: {removal.path} ({error.strerror}: {error.filename})", file=sys.stderr)
            code = FAILED
    freed = byte_size(sum(removal.size for removal in removed))
    print(f"freed {freed}: {len(removed)} of {len(removals)} removed")
    return code


def _is_confirmed(given: argparse.Namespace) -> bool:
    """Ask on a terminal whether to remove; without one, ValueError where it was typed what."""
    if not sys.stdin.isatty():
        if _is_specific(given):
            raise ValueError("nothing was removed, because there is no terminal to ask: type --yes to remove it")
        return False
    try:
        return input("remove? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
