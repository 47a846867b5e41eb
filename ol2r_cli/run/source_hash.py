"""Hashes of Python source that comments, docstrings and formatting do not change, and the imports in it."""

from __future__ import annotations

import ast
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

_DIGITS = 12
_WITHOUT_EFFECT = ("ctx", "kind", "type_comment", "type_ignores")  # fields that follow from others or do nothing


class Import(NamedTuple):
    """An import statement: `from <level dots><module> import <names>`; `names` is empty for `import <module>`.

    `binds_top` is true for `import a.b` without `as`, which makes `a` known and not only `a.b`.
    """

    level: int
    module: str
    names: tuple[str, ...] = ()
    binds_top: bool = False


def hash_of_bytes(content: bytes) -> str:
    """The first 12 hexadecimal digits of a sha256."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def hash_of_tree(tree: ast.AST) -> str:
    """A hash of a syntax tree, equal for equal code in every version of Python that parses it to the same tree."""
    written: list[str] = []
    _write(tree, written.append)
    return hash_of_bytes("".join(written).encode())


def parse(content: bytes | str, name: str) -> ast.Module:
    """The syntax tree of source code; ValueError, with the `name` of the file, if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escape sequences, which the import has told already
            return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError) as error:
        what = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(f"{name} must be Python source, since its hash is part of the run id, got: {what}") from None


def hash_of_file(path: Path) -> str:
    """The hash of the syntax tree of a file, computed once until the file changes; ValueError if it has none.

    Of a compiled module, it is that of its content.
    """
    if path.suffix in EXTENSION_SUFFIXES:
        return hash_of_bytes_in(path)
    return _hash_of_file(path, *_stamp(path))


def hash_of_bytes_in(path: Path) -> str:
    """The hash of the content of a file, computed once until the file changes."""
    return _hash_of_bytes_in(path, *_stamp(path))


def imports_of(path: Path) -> tuple[Import, ...]:
    """The imports of a file, also inside functions, without those that only type checkers see; ValueError as above."""
    return () if path.suffix in EXTENSION_SUFFIXES else _imports_of(path, *_stamp(path))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise ValueError(f"{path} must be readable, since its hash is part of the run id: {error.strerror}") from None
    return status.st_mtime_ns, status.st_size


@cache
def _hash_of_file(path: Path, *stamp: int) -> str:
    return hash_of_tree(parse(path.read_bytes(), str(path)))


@cache
def _hash_of_bytes_in(path: Path, *stamp: int) -> str:
    return hash_of_bytes(path.read_bytes())


@cache
def _imports_of(path: Path, *stamp: int) -> tuple[Import, ...]:
    return tuple(dict.fromkeys(_imports(parse(path.read_bytes(), str(path)))))


def _imports(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(0, alias.name, binds_top=alias.asname is None)
    elif isinstance(node, ast.ImportFrom):
        yield Import(node.level, node.module or "", tuple(alias.name for alias in node.names))
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"
    for child in node.orelse if is_for_checkers and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from _imports(child)


def _write(value: Any, write: Callable[[str], object]) -> None:
    """Write a node, a list of nodes or a plain value as text, without fields that are empty."""
    if isinstance(value, ast.AST):
        write(f"{type(value).__name__}(")
        for field in value._fields:
            content = getattr(value, field, None)
            if isinstance(content, list):
                content = _joined(content) if isinstance(value, ast.JoinedStr) else content
                content = [item for item in content if not _does_nothing(item)]
            is_empty = content == [] or (content is None and not isinstance(value, ast.Constant))
            if field not in _WITHOUT_EFFECT and not is_empty:
                write(f"{field}=")
                _write(content, write)
                write(",")
        write(")")
    elif isinstance(value, list):
        write("[")
        for item in value:
            _write(item, write)
            write(",")
        write("]")
    else:
        write(ascii(value))  # which characters `repr` escapes depends on the version of Python


def _does_nothing(item: Any) -> bool:
    """Whether an entry of a list is a statement without effect: `pass`, a docstring, `...`."""
    return isinstance(item, ast.Pass) or (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts as one: versions of Python split them differently."""
    joined: list[ast.expr] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(part.value))
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            joined.append(part)
    return joined
