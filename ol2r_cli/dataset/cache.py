"""Folders of memory-mapped arrays, built once and shared by all processes.

A folder `<cache_dir>/<key>` holds one .npy file per array and a `meta.json` with their sizes, which is compared at
every opening: what does not fit is built again. Building happens in `<key>.partial`, under a file lock so that ten
processes that start together parse once, and ends with a rename, so a folder is complete or absent. Nothing is ever
written elsewhere, and everything below `cache_dir` may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def digest(content: Any) -> str:
    """sha256 of anything JSON can express; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_rows(file: Path, shape: tuple[int, int], blocks: Iterable[np.ndarray]) -> None:
    """A float32 .npy file from blocks of rows, without holding the table in memory."""
    with file.open("wb") as out:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, header)
        for block in blocks:
            np.ascontiguousarray(block, "<f4").tofile(out)


class Cache:
    """The folder of cached arrays; `cache_dir` is created when something is first written."""

    def __init__(self, cache_dir: str | Path):
        self.folder = Path(os.path.expandvars(cache_dir)).expanduser()

    def open(self, key: str, build: Callable[[Path], None]) -> Arrays:
        """The arrays of a key; where they are absent or damaged, `build` writes .npy files into the folder it is given.

        The arrays are private mappings: writing to one changes neither the file nor what other processes see.
        Raises ValueError when the cache cannot be written; an error of `build` passes through and leaves nothing.
        """
        final = self.folder / key
        arrays = _read(final)
        if arrays is not None:
            return arrays
        with self._writing(), _locked(self.folder / f"{key}.lock"):
            arrays = _read(final)
            if arrays is None:
                partial = self.folder / f"{key}.partial"
                shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
                try:
                    partial.mkdir()
                    build(partial)
                    _describe(partial)
                    shutil.rmtree(final, ignore_errors=True)  # damaged
                    partial.rename(final)
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
                arrays = _read(final)
        if arrays is None:
            raise ValueError(f"cache_dir must be a folder that keeps what is written, got {self.folder}")
        return arrays

    def sha256(self, file: Path) -> str:
        """The sha256 of a file, computed again only when its size or time of change is no longer what it was."""
        state = file.stat()
        known = {"path": str(file.resolve()), "size": state.st_size, "mtime": state.st_mtime_ns}
        entry = self.folder / "sources" / f"{digest(known['path'])[:24]}.json"
        try:
            content = json.loads(entry.read_text())
            if {name: content[name] for name in known} == known:
                return str(content["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not computed yet, or damaged
        with file.open("rb") as stream:
            known["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
        with self._writing():
            entry.parent.mkdir(exist_ok=True)
            partial = entry.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps(known))
            partial.replace(entry)
        return str(known["sha256"])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Says which setting to change when the disk is full or the folder may not be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as problem:
            raise ValueError(
                f"cache_dir must be a writable folder with space left, got {self.folder} ({problem}); "
                "type cache_dir=FOLDER"
            ) from problem


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Waits until no other process holds the lock; the operating system releases it when a process dies."""
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _describe(folder: Path) -> None:
    """Notes what the arrays are; written last, so a folder without it is unfinished."""
    arrays = {}
    for file in sorted(folder.glob("*.npy")):
        array = np.load(file, mmap_mode="r")
        arrays[file.stem] = {"shape": list(array.shape), "dtype": array.dtype.str, "bytes": file.stat().st_size}
    (folder / "meta.json").write_text(json.dumps({"arrays": arrays}, indent=1))


def _read(folder: Path) -> Arrays | None:
    """The arrays of a folder, or None when it is absent or a file is not of the size and shape that was noted."""
    try:
        expected = json.loads((folder / "meta.json").read_text())["arrays"]
        arrays = {}
        for name, entry in expected.items():
            file = folder / f"{name}.npy"
            array = np.load(file, mmap_mode="c")
            found = {"shape": list(array.shape), "dtype": array.dtype.str, "bytes": file.stat().st_size}
            if found != entry:
                return None
            arrays[name] = array
        return arrays
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
