"""Replaces files in one step."""

from __future__ import annotations

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
