"""`ol2r clean [DIR]`: what runs take on disk, by kind; removes what options name, after a question.

examples:
  ol2r clean                                       sizes by kind; offers to remove left-over temporaries only
  ol2r clean outputs --state failed damaged        whole runs without a result
  ol2r clean outputs --state interrupted killed --older-than 30d
  ol2r clean --logs --yes                          the output of failed jobs of sweeps, without a question
Runs that are running, and files that ol2r has not written, are never removed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ol2r_cli.commands.command import Listed, argument, command
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.files import is_held, open_file, parse_yaml, read_text
from ol2r_cli.plugins import added_files
from ol2r_cli.run import CHECKPOINT, CONFIG, DONE, FAILED, FILES, INTERACTIONS, LOCK, MANIFEST, SWEEPS
from ol2r_cli.run.run import Run, is_part, walk
from ol2r_cli.run.store import RunDirectory, RunningElsewhere
from ol2r_cli.text.formatting import byte_size, plural, printable, wrapped
from ol2r_cli.text.program import as_called
from ol2r_cli.text.table import show

REMOVABLE = ("failed", "interrupted", "killed", "damaged")  # states of runs that can be removed
_STATES = ("finished", "running", *REMOVABLE)
_HOURS = {"h": 1, "d": 24, "w": 168}
_LISTED = 10  # removals that are listed one by one
_ID = re.compile(r"-[0-9a-f]{10}$")  # how the name of a run directory ends
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, and what a process left that was killed while it replaced one, with their sizes in bytes.

    `changed` is the time of the latest change, in seconds since the epoch. `run` is the run as it was when it was
    listed.
    """

    run: Run
    files: Mapping[str, int]
    temporaries: Mapping[str, int]
    changed: float

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(self.files.values()) + sum(self.temporaries.values())


@dataclass(frozen=True)
class Removal:
    """One thing to remove, of so many bytes, which has changed last at `changed`, in seconds since the epoch.

    `act` removes it. It raises ValueError, with the reason, if it must not be removed now, and OSError if it cannot be.
    """

    kind: str
    path: Path
    size: int
    changed: float
    act: Callable[[], None]


@command(
    argument("directory", metavar="DIR", nargs="?", type=Path, help="default: output_dir of ol2r.yaml, or outputs"),
    argument(
        "--state", metavar="STATE", nargs="+", action=Listed, choices=REMOVABLE, default=[], help=", ".join(REMOVABLE)
    ),
    argument("--logs", action="store_true", help="the output of failed jobs of sweeps"),
    argument("--older-than", metavar="AGE", help="only what has not changed for so long: 12h, 30d, 8w"),
    argument("--yes", action="store_true", help="do not ask"),
)
def main(given: argparse.Namespace) -> int:
    before = _before(given.older_than)
    root: Path = given.directory or default_output_dir()
    if not root.is_dir():
        raise ValueError(f"DIR must be a folder with runs, got {root}, which does not exist")
    runs, logs = list(files_of_runs(root)), list(sweep_logs(root))
    print(f"{plural(len(runs), 'run')} below {root}, {byte_size(sum(run.size for run in runs))}")
    rows = [
        (kind, str(len(of_kind)), byte_size(sum(of_kind))) for kind, of_kind in _sizes(runs, logs).items() if of_kind
    ]
    if rows:
        show(rows, ("kind", "number", "size"), numbers=True)
    print()
    of_runs = [removal for run in runs for removal in _removals(run, given.state, root)]
    removals = [removal for removal in [*of_runs, *(logs if given.logs else ())] if removal.changed < before]
    is_specific = bool(given.state or given.logs)
    if not removals:
        advice = "" if is_specific else ": choose with --state or --logs (ol2r clean --help)"
        print(wrapped(f"nothing to remove{as_called(advice)}"))
        return DONE
    print(f"to remove: {byte_size(sum(removal.size for removal in removals))}")
    shown = removals[:_LISTED]
    show([(f"  {removal.kind}", byte_size(removal.size), printable(removal.path)) for removal in shown])
    if len(removals) > _LISTED:
        print(f"  and {len(removals) - _LISTED} more")
    if given.yes or _is_confirmed(is_specific):
        return _remove_all(removals)
    print("nothing was removed")
    return DONE


def _before(age: str | None) -> float:
    """Return the time, in seconds since the epoch, before which something must have changed last to be so old."""
    if not age:
        return float("inf")
    written = re.fullmatch(r"(\d+)([hdw])", age)
    if written is None:
        raise ValueError(f"--older-than must be hours, days or weeks such as 12h, 30d or 8w, got {age}")
    return time.time() - 3600 * int(written[1]) * _HOURS[written[2]]


def _sizes(runs: Sequence[RunFiles], logs: Sequence[Removal]) -> dict[str, list[int]]:
    """Return the bytes of each thing on disk, by what it is."""

    def of(name: str, *states: str) -> list[int]:
        return [run.files[name] for run in runs if name in run.files and run.run.state in states]

    idle = [run.temporaries for run in runs if run.run.state != "running"]
    unfinished = [state for state in _STATES if state != "finished"]
    return {
        **{f"{state} runs": [run.size for run in runs if run.run.state == state] for state in _STATES},
        "  checkpoints of finished runs": of(CHECKPOINT, "finished"),
        "  checkpoints to go on from": of(CHECKPOINT, *unfinished),
        "  interactions": of(INTERACTIONS, *_STATES),
        "  temporaries": [sum(temporaries.values()) for temporaries in idle if temporaries],
        "logs of sweeps": [log.size for log in logs],
    }


