"""Runs `ol2r` in forked processes and disturbs one of their file operations (`faults.c`).

Forking a process that has torch imported takes milliseconds, starting Python takes seconds. Nothing here may use polars
or more than one thread of torch before a fork, because threads do not survive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

TINY = Path(__file__).parents[2] / "tests" / "data" / "tiny"


class How(IntEnum):
    """What happens at the chosen file operation; the numbers are those of `faults.c`."""

    COUNT = 0  # nothing
    KILL_BEFORE = 1
    KILL_DURING = 2  # half of a write is done; any other operation as KILL_AFTER
    KILL_AFTER = 3
    FAIL_ONCE = 4
    FAIL_FROM_THEN_ON = 5


@dataclass(frozen=True)
class Disturbance:
    """What happens to the process at its `operation`-th file operation below a folder, counted from 1."""

    operation: int
    how: How
    error: int = 0  # errno of a failure

    def __str__(self) -> str:
        error = f" with {os.strerror(self.error)}" if self.error else ""
        return f"{self.how.name.lower().replace('_', ' ')} operation {self.operation}{error}"


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code or minus a signal, its output on stderr, and its file operations if listed."""

    code: int
    errors: str
    operations: list[str]


def load() -> None:
    """Start this program again with the library that disturbs file operations, unless it is loaded."""
    if hasattr(ctypes.CDLL(None), "ol2r_disturb"):
        return
    library = Path(tempfile.mkdtemp(prefix="ol2r-faults-"), "faults.so")
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    os.execve(sys.executable, sys.orig_argv, os.environ | {"LD_PRELOAD": str(library)})


@dataclass(frozen=True)
class Started:
    """A process, and the files with what it writes to stderr and its file operations."""

    pid: int
    log: Path
    listing: Path | None


def start(
    arguments: list[str],
    folder: Path,
    disturbance: Disturbance | None = None,
    before: Callable[[], object] = int,
    name: str = "",
) -> Started:
    """Run a command in a forked process; operations below `folder` are listed unless one of them is disturbed.

    `before` is called in the process at first. `name` distinguishes processes that run together.
    """
    log = folder.parent / f"{folder.name}{name}.stderr"
    listing = None if disturbance else folder.parent / f"{folder.name}{name}.operations"
    process = os.fork()
    if not process:
        code = 99
        with contextlib.suppress(BaseException):
            code = _child(arguments, folder, disturbance, before, log, listing)
        os._exit(code)
    return Started(process, log, listing)


def ended(process: Started) -> Ended:
    """Wait for the end of a process."""
    code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
    errors = process.log.read_text(errors="replace") if process.log.exists() else ""
    operations = process.listing.read_text() if process.listing and process.listing.exists() else ""
    return Ended(code, errors, operations.splitlines())


def ol2r(arguments: list[str], folder: Path, disturbance: Disturbance | None = None) -> Ended:
    """Run a command in a forked process, and wait for its end."""
    return ended(start(arguments, folder, disturbance))


def _child(
    arguments: list[str],
    folder: Path,
    disturbance: Disturbance | None,
    before: Callable[[], object],
    log: Path,
    listing: Path | None,
) -> int:
    from ol2r_cli.cli import main

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    before()
    library = ctypes.CDLL(None)
    if disturbance is None and listing is not None:
        operations = os.open(listing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        library.ol2r_disturb(str(folder).encode(), 0, How.COUNT, 0, operations)
    elif disturbance is not None:
        number, how, error = disturbance.operation, disturbance.how, disturbance.error
        library.ol2r_disturb(str(folder).encode(), ctypes.c_long(number), how, error, -1)
    try:
        return main(arguments)
    except SystemExit as error:
        return int(error.code or 0)
