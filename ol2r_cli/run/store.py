"""Writes the directory of a run: at most one process does so, and every file in it is complete.

Every file is replaced atomically, and its size and sha256 are kept. The writer holds the lock `.lock`, which
distinguishes a killed run from a running one. A directory is a run only once it contains a `run.json`; the lock alone
does not make it one.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import platform
import resource
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ol2r_cli import files
from ol2r_cli.files import Lock, LockHeld, as_json
from ol2r_cli.lazy import pl, torch
from ol2r_cli.loops import clock
from ol2r_cli.run import CHECKPOINT, FILES, LOCK, LOG, MANIFEST, RESULTS
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import RENEWED, checksum, damaged_files, is_part, read_checkpoint, read_manifest
from ol2r_cli.run.versions import checkout, versions
from ol2r_cli.text.formatting import error_line, printable

LOGGER = "ol2r_cli"  # the logger of the package
SETTLED = 5.0  # seconds of rounds, before which neither the speed nor the time left of a running run is known
_EVERY = 2.0  # least number of seconds between two writes of progress
_SHARE = 20  # of the time of a process, which writes progress for a twentieth at most
checkout_in_memory = cache(checkout)  # as it was for the first run of this process: later changes are not in memory


def create_root(folder: Path) -> None:
    """Create the folder of all runs, unless it exists, with a `.gitignore` so that git does not see what is in it."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        with open(folder / ".gitignore", "x") as file:
            file.write("*\n")


class RunningElsewhere(ValueError):
    """Another process is writing to this run directory."""


class DirectoryLost(RuntimeError):
    """The directory was removed or changed, or another process has taken it over, while this process wrote to it."""


