"""The code of a class without a file, as defined in a notebook: the class, and what of its module it refers to."""

from __future__ import annotations

import ast
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ol2r_cli.run.source_hash import hash_of_bytes, hash_of_tree, parse

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# Types whose values are hashed by their text, such as torch.float64; those of `typing` are, too: Annotated[float, ..].
_BY_TEXT = ("torch.dtype", "torch.device", "types.UnionType", "types.GenericAlias")


def definitions(defined: Any) -> tuple[dict[str, str], list[Any]]:
    """The hashes of a class or function and of everything in its module that its code refers to, by name.

    Names are as in `__main__.MyRanker`. The second result is what it refers to in other modules: modules, classes and
    functions. ValueError, which says to put the class in a file, where there is no source or a value has no text.
    """
    module = sys.modules[defined.__module__]
    hashes: dict[str, str] = {}
    elsewhere: list[Any] = []
    waiting = {defined.__qualname__.partition(".")[0]: defined}
    while waiting:
        name, value = waiting.popitem()
        value = inspect.unwrap(value) if callable(value) else value  # of @cache and the like
        statement = None
        if inspect.isclass(value) or inspect.isfunction(value):
            if value.__module__ != module.__name__:
                elsewhere.append(value)
                continue
            statement = _statement(value)
            hashes[f"{module.__name__}.{name}"] = hash_of_tree(statement)
        elif inspect.ismodule(value) or inspect.isroutine(value):
            elsewhere.append(value)
        elif _is_plain(value) or _has_text(value):
            hashes[f"{module.__name__}.{name}"] = hash_of_bytes(ascii(value).encode())
        else:
            kind = type(value).__name__
            raise ValueError(_advice(defined, f"its code refers to {name}, a {kind}, whose value has no hash"))
        for used in _globals(statement) if statement else ():
            if f"{module.__name__}.{used}" not in hashes and used in vars(module):
                waiting[used] = vars(module)[used]
    return hashes, elsewhere


def _advice(defined: Any, reason: str) -> str:
    return (
        f"{defined.__qualname__} must be in a file, since its code is part of the run id, and {reason}: "
        "put the class in a file, and import it"
    )


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)


def _has_text(value: Any) -> bool:
    """Whether a value is of a type whose text says all of it, and no address in memory."""
    kind = type(value)
    by_text = kind.__module__ == "typing" or f"{kind.__module__}.{kind.__name__}" in _BY_TEXT
    return by_text and " at 0x" not in ascii(value)


def _statement(defined: Any) -> ast.stmt:
    """The outermost statement that defines a class or function, in the cell that was last executed for it."""
    for code in codes_of(defined):
        for statement in _statements(code.co_filename):
            first = min([statement.lineno, *(line.lineno for line in getattr(statement, "decorator_list", ()))])
            if first <= code.co_firstlineno <= (statement.end_lineno or first):
                return statement
    if inspect.isclass(defined):  # without a method of its own: the cell that was executed last and has the class
        for file in [file for file in reversed(linecache.cache) if file.startswith("<") or "ipykernel" in file]:
            with suppress(ValueError):
                for statement in _statements(file):
                    if isinstance(statement, ast.ClassDef) and statement.name == defined.__qualname__:
                        return statement
    raise ValueError(_advice(defined, "its source is not available"))


def codes_of(defined: Any) -> Iterator[Any]:
    """The code objects that a definition contains: of a function its own, of a class those of its methods."""
    if not inspect.isclass(defined):
        yield inspect.unwrap(defined).__code__
        return
    for member in vars(defined).values():
        for method in (member, getattr(member, "fget", None), getattr(member, "__func__", None)):
            if inspect.isfunction(method):
                method = inspect.unwrap(method)
                if method.__qualname__.startswith(f"{defined.__qualname__}."):
                    yield method.__code__


def _statements(file: str) -> list[ast.stmt]:
    """The statements of a cell; none where its source is not available."""
    return parse("".join(linecache.getlines(file)), file).body


def _globals(statement: ast.stmt) -> set[str]:
    """The names of its module that a statement refers to, wherever it does."""

    def visit(table: symtable.SymbolTable, is_module: bool = False) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (is_module or symbol.is_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from visit(child)

    return set(visit(symtable.symtable(ast.unparse(statement), "<cell>", "exec"), is_module=True))
