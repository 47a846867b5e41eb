"""Which classes the files of a finished run may name.

The directory of a run may come from others. A `_target_` in its `config.yaml` or `ranker.pt` is trusted only if a
choice names the same class: a choice of ol2r, or of a folder that `own_choices.py` finds. A class that an installed
package with choices defines is trusted too. Everything else is refused before it is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.chosen_measures import GROUP
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.moved_classes import MOVED_TO
from ol2r_cli.config.own_choices import installed_packages, use_choices

_CALL_OPTIONS = ("_args_", "_partial_", "_recursive_", "_convert_")  # of Hydra; no choice of ol2r has one
_PLAIN = (bool, int, float, str, type(None))


def check_stored(settings: Any, name: str, file: Path, own: Collection[str] = ()) -> None:
    """Raises ValueError unless the settings that a run stores in `file` are plain values and name trusted classes.

    `name` is the setting on the command line (`ranker`). `own` are classes that the user trusts: `trusted_targets`.
    """
    shown = name if name.isprintable() else repr(name)
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if key in _CALL_OPTIONS:
                raise ValueError(f"{file} must have settings only, got {shown}.{key}")
            if key == "_target_":
                _check_target(value, f"{shown}._target_", file, own)
            else:
                check_stored(value, f"{name}.{key}", file, own)
    elif isinstance(settings, list | tuple):
        for index, value in enumerate(settings):
            check_stored(value, f"{name}[{index}]", file, own)
    elif type(settings) not in _PLAIN:
        raise ValueError(f"{file} must have plain values, got {shown} of type {type(settings).__name__}")
    elif isinstance(settings, str) and ("${" in settings or settings == "???"):
        raise ValueError(f"{file} must have values without interpolations, got {shown}={settings!r}")


def _check_target(target: Any, name: str, file: Path, own: Collection[str]) -> None:
    if not isinstance(target, str) or not (target in _shipped() or target in own or _is_installed(target)):
        raise ValueError(
            f"{name} in {file} must be a class of a choice of ol2r, got {target!r}: if you trust it, "
            "name the folder of a choice with this class, --config-dir FOLDER (config_dir=FOLDER in Python and figures)"
        )


def trusted_targets(named: Iterable[Path] = ()) -> frozenset[str]:
    """The classes that the choices of all folders name, those `named` on the command line and those of ol2r included.

    Python finds their modules afterwards. ValueError as in `choice_folders`, and for a choice that is not a YAML
    mapping.
    """
    return _targets_in([folder.path for folder in use_choices(named)])


def _targets_in(folders: Iterable[Path]) -> frozenset[str]:
    """The classes that choices name. Files outside the groups of an experiment are none, nor are those of runs."""
    catalogue = Catalogue(list(folders))
    of_experiments = [group for group in catalogue.choices if group.partition("/")[0] in (*catalogue.defaults, GROUP)]
    choices = [choice for group in of_experiments for choice in catalogue.choices[group].values()]
    return frozenset(target for choice in choices for target in targets(choice.content))


def targets(settings: Any) -> Iterator[str]:
    """Every `_target_` in nested settings."""
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
    """Whether an installed package with choices defines this class; one that it imports from elsewhere is not its own.

    Imports a module only if it is in such a package.
    """
    packages = installed_packages()
    if target.partition(".")[0] not in packages:
        return False
    try:
        found = import_target(target)
    except ImportError:
        return False
    return inspect.isclass(found) and found.__module__.partition(".")[0] in packages
