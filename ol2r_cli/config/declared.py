"""The values that a setting may have, read from the source of its class, which is not imported.

So a wrong value is found as fast as a wrong name, since most classes import torch. What cannot be read here, such as
the settings of the user's own classes, is checked by the same ranges when the object is built (`check_settings`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ol2r_cli.config.ranges import allowed_by, check_value
from ol2r_cli.source import PACKAGE

_IMPORTED = (
    "typing",
    "collections.abc",
    "ol2r_cli.config.ranges",
    "ol2r_cli.config.instantiate",
)  # import nothing heavy

Place = tuple[str, ast.AST]  # a module of ol2r, and a statement or an expression in it


def check_typed(settings: Mapping[str, Any], names: Iterable[str], root: str) -> None:
    """Raise ValueError for the first of the settings with these names, `ranker.l2`, that has no allowed value.

    `settings` are all of a configuration, and `root` is the class of those that are in no group.
    """
    for name in names:
        above, _, key = name.rpartition(".")
        node: Any = settings
        for part in above.split(".") if above else ():
            node = node.get(part) if isinstance(node, Mapping) else None
        target = root if node is settings else node.get("_target_") if isinstance(node, Mapping) else None
        if isinstance(target, str) and key in node and key in (annotations := declared_by(target)):
            check_value(name, node[key], allowed_by(annotations[key]))


@cache
def declared_by(target: str) -> dict[str, Any]:
    """Return the annotations of the settings of a class or function of ol2r, as far as its source alone has them."""
    module, _, name = target.rpartition(".")
    annotations = {}
    for setting, (owner, annotation) in _settings(module, name).items():
        try:
            annotations[setting] = _value(owner, annotation)
        except Exception:  # of what a module computes, such as a type of torch
            continue
    return annotations


def _settings(module: str, name: str) -> dict[str, Place]:
    """Return where the annotation of each setting is of what has this name in a module."""
    owner, node = _definition(module, name) or ("", None)
    if isinstance(node, ast.FunctionDef):
        return _arguments(owner, node)
    if not isinstance(node, ast.ClassDef):
        return {}
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    constructors = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    if constructors:
        return _arguments(owner, constructors[0])
    inherited = [_settings(owner, base) for base in bases]
    if not node.decorator_list and "TypedDict" not in bases:  # neither a dataclass nor a record
        return next(filter(None, inherited), {})
    fields = dict(place for settings in inherited for place in settings.items())
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            fields[part.target.id] = owner, part.annotation
    return fields


def _arguments(module: str, function: ast.FunctionDef) -> dict[str, Place]:
    """Return the places of the annotations of a function, with those of a record that it takes as `**settings`."""
    given = function.args
    places: dict[str, Place] = {
        argument.arg: (module, argument.annotation)
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        if argument.annotation is not None
    }
    record = given.kwarg and given.kwarg.annotation  # Unpack[Record]
    if isinstance(record, ast.Subscript) and isinstance(record.slice, ast.Name):
        places |= _settings(module, record.slice.id)
    return places


@cache
def _statements(module: str) -> dict[str, ast.AST]:
    """Return by name the classes, functions and values that a module of ol2r defines, and what it imports."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    if module.partition(".")[0] != PACKAGE.name or not files:
        return {}
    named: dict[str, ast.AST] = {}
    for statement in ast.parse(files[0].read_bytes()).body:
        if isinstance(statement, ast.ImportFrom):
            named |= {alias.asname or alias.name: statement for alias in statement.names}
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            named[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            named |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
    return named


def _definition(module: str, name: str) -> Place | None:
    """Return where a name is defined that a module of ol2r has; None for one of another package."""
    node = _statements(module).get(name)
    if not isinstance(node, ast.ImportFrom):
        return (module, node) if node is not None else None
    original = next(alias.name for alias in node.names if name in (alias.asname, alias.name))
    return _definition(str(node.module), original)


def _value(module: str, expression: ast.AST) -> Any:
    """Return the value of an expression of a module; classes and functions of ol2r are `object`."""
    assert isinstance(expression, ast.expr)
    code = compile(ast.Expression(expression), module, "eval")
    return eval(code, {}, _Names(module))


class _Names(dict[str, Any]):
    """The names of a module, as far as they are needed."""

    def __init__(self, module: str):
        self.module = module

    def __missing__(self, name: str) -> Any:
        statement = _statements(self.module).get(name)
        if isinstance(statement, ast.ImportFrom) and statement.module in _IMPORTED:
            return getattr(import_module(statement.module), name)
        place = _definition(self.module, name)
        if place is None:
            raise KeyError(name)  # one of Python, or of a package that is not imported
        return _value(*place) if isinstance(place[1], ast.expr) else object
