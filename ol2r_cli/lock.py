"""A lock between processes: a file that is locked with flock, which ends with its process, and that names its owner.

Where a file system refuses flock, or two machines do not see each other's, every process gets the lock; the last one
overwrites the name of the owner, and the one before it finds that the lock is not its own any more (`is_ours`).
"""

from __future__ import annotations

import fcntl
import itertools
import os
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ol2r_cli.atomic_file import no_link
from ol2r_cli.untrusted_file import open_file

_LOOKS, _PAUSE = 20, 0.01  # attempts, and seconds between two: `is_held` locks a file for microseconds


class LockHeld(Exception):
    """Another process, or another `Lock` of this one, holds the lock. The message names the process."""


class Lock:
    """The lock in `file`. `acquire` and `release` it, or use `locked`."""

    def __init__(self, file: Path):
        self.file = file
        self._content = f"pid {os.getpid()} on {platform.node()}\n{secrets.token_hex(8)}".encode()

    def acquire(self, wait: bool = False) -> None:
        """Take the lock, in a file that is created with its folder. While it is held, wait, or raise LockHeld."""
        for look in itertools.count(1):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), ExitStack() as opened:  # the last owner has just removed file or folder
                file = opened.enter_context(open(self.file, "ab+", 0, opener=no_link))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    if look >= _LOOKS:
                        file.seek(0)
                        raise LockHeld(file.readline(1000).decode(errors="replace").strip()) from None
                    time.sleep(_PAUSE)
                    continue
                except OSError:  # a file system without locks
                    pass
                if os.path.samestat(os.fstat(file.fileno()), self.file.stat()):  # otherwise the last owner removed it
                    try:
                        file.truncate(0)
                        file.write(self._content)
                    except OSError:  # the disk is full
                        self.file.unlink()
                        raise
                    self._opened = opened.pop_all()
                    return

    def is_ours(self) -> bool:
        """Whether the file still names this owner."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.file.read_bytes() == self._content
        return False

    def release(self) -> None:
        """Give the lock back: remove the file, unless it has another owner."""
        with suppress(OSError):
            if self.is_ours():
                self.file.unlink()
        self._opened.close()


@contextmanager
def locked(file: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock in `file` during the block. Without `wait`, LockHeld where another process holds it."""
    lock = Lock(file)
    lock.acquire(wait)
    try:
        yield
    finally:
        lock.release()


def is_held(file: Path) -> bool:
    """Whether a process, this one included, holds the lock in `file`, as far as flock tells. Changes nothing."""
    try:
        with open_file(file) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or a file system without locks
        pass
    return False
