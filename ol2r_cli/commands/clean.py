"""`ol2r clean [DIR]`: what runs take on disk, by kind, and removing what is chosen, after asking."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.clean.inventory import CHECKPOINT, INTERACTIONS, STATES
from ol2r_cli.commands.columns import show

if TYPE_CHECKING:
    from ol2r_cli.clean.inventory import Kept, Log
    from ol2r_cli.clean.removal import Removal

EPILOG = """examples:
  ol2r clean                                       sizes by kind; offers to remove left-over temporaries only
  ol2r clean outputs --state failed damaged        whole runs that came to nothing
  ol2r clean outputs --state interrupted killed --older-than 30d
  ol2r clean outputs --checkpoints --interactions  these files of finished runs; the runs stay
  ol2r clean --logs --yes                          what failed jobs of sweeps printed, without asking
  ol2r clean --cache                               parsed datasets, too: they are parsed again when needed
A run that is running is never touched, nor is a file that ol2r has not written.
"""
_HOURS = {"h": 1, "d": 24, "w": 168}
_LISTED = 10  # removals that are listed one by one


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 when something could not be removed; 2 when there is nobody to ask, or for a bad DIR or option."""
    parser = argparse.ArgumentParser(
        "ol2r clean",
        usage="ol2r clean [DIR] [--state STATE ...] [--checkpoints] [--interactions] [--logs] [--cache]"
        " [--older-than AGE] [--yes]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", metavar="DIR", nargs="?", type=Path, help="a folder of runs (default: outputs)")
    parser.add_argument("--state", metavar="STATE", nargs="+", choices=STATES, default=[], help=", ".join(STATES))
    parser.add_argument(
        "--checkpoints", action="store_true", help="checkpoint.pt of finished runs: no more rounds then"
    )
    parser.add_argument("--interactions", action="store_true", help="interactions.parquet of finished runs")
    parser.add_argument("--logs", action="store_true", help="what failed jobs of sweeps printed")
    parser.add_argument("--cache", action="store_true", help="the cache of parsed datasets and offline fits")
    parser.add_argument("--cache-dir", metavar="DIR", type=Path, help="where it is (default: $OL2R_CACHE, or ~/.cache)")
    parser.add_argument("--older-than", metavar="AGE", help="only what has not changed for so long: 12h, 30d, 8w")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_intermixed_args(arguments)
    try:
        return _clean(given)
    except ValueError as error:
        print(f"ol2r clean: {error}", file=sys.stderr)
        return 2


def _clean(given: argparse.Namespace) -> int:
    from ol2r_cli.clean.cache import entries
    from ol2r_cli.clean.inventory import logs, runs
    from ol2r_cli.clean.removal import Choice, choose

    root = given.directory or Path("outputs")
    before = _before(given.older_than)
    if given.directory or not given.cache:
        _check(root)
    found, printed = list(runs(root)), list(logs(root))
    cached = list(entries(_cache_dir(given), float("inf"))) if given.cache else []
    _show_sizes(root, found, printed, cached)
    choice = Choice(frozenset(given.state), given.checkpoints, given.interactions, given.logs, before)
    chosen = list(choose(found, printed, choice, root))
    chosen += entries(_cache_dir(given), before) if given.cache else []
    asked = given.state or given.checkpoints or given.interactions or given.logs or given.cache
    if not chosen:
        print("\nnothing to remove" + ("" if asked else ": choose with --state, --checkpoints, .. (ol2r clean --help)"))
        return 0
    _show_chosen(chosen)
    if given.yes or _agreed(needed=bool(asked)):
        return _remove(chosen)
    print("nothing was removed")
    return 0


def _check(root: Path) -> None:
    if not root.is_dir():
        raise ValueError(f"DIR must be a folder with runs, got {root}, which does not exist")


def _before(age: str | None) -> float:
    """Seconds since the epoch so long ago; in the far future without an age."""
    if age is None:
        return float("inf")
    told = re.fullmatch(r"(\d+)([hdw])", age)
    if told is None:
        raise ValueError(f"--older-than must be hours, days or weeks such as 12h, 30d or 8w, got {age}")
    return time.time() - 3600 * int(told[1]) * _HOURS[told[2]]


def _cache_dir(given: argparse.Namespace) -> Path:
    place = given.cache_dir or os.environ.get("OL2R_CACHE", "~/.cache/ol2r/parsed")
    return Path(os.path.expandvars(place)).expanduser()


def _show_sizes(root: Path, runs: Sequence[Kept], logs: Sequence[Log], cached: Sequence[Removal]) -> None:
    """A line for each kind, of those there are."""
    states = dict.fromkeys(("finished", "running", *STATES))
    lines = {f"{state} runs": [run.size for run in runs if run.state == state] for state in states}
    whole = [size for sizes in lines.values() for size in sizes]
    done = [run.files for run in runs if run.state == "finished"]
    others = [run.files for run in runs if run.state != "finished"]
    lines["  checkpoints of finished runs"] = [files[CHECKPOINT] for files in done if CHECKPOINT in files]
    lines["  checkpoints to go on from"] = [files[CHECKPOINT] for files in others if CHECKPOINT in files]
    lines["  interactions"] = [run.files[INTERACTIONS] for run in runs if INTERACTIONS in run.files]
    lines["  temporaries"] = [sum(r.temporaries.values()) for r in runs if r.temporaries and r.state != "running"]
    lines["logs of sweeps"] = [log.size for log in logs]
    lines["cached datasets and fits"] = [removal.size for removal in cached]
    rows = [(kind, str(len(sizes)), size(sum(sizes))) for kind, sizes in lines.items() if sizes]
    print(f"{len(whole)} run{'s' * (len(whole) != 1)} below {root}, {size(sum(whole))}")
    if rows:
        show(rows, ("kind", "number", "size"), numbers=True)


def _show_chosen(chosen: Sequence[Removal]) -> None:
    print(f"\nto remove: {size(sum(removal.size for removal in chosen))}")
    show([(f"  {removal.kind}", size(removal.size), str(removal.path)) for removal in chosen[:_LISTED]])
    if len(chosen) > _LISTED:
        print(f"  and {len(chosen) - _LISTED} more")


def _agreed(needed: bool) -> bool:
    """Whether somebody at the terminal says yes. Without a terminal nobody does: ValueError if an answer is needed."""
    if not sys.stdin.isatty():
        if needed:
            raise ValueError("nothing was removed, since nobody can be asked: type --yes to remove it")
        return False
    try:
        return input("remove? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _remove(chosen: Sequence[Removal]) -> int:
    freed, gone, code = 0, 0, 0
    for removal in chosen:
        try:
            freed += removal.act()
            gone += 1
        except ValueError as reason:
            print(f"ol2r clean: left: {removal.path} ({reason})", file=sys.stderr)
        except OSError as error:
            print(f"ol2r clean: left: {removal.path} ({error.strerror}: {error.filename})", file=sys.stderr)
            code = 1
    print(f"freed {size(freed)}: {gone} of {len(chosen)} removed")
    return code


def size(count: float) -> str:
    """Bytes as a person says them: 812 B, 1.4 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
