"""The cache of parsed datasets and offline fits. All of it can be made again from the files it was made from."""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from ol2r_cli.clean.removal import Removal

# Names that the cache gives: a folder of arrays, or what is left of a killed process that was writing one; the check
# sums of files; a fit. Locks are empty and stay: a process may be waiting for one.
_ARRAYS = re.compile(r"[0-9a-f]{24}(\.partial)?")
_SUM = re.compile(r"[0-9a-f]{24}(\.\d+)?\.(json|partial)")
_FIT = re.compile(r"[0-9a-f]{64}\.(npy|partial)")


def entries(folder: Path, before: float) -> Iterator[Removal]:
    """What lies in a cache and has not changed since `before` (seconds since the epoch)."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if _ARRAYS.fullmatch(path.name) and path.is_dir() and path.stat().st_mtime < before:
            size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
            yield Removal("parsed dataset", path, size, _arrays(path))
    for below, name, kind in ("sources", _SUM, "check sum of a file"), ("offline", _FIT, "offline fit"):
        for path in sorted((folder / below).glob("*")):
            if name.fullmatch(path.name) and path.stat().st_mtime < before:
                yield Removal(kind, path, path.stat().st_size, _file(path))


def _arrays(path: Path) -> Callable[[], int]:
    """Under the lock of the entry. Processes that have mapped the arrays keep them until they end."""

    def act() -> int:
        with path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError("it is being written") from None
            gone = path.with_suffix(".partial")
            if path != gone:
                shutil.rmtree(gone, ignore_errors=True)
                path.rename(gone)  # at once, so that nobody meets half of it
            size = sum(file.stat().st_size for file in gone.iterdir() if file.is_file())
            shutil.rmtree(gone)
            return size

    return act


def _file(path: Path) -> Callable[[], int]:
    def act() -> int:
        with suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            return size
        return 0

    return act
