"""What may have happened to a file since it was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda file: file.unlink(),
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "emptied": lambda file: file.write_bytes(b""),
    "changed by a bit": flip,
}
