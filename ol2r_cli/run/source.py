"""The code that a run depends on beyond ol2r as it was recorded: the user's own classes, and changed files of ol2r.

Own code is every class that the settings name and ol2r does not define, with what its file imports from the same folder
or package. Files of ol2r count where they take part in the run and differ from `source_hashes.json`, which
`make sources` writes. Hashes are of syntax trees: comments, docstrings and formatting change nothing. Those of compiled
modules are of their bytes.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from ol2r_cli.config.moved_classes import MOVED_TO
from ol2r_cli.run.notebook_source import codes_of, definitions
from ol2r_cli.run.source_hash import hash_of_bytes_in, hash_of_file, imports_of

PACKAGE = "ol2r_cli"
REFERENCE = Path(__file__).with_name("source_hashes.json")
# What can take part in a round, or in what a run writes: packages and modules of ol2r.
RECORDED = (
    *[
        "tensor",
        "interfaces",
        "dataset",
        "click",
        "fairness",
        "intent",
        "metrics",
        "learning",
        "ranker",
        "exploration",
        "loops",
        "measure",
        "columns",
    ],
    *[
        "rounds_together",
        "simulation",
        "device",
        "run/experiment",
        "run/runner",
        "run/table_file",
        "run/tables",
        "run/summary",
    ],
)
# What takes part in every run, with what it imports; all else takes part where a class of the settings needs it.
_ALWAYS = ("simulation", "device", "run/experiment", "run/runner", "run/table_file", "run/tables", "run/summary")
_NO_ROLES = ("launcher", "hydra")  # entries of the settings whose classes do not take part in a run
_ROOT = Path(__file__).parents[2]  # the folder that contains the package


@dataclass(frozen=True)
class Code:
    """What decides the numbers of a run besides its settings, its data and the recorded version of ol2r.

    files: the hash of each file, by its path below the folder from which it is imported (`mypkg/rankers/nsgd.py`), or
    of each definition of a notebook (`__main__.MyRanker`). groups: the groups of which a file is a part (`ranker`,
    `ranker/model`); none for a file of ol2r that takes part in every run.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)


Classes = tuple[tuple[str, Any], ...]  # (group, class)


@dataclass(frozen=True)
class SourceFile:
    """A source file: the folder from which it is imported, and its path below that folder."""

    root: Path
    name: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / self.name

    @property
    def module(self) -> str:
        """The name under which it is imported."""
        return self.name.partition(".")[0].removesuffix("/__init__").replace("/", ".")

    @property
    def of_ol2r(self) -> bool:
        """Whether it is a file of ol2r."""
        return self.module.partition(".")[0] == PACKAGE


def classes_in(settings: Mapping[str, Any]) -> Classes:
    """The classes that resolved settings name, each with its group, such as `ranker` or `ranker/model`."""
    targets = _targets({name: value for name, value in settings.items() if name not in _NO_ROLES})
    return tuple((group, _resolved(MOVED_TO.get(target, target))) for group, target in targets)