class RunDirectory:
    """The directory of one run. As a context manager it exists on disk and only this object writes to it.

    Entering creates the directory, and `root` before it (`create_root`), raises `RunningElsewhere` while another
    process (or another `RunDirectory` of this process) writes to it, and removes temporary files that a killed process
    has left. Leaving removes the directory if it is empty. `files` has the size and sha256 of every file as this
    object has written it, of the tables only those that have rows of the run.

    `others` are files of results besides `RESULTS`. A file is replaced in one step; `DirectoryLost` where the directory
    belonged to this object and does not any more.
    """

    def __init__(self, path: str | os.PathLike[str], root: Path | None = None, others: Sequence[str] = ()):
        self.path, self.root, self.results = Path(path), root, (*RESULTS, *others)
        self.files: dict[str, dict[str, Any]] = {}
        self._lock: Lock | None = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> RunDirectory:
        lock = Lock(self / LOCK, wait=False)
        try:
            if self.root is not None:
                create_root(self.root)
            self._lock = lock.__enter__()
        except LockHeld as error:
            status = shlex.join(["ol2r", "status", str(self.root or self.path)])
            raise RunningElsewhere(
                f"another process ({error}) is running this in {self.path}: wait for it, or stop it; see `{status}`"
            ) from None
        except OSError:
            self.__exit__()
            raise
        for temporary in self.path.glob(".*.partial"):
            temporary.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.__exit__()
            self._lock = None
        with suppress(OSError):  # it is not empty
            self.path.rmdir()

    def clear(self) -> None:
        """Remove the files of an earlier run (`force=true`), and nothing that a user has put beside them."""
        self._check_lock()
        for name in dict.fromkeys((*FILES, *self.results)):
            (self / name).unlink(missing_ok=True)
        self.files.clear()
        self.remove_parts()

    def remove_parts(self) -> None:
        """Remove the parts of tables that are not among `files`: others have their rows, or no checkpoint has them."""
        self._check_lock()
        for path in self.path.glob("*.part*.parquet"):
            if path.name not in self.files and any(is_part(path.name, name) for name in self.results):
                path.unlink()

    def clean_up(self, keep_checkpoint: bool) -> None:
        """Remove what a finished run does not need; the checkpoint last: where one is left, so may be parts."""
        self.remove_parts()
        if not keep_checkpoint:
            (self / CHECKPOINT).unlink(missing_ok=True)

    def _check_lock(self) -> None:
        if self._lock is not None and not self._lock.is_ours():
            what = f"{self.path} was removed, or another process has taken it over"
            raise DirectoryLost(f"{what}, while the run was writing to it: run it again")

    def write_bytes(self, name: str, content: bytes | memoryview) -> None:
        """Replace a file, and record it in `files`."""
        self._check_lock()
        files.write_bytes(self / name, content)
        if name not in (MANIFEST, CHECKPOINT):
            self.files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write strict JSON (NaN is a ValueError); a mapping that is too long for a line has a line per entry."""
        self.write_text(name, as_json(content) + "\n")

    # polars and torch write to memory, because they would hide the error of a full disk.
    def write_parquet(self, name: str, rows: pl.DataFrame) -> None:
        content = io.BytesIO()
        rows.write_parquet(content, compression="zstd", row_group_size=2**15)
        with content.getbuffer() as view:  # else Python 3.14 prints a traceback where nothing can be written
            self.write_bytes(name, view)

    def write_torch(self, name: str, content: Any) -> None:
        """Write anything that `torch.load(..., weights_only=True)` can read: tensors, numbers, strings, lists,
        dicts."""
        stream = io.BytesIO()
        torch.save(content, stream)
        with stream.getbuffer() as view:
            self.write_bytes(name, view)


def save_checkpoint(directory: RunDirectory, state: Mapping[str, Any], fingerprint: str) -> None:
    """Replace the checkpoint of the run with the id `fingerprint`, from which the same command goes on, and remove the
    parts of tables that only the one before had.

    A checkpoint has the sizes and hashes of the parts of tables that were written before it. `state` may contain what
    `write_torch` writes; what else there is in it cannot be read, so that the run would start afresh.
    """
    parts = {name: record for name, record in directory.files.items() if name.endswith(".parquet")}
    content = {"results_version": RESULTS_VERSION, "fingerprint": fingerprint, "files": parts, "state": dict(state)}
    directory.write_torch(CHECKPOINT, content)
    directory.remove_parts()


def restore_checkpoint(directory: RunDirectory, fingerprint: str) -> dict[str, Any] | None:
    """Return the state from which the run with the id `fingerprint` goes on, with its directory as it was then.

    None, with an empty directory, without a checkpoint, and where it or a table was damaged, which is named on stderr
    and not used, because starting from nothing costs only time. ValueError for a sound checkpoint of another run, or of
    another `results_version`.
    """
    saved, problem = None, ""
    try:
        saved = read_checkpoint(directory.path)
    except ValueError as error:
        problem = str(error)
    if saved is not None:
        for what, expected in ("results_version", RESULTS_VERSION), ("fingerprint", fingerprint):
            if saved[what] != expected:
                must = f"{directory / CHECKPOINT} must be of {what} {expected}, got {saved[what]}"
                raise ValueError(f"{must}: type force=true to start afresh")
        problem = next(damaged_files(directory.path, saved["files"]), "")
    if problem:
        print(f"starts afresh: {printable(problem)}", file=sys.stderr)
    if saved is None or problem:
        directory.clear()
        return None
    directory.files = saved["files"]
    directory.remove_parts()
    return saved["state"]


class LogFile:
    """log.txt of a run, open until `close`. OSError where it cannot be opened."""

    def __init__(self, directory: RunDirectory):
        self._file = open(directory / LOG, "a", encoding="utf-8", opener=files.no_link)  # noqa: SIM115
        self._handler = logging.StreamHandler(self._file)
        # A full disk ends the run, not its log.
        self._handler.handleError = lambda record: None  # type: ignore[method-assign]
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Append the package's log during the block."""
        logger = logging.getLogger(LOGGER)
        level = logger.level
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(self._handler)
            logger.setLevel(level)

    def close(self) -> None:
        """Close the file, to which nothing is appended any more."""
        self._file.close()


_ENTRIES = (  # of run.json, in this order
    *(
        "status",
        "id",
        "command",
        "typed",
        "note",
        "choices",
        "dataset",
        "code",
        "inputs",
        "start",
        "seeds",
        "exposure",
        "columns",
        "progress",
    ),
    *("started", "ended", "seconds", "cpu_seconds", "peak_memory_gb", "startup_seconds", "ran", "sittings"),
    *("rounds_per_second", "error", "files", "versions", "git", "device", "threads", "host", "pid"),
    "results_version",
)


