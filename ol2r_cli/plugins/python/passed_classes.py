"""Settings and classes from Python as overrides.

A class that is passed in place of a choice, `run(ranker=Mine)`, becomes a choice with its name, in a folder of this
process, and its settings are overrides, {"ranker.l2": 0.5}. So it is composed, checked, hashed and run as any choice of
the user.
"""

from __future__ import annotations

import atexit
import inspect
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from ol2r_cli.config.catalogue import MEASURE
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.overrides import OF_PYTHON, as_typed
from ol2r_cli.config.ranges import keywords

_GROUPS = ("ranker", "click", "exploration", "fairness", MEASURE)  # of classes that say their group
_written: dict[tuple[str, str], str] = {}  # (group, name): the class that the choice of a passed class names


def as_overrides(*settings: Any, **more: Any) -> list[str]:
    """Return settings from Python as overrides: text stays, {"ranker.l2": 0.1} and rounds=500 are written out.

    Lists may hold both. A name with a dot has no form as a keyword and is a key of a mapping, so that a setting has one
    name everywhere. The class of a role, a measure or a dataset stands for a choice: `ranker=Mine`, or `Mine` alone.
    ValueError for text that is no setting, and for a value that has no form on the command line.
    """
    words: list[str] = []  # in the order given: the last one of a name decides
    folder: list[str] = []
    for name, value in _named((*settings, more)):
        if not name:
            words.append(value)
        elif name == "measures" and isinstance(value, list | tuple) and any(map(_group_of, value)):
            names = [_as_choice(MEASURE, entry) if _group_of(entry) else entry for entry in value]
            words.append(f"measures={as_typed(names)}")
            folder = [f"--config-dir={_folder()}"]
        elif "." not in name and _group_of(value):
            words.append(f"{name}={_as_choice(name, value)}")
            folder = [f"--config-dir={_folder()}"]
        else:
            words.append(f"{name}={as_typed(value, name)}")
    return [*words, *folder]


def _named(settings: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting; no name before text that is a setting."""
    for setting in settings:
        if isinstance(setting, str):
            is_option = setting.startswith("-") and not setting.startswith("--config-dir=")
            if is_option or ("=" not in setting and not setting.startswith("~")):
                advice = ": of the options only --config-dir=DIR is here" if is_option else ""
                raise ValueError(f"a setting must be 'NAME=VALUE', got {setting!r}{advice}")
            yield "", setting
        elif isinstance(setting, Mapping):
            for name, value in setting.items():
                yield str(name), value
        elif _group_of(setting):
            yield _group_of(setting), setting
        elif isinstance(setting, Iterable):
            yield from _named(setting)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {setting!r}")


def _group_of(value: Any) -> str:
    """Return the group of a class; `dataset` for one with a method `load`, empty for any other value.

    ValueError for an object of such a class.
    """
    cls = value if inspect.isclass(value) else type(value)
    if cls.__module__ == "builtins" or isinstance(value, Path):
        return ""
    group = getattr(cls, "group", "")
    if not (isinstance(group, str) and group in _GROUPS):
        group = "dataset" if inspect.isfunction(getattr(cls, "load", None)) else ""
    if group and value is not cls:
        node = f"measure.{cls.__name__}" if group == MEASURE else group
        typed = f"measures=[{cls.__name__}]" if group == MEASURE else f"{group}={cls.__name__}"
        beside = "".join(f", {{'{node}.{name}': ..}}" for name in list(keywords(cls))[:1])
        raise ValueError(f"{group} must be a class, got an object of {cls.__name__}: type {typed}{beside}")
    return group


def _as_choice(group: str, cls: type) -> str:
    """Write the choice of a class, with the defaults of its keywords, and return its name.

    ValueError where another class has this name.
    """
    name, target = cls.__name__, _target(cls)
    if _written.setdefault((group, name), target) != target:
        raise ValueError(f"{group} must have one class {name}, got {target} and {_written[group, name]}: rename one")
    path = _folder() / group / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    content = yaml.safe_dump({"_target_": target, **_defaults(cls)}, sort_keys=False)
    path.write_text(f"# The class {target}, passed from Python.\n{content}", encoding="utf-8")
    return name


@cache
def _folder() -> Path:
    """Return the folder of the choices that were passed to this process; it is removed at the end."""
    path = Path(mkdtemp(prefix=OF_PYTHON)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _target(cls: type) -> str:
    """Return the name by which a class is imported; ValueError for one that is defined in a function."""
    target = f"{cls.__module__}.{cls.__qualname__}"
    with suppress(ImportError):
        if import_target(target) is cls:
            return target
    raise ValueError(f"{cls.__name__} must be defined at the top level of a module or a notebook, got {target}")


def _defaults(cls: type) -> dict[str, Any]:
    """Return the keywords of a class with their defaults; `???`, a missing value, where there is none."""
    return {
        name: "???" if keyword.default is keyword.empty else _plain(keyword.default, f"{cls.__name__}({name}=..)")
        for name, keyword in keywords(cls).items()
    }


def _plain(value: Any, name: str) -> Any:
    """Return a default in plain containers; ValueError for a value that YAML does not have."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy or torch
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, name) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, name) for entry in value]
    raise ValueError(f"{name} must be a number, text, a list or a mapping of such settings, got {value!r}")
