"""The file in which Optuna keeps a study, safe against processes that are killed while they write it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock


def journal(path: Path) -> JournalStorage:
    """The storage in this file, which several processes of one machine may use at the same time."""
    return JournalStorage(JournalFileBackend(str(path), lock_obj=_Lock(path)))


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Only one process at a time is here; it waits for the others, and a killed one holds nobody up."""
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Lock(JournalFileOpenLock):
    """An flock, of which the system lets go however a process ends; the lock this one replaces outlives a kill by 30 s.

    Whoever holds it next cuts off the line that a killed writer left unfinished, which Optuna would stumble over.
    """

    def __init__(self, path: Path):
        super().__init__(str(path))
        self.path = path

    def acquire(self) -> bool:
        self._turn = turn(self.path.with_name(".journal.lock"))
        self._turn.__enter__()
        with open(self.path, "rb+") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            if file.read(1) not in (b"", b"\n"):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self._turn.__exit__(None, None, None)
