"""Reads files that others may have written, such as those of a run: in limited time and memory, and as plain values.

Such a file can be a FIFO, a link to a device, a kilobyte of YAML aliases for more values than fit into memory, or
200,000 brackets, which end the process. None of them may end or hang a command that reads many runs.
"""

from __future__ import annotations

import json
import math
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

LARGEST = 2**24  # bytes of JSON or YAML
DEPTH = 40  # levels of nested mappings and lists


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file, or a link to one, to be read; OSError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for a writer of a FIFO
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(f"{path} must be a regular file")


def text_of(content: bytes) -> str:
    """The text of the bytes of JSON or YAML; ValueError for too many."""
    if len(content) > LARGEST:
        raise ValueError(f"a text must have at most {LARGEST:,} bytes")
    return content.decode()


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file of JSON or YAML; OSError unless it is a regular file, ValueError for too long a text."""
    with open_file(path) as file:
        return text_of(file.read(LARGEST + 1))


def read_json(path: Path) -> Any:
    """The value in a file of JSON; OSError, or a ValueError that names the file."""
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, got: {error}") from None


def parse_json(text: str) -> Any:
    """The value of a text; ValueError."""
    try:
        return plain(json.loads(text))
    except RecursionError as error:
        raise ValueError(str(error)) from None


def parse_yaml(text: str) -> Any:
    """The value of a text; ValueError, also for aliases, which a run does not write."""
    import yaml

    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    try:
        for event in yaml.parse(text, loader):  # the loader itself recurses, and would end the process
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEPTH or isinstance(event, yaml.AliasEvent):
                raise ValueError("an alias" if depth <= DEPTH else f"more than {DEPTH} levels")
        return plain(yaml.load(text, loader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def plain(value: Any, depth: int = DEPTH) -> Any:
    """The value; ValueError unless it consists of text that can be printed, 64-bit integers, finite numbers, true,
    false and null, in at most `depth` levels of mappings and lists."""
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
    """The names in a schema {name: kind} whose values are not of their kind; "mapping" unless `value` is one.

    A kind is a type, None for null, [kind] of a list with entries, a schema of a mapping, in which the name `...`
    stands for all, or a tuple of kinds, of which one is enough.
    """
    if not isinstance(value, dict):
        return ["mapping"]
    kinds = dict.fromkeys(value, schema[...]) if ... in schema else schema
    return [name for name, kind in kinds.items() if not _is_of(kind, value.get(name))]


def _is_of(kind: Any, value: Any) -> bool:
    if isinstance(kind, tuple):
        return any(_is_of(one, value) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and bool(value) and all(_is_of(kind[0], inner) for inner in value)
    if isinstance(kind, dict):
        return not invalid_fields(value, kind)
    return value is None if kind is None else isinstance(value, kind)
