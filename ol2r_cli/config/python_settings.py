"""Settings from Python as overrides, in all forms that the functions of `api` take, objects and classes among them.

An object that is passed in place of a choice, `run(ranker=Mine(0.5))`, becomes a choice with the name of its class, in
a folder of this process, and its settings become overrides. So it is composed, checked, hashed and run as any choice of
the user. Its state is not: every run builds a new object with the same settings.
"""

from __future__ import annotations

import atexit
import hashlib
import inspect
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ol2r_cli.config.overrides import as_typed, split_search_path
from ol2r_cli.config.ranges import keywords

_GROUPS = ("ranker", "click", "exploration", "fairness", "measure")  # of classes that say their group
_PREFIX = "ol2r-passed-"
_written: dict[tuple[str, str], str] = {}  # (group, name): the class that the choice names


def as_overrides(*settings: Any, **more: Any) -> list[str]:
    """Return settings from Python as overrides: text stays, {"ranker.l2": 0.1} and rounds=500 are written out.

    Lists may hold both. A name with a dot has no form as a keyword and is a key of a mapping, so that a setting has one
    name everywhere. A role, a measure or a dataset, or a class of these, stands for a choice: `ranker=Mine(0.5)`, or
    `Mine(0.5)` alone. ValueError for text that is no setting, and for a value that has no form on the command line.
    """
    of_objects: list[str] = []
    words = list(_words((*settings, more), of_objects))
    folder = [f"--config-dir={_folder()}"] if of_objects else []
    return [*of_objects, *words, *folder]  # a setting that is typed decides over that of an object


def _words(settings: Iterable[Any], of_objects: list[str]) -> Iterator[str]:
    """Yield the words of settings. Those that stand for objects are appended to `of_objects`."""
    for each in settings:
        if isinstance(each, str):
            is_option = each.startswith("-") and not each.startswith("--config-dir=")
            if is_option or ("=" not in each and not each.startswith("~")):
                advice = ": of the options only --config-dir=DIR is here" if is_option else ""
                raise ValueError(f"a setting must be 'NAME=VALUE', got {each!r}{advice}")
            yield each
        elif isinstance(each, Mapping):
            for name, value in each.items():
                yield from _setting(str(name), value, of_objects)
        elif group := _group_of(each):
            yield from _setting(group, each, of_objects)
        elif isinstance(each, Iterable):
            yield from _words(each, of_objects)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {each!r}")


def _setting(name: str, value: Any, of_objects: list[str]) -> Iterator[str]:
    if name == "measures" and isinstance(value, list | tuple) and any(map(_group_of, value)):
        of_objects.append(f"measures={as_typed([_as_measure(each) if _group_of(each) else each for each in value])}")
    elif name == "measure" and _group_of(value):
        of_objects.append(f"measure={_as_measure(value)}")
    elif "." not in name and _group_of(value):
        cls = value if inspect.isclass(value) else type(value)
        settings = {} if inspect.isclass(value) else _settings(value)
        of_objects.append(f"{name}={_write(name, cls.__name__, cls, _defaults(cls))}")
        of_objects += [f"{name}.{key}={as_typed(each, f'{name}.{key}')}" for key, each in settings.items()]
    else:
        yield f"{name}={as_typed(value, name)}"


