"""Files: those of others are read within limits, files are replaced in one step, and processes lock each other out.

A file of others, such as that of a run, can be a FIFO, a link to a device, a kilobyte of YAML aliases for more values
than fit into memory, or 200,000 brackets, which end the process. None of them may end or hang a command that reads many
runs.

A lock is a file that is locked with flock, which ends with its process, and that names its owner. Where a file system
refuses flock, or two machines do not see each other's, every process gets the lock; the last one overwrites the name of
the owner, and the one before it finds that the lock is not its own any more (`is_ours`).
"""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import platform
import secrets
import stat
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

LARGEST = 2**24  # bytes of JSON or YAML
DEPTH = 40  # levels of nested mappings and lists
_LOOKS, _PAUSE = 20, 0.01  # attempts, and seconds between two: `is_held` locks a file for microseconds


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file, or a link to one, to be read; OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for a writer of a FIFO
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(f"{path} must be a regular file")


def text_of(content: bytes) -> str:
    """Return the text of the bytes of JSON or YAML; ValueError for too many."""
    if len(content) > LARGEST:
        raise ValueError(f"a text must have at most {LARGEST:,} bytes")
    return content.decode()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file of JSON or YAML; OSError unless it is a regular file, ValueError for too long a
    text."""
    with open_file(path) as file:
        return text_of(file.read(LARGEST + 1))


def read_json(path: Path) -> Any:
    """Return the value in a file of JSON; OSError, or a ValueError that names the file."""
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, got: {error}") from None


def parse_json(text: str) -> Any:
    """Return the value of a text; ValueError."""
    try:
        return plain(json.loads(text))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def as_json(value: Any, margin: str = "") -> str:
    """Return JSON that is easy to read: a mapping is on one line if it fits into 120 columns. ValueError for NaN."""
    flat = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if not isinstance(value, Mapping) or (margin and len(margin) + len(flat) <= 100):
        return flat
    inner = margin + "  "
    entries = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {as_json(value[key], inner)}" for key in value)
    return "{\n" + ",\n".join(entries) + f"\n{margin}}}"


def parse_yaml(text: str) -> Any:
    """Return the value of a text; ValueError, also for aliases, which a run does not write."""
    import yaml

    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    try:
        for event in yaml.parse(text, loader):  # the loader itself recurses, and would end the process
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("an alias")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH:
                raise ValueError(f"more than {DEPTH} levels")
        return plain(yaml.load(text, loader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def plain(value: Any, depth: int = DEPTH) -> Any:
    """Return the value; ValueError unless it consists of text that can be printed, 64-bit integers, finite numbers,
    true, false and null, in at most `depth` levels of mappings and lists."""
    if isinstance(value, dict | list):
        if not depth:
            raise ValueError(f"more than {DEPTH} levels")
        for inner in value if isinstance(value, list) else (*value, *value.values()):
            plain(inner, depth - 1)
    elif isinstance(value, str):
        value.encode()  # a UnicodeEncodeError, which is a ValueError, for half of a surrogate pair
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError("an integer of more than 64 bits")
    elif value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError(f"{str(value)[:40]!r} of type {type(value).__name__}")
    return value


def invalid_fields(value: Any, schema: dict[Any, Any]) -> list[str]:
    """Return the names in a schema {name: type} whose values are not of their type; "mapping" unless `value` is one.

    A type is one of Python, None for null, [type] of a list with entries, a schema of a mapping, in which the name
    `...` stands for all, or a tuple of types, of which one is enough.
    """
    if not isinstance(value, dict):
        return ["mapping"]
    types = dict.fromkeys(value, schema[...]) if ... in schema else schema
    return [name for name, expected in types.items() if not _is_of(expected, value.get(name))]


def _is_of(expected: Any, value: Any) -> bool:
    if isinstance(expected, tuple):
        return any(_is_of(alternative, value) for alternative in expected)
    if isinstance(expected, list):
        return isinstance(value, list) and bool(value) and all(_is_of(expected[0], inner) for inner in value)
    if isinstance(expected, dict):
        return not invalid_fields(value, expected)
    return value is None if expected is None else isinstance(value, expected)


def no_link(path: str, flags: int) -> int:
    """Return an `opener` for `open`, which raises OSError where the file is a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write_bytes(file: Path, content: bytes | memoryview) -> None:
    """Replace a file, in a folder that is created. Of several writers the last one wins.

    The content is forced to the disk before the file is renamed. A reader, and the next process after a kill or a power
    cut, therefore find the old content or the new content and never a part of it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    path = file.with_name(f".{file.name}.{secrets.token_hex(8)}.partial")
    try:
        with open(path, "xb") as temporary:  # x follows no link
            temporary.write(content)
            temporary.flush()
            os.fsync(temporary.fileno())
        os.replace(path, file)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_output(file: Path, content: bytes) -> None:
    """Write to a file that the user names: into a device or a FIFO, and through a link, which stays, to its target.

    A regular file is replaced as `write_bytes` does.
    """
    if is_special(file):
        with open(file, "wb") as stream:
            stream.write(content)
    else:
        write_bytes(Path(os.path.realpath(file)), content)


def is_special(file: Path) -> bool:
    """Return whether there is something that is neither a regular file, nor a link to one, nor a folder: a device, a
    FIFO."""
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def write_text(file: Path, content: str) -> None:
    """Write to a file that the user names, as `write_output` does."""
    write_output(file, content.encode())


def write_parquet(file: Path, frame: pl.DataFrame) -> None:
    """Write to a file that the user names, as `write_output` does."""
    content = io.BytesIO()  # polars would hide the error of a full disk
    frame.write_parquet(content, compression="zstd")
    write_output(file, content.getvalue())


class LockHeld(Exception):
    """Another process, or another `Lock` of this one, holds the lock. The message names the process."""


class Lock:
    """The lock in `file`, held in a `with` block. While another one holds it, `wait`, or raise LockHeld."""

    def __init__(self, file: Path, wait: bool = True):
        self.file, self.wait = file, wait
        self._content = f"pid {os.getpid()} on {platform.node()}\n{secrets.token_hex(8)}".encode()

    def __enter__(self) -> Lock:
        look = 0
        while True:
            look += 1
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError), ExitStack() as opened:  # the last owner has just removed file or folder
                file = opened.enter_context(open(self.file, "ab+", 0, opener=no_link))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if self.wait else fcntl.LOCK_NB))
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
                    return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            if self.is_ours():  # otherwise the file has another owner
                self.file.unlink()
        self._opened.close()

    def is_ours(self) -> bool:
        """Return whether the file still names this owner."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return self.file.read_bytes() == self._content
        return False


def is_held(file: Path) -> bool:
    """Return whether a process, this one included, holds the lock in `file`, as far as flock tells. Changes nothing."""
    try:
        with open_file(file) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or a file system without locks
        pass
    return False