class Manifest:
    """Keeps `run.json` up to date while a process runs or resumes a run: a context manager around all of its work.

    When the block is left, the status becomes `finished` if all rounds are done, `interrupted` if they are not or after
    KeyboardInterrupt or SystemExit, and `failed` after any other exception. Exceptions are not suppressed.

    `round` is the round of the checkpoint from which the run resumes, of `rounds`; `packages` are those of the roles,
    `began` when the work on the run began, by `time.monotonic`, and `explain` gives the text of an exception.
    `own_time` returns the wall-clock and CPU seconds of the run, of a process that plays others too. `about` are the
    entries id, choices, seeds, command, typed, device and threads and, where there are any, code, inputs, start, note,
    exposure and columns. `content` is the mapping on disk. `warnings` has a line if versions, device or number of
    threads are not those of the rounds before. `runs` is how many runs this process plays, each of which writes its
    own.
    """

    runs = 1

    def __init__(
        self,
        directory: RunDirectory,
        *,
        fingerprint: str,
        rounds: int,
        round: int = 0,
        packages: Sequence[str] = (),
        began: float | None = None,
        own_time: Callable[[], tuple[float, float]] | None = None,
        explain: Callable[[Exception], str] = error_line,
        **about: Any,
    ):
        self.directory, self.explain, self._first = directory, explain, round
        self._own_time = own_time or clock.read
        self._began = time.monotonic() if began is None else began
        self._earlier: dict[str, Any] = {}
        with suppress(ValueError):  # a damaged manifest does not prevent the run
            self._earlier = read_manifest(directory.path) or {}
        versions_now = versions(packages)
        now = {**versions_now, "device": about["device"], "threads": about["threads"]}
        ran = [program for program in self._earlier.get("ran") or () if program["after"] < round]
        before = ran[-1] if ran else now
        changed = [f"{name} {before.get(name)} -> {now[name]}" for name in now if before.get(name) != now[name]]
        self.warnings: list[str] = []
        if changed:
            what = printable(f"goes on after round {round} with {', '.join(changed)}")
            self.warnings.append(f"{what}: the last digits can differ from an undisturbed run")
        if changed or not ran:
            ran.append({"after": round, **now})
        self.content: dict[str, Any] = dict.fromkeys(_ENTRIES) | {"note": ""} | about
        self.content |= {
            "status": "running",
            "dataset": {"name": about["choices"]["dataset"], "fingerprint": fingerprint},
            "progress": {"round": round, "rounds": rounds, "checkpoint": round},
            "started": self._earlier.get("started") or _now(),
            "ran": ran,
            "sittings": int(self._earlier.get("sittings") or 0) + 1,
            "rounds_per_second": self._earlier.get("rounds_per_second"),
            "versions": versions_now,
            "git": checkout_in_memory(),
            "host": platform.node(),
            "pid": os.getpid(),
            "results_version": RESULTS_VERSION,
        }

    def __enter__(self) -> Manifest:
        """Start the clock and write the manifest, which makes the directory a run."""
        self._entered, self._start = clock.read()[0], self._own_time()
        self._write()
        return self

    def progress(self, round: int) -> None:
        """Record that `round` is done. Called every round; the file is written every `_EVERY` seconds, less often where
        that would take long, as for many runs of one process or on a slow file system."""
        self.content["progress"]["round"] = round
        pause = max(_EVERY, _SHARE * self.runs * self._took)
        if time.monotonic() - self._written >= min(pause, RENEWED / 4):
            self._write()

    def saved(self, round: int) -> None:
        """Record that the checkpoint is of `round`, from which the run goes on if its process is killed."""
        self.content["progress"]["checkpoint"] = round
        self._write()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        content = self.content
        if isinstance(error, Exception):
            content["status"], content["error"] = "failed", self.explain(error)
        else:
            done = error is None and content["progress"]["round"] >= content["progress"]["rounds"]
            content["status"] = "finished" if done else "interrupted"
        if content["status"] == "finished":
            content["progress"].pop("checkpoint", None)
        content["ended"] = _now()
        try:
            self._write()
        except OSError:  # the disk is full: what is there still says that it is running, and nothing holds the lock
            if error is None:
                raise

    def _write(self) -> None:
        content, self._written = self.content, time.monotonic()
        seconds, cpu = (now - start for now, start in zip(self._own_time(), self._start, strict=True))
        elapsed = clock.read()[0] - self._entered  # more than `seconds` while the process plays other runs too
        played = content["progress"]["round"] - self._first
        for name, value in ("seconds", seconds), ("cpu_seconds", cpu):
            content[name] = round(float(self._earlier.get(name) or 0.0) + value, 3)
        content["peak_memory_gb"] = round(max(self._earlier.get("peak_memory_gb") or 0.0, peak_memory_gb()), 3)
        content["startup_seconds"] = round(self._written - self._began - elapsed, 3)
        if content["status"] == "running":  # how fast it advances
            if played and elapsed > SETTLED:
                content["rounds_per_second"] = round(played / elapsed, 3)
        elif played and seconds > 0:
            content["rounds_per_second"] = round(played / seconds, 3)
        if content["status"] == "finished":
            content["files"] = {n: self.directory.files[n] for n in self.directory.results if n in self.directory.files}
            content["checksum"] = checksum(content)
        self.directory.write_json(MANIFEST, content)
        self._took = time.monotonic() - self._written


def peak_memory_gb() -> float:
    """Return the peak resident size of this process so far, in GB (10^9 bytes)."""
    unit = 1 if platform.system() == "Darwin" else 1024  # of ru_maxrss, in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
