"""The user's own code: its hash, which is part of the run id, whether it has changed, whether a run of others may name
it, and where it failed.

Own code is every class that the settings name and ol2r does not define: its file and those of its base classes, with
what they import from the same folder or package, one by the other, and the packages around them. Of an installed
package only files of its own count. Files count by their bytes: an edited ranker is another run, and one that was
edited after its import is refused. A class of a notebook or a script counts as a plug-in says (`Plugin.texts_of`).

The directory of a run may come from others. A `_target_` in its `config.yaml` or `ranker.pt` is trusted only if a
choice names the same class: a choice of ol2r, or of a folder that `choice_folders` finds. A class that an installed
package with choices defines is trusted too. Everything else is refused before it is imported.

The files of ol2r itself are in `source.py`: loops and roles, which run/ imports, ask for their hash.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import linecache
import os
import pkgutil
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli.config.catalogue import MEASURE, Catalogue, targets
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.own_choices import choice_folders, installed_packages
from ol2r_cli.plugins import plugins
from ol2r_cli.source import PACKAGE, is_shipped
from ol2r_cli.text.formatting import error_line, shown_path

_CALL_OPTIONS = ("_args_", "_partial_", "_recursive_", "_convert_")  # of Hydra; no choice of ol2r has one
_OF_PYTHON = re.compile(r"^<|/lib/python[\d.]+/")  # files of Python, and of installed packages


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


def own_code(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of the own code of each part of resolved settings (`ranker`, `ranker.model`) that has some.

    ValueError where source is not available, and where a file was changed after this process had imported it.
    """
    code = dict[str, str]()
    for part, target in targets({name: value for name, value in settings.items() if name != "launcher"}):
        if not is_shipped(target) and (hash := code_hash_of(_named(target))):
            code[part] = hash
    return code


