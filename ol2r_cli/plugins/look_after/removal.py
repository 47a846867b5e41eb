"""What runs take on disk, and removing it: whole runs, some of their files, logs of sweeps, and cached datasets.

Nothing is removed that ol2r has not written, or that a process is using.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ol2r_cli.files import Lock, LockHeld, is_held, open_file, parse_yaml, read_text
from ol2r_cli.run import CHECKPOINT, CONFIG, FILES, LOCK, MANIFEST, SWEEPS
from ol2r_cli.run.run import Run, is_part, walk
from ol2r_cli.run.store import RunDirectory, RunningElsewhere

REMOVABLE = ("failed", "interrupted", "killed", "damaged")  # states of runs that can be removed as a whole
_ID = re.compile(r"-[0-9a-f]{10}$")  # how the name of a run directory ends
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")
# The cache contains folders of arrays, temporary folders of processes that were killed, and files with checksums.
_CACHED = (
    (".", re.compile(r"[0-9a-f]{24}(\.[0-9a-f]{16}\.partial)?"), "parsed dataset"),
    ("sources", re.compile(r"[0-9a-f]{24}\.json|\.[0-9a-f]{24}\.json\.[0-9a-f]{16}\.partial"), "checksum of a file"),
    ("offline", re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16}\.partial)?"), "offline fit"),
)


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


@dataclass(frozen=True)
class RunFiles:
    """The files of a run, and what a process left that was killed while it replaced one, with their sizes in bytes.

    `changed` is the time of the latest change. `run` is the run as it was when it was listed.
    """

    run: Run
    files: Mapping[str, int]
    temporaries: Mapping[str, int]
    changed: float

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(self.files.values()) + sum(self.temporaries.values())

    def removals(self, states: Collection[str], names: Collection[str], root: Path) -> list[Removal]:
        """Return what can be removed of it: all, in one of these states; of a finished run, files of these names, which
        an unfinished one needs to go on; always its temporary files."""
        run = self.run
        if run.state in states:
            remove = partial(_remove, run, root, RunDirectory.clear)
            return [Removal(f"{run.state} run", run.path, self.size, self.changed, remove)]
        removals = []
        if run.state == "finished":
            for name in names:
                if name in self.files:
                    remove = partial(_remove, run, root, partial(_remove_result, name=name))
                    kind = f"{Path(name).stem} of a finished run"
                    removals.append(Removal(kind, run.path / name, self.files[name], self.changed, remove))
        if run.state != "running" and self.temporaries:
            remove, size = partial(_remove, run, root), sum(self.temporaries.values())
            removals.append(Removal("temporary", run.path, size, self.changed, remove))
        return removals


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
    return name in FILES or is_part(name)


def _is_temporary(name: str) -> bool:
    replaced = _TEMPORARY.fullmatch(name)
    return replaced is not None and _is_file(replaced[1])


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


def sweep_logs(root: Path) -> Iterator[Removal]:
    """Yield what jobs of sweeps below a folder printed, except for those of runs that are running.

    A sweep removes the logs of jobs that succeed.
    """
    for folder, _, _ in walk(root):
        for path in sorted((folder / SWEEPS).glob("*/*.log")):
            is_running = is_held(folder / path.parent.name / path.stem / LOCK)
            if _ID.search(path.stem) and not is_running and not _is_linked(path, root):
                status, act = path.lstat(), partial(_remove_file, path, root)
                yield Removal("log of a sweep", path, status.st_size, status.st_mtime, act)


def cache_entries(folder: Path) -> Iterator[Removal]:
    """Yield the entries of a cache. Locks remain of processes that were killed."""
    for subfolder, names, kind in _CACHED:
        for path in sorted((folder / subfolder).glob("*")):
            is_file = path.is_file()
            if is_file != (subfolder == "sources") or not names.fullmatch(path.name) or _is_linked(path, folder):
                continue
            size = sum(file.stat().st_size for file in ([path] if is_file else path.iterdir()) if file.is_file())
            act = partial(_remove_file, path, path.parent) if is_file else partial(_remove_arrays, path)
            yield Removal(kind, path, size, path.stat().st_mtime, act)


def _is_linked(path: Path, root: Path) -> bool:
    """Return whether a path below `root` leads over a link of the user, whose target may be used elsewhere."""
    below = [folder for folder in (path, *path.parents) if folder != root and folder.is_relative_to(root)]
    return any(folder.is_symlink() for folder in below)


def _remove(run: Run, root: Path, act: Callable[[RunDirectory], None] | None = None) -> None:
    """Remove the temporary files of a run, by locking its directory, and let `act` remove more of it.

    ValueError if it is running, or has gone on since it was listed.
    """
    if not run.path.is_dir():
        return
    try:
        with RunDirectory(run.path) as directory:
            now = Run.read(run.path)
            if (now.manifest if now else {}) != run.manifest:
                raise ValueError("it has gone on since")
            if act is not None:
                act(directory)
    except RunningElsewhere:
        raise ValueError("it is running") from None
    _remove_empty_folders(run.path, root)


def _remove_result(directory: RunDirectory, name: str) -> None:
    """Remove a file of a finished run; with its checkpoint, the parts of tables that a killed process left."""
    if name == CHECKPOINT:
        directory.clean_up(keep_checkpoint=False)
    else:
        (directory / name).unlink(missing_ok=True)


def _remove_file(path: Path, root: Path) -> None:
    path.unlink(missing_ok=True)
    _remove_empty_folders(path.parent, root)


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove a folder and then those above it, below `root`, as long as they are empty."""
    with suppress(OSError):  # one is not empty
        while folder != root and folder.is_relative_to(root):
            if folder.exists():  # otherwise it was removed together with its content
                folder.rmdir()
            folder = folder.parent


def _remove_arrays(path: Path) -> None:
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
        with Lock(path.with_name(f"{key}.lock"), wait=False):
            renamed = path.with_name(f"{key}.{secrets.token_hex(8)}.partial")
            path.rename(renamed)  # so that no process opens an entry of which a part is removed
            shutil.rmtree(renamed)
    except LockHeld:
        raise ValueError("it is being written") from None
