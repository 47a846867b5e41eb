"""Own code of a notebook or a script, which has no file that could be hashed or imported: the statements that define a
class, what of the notebook these refer to, and the class for other processes.

A cell is a file of `linecache` for Python; its text is there after it was executed.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import linecache
import symtable
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ol2r_cli.run.own_code import module_name


def texts_of(cls: Any) -> tuple[set[tuple[str, str]], list[Any]]:
    """Return the hashes of a class and of what it refers to in its notebook, by name, and what it uses of elsewhere.

    Functions and classes count by the text of their statements, other values as JSON, and partial functions by both.
    ValueError where there is no text, and for a value that has no JSON.
    """
    module = module_name(cls)
    scope = vars(sys.modules[module])
    texts, elsewhere, waiting = dict[str, str](), list[Any](), [cls.__qualname__]
    while waiting:
        name = waiting.pop()
        value = scope.get(name, cls)
        value = inspect.unwrap(value) if callable(value) else value  # of @cache and the like
        if isinstance(value, partial):
            texts[name], value = _as_json([value.args, value.keywords], name, cls), value.func
            if scope.get(_name_of(value)) is value:
                waiting += [_name_of(value)] if _name_of(value) not in texts else []
                continue
        if inspect.ismodule(value) or (_name_of(value) and module_name(value) != module):
            elsewhere.append(value)
        elif inspect.isclass(value) or inspect.isfunction(value):
            texts[name] = _text_of(value, name)
            waiting += [used for used in _globals(texts[name]) if used in scope and used not in texts]
        else:
            texts[name] = _as_json(value, name, cls)
    return {(name, hashlib.sha256(text.encode()).hexdigest()) for name, text in texts.items()}, elsewhere


def _name_of(value: Any) -> str:
    """Return the name that functions and classes have; "" for objects that can be called, which are values."""
    return getattr(value, "__name__", "") if callable(value) else ""


def pickled(names: Sequence[str]) -> bytes:
    """Return classes of this notebook or script with their code, by name, for `pickle.loads` in another process."""
    try:
        import cloudpickle
    except ImportError:  # joblib before 1.6 has a copy of it
        from joblib.externals import cloudpickle
    return bytes(cloudpickle.dumps({name: getattr(sys.modules["__main__"], name) for name in names}))


def _text_of(defined: Any, name: str) -> str:
    """Return the text of the statement that defines a class or function, in the cell that was executed for it."""
    for file in _cells(defined, name):
        lines = linecache.getlines(file)
        for statement in reversed(_statements("".join(lines))):
            if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name:
                first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
                return "".join(lines[first - 1 : statement.end_lineno])
    raise ValueError(_in_a_file(name, "its source is not available"))


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:  # it was never executed
        return []


def _cells(defined: Any, name: str) -> Iterator[str]:
    """Yield the cells in which a statement may be: that of a method, otherwise all from the last one that was executed.

    Later cells may define another class of this name, of which the one at hand has nothing.
    """
    members = vars(defined).values() if inspect.isclass(defined) else [defined]
    for member in members:
        function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        code = getattr(function, "__code__", None)
        if code is not None and code.co_qualname.startswith(name):
            yield code.co_filename
            return
    yield from (file for file in reversed(linecache.cache) if file.startswith("<") or "ipykernel" in file)


def _globals(text: str) -> set[str]:
    """Return the names of its module that a statement refers to, wherever it does."""
    names, tables = set[str](), [symtable.symtable(text, "cell", "exec")]
    while tables:
        table = tables.pop()
        is_module = table.get_type() == "module"
        names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (is_module or s.is_global())}
        tables += table.get_children()
    return names


def _as_json(value: Any, name: str, cls: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=_repr)
    except TypeError:
        reason = f"its code refers to {name}, a {type(value).__name__}, whose value has no hash"
        raise ValueError(_in_a_file(cls.__qualname__, reason)) from None


def _repr(value: Any) -> str:
    """Return the text of a value, such as torch.float64 or Annotated[float, ..], whose type says all in it."""
    kind = f"{type(value).__module__}.{type(value).__name__}"
    by_text = kind in ("torch.dtype", "torch.device", "types.UnionType", "types.GenericAlias")
    text = repr(value)
    if (by_text or kind.startswith("typing.")) and " at 0x" not in text:
        return text
    raise TypeError


def _in_a_file(name: str, reason: str) -> str:
    what = f"{name} must be in a file, since its code is part of the run id, and {reason}"
    return f"{what}: put the class in a file, and import it"
