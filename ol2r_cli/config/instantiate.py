"""From settings to objects, and which classes the files of a finished run may name.

The directory of a run may come from others. A `_target_` in its `config.yaml` or `ranker.pt` is trusted only if a
choice names the same class: a choice of ol2r, or of a folder that `own_choices.py` finds. A class that an installed
package with choices defines is trusted too. Everything else is refused before it is imported.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.catalogue import MEASURE, Catalogue, config_dir
from ol2r_cli.config.moved_classes import MOVED_TO
from ol2r_cli.config.own_choices import installed_packages, use_choices
from ol2r_cli.config.ranges import check_settings, kinds_of
from ol2r_cli.formatting import error_line, shown_path

if TYPE_CHECKING:
    from omegaconf import DictConfig

_CALL_OPTIONS = ("_args_", "_partial_", "_recursive_", "_convert_")  # of Hydra; no choice of ol2r has one
_PLAIN = (bool, int, float, str, type(None))


def build(node: Any, **more: Any) -> Any:
    """Return the object that a node's `_target_` names, with its settings as keywords; `more` are further keywords.

    ValueError, of one line that says what to type, for a bad setting.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    node = node if OmegaConf.is_config(node) else OmegaConf.create(node)
    if node.get("_target_") in MOVED_TO:
        node = OmegaConf.merge(node, {"_target_": MOVED_TO[node._target_]})
    _check_node(node, str(node._get_full_key(None)), more)
    try:
        return instantiate(node, _convert_="all", **more)
    except InstantiationException as error:
        if isinstance(error.__cause__, ValueError):
            raise error.__cause__ from None
        raise


def _check_node(node: DictConfig, group: str, more: Mapping[str, Any]) -> None:
    """Check the settings of an object against its constructor, those of its parts first.

    `group` is the name of the node on the command line.
    """
    from omegaconf import OmegaConf

    target = str(node.get("_target_"))
    message = f"{group}._target_ must be a class that can be imported, got {target}"
    try:
        constructor = import_target(target)
    except ImportError as error:
        raise ValueError(f"{message}: {error}") from None
    if not callable(constructor):
        raise ValueError(f"{message}, which is a {type(constructor).__name__}")
    settings: dict[str, Any] = {}
    kinds = kinds_of(constructor)
    for key, value in node.items():
        name = str(key)
        if OmegaConf.is_dict(value) and "_target_" in value:
            _check_node(value, f"{group}.{name}", {})
            _check_methods(value["_target_"], kinds.get(name), f"{group}.{name}")
        settings[name] = OmegaConf.to_object(value) if OmegaConf.is_config(value) else value
    del settings["_target_"]
    folder = config_dir() / group.replace(".", "/")
    below = [path for path in folder.iterdir() if path.is_dir()] if group and folder.is_dir() else []
    parts = {path.name: sorted(choice.stem for choice in path.glob("*.yaml")) for path in below}
    check_settings(constructor, settings | dict(more), group, parts)


def _check_methods(target: str, kind: Any, name: str) -> None:
    """Raise ValueError if `kind`, the annotation of a part, is a protocol of which the part's class lacks a method."""
    if not getattr(kind, "_is_protocol", False):
        return
    methods = [each for each, member in vars(kind).items() if inspect.isfunction(member) and not each.startswith("_")]
    if not all(hasattr(import_target(target), each) for each in methods):
        raise ValueError(f"{name}._target_ must be a class with the methods {', '.join(methods)}, got {target}")


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
        if _is_module(module, found):
            try:
                found = import_module(module)
            except (Exception, SystemExit) as error:
                raise ImportError(_with_place(error)) from None
        elif found is None:
            raise ImportError(f"there is no module {name}")
        elif not hasattr(found, name):
            raise ImportError(f"{shown_path(getattr(found, '__file__', None) or names[count - 2])} has no {name}")
        else:
            found = getattr(found, name)
    return found


def _is_module(name: str, package: Any) -> bool:
    """Return whether a name is that of a module; `package` is what the name before its last dot stands for."""
    if name in sys.modules:
        return sys.modules[name] is not None
    may_contain = package is None or (inspect.ismodule(package) and hasattr(package, "__path__"))
    return may_contain and find_spec(name) is not None


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
    elif type(settings) not in _PLAIN:
        raise ValueError(f"{file} must have plain values, got {shown} of type {type(settings).__name__}")
    elif isinstance(settings, str) and ("${" in settings or settings == "???"):
        raise ValueError(f"{file} must have values without interpolations, got {shown}={settings!r}")


def trusted_targets(named: Iterable[Path] = ()) -> frozenset[str]:
    """Return the classes that the choices of all folders name: those `named` on the command line, of ol2r, and others.

    Python finds their modules afterwards. ValueError as in `choice_folders`, and for a choice that is not a YAML
    mapping.
    """
    return _targets_in([folder.path for folder in use_choices(named)])


def _targets_in(folders: Iterable[Path]) -> frozenset[str]:
    """Return the classes that choices name. Files outside the groups of an experiment are none, nor those of runs."""
    catalogue = Catalogue(list(folders))
    of_experiments = [group for group in catalogue.choices if group.partition("/")[0] in (*catalogue.defaults, MEASURE)]
    choices = [choice for group in of_experiments for choice in catalogue.choices[group].values()]
    return frozenset(target for choice in choices for target in targets(choice.content))


def targets(settings: Any) -> Iterator[str]:
    """Yield every `_target_` in nested settings."""
    if isinstance(settings, Mapping):
        if isinstance(target := settings.get("_target_"), str):
            yield target
        settings = settings.values()
    elif not isinstance(settings, list | tuple):
        return
    for value in settings:
        yield from targets(value)


@cache
def _shipped() -> frozenset[str]:
    return _targets_in(()) | MOVED_TO.keys()


def _is_installed(target: str) -> bool:
    """Return whether an installed package with choices defines this class; one that it imports is not its own.

    A module is imported only if it is in such a package.
    """
    packages = installed_packages()
    if target.partition(".")[0] not in packages:
        return False
    try:
        found = import_target(target)
    except ImportError:
        return False
    return inspect.isclass(found) and found.__module__.partition(".")[0] in packages