def _removals(files: RunFiles, states: Sequence[str], root: Path) -> list[Removal]:
    """Return what is to be removed of a run: all of it in one of these states, otherwise its temporary files."""
    run = files.run
    if run.state in states:
        remove = partial(_remove_run, run, root, whole=True)
        return [Removal(f"{run.state} run", run.path, files.size, files.changed, remove)]
    if run.state == "running" or not files.temporaries:
        return []
    size = sum(files.temporaries.values())
    return [Removal("temporary", run.path, size, files.changed, partial(_remove_run, run, root, whole=False))]


def _is_confirmed(is_specific: bool) -> bool:
    """Ask on a terminal whether to remove; without one, ValueError where it was typed what."""
    if not sys.stdin.isatty():
        if is_specific:
            raise ValueError("nothing was removed, because there is no terminal to ask: type --yes to remove it")
        return False
    try:
        return input("remove? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _remove_all(removals: Sequence[Removal]) -> int:
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


def files_of_runs(root: Path) -> Iterator[RunFiles]:
    """Yield those of all runs below a folder in alphabetical order, also of runs that were killed at their start."""
    for folder, subfolders, names in walk(root):
        run = _run_in(folder, names)
        if run is not None:
            subfolders.clear()
            yield _files_of(run, names)


def _run_in(path: Path, names: Sequence[str]) -> Run | None:
    """Return the run in a directory with files of these names; None if there is none, or what others call `run.json`.

    Without a manifest that can be read its state is damaged, or running where a process has just begun it.
    """
    run = Run.read(path) if MANIFEST in names else None
    if run is not None and run.manifest:
        return run
    if not _ID.search(path.name) or not _is_left_over(path, names):
        return None
    return Run(path, {}, "running" if is_held(path / LOCK) else "damaged")


def _is_left_over(path: Path, names: Sequence[str]) -> bool:
    """Return whether files without a readable manifest belong to a run: they are those of its first moment, or there is
    the configuration of a run among them. Names alone say nothing: a user may have a `checkpoint.pt`."""
    if not any(map(_is_file, names)):
        with suppress(OSError), open_file(path / LOCK) as file:
            return file.read(4) in (b"", b"pid ")  # of a process that was killed before it wrote its name
        return any(map(_is_temporary, names)) and not (path / LOCK).exists()
    try:
        settings = parse_yaml(read_text(path / CONFIG))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and {"ranker", "click", "dataset", "rounds"} <= settings.keys()


def _files_of(run: Run, names: Sequence[str]) -> RunFiles:
    """Return the files among these names in the directory of a run that are its own."""
    sizes, changed = dict[str, int](), 0.0
    for name in names:
        if _is_file(name) or _is_temporary(name) or name == LOCK:
            with suppress(FileNotFoundError):  # it has been renamed or removed meanwhile
                status = (run.path / name).lstat()
                sizes[name] = status.st_size
                changed = max(changed, status.st_mtime)
    files = {name: size for name, size in sizes.items() if _is_file(name)}
    temporaries = {name: size for name, size in sizes.items() if _is_temporary(name)}
    return RunFiles(run, files, temporaries, changed)


def _is_file(name: str) -> bool:
    added = added_files()
    return name in FILES or name in added or is_part(name) or any(is_part(name, table) for table in added)


def _is_temporary(name: str) -> bool:
    replaced = _TEMPORARY.fullmatch(name)
    return replaced is not None and _is_file(replaced[1])


def _remove_run(run: Run, root: Path, whole: bool) -> None:
    """Remove the temporary files of a run, by locking its directory, or all of its files.

    ValueError if it is running, or has gone on since it was listed.
    """
    if not run.path.is_dir():
        return
    try:
        with RunDirectory(run.path, others=added_files()) as directory:
            now = Run.read(run.path)
            if (now.manifest if now else {}) != run.manifest:
                raise ValueError("it has gone on since")
            if whole:
                directory.clear()
    except RunningElsewhere:
        raise ValueError("it is running") from None
    _remove_empty_folders(run.path, root)


def sweep_logs(root: Path) -> Iterator[Removal]:
    """Yield what jobs of sweeps below a folder printed, except for those of runs that are running, and what is behind a
    link of the user, which may be used elsewhere.

    A sweep removes the logs of jobs that succeed.
    """
    for folder, _, _ in walk(root):
        for path in sorted((folder / SWEEPS).glob("*/*.log")):
            is_running = is_held(folder / path.parent.name / path.stem / LOCK)
            below = [part for part in (path, *path.parents) if part != root and part.is_relative_to(root)]
            if _ID.search(path.stem) and not is_running and not any(part.is_symlink() for part in below):
                status, act = path.lstat(), partial(_remove_log, path, root)
                yield Removal("log of a sweep", path, status.st_size, status.st_mtime, act)


def _remove_log(path: Path, root: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_empty_folders(path.parent, root)


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove a folder and then those above it, below `root`, as long as they are empty."""
    with suppress(OSError):  # one is not empty
        while folder != root and folder.is_relative_to(root):
            if folder.exists():  # otherwise it was removed together with its content
                folder.rmdir()
            folder = folder.parent