def check_unchanged(path: Path, manifest: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if own code that these settings of a run name has changed since: other numbers would follow."""
    then = manifest.get("code") or {}
    for part, hash in own_code(settings).items():
        if then.get(part, hash) != hash:
            raise ValueError(f"{path} is of another version of the code of {part}: put it back, or run it again")


def _named(target: str) -> Any:
    """Return the class or function with this path; the module of any other object, which does not know its module."""
    named = pkgutil.resolve_name(target)
    if inspect.isclass(named) or inspect.isfunction(named):
        return named
    return pkgutil.resolve_name(target.rpartition(".")[0])


def code_hash_of(named: Any) -> str:
    """Return the hash of the own code of a class, a function or a module; empty for those of ol2r and of Python."""
    package = module_name(named).partition(".")[0]
    if is_shipped(package) or package in sys.stdlib_module_names:
        return ""
    texts, needed = set[tuple[str, str]](), [named, *getattr(named, "__mro__", ())]
    if _file_of(named) is None:
        texts, elsewhere = _texts_of(named)
        needed += elsewhere
    waiting = [file for defined in needed for file in _files_of(defined)]
    visited: set[_File] = set()
    while waiting:
        file = waiting.pop()
        is_installed = not {"site-packages", "dist-packages"}.isdisjoint(file.root.parts)
        counts = not is_shipped(file.module) and (not is_installed or file.package == package)
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
    if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
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


def check_stored(settings: Any, name: str, file: Path, own: Collection[str] = ()) -> None:
    """Raise ValueError unless the settings that a run stores in `file` are plain values and name trusted classes.

    `name` is the setting on the command line (`ranker`). `own` are classes that the user trusts: `trusted_targets`.
    """
    shown = name if name.isprintable() else repr(name)
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key in _CALL_OPTIONS:
                raise ValueError(f"{file} must have settings only, got {shown}.{key}")
            if key == "_target_":
                _check_target(value, shown, file, own)
            else:
                check_stored(value, f"{name}.{key}", file, own)
    elif isinstance(settings, list | tuple):
        for index, value in enumerate(settings):
            check_stored(value, f"{name}[{index}]", file, own)
    elif type(settings) not in (bool, int, float, str, type(None)):
        raise ValueError(f"{file} must have plain values, got {shown} of type {type(settings).__name__}")
    elif isinstance(settings, str) and ("${" in settings or settings == "???"):
        raise ValueError(f"{file} must have values without interpolations, got {shown}={settings!r}")


def _check_target(target: Any, shown: str, file: Path, own: Collection[str]) -> None:
    """Raise ValueError unless the class that a run stores in `file` is one that ol2r or the user trusts."""
    is_trusted = isinstance(target, str) and (target in _shipped() or target in own or _is_installed(target))
    if not is_trusted:
        raise ValueError(
            f"{shown}._target_ in {file} must be a class of a choice of ol2r, got {target!r}: if you trust it, "
            "name the folder of a choice with this class, --config-dir FOLDER "
            "(config_dir=FOLDER in Python and figures)"
        )


def trusted_targets(named: Iterable[Path] = ()) -> frozenset[str]:
    """Return the classes that the choices of all folders name: those `named` on the command line, of ol2r, and others.

    Python finds their modules afterwards. ValueError as in `choice_folders`, and for a choice that is not a YAML
    mapping.
    """
    return _targets_in([folder.path for folder in choice_folders(named)])


def _targets_in(folders: Sequence[Path]) -> frozenset[str]:
    """Return the classes that choices name. Files outside the groups of an experiment are none, nor those of runs."""
    catalogue = Catalogue(folders)
    of_experiments = [group for group in catalogue.choices if group.partition("/")[0] in (*catalogue.defaults, MEASURE)]
    choices = [choice for group in of_experiments for choice in catalogue.choices[group].values()]
    return frozenset(target for choice in choices for _, target in targets(choice.content))


@cache
def _shipped() -> frozenset[str]:
    return _targets_in(())


def _is_installed(target: str) -> bool:
    """Return whether an installed package with choices defines this class; one that it imports is not its own.

    A module is imported only if it is in such a package.
    """
    packages = installed_packages()
    if target.partition(".")[0] not in packages:
        return False
    with suppress(ImportError):
        found = import_target(target)
        return inspect.isclass(found) and found.__module__.partition(".")[0] in packages
    return False


def place_of(error: BaseException, apart_from: Path | None = None) -> str:
    """Return where an error was raised, `mine.py:12, in Mine.learn`: in own code, if that was on the way.

    apart_from: a folder of code that calls what is looked at.
    """
    frames = _frames(error)
    outside = [
        (file, line, function)
        for file, line, function in frames
        if not (_OF_PYTHON.search(file) or (apart_from and Path(file).is_relative_to(apart_from)))
    ]
    own = [frame for frame in frames if _is_own_file(frame[0])]
    file, line, function = (own or outside or frames)[-1]
    return f"{shown_path(file)}:{line}, in {function}"


def is_own(error: BaseException) -> bool:
    """Return whether own code was on the way of an error, other than a program that calls ol2r."""
    files = [file for file, _, _ in _frames(error)]
    ours = next((number for number, file in enumerate(files) if Path(file).is_relative_to(PACKAGE)), len(files))
    return any(map(_is_own_file, files[ours:]))


def _is_own_file(file: str) -> bool:
    return not _OF_PYTHON.search(file) and not Path(file).is_relative_to(PACKAGE)


def is_refusal(error: BaseException) -> bool:
    """Return whether a `raise` statement raised the error on purpose, not Python or numpy inside an expression."""
    file, line, _ = _frames(error)[-1]
    return linecache.getline(file, line).lstrip().startswith("raise ")


def explained(error: BaseException) -> str:
    """Return an error in one line: a ValueError that was raised on purpose as it is, one of own code with its place."""
    if isinstance(error, ValueError) and (is_refusal(error) or not is_own(error)):
        return str(error)
    return f"{error_line(error)} ({place_of(error)})" if is_own(error) else error_line(error)


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    """Return file, line, and the function with its class of each call on the way of an error."""
    found = traceback.walk_tb(error.__traceback__)
    return [(frame.f_code.co_filename, line, frame.f_code.co_qualname) for frame, line in found]