@cache
def _folder() -> Path:
    """Return the folder of the choices that were passed to this process; it is removed at the end."""
    path = Path(mkdtemp(prefix=_PREFIX)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def is_temporary(path: Path) -> bool:
    """Return whether a folder is that of the choices passed to a process, so that no other process finds it."""
    return path.name.startswith(_PREFIX)


def command_of(words: Sequence[str]) -> str:
    """Return the command of overrides: of a shell, or the call in Python if there are objects among its choices."""
    rest, folders = split_search_path(words)
    if not any(map(is_temporary, folders)):
        return f"ol2r run {shlex.join(words)}".strip()
    lasting = [f"--config-dir={path}" for path in folders if not is_temporary(path)]
    return f"ol2r.run({', '.join([*rest, *lasting])})"


def _group_of(value: Any) -> str:
    """Return the group of an object or class; `dataset` for one with a method `load`, empty for any other value."""
    cls = value if inspect.isclass(value) else type(value)
    if cls.__module__ == "builtins" or isinstance(value, Path):
        return ""
    group = getattr(cls, "group", "")
    if isinstance(group, str) and group in _GROUPS:
        return group
    return "dataset" if inspect.isfunction(getattr(cls, "load", None)) else ""


def _as_measure(value: Any) -> str:
    """Return the name by which an object or a class stands in the list of measures."""
    cls = value if inspect.isclass(value) else type(value)
    _target(cls)
    defaults = _defaults(cls)
    settings = defaults | ({} if inspect.isclass(value) else _settings(value))
    missing = [key for key, each in settings.items() if each == "???"]
    if missing:
        raise ValueError(f"measures must have an object, {cls.__name__}({missing[0]}=..), got the class without it")
    own = {key: each for key, each in settings.items() if each != defaults[key]}
    digits = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:6]
    return _write("measure", f"{cls.__name__}_{digits}" if own else cls.__name__, cls, settings)


def _write(group: str, name: str, cls: type, settings: Mapping[str, Any]) -> str:
    """Write the choice of a class and return its name; ValueError where another class has this name."""
    import yaml

    target = _target(cls)
    if _written.setdefault((group, name), target) != target:
        raise ValueError(f"{group} must have one class {name}, got {target} and {_written[group, name]}: rename one")
    path = _folder() / group / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    content = yaml.safe_dump({"_target_": target, **settings}, sort_keys=False)
    path.write_text(f"# The class {target}, passed from Python.\n{content}")
    return name


def _target(cls: type) -> str:
    """Return the name by which a class is imported; ValueError for one that is defined in a function."""
    from ol2r_cli.config.instantiate import import_target

    target = f"{cls.__module__}.{cls.__qualname__}"
    try:
        found = import_target(target)
    except ImportError:
        found = None
    if found is not cls:
        raise ValueError(f"{cls.__name__} must be defined at the top level of a module or a notebook, got {target}")
    return target


def _defaults(cls: type) -> dict[str, Any]:
    """Return the keywords of a class with their defaults; `???`, a missing value, where there is none."""
    defaults = {name: "???" if each.default is each.empty else each.default for name, each in keywords(cls).items()}
    return {name: _plain(value, f"{cls.__name__}({name})") for name, value in defaults.items()}


def _settings(value: Any) -> dict[str, Any]:
    """Return the settings an object was made with: as roles record them, or attributes named as its keywords."""
    cls = type(value)
    parameters = keywords(cls)
    if (given := getattr(value, "_given", None)) is not None:
        bound = inspect.signature(cls).bind(*given[0], **given[1])
        if unnamed := [name for name in bound.arguments if name not in parameters]:
            raise ValueError(
                f"{cls.__name__} must name its settings in its constructor, since they are part of the run id, got "
                f"values for *{unnamed[0]}"
            )
        bound.apply_defaults()
        settings = {name: bound.arguments[name] for name in parameters}
    else:
        if missing := [name for name in parameters if not hasattr(value, name)]:
            raise ValueError(f"{cls.__name__} must keep its setting in an attribute of its name, self.{missing[0]}")
        settings = {name: getattr(value, name) for name in parameters}
    return {name: _plain(each, f"{cls.__name__}({name}=..)") for name, each in settings.items()}


def _plain(value: Any, name: str) -> Any:
    """Return a setting in plain containers; an object becomes a node with `_target_`. ValueError for other values."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy or torch
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(each, name) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, name) for each in value]
    if not hasattr(value, "tolist") and not inspect.isroutine(value) and not inspect.isclass(value):
        return {"_target_": _target(type(value)), **_settings(value)}
    raise ValueError(f"{name} must be a number, text, a list, a mapping or an object of such settings, got {value!r}")
