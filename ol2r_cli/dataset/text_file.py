"""Opens data files, plain or gzipped, and says so when a gzip file is not whole."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from ol2r_cli.dataset.diagnose import data_error


@contextmanager
def open_text(path: Path) -> Iterator[BufferedIOBase]:
    """The bytes of a plain or gzipped file (told apart by their first two bytes); a damaged gzip raises DataError."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not packed:
            yield raw
            return
        with gzip.open(raw) as file:
            try:
                yield file
            except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
                raise data_error(str(path), _readable_lines(path) + 1, f"a damaged gzip file ({problem})",
                                 "a complete one: copy or download it again") from None  # fmt: skip


def _readable_lines(path: Path) -> int:
    """How many whole lines come out of a damaged gzip file."""
    lines = 0
    try:
        with gzip.open(path) as file:
            for _ in file:
                lines += 1
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    return lines
