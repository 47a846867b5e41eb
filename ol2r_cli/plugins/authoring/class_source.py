"""The source of a class of ol2r as a module of its own, for `ol2r new --like`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence

from ol2r_cli.source import is_shipped

_INSTEAD = {"stages", "learn_in_loops", "memory"}  # what stands for methods in rounds that are played together
_WIDTH = 120  # of a line


def copied_class(source: str, cls: type) -> str:
    """Return the source of a class, with the other definitions of its module that it needs. source: of this module.

    Classes that it inherits from are imported. What plays in place of methods, and what only this needs, is left out:
    it would stand for methods that are about to change.
    """
    tree, lines = ast.parse(source), source.splitlines()
    copied = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    instead = _in_place_of_methods(copied, cls)
    copied.body = [node for node in copied.body if node not in instead]
    bases = {base.__name__ for base in cls.__mro__[1:] if base.__module__ == cls.__module__}
    needed = _needed(copied, {name: node for node in tree.body for name in _bound_by(node)}, bases)
    imports = [*_imports(tree, needed)]
    if needed & bases:
        imports.append(f"from {cls.__module__} import {', '.join(sorted(needed & bases))}")
    definitions = list[str]()
    for node in tree.body:
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if node is copied or (not is_import and _bound_by(node) & needed - bases):
            blank = [] if isinstance(node, ast.Assign | ast.AnnAssign) else ["", ""]
            definitions += [*blank, *_lines_of(node, lines, instead)]
    docstring = f'"""A copy of {cls.__name__} of {cls.__module__}."""'
    if ast.get_docstring(tree) is not None and sum(isinstance(node, ast.ClassDef) for node in tree.body) == 1:
        docstring = "\n".join(lines[: tree.body[0].end_lineno])  # it is of this class alone, and names the paper
    text = "\n".join([docstring, "", *_in_groups(imports), "", *definitions])
    return re.sub(r"\n{4,}", "\n\n\n", text).strip() + "\n"


def _imports(tree: ast.Module, needed: Collection[str]) -> Iterator[str]:
    """Yield the imports of a module, with the names that are needed alone."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias for alias in node.names if (alias.asname or alias.name) in {*needed, "annotations"}]
            if names:
                node.names = names
                yield ast.unparse(node)


def _in_place_of_methods(copied: ast.ClassDef, cls: type) -> list[ast.stmt]:
    """Return those definitions of a class that play in place of its methods, and what these alone use."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    instead = [node for node in copied.body if _bound_by(node) & _INSTEAD]
    while True:
        kept = [node for node in copied.body if node not in instead]
        own = {name: node for node in kept if isinstance(node, ast.FunctionDef) for name in _bound_by(node) - inherited}
        alone = _attributes_of(*instead) & own.keys() - _attributes_of(*kept)
        if not alone:
            return instead
        instead += [own[name] for name in alone]


def _attributes_of(*nodes: ast.AST) -> set[str]:
    """Return the names of attributes of the object itself, such as methods, that code uses."""
    walked = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return {each.attr for each in walked if isinstance(each.value, ast.Name) and each.value.id in ("self", "cls")}


def _bound_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement gives to classes, functions, imports and values."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    names = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {name.id for name in names if isinstance(name, ast.Name)}


def _needed(copied: ast.ClassDef, nodes: Mapping[str, ast.stmt], bases: Collection[str]) -> set[str]:
    """Return the names of a module that a class uses, directly or through others that are not its bases."""
    needed: set[str] = set()
    waiting: list[ast.stmt] = [copied]
    while waiting:
        used = {each.id for each in ast.walk(waiting.pop()) if isinstance(each, ast.Name)}
        for name in used & nodes.keys() - needed - {copied.name}:
            needed.add(name)
            if name not in bases:
                waiting.append(nodes[name])
    return needed


def _lines_of(node: ast.stmt, lines: Sequence[str], without: Collection[ast.stmt]) -> list[str]:
    """Return the lines of a statement with the comments above it, without some statements inside of it."""
    first, last = _first_line(node), node.end_lineno or 0
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    left_out = {line for each in without for line in range(_first_line(each), (each.end_lineno or 0) + 1)}
    text = "\n".join(lines[line - 1] for line in range(first, last + 1) if line not in left_out)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip().split("\n")


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])


def _in_groups(imports: Sequence[str]) -> list[str]:
    """Return imports in the order that is usual, with a blank line between those of Python, of packages and of ol2r."""
    modules = {line: line.split()[1] for line in imports}
    groups = [list[str]() for _ in range(4)]
    for line in sorted(imports, key=lambda line: (line.startswith("from "), modules[line])):
        package = modules[line].partition(".")[0]
        place = 0 if package == "__future__" else 1 if package in sys.stdlib_module_names else 2
        groups[3 if is_shipped(package) else place].append(_wrapped(line))
    return [line for group in groups if group for line in (*group, "")]


def _wrapped(line: str) -> str:
    """Return an import that fits the width of a page."""
    start, _, names = line.partition(" import ")
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{start} import (", *(f"    {name}," for name in names.split(", ")), ")"])