def _targets(settings: Any, group: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(settings, Mapping):
        if isinstance(target := settings.get("_target_"), str):
            yield group, target
        for name, value in settings.items():
            yield from _targets(value, f"{group}/{name}" if group else str(name))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from _targets(value, group)


def _resolved(target: str) -> Any:
    """The class or function that a target names; of any other object, which does not know its module, the module."""
    found = pkgutil.resolve_name(target)
    known = inspect.isclass(found) or inspect.isfunction(found)
    return found if known else pkgutil.resolve_name(target.rpartition(".")[0])


def of_classes(classes: Classes) -> Code:
    """The code of a run that uses these classes.

    ValueError where the source of an own class cannot be hashed, and where a file was changed after this process had
    imported it.
    """
    changed = changed_files()
    files: dict[str, str] = {}
    groups: dict[str, set[str]] = {}
    for group, cls in classes:
        own, of_ol2r = _code_of(cls, follow_ol2r=bool(changed))
        for name, hash in (own | {name: changed[name] for name in of_ol2r & changed.keys()}).items():
            files[name] = hash
            groups.setdefault(name, set()).add(group)
    if changed:
        always = [file for file in recorded_files() if _is_among(file, _ALWAYS)]
        core = {file.name for file in _closure(always, follow_ol2r=True)} & changed.keys()
        files |= {name: changed[name] for name in core}
        groups |= {name: set() for name in core}
    return Code(dict(sorted(files.items())), {name: sorted(groups[name]) for name in sorted(files)})


def of_class(cls: Any) -> dict[str, str]:
    """The own code of a class, or of a function that returns an object: file or definition -> hash.

    Empty for a class of ol2r. ValueError where the source is not available or is not Python, and for a class that uses
    variables of the function in which it is defined.
    """
    return _code_of(cls, follow_ol2r=False)[0]


def _code_of(cls: Any, follow_ol2r: bool) -> tuple[dict[str, str], set[str]]:
    """The own code of a class as hashes, and the names of the files of ol2r that it needs, if `follow_ol2r`."""
    _check_free_variables(cls)
    hashes: dict[str, str] = {}
    used: Sequence[Any] = getattr(cls, "__mro__", ())
    start = _file_of(cls)
    if start is None:
        hashes, elsewhere = definitions(cls)
        used = [*elsewhere, *used]
    top = _module_name(cls).partition(".")[0]
    starts = [start, *(_file_of(each) for each in used)]
    files = _closure([file for file in starts if file and _counts(file, top)], follow_ol2r)
    for file in files:
        if not file.of_ol2r:
            hashes[file.name] = hash_of_file(file.path)
            _check_imported(file, hashes[file.name])
    return hashes, {file.name for file in files if file.of_ol2r}


def _counts(file: SourceFile, top: str) -> bool:
    """Whether a file is own code or of ol2r: not installed, or in `top`, the package of the class."""
    return file.of_ol2r or not _is_installed(file.root) or file.module.partition(".")[0] == top


def _is_installed(root: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(root.parts)


def _check_free_variables(cls: Any) -> None:
    """ValueError for a class that uses variables of a function: their values would not be part of the hash."""
    if "<locals>" in getattr(cls, "__qualname__", ""):
        for name in (name for code in codes_of(cls) for name in code.co_freevars if name != "__class__"):
            what = f"{cls.__qualname__} must not use variables of the function around it, since its code is part of"
            raise ValueError(f"{what} the run id, got {name}: make {name} a setting, or define it outside the function")


def _module_name(each: Any) -> str:
    return str(each.__name__ if inspect.ismodule(each) else getattr(each, "__module__", None) or "")


def _file_of(each: Any) -> SourceFile | None:
    """The file that defines a class, a function or a module; None in Python itself, and in a notebook or a script."""
    name = _module_name(each)
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None or name == "__main__" or name.partition(".")[0] in sys.stdlib_module_names:
        return None
    path = Path(os.path.abspath(file))
    below = name.replace(".", "/") + ("/__init__.py" if path.stem == "__init__" else ".py")
    # A module that was loaded from a path may have any name.
    root = Path(str(path).removesuffix(below)) if str(path).endswith(f"/{below}") else path.parent
    return SourceFile(root, path.relative_to(root).as_posix())


def _closure(starts: Iterable[SourceFile], follow_ol2r: bool) -> list[SourceFile]:
    """These files and all that they import, one by the other; of ol2r only files that are recorded."""
    found: dict[SourceFile, None] = {}
    waiting = list(starts)
    while waiting:
        file = waiting.pop()
        if file in found or (file.of_ol2r and not _is_among(file, RECORDED)):
            continue
        found[file] = None
        if follow_ol2r or not file.of_ol2r:
            waiting += _imported(file)
    return list(found)


def _imported(file: SourceFile) -> Iterator[SourceFile]:
    """The files that a file imports from its own folder or package, and from ol2r."""
    package = file.name.split("/")[:-1]
    for level, module, names, binds_top in imports_of(file.path):
        above = package[: len(package) - level + 1] if level else []
        parts = [*above, *(part for part in module.split(".") if part)]
        if not parts or (_is_installed(file.root) and parts[0] not in (file.module.partition(".")[0], PACKAGE)):
            continue
        root = _ROOT if parts[0] == PACKAGE else file.root
        if names:
            found = [_module_file(root, [*parts, name]) or _module_file(root, parts) for name in names]
        else:
            found = [_module_file(root, parts[:end]) for end in range(1 if binds_top else len(parts), len(parts) + 1)]
        yield from filter(None, found)


def _module_file(root: Path, parts: Sequence[str]) -> SourceFile | None:
    name = "/".join(parts)
    for ending in ("/__init__.py", *EXTENSION_SUFFIXES, ".py"):  # as Python looks for them
        if os.path.isfile(root / f"{name}{ending}"):
            return SourceFile(root, name + ending)
    return None


_hashed: dict[Path, tuple[Any, str]] = {}  # the specification of a module, None before its import, and its hash then


def _check_imported(file: SourceFile, hash: str) -> None:
    """ValueError if a file was changed after this process had imported it, so that other code would run than is hashed.

    A reload gives a module another specification.
    """
    spec = getattr(sys.modules.get(file.module), "__spec__", None)
    if spec is not None and spec.origin != str(file.path):
        return
    before, hash_before = _hashed.get(file.path, (None, hash))
    if spec is None or (before is not None and before is not spec):
        hash_before = hash
    if hash != hash_before:
        raise ValueError(
            f"{file.path} must be as it was when it was imported, got changed code: restart Python, or reload the "
            f"module {file.module}"
        )
    _hashed[file.path] = spec, hash


def recorded_files() -> list[SourceFile]:
    """The files of ol2r that can take part in a round or in what a run writes."""
    paths = (path for part in RECORDED for path in _paths(_ROOT / PACKAGE / part))
    return [SourceFile(_ROOT, path.relative_to(_ROOT).as_posix()) for path in paths]


def _paths(part: Path) -> list[Path]:
    return sorted(part.rglob("*.py")) if part.is_dir() else [part.with_suffix(".py")]


def _is_among(file: SourceFile, parts: Sequence[str]) -> bool:
    below = file.name.removeprefix(f"{PACKAGE}/")
    return any(below == f"{part}.py" or below.startswith(f"{part}/") for part in parts)


@cache
def recorded() -> dict[str, tuple[str, str]]:
    """The recorded version of ol2r: of each file the hash of its bytes and that of its syntax tree."""
    return {name: (in_bytes, tree) for name, (in_bytes, tree) in json.loads(REFERENCE.read_text())["files"].items()}


def changed_files() -> dict[str, str]:
    """The files of ol2r that differ from the recorded version or are new, with their hashes.

    Parsing takes a millisecond a file, so a file is parsed only if its bytes differ, too.
    """
    changed = {}
    for file in recorded_files():
        in_bytes, tree = recorded().get(file.name, ("", ""))
        hash = tree if hash_of_bytes_in(file.path) == in_bytes else hash_of_file(file.path)
        _check_imported(file, hash)
        if hash != tree:
            changed[file.name] = hash
    return changed


def reference(results_version: int) -> str:
    """The content of `source_hashes.json` for ol2r as it is now."""
    lines = [
        f"    {json.dumps(file.name)}: {json.dumps([hash_of_bytes_in(file.path), hash_of_file(file.path)])}"
        for file in recorded_files()
    ]
    files = ",\n".join(lines)
    return f'{{\n  "results_version": {results_version},\n  "files": {{\n{files}\n  }}\n}}\n'
