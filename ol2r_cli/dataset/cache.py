"""A folder of memory-mapped arrays that are built once and shared by all processes.

    arrays = Cache(cache_dir).open(digest(identity)[:24], build)

`identity` is everything that decides the numbers, code included (`source.code_hash`); `build(folder)` writes one .npy
file per array into `folder`. An entry is the folder `<cache_dir>/<key>` with these files and a `meta.json` with their
sizes and checksums, which are compared at every opening: an entry that does not fit is built again. An entry is
complete or absent: it is built in a folder of its own under a file lock, so that processes that start together build it
once, and then renamed. Where locks have no effect, each of them builds it, and the first one that has done so wins.
Nothing is written outside `cache_dir`, and everything below it may be deleted at any time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ol2r_cli.files import Lock, is_held, write_bytes
from ol2r_cli.text.formatting import one_line

Arrays = dict[str, np.ndarray]

_PLACES = "path", "file", "folder", "dir"  # settings of a dataset that say where something lies
_SMALL = 2**25  # bytes of a file whose checksum is verified at every opening, in about 30 ms
_PART = 2**18  # bytes of a file that are read at once
_SETTLED = 10**9  # nanoseconds after its last change, before which another one might have the same time


class Cache:
    """The arrays below `cache_dir`, in which `~` and environment variables are replaced.

    The folder is created at the first write. The checksums of large arrays are verified only if it is `thorough`.
    """

    def __init__(self, cache_dir: str | Path, thorough: bool = False):
        self.folder, self.thorough = expand(cache_dir), thorough
        self.rebuilt: list[str] = []  # entries that were damaged

    def open(self, key: str, build: Callable[[Path], None]) -> Arrays:
        """Return the arrays of entry `key` by the names of their files; `build` writes what is absent or damaged.

        The arrays are private mappings: writing to one changes neither the file nor what other processes read. Raises
        ValueError when the cache cannot be written, MemoryError when there is no memory. An exception of `build` passes
        through and leaves no entry.
        """
        entry = self.folder / key
        arrays = _read(entry, self.thorough)
        if arrays is not None:
            return arrays
        lock = entry.with_name(f"{key}.lock")
        try:
            with Lock(lock):
                arrays = _read(entry, self.thorough)
                if arrays is None:
                    if entry.exists():
                        self.rebuilt.append(key)
                    if is_held(lock):  # the lock has an effect, so that what is left here is of killed processes
                        for left in self.folder.glob(f"{key}.*.partial"):
                            shutil.rmtree(left, ignore_errors=True)
                    _write(entry, build)
                    arrays = _read(entry, thorough=False)
            if arrays is None:
                raise OSError("it does not keep what is written")
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise MemoryError(one_line(error)) from None
            raise self._unwritable(error) from error
        return arrays

    def sha256(self, file: Path) -> str:
        """Return the sha256 of a file, computed again when its size, times or inode differ from last time.

        A file that was replaced by one of equal size and time has another inode, or another time of its last change.
        """
        status = file.stat()
        state = [str(file.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        entry = self.folder / "sources" / f"{digest(state[0])[:24]}.json"
        with suppress(OSError, ValueError, KeyError, TypeError):  # not computed yet, or damaged
            kept = json.loads(entry.read_text())
            if kept["state"] == state and kept["check"] == digest([state, kept["sha256"]]):
                return str(kept["sha256"])
        with file.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _SETTLED:
            try:
                kept = {"state": state, "sha256": sha256, "check": digest([state, sha256])}
                write_bytes(entry, json.dumps(kept).encode())
            except OSError as error:
                raise self._unwritable(error) from error
        return sha256

    def _unwritable(self, error: OSError) -> ValueError:
        allowed = f"a writable folder with space left, got {self.folder} ({error}); type cache_dir=FOLDER"
        return ValueError(f"cache_dir must be {allowed}")


def expand(path: str | Path) -> Path:
    """Return `path` with `~` and environment variables replaced, relative to the current directory.

    A path that exists as it is, such as a folder with the name `a$HOME`, stays.
    """
    return Path(path) if os.path.lexists(path) else Path(os.path.expanduser(os.path.expandvars(path)))


def with_absolute_paths(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a dataset with absolute paths, at whatever depth: of what exists, and is the value of a
    setting called path, file, folder or dir, or with such an ending. Files of intents lie in the folder of the data."""
    placed = dict(settings)
    for name, value in settings.items():
        if isinstance(value, Mapping) and name != "intents":
            placed[name] = with_absolute_paths(value)
        elif isinstance(value, str) and str(name).rpartition("_")[2] in _PLACES and value and os.path.lexists(value):
            placed[name] = os.path.abspath(value)
    return placed


def digest(content: Any) -> str:
    """Return the sha256 of anything that JSON can express; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write(entry: Path, build: Callable[[Path], None]) -> None:
    """Write an entry in place of a damaged one; what another process has written meanwhile stays."""
    partial = entry.with_name(f"{entry.name}.{secrets.token_hex(8)}.partial")
    try:
        partial.mkdir()
        build(partial)
        files = {file.stem: [file.stat().st_size, _crc32(file)] for file in partial.glob("*.npy")}
        (partial / "meta.json").write_text(json.dumps({"arrays": files}))
        for file in partial.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        shutil.rmtree(entry, ignore_errors=True)
        with suppress(OSError):  # another process was faster
            partial.rename(entry)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _read(folder: Path, thorough: bool) -> Arrays | None:
    """Return the arrays of an entry, or None when it is absent or a file differs from meta.json.

    Checksums are compared if the file is small or `thorough`.
    """
    arrays = {}
    try:
        for name, (size, crc32) in json.loads((folder / "meta.json").read_text())["arrays"].items():
            file = folder / f"{name}.npy"
            if file.stat().st_size != size or ((thorough or size <= _SMALL) and _crc32(file) != crc32):
                return None
            arrays[name] = np.load(file, mmap_mode="c")
    except Exception as error:  # a damaged header raises nearly anything
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            raise
        return None
    return arrays


def _crc32(file: Path) -> int:
    """Return the checksum of a file: a gigabyte takes about a second."""
    checksum = 0
    with file.open("rb") as stream:
        while part := stream.read(_PART):
            checksum = zlib.crc32(part, checksum)
    return checksum
