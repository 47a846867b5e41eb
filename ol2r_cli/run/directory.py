"""The directory of a run: at most one process writes to it, and every file in it is complete.

Every file is replaced atomically (`ol2r_cli/atomic_file.py`). The writer holds the lock `.lock`
(`ol2r_cli/lock.py`), which distinguishes a killed run from a running one. A directory is a run only once it contains a
`run.json`; the lock alone does not make it one.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ol2r_cli.atomic_file import no_link, replacing
from ol2r_cli.lock import Lock, LockHeld, is_held
from ol2r_cli.untrusted_file import read_json

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
_PART = re.compile(r"(trace|evaluation|blocks|interactions)\.part\d{5}\.parquet")  # of a table of an unfinished run


def is_run_file(name: str) -> bool:
    """Whether a file of this name in a run directory is one of the run."""
    return name in FILES or _PART.fullmatch(name) is not None


def part_name(name: str, number: int) -> str:
    """The file of a part, from 1, of the table `name`."""
    return f"{Path(name).stem}.part{number:05}.parquet"


def create_root(folder: Path) -> None:
    """Create the folder of all runs, unless it exists, with a `.gitignore` so that git does not see what is in it."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    with suppress(FileExistsError), open(folder / ".gitignore", "x") as file:
        file.write("*\n")


class RunningElsewhere(ValueError):
    """Another process is writing to this run directory."""


class DirectoryLost(RuntimeError):
    """The run directory was removed, or another process has taken it over, while this process was writing to it."""


class RunDirectory:
    """The directory of one run. As a context manager it exists on disk and only this object writes to it.

    Entering creates the directory, and `root` before it (`create_root`), raises `RunningElsewhere` while another
    process (or another `RunDirectory` of this process) writes to it, and removes temporary files that a killed process
    has left. Leaving removes the directory if it is empty.
    """

    def __init__(self, path: str | os.PathLike[str], root: Path | None = None):
        self.path, self.root = Path(path), root
        self._lock: Lock | None = None

    @property
    def id(self) -> str:
        """The id of the run, with which the name of its directory ends."""
        return self.path.name.rpartition("-")[2]

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> RunDirectory:
        lock = Lock(self / LOCK)
        try:
            if self.root is not None:
                create_root(self.root)
            lock.acquire()
        except LockHeld as error:
            raise RunningElsewhere(
                f"another process ({error}) is running this in {self.path}: wait for it, or stop it; see `ol2r status`"
            ) from None
        except OSError:
            self._remove_if_empty()
            raise
        self._lock = lock
        for temporary in self.path.glob(".*.partial"):
            temporary.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        with suppress(OSError):
            self.path.rmdir()

    def is_running(self) -> bool:
        """Whether a process, this one included, writes to the directory. Never creates anything."""
        return is_held(self / LOCK)

    def clear(self) -> None:
        """Remove the files of an earlier run (`force=true`), and nothing that a user has put beside them."""
        self._check_lock()
        for name in FILES:
            (self / name).unlink(missing_ok=True)
            for part in self.parts(name):
                part.unlink()

    def parts(self, name: str) -> list[Path]:
        """The files with the earlier rows of the table `name`, in their order; there are some in a long run only."""
        return sorted(self.path.glob(f"{Path(name).stem}.part*.parquet"))

    def close_part(self, name: str) -> None:
        """Make the file of the table `name` its next part."""
        self._check_lock()
        os.replace(self / name, self / part_name(name, len(self.parts(name)) + 1))

    @contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """A temporary file to write to; it replaces the file `name` at the end, unless an exception comes first.

        `DirectoryLost` where the directory belonged to this object and does not any more.
        """
        self._check_lock()
        self.path.mkdir(parents=True, exist_ok=True)
        with replacing(self / name) as temporary:
            yield temporary

    def _check_lock(self) -> None:
        if self._lock is not None and not self._lock.is_ours():
            what = f"{self.path} was removed, or another process has taken it over"
            raise DirectoryLost(f"{what}, while the run was writing to it: run it again")

    def overwrite_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write into the file that exists, which needs no space on a full disk. OSError where it would need some.

        A kill at this moment may damage the file, so this is for the last word of a run that cannot go on.
        """
        self._check_lock()
        text = (as_json(content) + "\n").encode()
        with open(self / name, "rb+", opener=no_link) as file:
            status = os.fstat(file.fileno())
            if len(text) > status.st_blocks * 512:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            file.write(text.ljust(status.st_size))  # JSON may end in blanks

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.replacing(name) as file:
            file.write(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode())

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Strict JSON (NaN is a ValueError); a mapping that is too long for a line has a line per entry."""
        self.write_text(name, as_json(content) + "\n")

    def write_parquet(self, name: str, frame: pl.DataFrame) -> None:
        content = io.BytesIO()  # polars would hide the error of a full disk
        frame.write_parquet(content, compression="zstd")
        self.write_bytes(name, content.getvalue())

    def write_torch(self, name: str, content: Any) -> None:
        """Anything that `torch.load(..., weights_only=True)` can read: tensors, numbers, strings, lists, dicts."""
        import torch

        with self.replacing(name) as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:  # it hides the error of a full disk
                raise error.__context__ if isinstance(error.__context__, OSError) else error from None

    def read_json(self, name: str) -> dict[str, Any]:
        """The mapping in the file `name`; ValueError for any other content, FileNotFoundError without a file."""
        content = read_json(self / name)
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
    file = open(directory / "log.txt", "a", opener=no_link)  # noqa: SIM115
    logger, handler = logging.getLogger(LOGGER), logging.StreamHandler(file)
    handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk ends the run, not its log
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        file.close()
