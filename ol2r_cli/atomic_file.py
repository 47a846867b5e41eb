"""Replaces files in one step, and locks files between processes.

The operating system releases a lock (flock) when the process that holds it ends, in whatever way.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def temporary_of(file: Path) -> Path:
    """The temporary file beside `file` that `replacing` writes to."""
    return file.with_name(f".{file.name}.partial")


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `file` at the end of the block, unless the block raises.

    The content is forced to the disk before the file is renamed. A reader, and the next process after a kill or a power
    cut, therefore find the old content or the new content and never a part of it.
    """
    temporary = temporary_of(file)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def locked(file: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on `file`, which is created if necessary, during the block.

    Without `wait` it raises BlockingIOError when another process holds the lock.
    """
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
