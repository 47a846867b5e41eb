"""`ol2r clean [DIR]`: what runs take on disk, by kind, and removing a part of it after a question.

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
from pathlib import Path

from ol2r_cli.command import argument, command
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.formatting import byte_size, plural, printable, wrapped
from ol2r_cli.program import as_called
from ol2r_cli.run import CHECKPOINT, DONE, FAILED, INTERACTIONS
from ol2r_cli.run.clean import REMOVABLE, cache_entries, stored_runs, sweep_logs
from ol2r_cli.text_table import show

_HOURS = {"h": 1, "d": 24, "w": 168}
_LISTED = 10  # removals that are listed one by one
_STATES = ("finished", "running", *REMOVABLE)


@command(
    argument("directory", metavar="DIR", nargs="?", type=Path, help="default: output_dir of ol2r.yaml, or outputs"),
    argument("--state", metavar="STATE", nargs="+", choices=REMOVABLE, default=[], help=", ".join(REMOVABLE)),
    argument("--checkpoints", action="store_true", help="checkpoint.pt of finished runs"),
    argument("--interactions", action="store_true", help="interactions.parquet of finished runs"),
    argument("--logs", action="store_true", help="the output of failed jobs of sweeps"),
    argument("--cache", action="store_true", help="the cache of parsed datasets and offline fits"),
    argument("--cache-dir", metavar="DIR", type=Path, help="the cache (default: $OL2R_CACHE, or ~/.cache)"),
    argument("--older-than", metavar="AGE", help="only what has not changed for so long: 12h, 30d, 8w"),
    argument("--yes", action="store_true", help="do not ask"),
)
def main(given: argparse.Namespace) -> int:
    root = given.directory or default_output_dir()
    age = re.fullmatch(r"(\d+)([hdw])", given.older_than or "0h")
    if age is None:
        raise ValueError(f"--older-than must be hours, days or weeks such as 12h, 30d or 8w, got {given.older_than}")
    before = time.time() - 3600 * int(age[1]) * _HOURS[age[2]] if given.older_than else float("inf")
    if (given.directory or not given.cache) and not root.is_dir():
        raise ValueError(f"DIR must be a folder with runs, got {root}, which does not exist")
    runs, logs = list(stored_runs(root)), list(sweep_logs(root))
    cache_dir = given.cache_dir or os.environ.get("OL2R_CACHE") or "~/.cache/ol2r/parsed"
    cached = list(cache_entries(Path(os.path.expanduser(os.path.expandvars(cache_dir))))) if given.cache else []

    sizes = {f"{state} runs": [run.size for run in runs if run.state == state] for state in _STATES}
    for name, is_done in {"of finished runs": True, "to go on from": False}.items():
        files = [run.files for run in runs if (run.state == "finished") is is_done]
        sizes[f"  checkpoints {name}"] = [of_run[CHECKPOINT] for of_run in files if CHECKPOINT in of_run]
    sizes["  interactions"] = [run.files[INTERACTIONS] for run in runs if INTERACTIONS in run.files]
    sizes["  temporaries"] = [sum(r.temporaries.values()) for r in runs if r.temporaries and r.state != "running"]
    sizes["logs of sweeps"] = [log.size for log in logs]
    sizes["cached datasets and fits"] = [removal.size for removal in cached]
    print(f"{plural(len(runs), 'run')} below {root}, {byte_size(sum(run.size for run in runs))}")
    if rows := [(kind, str(len(of_kind)), byte_size(sum(of_kind))) for kind, of_kind in sizes.items() if of_kind]:
        show(rows, ("kind", "number", "size"), numbers=True)

    names = [CHECKPOINT] * given.checkpoints + [INTERACTIONS] * given.interactions
    chosen = [removal for run in runs for removal in run.removals(given.state, names, root)]
    chosen += (logs if given.logs else []) + cached
    removals = [removal for removal in chosen if removal.changed < before]
    is_specific = given.state or names or given.logs or given.cache
    if not removals:
        advice = "" if is_specific else ": choose with --state, --checkpoints, .. (ol2r clean --help)"
        print()
        print(wrapped(f"nothing to remove{as_called(advice)}"))
        return DONE
    print(f"\nto remove: {byte_size(sum(removal.size for removal in removals))}")
    show([(f"  {each.kind}", byte_size(each.size), printable(each.path)) for each in removals[:_LISTED]])
    if len(removals) > _LISTED:
        print(f"  and {len(removals) - _LISTED} more")
    if is_specific and not given.yes and not sys.stdin.isatty():
        raise ValueError("nothing was removed, because there is no terminal to ask: type --yes to remove it")
    if not given.yes and not _confirmed():
        print("nothing was removed")
        return DONE
    freed, removed, code = 0, 0, DONE
    for removal in removals:
        try:
            removal.act()
            freed, removed = freed + removal.size, removed + 1
        except ValueError as reason:
            print(f"ol2r clean: left: {removal.path} ({reason})", file=sys.stderr)
        except OSError as error:
            print(f"ol2r clean: left: {removal.path} ({error.strerror}: {error.filename})", file=sys.stderr)
            code = FAILED
    print(f"freed {byte_size(freed)}: {removed} of {len(removals)} removed")
    return code


def _confirmed() -> bool:
    try:
        return sys.stdin.isatty() and input("remove? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
