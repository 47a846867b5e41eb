"""What runs take on disk, and removing it: whole runs, some of their files, logs of sweeps, and cached datasets.

Nothing is removed that ol2r has not written, or that a process is using.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ol2r_cli.lock import LockHeld, is_held, locked
from ol2r_cli.run import CHECKPOINT, CONFIG, FILES, INTERACTIONS, LOCK, MANIFEST
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory, RunningElsewhere
from ol2r_cli.run.tables import is_part
from ol2r_cli.untrusted_file import open_file, parse_yaml, read_text

DAMAGED = "damaged"
REMOVABLE = ("failed", "interrupted", "killed", DAMAGED)  # states of runs that can be removed as a whole
SWEEPS = ".sweep"  # the folder with logs of sweeps
_ID = re.compile(r"-[0-9a-f]{10}$")  # how the name of a run directory ends
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")
_LOG = re.compile(r"-[0-9a-f]{10}\.log$")


@dataclass(frozen=True)
class StoredRun:
    """A run with the sizes in bytes of its files and of temporary files; `changed` is the time of the latest change.

    `state` is that of the run, or damaged where it has no readable manifest. `manifest` is the manifest when the run
    was listed, to notice when the run has gone on since.
    """

    path: Path
    state: str
    manifest: Mapping[str, Any]
    files: Mapping[str, int]
    temporaries: Mapping[str, int]
    changed: float

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(self.files.values()) + sum(self.temporaries.values())


@dataclass(frozen=True)
class JobLog:
    """What a job of a sweep printed. The sweep removes the logs of jobs that succeed."""

    path: Path
    size: int
    changed: float


@dataclass(frozen=True)
class RemovalPlan:
    """What to remove. Nothing is removed that has changed after `before`, in seconds since the epoch."""

    states: frozenset[str] = frozenset()
    checkpoints: bool = False
    interactions: bool = False
    logs: bool = False
    before: float = float("inf")


@dataclass(frozen=True)
class Removal:
    """One thing to remove, with its kind, path and size in bytes. `act` removes it and returns the bytes freed.

    `act` raises ValueError, with the reason, if it must not be removed now, and OSError if it cannot be removed.
    """

    kind: str
    path: Path
    size: int
    act: Callable[[], int]


def stored_runs(root: Path) -> Iterator[StoredRun]:
    """All runs below a folder in alphabetical order, including directories of runs that were killed at their start."""
    for folder, subfolders, names in os.walk(root):
        ours = sorted(name for name in names if _is_run_file(name) or _is_temporary(name) or name == LOCK)
        if ours and (run := _stored_run(Path(folder), ours)) is not None:
            subfolders.clear()
            yield run
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))


def _is_run_file(name: str) -> bool:
    return name in FILES or is_part(name)


def _is_temporary(name: str) -> bool:
    """Whether a file of this name is what a process leaves that is killed while it replaces a file of a run."""
    return (found := _TEMPORARY.fullmatch(name)) is not None and _is_run_file(found[1])


def _stored_run(path: Path, names: list[str]) -> StoredRun | None:
    run = Run.read(path) if MANIFEST in names else None
    if run is not None and run.manifest:
        state, manifest = run.state, run.manifest
    elif _ID.search(path.name) and _is_left_over(path, names):
        state, manifest = "running" if is_held(path / LOCK) else DAMAGED, {}
    else:
        return None  # the run.json of another program
    sizes, changed = {}, 0.0
    for name in names:
        with suppress(FileNotFoundError):  # it has been renamed or removed meanwhile
            status = (path / name).lstat()
            sizes[name], changed = status.st_size, max(changed, status.st_mtime)
    files = {name: size for name, size in sizes.items() if _is_run_file(name)}
    temporaries = {name: size for name, size in sizes.items() if _is_temporary(name)}
    return StoredRun(path, state, manifest, files, temporaries, changed)


def _is_left_over(path: Path, names: list[str]) -> bool:
    """Whether files without a readable manifest belong to a run: they are those of its first moment, or there is the
    configuration of a run among them. Names alone say nothing: a user may have a `checkpoint.pt`."""
    if all(name == LOCK or _is_temporary(name) for name in names):
        with suppress(OSError), open_file(path / LOCK) as file:
            return file.read(4) in (b"", b"pid ")  # of a process that was killed before it wrote its name
        return LOCK not in names
    try:
        settings = parse_yaml(read_text(path / CONFIG))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and {"ranker", "click", "dataset", "rounds"} <= settings.keys()


def sweep_logs(root: Path) -> Iterator[JobLog]:
    """Logs of jobs of sweeps below a folder, except for those of runs that are running."""
    for folder, subfolders, _ in os.walk(root):
        if SWEEPS in subfolders:
            for path in sorted(Path(folder, SWEEPS).glob("*/*.log")):
                is_running = is_held(Path(folder, path.parent.name, path.stem, LOCK))
                if _LOG.search(path.name) and not is_running and not _is_linked(path, root):
                    status = path.lstat()
                    yield JobLog(path, status.st_size, status.st_mtime)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))


def _is_linked(path: Path, root: Path) -> bool:
    """Whether a path below `root` leads over a link of the user, whose target may be used elsewhere."""
    return any(each.is_symlink() for each in (path, *path.parents) if each != root and each.is_relative_to(root))


def choose(runs: Iterable[StoredRun], logs: Iterable[JobLog], plan: RemovalPlan, root: Path) -> Iterator[Removal]:
    """What to remove by a plan. Temporary files of runs that are not running are always removed."""
    for run in runs:
        if run.state == "running" or run.changed >= plan.before:
            continue
        if run.state in plan.states:
            yield Removal(f"{run.state} run", run.path, run.size, partial(_remove, run, None, root))
            continue
        # An unfinished run needs its checkpoint and its interactions to resume.
        for name, what, chosen in (
            (CHECKPOINT, "checkpoint", plan.checkpoints),
            (INTERACTIONS, "interactions", plan.interactions),
        ):
            if run.state == "finished" and chosen and name in run.files:
                act = partial(_remove, run, name, root)
                yield Removal(f"{what} of a finished run", run.path / name, run.files[name], act)
        if run.temporaries:
            yield Removal("temporary", run.path, sum(run.temporaries.values()), partial(_remove, run, "", root))
    for log in logs:
        if plan.logs and log.changed < plan.before:
            yield Removal("log of a sweep", log.path, log.size, partial(_remove_log, log.path, root))


def _remove(run: StoredRun, name: str | None, root: Path) -> int:
    """Remove one file of a run or, with None, all of them. Locking the run removes its temporary files."""
    if not run.path.is_dir():
        return 0
    directory, size = RunDirectory(run.path), _present_size(run)
    try:
        with directory:
            now = Run.read(run.path)
            if (now.manifest if now else {}) != run.manifest:
                raise ValueError("it has gone on since")
            if name is None:
                directory.clear()
            elif name == CHECKPOINT:
                directory.clean_up(keep_checkpoint=False)  # and of tables in parts
            elif name:
                (directory / name).unlink(missing_ok=True)
    except RunningElsewhere:
        raise ValueError("it is running") from None
    _remove_empty_folders(run.path, root)
    return size - _present_size(run)


def _present_size(run: StoredRun) -> int:
    """Bytes of those of its files that still exist."""
    total = 0
    for name in (*run.files, *run.temporaries):
        with suppress(FileNotFoundError):
            total += (run.path / name).lstat().st_size
    return total


def _remove_log(path: Path, root: Path) -> int:
    size = _remove_file(path)
    _remove_empty_folders(path.parent, root)
    return size


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove a folder and then those above it, below `root`, as long as they are empty."""
    while folder != root and folder.is_relative_to(root):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass  # it was removed together with its content
        except OSError:  # not empty
            return
        folder = folder.parent


