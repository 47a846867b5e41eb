"""One run, one folder: at most one process writes to it, and whatever lies in it is whole.

Every file is written under a temporary name in the same folder, forced to the disk and renamed, so that a reader (or
the next sitting, after a kill or a power cut) meets either the old content or the new, never half of it. The writer
holds an flock on `.lock`; the system lets go of it however the process ends, which tells a killed run from a running
one. A folder is a run only once it has a `run.json`: the lock alone makes none.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

LOCK = ".lock"
MANIFEST = "run.json"
# What a run leaves behind, in the order in which `clear` removes it: without its manifest it is no run any more.
FILES = (
    MANIFEST,
    "summary.json",
    "checkpoint.pt",
    "ranker.pt",
    "trace.parquet",
    "evaluation.parquet",
    "blocks.parquet",
    "interactions.parquet",
    "config.yaml",
    "log.txt",
)
_ATTEMPTS, _PAUSE = 10, 0.02  # `is_running` elsewhere holds the lock for microseconds: that is no other run


class RunningElsewhere(ValueError):
    """Another process writes to this run directory at the moment."""


class RunDirectory:
    """The folder of one run; as a context manager it is held by this process alone and exists on disk.

    Entering creates the folder, raises `RunningElsewhere` when another process (or another `RunDirectory` of this one)
    holds it, and removes temporaries left by a killed sitting. Leaving lets go, and takes an empty folder along.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._lock: IO[str] | None = None

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> RunDirectory:
        self._lock = self._acquire()
        for left_over in self.path.glob(".*.partial"):
            left_over.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is None:
            return
        with suppress(OSError):  # taken away already, or the folder is not empty: both are fine
            os.unlink(self / LOCK)  # while held, so that whoever acquires next sees that the file is a new one
            self.path.rmdir()
        self._lock.close()
        self._lock = None

    def _acquire(self) -> IO[str]:
        owner = ""
        for _ in range(_ATTEMPTS):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock = open(self / LOCK, "a+")  # noqa: SIM115 - stays open as long as the folder is held
            except FileNotFoundError:  # its last holder has just taken the folder away
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
        who = f"another process ({owner})" if owner else "another process"
        raise RunningElsewhere(f"{who} is running this in {self.path}: wait for it, or stop it; see `ol2r status`")

    def _locks(self, lock: IO[str]) -> bool:
        """Whether this process now holds the file that goes by the name of the lock, not one taken away meanwhile."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(lock.fileno()), os.stat(self / LOCK))
        except (BlockingIOError, FileNotFoundError):
            return False
        except OSError as error:
            lock.close()
            raise ValueError(
                f"output_dir must be on a file system that can lock files, got {self.path} ({error.strerror})"
            ) from error

    def is_running(self) -> bool:
        """Whether some process, this one included, holds the folder. Never creates anything."""
        try:
            with open(self / LOCK) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no lock file, or no locks on this file system
            return False
        return False

    def clear(self) -> None:
        """Remove the files of an earlier run (`force=true`), and nothing that a user may have put beside them."""
        for name in FILES:
            (self / name).unlink(missing_ok=True)

    @contextmanager
    def replacing(self, name: str) -> Iterator[Path]:
        """A temporary path to write to, which takes the place of `name` at the end unless an exception came first."""
        self.path.mkdir(parents=True, exist_ok=True)
        partial = self / f".{name}.partial"
        try:
            yield partial
            with open(partial, "rb") as written:
                os.fsync(written.fileno())  # contents before name: a power cut must not leave an empty file
            os.replace(partial, self / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.replacing(name) as path:
            path.write_bytes(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Strict JSON (NaN is a ValueError), one line per entry where a mapping is too long for one."""
        self.write_text(name, as_json(content) + "\n")

    def write_parquet(self, name: str, frame: pl.DataFrame) -> None:
        with self.replacing(name) as path:
            frame.write_parquet(path, compression="zstd")

    def write_torch(self, name: str, content: Any) -> None:
        """Anything `torch.load(..., weights_only=True)` reads back: tensors, numbers, strings, lists, dicts."""
        import torch

        with self.replacing(name) as path:
            torch.save(content, path)

    def read_json(self, name: str) -> dict[str, Any]:
        """The mapping in `name`; ValueError when it is something else, FileNotFoundError when it is not there."""
        try:
            content = json.loads((self / name).read_bytes())
        except ValueError as error:
            raise ValueError(f"{self / name} must be JSON, got: {error}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{self / name} must be a JSON object, got {type(content).__name__}")
        return content


def as_json(value: Any, margin: str = "") -> str:
    """JSON for people too: a mapping stays on one line while it fits 120 columns."""
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if not isinstance(value, Mapping) or (margin and len(margin) + len(flat) <= 100):
        return flat
    inner = margin + "  "
    entries = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {as_json(value[key], inner)}" for key in value)
    return "{\n" + ",\n".join(entries) + f"\n{margin}}}"
