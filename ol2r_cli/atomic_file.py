"""Replaces files in one step, and opens files without following links that others may have put there."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import polars as pl


def no_link(path: str, flags: int) -> int:
    """An `opener` for `open`, which raises OSError where the file is a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A temporary file to write to; it replaces `file` at the end of the block, unless the block raises.

    The content is forced to the disk before the file is renamed. A reader, and the next process after a kill or a power
    cut, therefore find the old content or the new content and never a part of it. Of several writers the last one wins.
    """
    path = file.with_name(f".{file.name}.{secrets.token_hex(8)}.partial")
    with open(path, "xb+") as temporary:  # x follows no link
        try:
            yield temporary
            temporary.flush()
            os.fsync(temporary.fileno())
            os.replace(path, file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def write_bytes(file: Path, content: bytes | memoryview) -> None:
    """Replace a file, in a folder that is created."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write(content)


def write_text(file: Path, content: str) -> None:
    """Replace a file, in a folder that is created."""
    write_bytes(file, content.encode())


def write_parquet(file: Path, frame: pl.DataFrame) -> None:
    """Replace a file, in a folder that is created."""
    content = io.BytesIO()  # polars would hide the error of a full disk
    frame.write_parquet(content, compression="zstd")
    write_bytes(file, content.getvalue())