# The cache contains folders of arrays, temporary folders of processes that were killed, and files with checksums.
# Locks remain of processes that were killed.
_ARRAYS = re.compile(r"[0-9a-f]{24}(\.[0-9a-f]{16}\.partial)?")
_FIT = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.partial)?")
_CHECKSUM = re.compile(r"[0-9a-f]{24}\.json|\.[0-9a-f]{24}\.json\.[0-9a-f]{16}\.partial")


def cache_entries(folder: Path, before: float) -> Iterator[Removal]:
    """The entries of a cache that have not changed since `before`, in seconds since the epoch."""
    for subfolder, name, kind in (
        (".", _ARRAYS, "parsed dataset"),
        ("sources", _CHECKSUM, "checksum of a file"),
        ("offline", _FIT, "offline fit"),
    ):
        for path in sorted((folder / subfolder).glob("*")):
            if not name.fullmatch(path.name) or path.stat().st_mtime >= before or _is_linked(path, folder):
                continue
            if path.is_dir() and name is not _CHECKSUM:
                yield Removal(kind, path, _size(path), partial(_remove_arrays, path))
            elif path.is_file() and name is _CHECKSUM:
                yield Removal(kind, path, path.stat().st_size, partial(_remove_file, path))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def _remove_arrays(path: Path) -> int:
    """Remove an entry while it is locked. Processes that have mapped the arrays keep them until they end.

    An entry in which there is anything but arrays and their description is left.
    """
    named = None  # the arrays that it should have; None without a description that can be read
    with suppress(OSError, ValueError, LookupError, TypeError):
        named = dict(json.loads((path / "meta.json").read_bytes())["arrays"])
    for file in path.iterdir():
        is_array = file.suffix == ".npy" and (named is None or file.stem in named)
        if file.is_symlink() or not file.is_file() or not (is_array or file.name == "meta.json"):
            raise ValueError(f"it contains {file.name}, which ol2r has not written")
    try:
        key = path.name.partition(".")[0]
        with locked(path.with_name(f"{key}.lock"), wait=False):
            renamed = path.with_name(f"{key}.{secrets.token_hex(8)}.partial")
            path.rename(renamed)  # so that no process opens an entry of which a part is removed
            size = _size(renamed)
            shutil.rmtree(renamed)
            return size
    except LockHeld:
        raise ValueError("it is being written") from None


def _remove_file(path: Path) -> int:
    with suppress(FileNotFoundError):
        size = path.lstat().st_size
        path.unlink()
        return size
    return 0
