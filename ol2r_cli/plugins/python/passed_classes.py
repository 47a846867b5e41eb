"""Settings and objects from Python as overrides.

An object that is passed in place of a choice, `run(ranker=Mine(0.5))`, becomes a choice with the name of its class, in
a folder of this process, and its settings become overrides. So it is composed, checked, hashed and run as any choice of
the user. Its state is not: every run builds a new object with the same settings.
"""

from __future__ import annotations

import atexit
import hashlib
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

_GROUPS = ("ranker", "click", "exploration", "fairness", "measure")  # of classes that say their group
_written: dict[tuple[str, str], str] = {}  # (group, name): the class that the choice of a passed object names


def as_overrides(*settings: Any, **more: Any) -> list[str]:
    """Return settings from Python as overrides: text stays, {"ranker.l2": 0.1} and rounds=500 are written out.

    Lists may hold both. A name with a dot has no form as a keyword and is a key of a mapping, so that a setting has one
    name everywhere. A role, a measure or a dataset, or a class of these, stands for a choice: `ranker=Mine(0.5)`, or
    `Mine(0.5)` alone. ValueError for text that is no setting, and for a value that has no form on the command line.
    """
    of_objects: list[str] = []
    words: list[str] = []
    for name, value in _named((*settings, more)):
        if not name:
            words.append(value)
        elif name == "measures" and isinstance(value, list | tuple) and any(map(_group_of, value)):
            names = [_as_measure(entry) if _group_of(entry) else entry for entry in value]
            of_objects.append(f"measures={as_typed(names)}")
        elif name == MEASURE and _group_of(value):
            of_objects.append(f"measure={_as_measure(value)}")
        elif "." not in name and _group_of(value):
            of_objects += _as_choice(name, value)
        else:
            words.append(f"{name}={as_typed(value, name)}")
    folder = [f"--config-dir={_folder()}"] if of_objects else []
    return [*of_objects, *words, *folder]  # a setting that is typed decides over that of an object


def _as_choice(group: str, value: Any) -> list[str]:
    """Return the overrides by which an object or a class is chosen, with the settings that the object was made with."""
    cls = _class(value)
    choice = f"{group}={_write(group, cls.__name__, cls, _defaults(cls))}"
    settings = {f"{group}.{key}": setting for key, setting in _settings(value).items()}
    return [choice, *(f"{name}={as_typed(setting, name)}" for name, setting in settings.items())]


def _named(settings: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting; no name before text that is a setting."""
    for setting in settings:
        if isinstance(setting, str):
            _check_text(setting)
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


def _check_text(setting: str) -> None:
    """Raise ValueError for text that is no override."""
    is_option = setting.startswith("-") and not setting.startswith("--config-dir=")
    if is_option or ("=" not in setting and not setting.startswith("~")):
        advice = ": of the options only --config-dir=DIR is here" if is_option else ""
        raise ValueError(f"a setting must be 'NAME=VALUE', got {setting!r}{advice}")


@cache
def _folder() -> Path:
    """Return the folder of the choices that were passed to this process; it is removed at the end."""
    path = Path(mkdtemp(prefix=OF_PYTHON)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _class(value: Any) -> type:
    return value if inspect.isclass(value) else type(value)


def _group_of(value: Any) -> str:
    """Return the group of an object or class; `dataset` for one with a method `load`, empty for any other value."""
    cls = _class(value)
    if cls.__module__ == "builtins" or isinstance(value, Path):
        return ""
    group = getattr(cls, "group", "")
    if isinstance(group, str) and group in _GROUPS:
        return group
    return "dataset" if inspect.isfunction(getattr(cls, "load", None)) else ""


def _as_measure(value: Any) -> str:
    """Return the name by which an object or a class stands in the list of measures."""
    cls = _class(value)
    defaults = _defaults(cls)
    settings = defaults | _settings(value)
    _target(cls)  # ValueError, which comes first
    for key, setting in settings.items():
        if setting == "???":
            raise ValueError(f"measures must have an object, {cls.__name__}({key}=..), got the class without it")
    own = {key: setting for key, setting in settings.items() if setting != defaults[key]}
    digits = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:6]
    return _write("measure", f"{cls.__name__}_{digits}" if own else cls.__name__, cls, settings)


def _write(group: str, name: str, cls: type, settings: Mapping[str, Any]) -> str:
    """Write the choice of a class and return its name; ValueError where another class has this name."""
    target = _target(cls)
    if _written.setdefault((group, name), target) != target:
        raise ValueError(f"{group} must have one class {name}, got {target} and {_written[group, name]}: rename one")
    path = _folder() / group / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    content = yaml.safe_dump({"_target_": target, **settings}, sort_keys=False)
    path.write_text(f"# The class {target}, passed from Python.\n{content}", encoding="utf-8")
    return name


def _target(cls: type) -> str:
    """Return the name by which a class is imported; ValueError for one that is defined in a function."""
    target = f"{cls.__module__}.{cls.__qualname__}"
    with suppress(ImportError):
        if import_target(target) is cls:
            return target
    raise ValueError(f"{cls.__name__} must be defined at the top level of a module or a notebook, got {target}")


def _defaults(cls: type) -> dict[str, Any]:
    """Return the keywords of a class with their defaults; `???`, a missing value, where there is none."""
    defaults = {}
    for name, keyword in keywords(cls).items():
        default = "???" if keyword.default is keyword.empty else keyword.default
        defaults[name] = _plain(default, f"{cls.__name__}({name})")
    return defaults


def _settings(value: Any) -> dict[str, Any]:
    """Return the settings an object was made with: as roles record them, or attributes named as its keywords.

    Those of a class are its defaults, and not here.
    """
    if inspect.isclass(value):
        return {}
    cls = type(value)
    settings = _recorded(value) if getattr(value, "_given", None) is not None else _attributes(value)
    return {name: _plain(setting, f"{cls.__name__}({name}=..)") for name, setting in settings.items()}


def _recorded(role: Any) -> dict[str, Any]:
    """Return the settings a role was made with, which it records; ValueError for some that have no name."""
    cls = type(role)
    positional, named = role._given
    bound = inspect.signature(cls).bind(*positional, **named)
    unnamed = bound.arguments.keys() - keywords(cls)
    if unnamed:
        raise ValueError(
            f"{cls.__name__} must name its settings in its constructor, since they are part of the run id, got "
            f"values for *{min(unnamed)}"
        )
    bound.apply_defaults()
    return {name: bound.arguments[name] for name in keywords(cls)}


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that have the names of its keywords; ValueError where one is missing."""
    cls = type(value)
    for name in keywords(cls):
        if not hasattr(value, name):
            raise ValueError(f"{cls.__name__} must keep its setting in an attribute of its name, self.{name}")
    return {name: getattr(value, name) for name in keywords(cls)}


def _plain(value: Any, name: str) -> Any:
    """Return a setting in plain containers; an object becomes a node with `_target_`. ValueError for other values."""
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
    if not hasattr(value, "tolist") and not inspect.isroutine(value) and not inspect.isclass(value):
        return {"_target_": _target(type(value)), **_settings(value)}
    raise ValueError(f"{name} must be a number, text, a list, a mapping or an object of such settings, got {value!r}")
