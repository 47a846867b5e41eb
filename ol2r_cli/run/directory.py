"""The directory of a run: at most one process writes to it, and every file in it is complete.

Every file is replaced atomically (`ol2r_cli/atomic_file.py`). The writer locks `.lock` (flock); the operating system
releases it however the process ends, which distinguishes a killed run from a running one. A directory is a run only
once it contains a `run.json`; the lock alone does not make it one.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ol2r_cli.atomic_file import replacing

if TYPE_CHECKING:
    import polars as pl


LOCK = ".lock"
MANIFEST, SUMMARY, CHECKPOINT, INTERACTIONS = "run.json", "summary.json", "checkpoint.pt", "interactions.parquet"
# The files of a run in the order in which `clear` removes them: without its manifest a directory is not a run any more.
FILES = (
    MANIFEST,
    SUMMARY,
    CHECKPOINT,
    "ranker.pt",
    "trace.parquet",
    "evaluation.parquet",
    "blocks.parquet",
    INTERACTIONS,
    "config.yaml",
    "log.txt",
)
LOGGER = "ol2r_cli"  # the logger of the package
# `is_running` in another process holds the lock for microseconds, which must not be mistaken for a run.
_ATTEMPTS, _PAUSE = 10, 0.02  # times, seconds between them


class RunningElsewhere(ValueError):
    """Another process is writing to this run directory."""


class DirectoryLost(RuntimeError):
    """The run directory, or its lock, was removed or replaced while this process was writing to it."""


class RunDirectory:
    """The directory of one run. As a context manager it exists on disk and is locked for this process.

    Entering creates the directory, raises `RunningElsewhere` when another process (or another `RunDirectory` of this
    process) holds the lock, and removes temporary files that a killed process has left. Leaving releases the lock and
    removes the directory if it is empty.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock: IO[str] | None = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> RunDirectory:
        self._lock = self._acquire()
        for temporary in self.path.glob(".*.partial"):
            temporary.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is None:
            return
        with suppress(OSError):  # the directory is not empty, which is fine
            if self._is_named(self._lock):
                # While it is locked, so that the next process notices that the file is a new one.
                os.unlink(self / LOCK)
                self.path.rmdir()
        self._lock.close()
        self._lock = None

    def _acquire(self) -> IO[str]:
        owner = ""
        for _ in range(_ATTEMPTS):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock = open(self / LOCK, "a+")  # noqa: SIM115 - stays open as long as the directory is locked
            except FileNotFoundError:  # its last holder has just removed the directory
                continue
            if self._locks(lock):
                lock.truncate(0)
                lock.write(f"pid {os.getpid()} on {platform.node()}")
                lock.flush()
                return lock
            lock.seek(0)
            owner = lock.read()
            lock.close()
            time.sleep(_PAUSE)
        process = f"another process ({owner})" if owner else "another process"
        raise RunningElsewhere(f"{process} is running this in {self.path}: wait for it, or stop it; see `ol2r status`")

    def _locks(self, lock: IO[str]) -> bool:
        """Whether this process now holds the file that is named `.lock`, and not one that was removed meanwhile."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._is_named(lock)
        except BlockingIOError:
            return False
        except OSError as error:
            lock.close()
            raise ValueError(
                f"output_dir must be on a file system that can lock files, got {self.path} ({error.strerror})"
            ) from error

    def _is_named(self, lock: IO[str]) -> bool:
        """Whether an open lock file is still the one that is named `.lock`."""
        try:
            return os.path.samestat(os.fstat(lock.fileno()), os.stat(self / LOCK))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_running(self) -> bool:
        """Whether a process, this one included, holds the lock. Never creates anything."""
        try:
            with open(self / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # there is no lock file, or the file system has no locks
            return False
        return False

    def clear(self) -> None:
        """Remove the files of an earlier run (`force=true`), and nothing that a user has put beside them."""
        for name in FILES:
            (self / name).unlink(missing_ok=True)

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """A temporary path to write to; it replaces the file `name` at the end, unless an exception comes first.

        `DirectoryLost` where the directory was locked by this object and is not any more.
        """
        if self._lock is not None and not self._is_named(self._lock):
            raise DirectoryLost(f"{self.path} was removed or replaced while the run was writing to it: run it again")
        self.path.mkdir(parents=True, exist_ok=True)
        with replacing(self / name) as temporary:
            yield temporary

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.replacing(name) as path:
            path.write_bytes(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Strict JSON (NaN is a ValueError); a mapping that is too long for a line has a line per entry."""
        self.write_text(name, as_json(content) + "\n")

    def write_parquet(self, name: str, frame: pl.DataFrame) -> None:
        with self.replacing(name) as path:
            frame.write_parquet(path, compression="zstd")

    def write_torch(self, name: str, content: Any) -> None:
        """Anything that `torch.load(..., weights_only=True)` can read: tensors, numbers, strings, lists, dicts."""
        import torch

        with self.replacing(name) as path:
            torch.save(content, path)

    def read_json(self, name: str) -> dict[str, Any]:
        """The mapping in the file `name`; ValueError for any other content, FileNotFoundError without a file."""
        try:
            content = json.loads((self / name).read_bytes())
        except ValueError as error:
            raise ValueError(f"{self / name} must be JSON, got: {error}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{self / name} must be a JSON object, got {type(content).__name__}")
        return content


def as_json(value: Any, margin: str = "") -> str:
    """JSON that is easy to read: a mapping stays on one line while it fits into 120 columns."""
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if not isinstance(value, Mapping) or (margin and len(margin) + len(flat) <= 100):
        return flat
    inner = margin + "  "
    entries = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {as_json(value[key], inner)}" for key in value)
    return "{\n" + ",\n".join(entries) + f"\n{margin}}}"


@contextmanager
def log_file(directory: RunDirectory) -> Iterator[None]:
    """Append the package's log to log.txt during the block."""
    logger, handler = logging.getLogger(LOGGER), logging.FileHandler(directory / "log.txt")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
