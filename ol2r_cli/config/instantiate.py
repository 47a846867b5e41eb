"""From settings to objects and back, and which classes the files of a finished run may name.

The directory of a run may come from others. A `_target_` in its `config.yaml` or `ranker.pt` is trusted only if a
choice names the same class: a choice of ol2r, or of a folder that `choice_folders` finds. A class that an installed
package with choices defines is trusted too. Everything else is refused before it is imported.

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
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

from ol2r_cli.config.catalogue import MEASURE, Catalogue, config_dir, targets
from ol2r_cli.config.overrides import as_typed, split_search_path
from ol2r_cli.config.own_choices import choice_folders, installed_packages
from ol2r_cli.config.ranges import annotations_of, check_settings, keywords
from ol2r_cli.formatting import error_line, shown_path

_CALL_OPTIONS = ("_args_", "_partial_", "_recursive_", "_convert_")  # of Hydra; no choice of ol2r has one
_GROUPS = ("ranker", "click", "exploration", "fairness", "measure")  # of classes that say their group
_PREFIX = "ol2r-passed-"
_MISSING = object()
_written: dict[tuple[str, str], str] = {}  # (group, name): the class that the choice of a passed object names


def build(settings: Any, group: str = "") -> Any:
    """Return the object that `_target_` of settings names, after its parts, with the others as its keywords.

    `group` is the name of the settings on the command line (`ranker.model`). A node of OmegaConf knows its name. The
    object gets containers of its own. ValueError, of one line that says what to type, for a bad setting.
    """
    if hasattr(settings, "_get_full_key"):
        from omegaconf import OmegaConf

        return build(OmegaConf.to_container(settings, resolve=True), settings._get_full_key(None))
    target = str(settings.get("_target_"))
    message = f"{group}._target_ must be a class that can be imported, got {target}"
    try:
        constructor = import_target(target)
    except ImportError as error:
        raise ValueError(f"{message}: {error}") from None
    if not callable(constructor):
        raise ValueError(f"{message}, which is a {type(constructor).__name__}")
    given = {name: _with_parts(value, f"{group}.{name}") for name, value in settings.items() if name != "_target_"}
    for name, kind in annotations_of(constructor).items():
        part = settings.get(name)
        if isinstance(part, Mapping) and "_target_" in part and getattr(kind, "_is_protocol", False):
            methods = [each for each, member in vars(kind).items() if inspect.isfunction(member) and each[0] != "_"]
            if not all(hasattr(given[name], method) for method in methods):
                must = f"must be a class with the methods {', '.join(methods)}"
                raise ValueError(f"{group}.{name}._target_ {must}, got {part['_target_']}")
    check_settings(constructor, given, group, _parts(group))
    return constructor(**given)


@cache
def _parts(group: str) -> dict[str, list[str]]:
    """Return the settings of a group that are chosen, with their choices: {"model": ["linear", "mlp"]} of `ranker`."""
    folder = config_dir() / group.replace(".", "/")
    below = [path for path in folder.iterdir() if path.is_dir()] if group and folder.is_dir() else []
    return {path.name: sorted(choice.stem for choice in path.glob("*.yaml")) for path in below}


def _with_parts(value: Any, name: str) -> Any:
    """Return a setting in which mappings with a `_target_` are replaced by what they name."""
    if isinstance(value, Mapping):
        if "_target_" in value:
            return build(value, name)
        return {key: _with_parts(each, f"{name}.{key}") for key, each in value.items()}
    return [_with_parts(each, f"{name}[{at}]") for at, each in enumerate(value)] if isinstance(value, list) else value


def import_target(target: str) -> Any:
    """Return what a dotted name stands for: a module, or what is in it. ImportError, of one line, says why it is none.

    The line has file and line number of an error in a module of the user's.
    """
    names = target.split(".")
    if not all(name.isidentifier() for name in names):
        raise ImportError("it must be names with dots between them")
    found: Any = None
    for count, name in enumerate(names, 1):
        module = ".".join(names[:count])
        try:
            found = import_module(module)
        except (Exception, SystemExit) as error:
            if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
                raise ImportError(_with_place(error)) from None
            if found is None:
                raise ImportError(f"there is no module {name}") from None
            if not hasattr(found, name):
                place = shown_path(getattr(found, "__file__", None) or names[count - 2])
                raise ImportError(f"{place} has no {name}") from None
            found = getattr(found, name)
    return found


def _with_place(error: BaseException) -> str:
    """Return an error with the place in a file at which it was raised: `mine.py, line 3: NameError: ..`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown_path(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{shown_path(frames[-1].filename)}, line {frames[-1].lineno}: {error_line(error)}"


def check_stored(settings: Any, name: str, file: Path, own: Collection[str] = ()) -> None:
    """Raise ValueError unless the settings that a run stores in `file` are plain values and name trusted classes.

    `name` is the setting on the command line (`ranker`). `own` are classes that the user trusts: `trusted_targets`.
    """
    shown = name if name.isprintable() else repr(name)
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key in _CALL_OPTIONS:
                raise ValueError(f"{file} must have settings only, got {shown}.{key}")
            if key != "_target_":
                check_stored(value, f"{name}.{key}", file, own)
            elif not isinstance(value, str) or not (value in _shipped() or value in own or _is_installed(value)):
                raise ValueError(
                    f"{shown}._target_ in {file} must be a class of a choice of ol2r, got {value!r}: if you trust it, "
                    "name the folder of a choice with this class, --config-dir FOLDER "
                    "(config_dir=FOLDER in Python and figures)"
                )
    elif isinstance(settings, list | tuple):
        for index, value in enumerate(settings):
            check_stored(value, f"{name}[{index}]", file, own)
    elif type(settings) not in (bool, int, float, str, type(None)):
        raise ValueError(f"{file} must have plain values, got {shown} of type {type(settings).__name__}")
    elif isinstance(settings, str) and ("${" in settings or settings == "???"):
        raise ValueError(f"{file} must have values without interpolations, got {shown}={settings!r}")


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
    return frozenset(target for choice in choices for target in targets(choice.content))


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
            names = [_as_measure(one) if _group_of(one) else one for one in value]
            of_objects.append(f"measures={as_typed(names)}")
        elif name == MEASURE and _group_of(value):
            of_objects.append(f"measure={_as_measure(value)}")
        elif "." not in name and _group_of(value):
            of_objects.append(f"{name}={_write(name, _class(value).__name__, _class(value), _defaults(_class(value)))}")
            of_objects += [f"{name}.{key}={as_typed(one, f'{name}.{key}')}" for key, one in _settings(value).items()]
        else:
            words.append(f"{name}={as_typed(value, name)}")
    folder = [f"--config-dir={_folder()}"] if of_objects else []
    return [*of_objects, *words, *folder]  # a setting that is typed decides over that of an object


def _named(settings: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting; no name before text that is a setting."""
    for each in settings:
        if isinstance(each, str):
            is_option = each.startswith("-") and not each.startswith("--config-dir=")
            if is_option or ("=" not in each and not each.startswith("~")):
                advice = ": of the options only --config-dir=DIR is here" if is_option else ""
                raise ValueError(f"a setting must be 'NAME=VALUE', got {each!r}{advice}")
            yield "", each
        elif isinstance(each, Mapping):
            yield from ((str(name), value) for name, value in each.items())
        elif group := _group_of(each):
            yield group, each
        elif isinstance(each, Iterable):
            yield from _named(each)
        else:
            raise ValueError(f"a setting must be 'NAME=VALUE' or {{'NAME': value}}, got {each!r}")


@cache
def _folder() -> Path:
    """Return the folder of the choices that were passed to this process; it is removed at the end."""
    path = Path(mkdtemp(prefix=_PREFIX)).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def command_of(words: Sequence[str], command: str = "run") -> str:
    """Return the command of overrides: of a shell, or the call in Python if there are objects among its choices."""
    rest, folders = split_search_path(words)
    lasting = [f"--config-dir={path}" for path in folders if not path.name.startswith(_PREFIX)]
    if len(lasting) == len(folders):
        return f"ol2r {command} {shlex.join(words)}".strip()
    return f"ol2r.run({', '.join([*rest, *lasting])})"


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
    cls, defaults = _class(value), _defaults(_class(value))
    settings = defaults | _settings(value)
    _target(cls)  # ValueError, which comes first
    if missing := [key for key, each in settings.items() if each == "???"]:
        raise ValueError(f"measures must have an object, {cls.__name__}({missing[0]}=..), got the class without it")
    own = {key: each for key, each in settings.items() if each != defaults[key]}
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
    defaults = {name: "???" if each.default is each.empty else each.default for name, each in keywords(cls).items()}
    return {name: _plain(value, f"{cls.__name__}({name})") for name, value in defaults.items()}


def _settings(value: Any) -> dict[str, Any]:
    """Return the settings an object was made with: as roles record them, or attributes named as its keywords.

    Those of a class are its defaults, and not here.
    """
    if inspect.isclass(value):
        return {}
    cls = type(value)
    parameters, settings = keywords(cls), {name: getattr(value, name, _MISSING) for name in keywords(cls)}
    if (given := getattr(value, "_given", None)) is not None:
        bound = inspect.signature(cls).bind(*given[0], **given[1])
        if unnamed := bound.arguments.keys() - parameters:
            raise ValueError(
                f"{cls.__name__} must name its settings in its constructor, since they are part of the run id, got "
                f"values for *{min(unnamed)}"
            )
        bound.apply_defaults()
        settings = {name: bound.arguments[name] for name in parameters}
    if missing := [name for name, each in settings.items() if each is _MISSING]:
        raise ValueError(f"{cls.__name__} must keep its setting in an attribute of its name, self.{missing[0]}")
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
