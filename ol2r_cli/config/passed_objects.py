"""Objects and classes that are passed from Python in place of a choice: `run(ranker=Mine(0.5))`.

An object becomes a choice with the name of its class, in a folder of this process, and its settings become overrides.
So it is composed, checked, hashed and run as any choice of the user. Its state is not: every run builds a new object
with the same settings.
"""

from __future__ import annotations

import atexit
import hashlib
import inspect
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ol2r_cli.config.overrides import as_typed, split_search_path

_GROUPS = ("ranker", "click", "exploration", "fairness", "measure")  # of classes that say their group
_PREFIX = "ol2r-passed-"
_written: dict[tuple[str, str], str] = {}  # (group, name): the class that the choice names


@cache
def folder() -> Path:
    """The folder of the choices that were passed to this process; it is removed at the end."""
    path = Path(mkdtemp(prefix=_PREFIX)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def is_temporary(path: Path) -> bool:
    """Whether a folder is that of the choices passed to a process, so that no other process finds it."""
    return path.name.startswith(_PREFIX)


def command_of(words: Sequence[str]) -> str:
    """The command of overrides: that of a shell, or the call in Python if there are objects among its choices."""
    rest, folders = split_search_path(words)
    if not any(map(is_temporary, folders)):
        return f"ol2r run {shlex.join(words)}".strip()
    lasting = [f"--config-dir={path}" for path in folders if not is_temporary(path)]
    return f"ol2r.run({', '.join([*rest, *lasting])})"


def is_passed(value: Any) -> bool:
    """Whether a value is a role, a measure or a dataset, or a class of these, rather than a setting."""
    return bool(group_of(value))


def group_of(value: Any) -> str:
    """The group of an object or a class; `dataset` for one with a method `load`, empty for any other value."""
    cls = value if inspect.isclass(value) else type(value)
    if cls.__module__ == "builtins" or isinstance(value, Path):
        return ""
    group = getattr(cls, "group", "")
    if isinstance(group, str) and group in _GROUPS:
        return group
    return "dataset" if inspect.isfunction(getattr(cls, "load", None)) else ""


def as_choice(group: str, value: Any) -> list[str]:
    """The overrides that choose an object or a class for a group, and set its settings.

    ValueError for a class that cannot be imported by its name, and for settings that are not plain values.
    """
    cls = value if inspect.isclass(value) else type(value)
    settings = {} if inspect.isclass(value) else _settings(value)
    name = _write(group, cls.__name__, cls, _defaults(cls))
    chosen = [f"{group}={name}"]
    return chosen + [f"{group}.{key}={as_typed(each, f'{group}.{key}')}" for key, each in settings.items()]


def as_measure(value: Any) -> str:
    """The name by which an object or a class stands in the list of measures."""
    cls = value if inspect.isclass(value) else type(value)
    _target(cls)
    settings = _defaults(cls) | ({} if inspect.isclass(value) else _settings(value))
    missing = [key for key, each in settings.items() if each == "???"]
    if missing:
        raise ValueError(f"measures must have an object, {cls.__name__}({missing[0]}=..), got the class without it")
    own = {key: each for key, each in settings.items() if each != _defaults(cls)[key]}
    digits = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()[:6]
    return _write("measure", f"{cls.__name__}_{digits}" if own else cls.__name__, cls, settings)


def _write(group: str, name: str, cls: type, settings: Mapping[str, Any]) -> str:
    """Write the choice of a class and return its name; ValueError where another class has this name."""
    target = _target(cls)
    if _written.setdefault((group, name), target) != target:
        raise ValueError(f"{group} must have one class {name}, got {target} and {_written[group, name]}: rename one")
    import yaml

    path = folder() / group / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    content = yaml.safe_dump({"_target_": target, **settings}, sort_keys=False)
    path.write_text(f"# The class {target}, passed from Python.\n{content}")
    return name


def _target(cls: type) -> str:
    """The name by which a class is imported; ValueError for one that is defined in a function."""
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
    """The keywords of a class with their defaults; `???`, a missing value, where there is none."""
    parameters = _parameters(cls)
    defaults = {name: "???" if each.default is each.empty else each.default for name, each in parameters.items()}
    return {name: _plain(value, f"{cls.__name__}({name})") for name, value in defaults.items()}


def _settings(value: Any) -> dict[str, Any]:
    """The settings with which an object was made: as roles record them, or attributes of the names of its keywords."""
    cls = type(value)
    parameters = _parameters(cls)
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


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    constructor: Any = inspect.getattr_static(cls, "__init__")
    if constructor is object.__init__ or getattr(constructor, "__module__", "") == "torch.nn.modules.module":
        return {}
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(cls).parameters
    return {name: each for name, each in parameters.items() if each.kind not in unnamed}


def _plain(value: Any, name: str) -> Any:
    """A setting in plain containers; an object becomes a node with `_target_`. ValueError for any other value."""
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
