"""The user's own code, of which a hash is part of the run id: an edited ranker is another run.

Own code is every class that the settings name and ol2r does not define: its file and those of its base classes, with
what they import from the same folder or package, one by the other, and the packages around them. Of an installed
package only files of its own count. Files count by their bytes. A class of a notebook or a script counts as
`notebook_code.py` says.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli.plugins import plugins


class _File(NamedTuple):
    """A source file: the folder from which it is imported, and its path below that folder."""

    root: Path
    name: str

    @property
    def package(self) -> str:
        """The outermost package, or the module."""
        return self.name.partition("/")[0].partition(".")[0]

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return self.name.partition(".")[0].removesuffix("/__init__").replace("/", ".")

    @property
    def is_installed(self) -> bool:
        return not {"site-packages", "dist-packages"}.isdisjoint(self.root.parts)

    @property
    def is_compiled(self) -> bool:
        return self.name.endswith(tuple(EXTENSION_SUFFIXES))


def own_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of the own code of each part of resolved settings (`ranker`, `ranker.model`) that has some.

    ValueError where source is not available, and where a file was changed after this process had imported it.
    """
    code = dict[str, str]()
    for part, target in _targets("", {name: value for name, value in settings.items() if name != "launcher"}):
        if not target.startswith("ol2r_cli."):
            hash = code_hash_of(_named(target))
            if hash:
                code[part] = hash
    return code


def _targets(part: str, settings: Any) -> Iterator[tuple[str, str]]:
    """Yield the parts of settings that name a class, and this name."""
    if isinstance(settings, Mapping):
        if "_target_" in settings:
            yield part, str(settings["_target_"])
        inner = list(settings.items())
    else:
        inner = list(enumerate(settings)) if isinstance(settings, list | tuple) else []
    for name, value in inner:
        yield from _targets(f"{part}.{name}" if part else str(name), value)


def _named(target: str) -> Any:
    """Return the class or function with this path; the module of any other object, which does not know its module."""
    named = pkgutil.resolve_name(target)
    if inspect.isclass(named) or inspect.isfunction(named):
        return named
    return pkgutil.resolve_name(target.rpartition(".")[0])


def check_unchanged(path: Path, manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if own code that these settings of a run name has changed since: other numbers would follow."""
    then = manifest.get("code") or {}
    for part, hash in own_code(settings).items():
        if then.get(part, hash) != hash:
            raise ValueError(f"{path} is of another version of the code of {part}: put it back, or run it again")


def code_hash_of(named: Any) -> str:
    """Return the hash of the own code of a class, a function or a module; empty for those of ol2r and of Python."""
    package = module_name(named).partition(".")[0]
    if package == "ol2r_cli" or package in sys.stdlib_module_names:
        return ""
    texts, needed = set[tuple[str, str]](), [named, *getattr(named, "__mro__", ())]
    if _file_of(named) is None:
        texts, elsewhere = _texts_of(named)
        needed += elsewhere
    waiting = [file for defined in needed for file in _files_of(defined)]
    visited: set[_File] = set()
    while waiting:
        file = waiting.pop()
        counts = file.package != "ol2r_cli" and (not file.is_installed or file.package == package)
        if counts and file not in visited:
            visited.add(file)
            hash, imported = _read(file)
            texts.add((file.name, hash))
            waiting += [inner for module in imported for inner in _files(file.root, module)]
    return _digest(json.dumps(sorted(texts)).encode())


def _texts_of(cls: Any) -> tuple[set[tuple[str, str]], list[Any]]:
    """Return what a plug-in says of a class that is in no file (`Plugin.texts_of`); ValueError where none does."""
    for plugin in plugins():
        if plugin.texts_of is not None:
            return plugin.texts_of(cls)
    name = getattr(cls, "__qualname__", cls)
    raise ValueError(f"{name} must be in a file, since its code is part of the run id: put it in one, and import it")


def module_name(defined: Any) -> str:
    """Return the name of the module of a class or a function, or of a module; empty for what has none."""
    return str(defined.__name__ if inspect.ismodule(defined) else getattr(defined, "__module__", None) or "")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _files_of(defined: Any) -> list[_File]:
    """Return the file that defines a class, a function or a module, and those of the packages around it."""
    file = _file_of(defined)
    return [] if file is None else [file, *_files(file.root, file.module)]


def _file_of(defined: Any) -> _File | None:
    """Return the file that defines something; None in Python itself, and in a notebook or a script."""
    name = module_name(defined)
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__" or name.partition(".")[0] in sys.stdlib_module_names:
        return None
    path, parts = Path(os.path.abspath(file)), tuple(name.split("."))
    module = path.parent if path.stem == "__init__" else path.with_name(path.name.partition(".")[0])
    is_found_by_name = module.parts[-len(parts) :] == parts  # not so if it was loaded from a path, under any name
    root = module.parents[len(parts) - 1] if is_found_by_name else path.parent
    return _File(root, path.relative_to(root).as_posix())


def _files(root: Path, module: str) -> list[_File]:
    """Return the files of a module and of the packages around it, as far as they are below a folder.

    Python looks for a package first, then for a compiled module, and then for source.
    """
    parts, files = module.split("."), []
    for end in range(1, len(parts) + 1):
        below = "/".join(parts[:end])
        names = [f"{below}{ending}" for ending in ("/__init__.py", *EXTENSION_SUFFIXES, ".py")]
        files += [_File(root, name) for name in names if os.path.isfile(root / name)][:1]
    return files


def _read(file: _File) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a file, and the modules that it may import; ValueError if it was changed after its import."""
    status = file.root.joinpath(file.name).stat()
    hash, imported = _parsed(file, status.st_mtime_ns, status.st_size)
    _check_imported(file, hash)
    return hash, imported


@cache
def _parsed(file: _File, *stamp: int) -> tuple[str, tuple[str, ...]]:
    """Return the hash of a file and what it imports, computed once until the file changes."""
    content = file.root.joinpath(file.name).read_bytes()
    if file.is_compiled:
        return _digest(content), ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escape sequences, which the import has told already
            tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        must = f"{file.name} must be Python source, since its hash is part of the run id"
        raise ValueError(f"{must}, got: {error}") from None
    return _digest(content), tuple(_imports(tree, file.name.split("/")[:-1]))


def _imports(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """Yield the modules that a file of a package imports; a name that is imported from a module may be one itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = [*above, *(node.module or "").split(".")] if node.module else above
            yield from (".".join([*module, alias.name]) for alias in node.names)


_first_read: dict[_File, tuple[Any, str]] = {}  # the specification of a module, None before its import, and its hash


def _check_imported(file: _File, hash: str) -> None:
    """Raise ValueError if a file was changed after its import, so that other code would run than is hashed.

    A reload gives a module another specification.
    """
    spec = getattr(sys.modules.get(file.module), "__spec__", None)
    if spec is None or spec.origin != str(file.root / file.name):
        _first_read[file] = None, hash  # it is not imported
        return
    spec_then, hash_then = _first_read.get(file, (spec, hash))
    if spec_then is not None and spec_then is not spec:
        hash_then = hash  # it was reloaded
    _first_read[file] = spec, hash_then
    if hash != hash_then:
        what = f"{file.root / file.name} must be as it was when it was imported, got changed code"
        raise ValueError(f"{what}: restart Python, or reload the module {file.module}")
