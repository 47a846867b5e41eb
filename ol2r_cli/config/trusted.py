"""Which classes the files of a finished run may name.

The directory of a run may come from others. A `_target_` in its `config.yaml` or `ranker.pt` is trusted only if a
choice names the same class: a choice of ol2r, or of a folder that `choice_folders` finds. A class that an installed
package with choices defines is trusted too. Everything else is refused before it is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ol2r_cli.config.catalogue import MEASURE, Catalogue, targets
from ol2r_cli.config.instantiate import import_target
from ol2r_cli.config.own_choices import choice_folders, installed_packages

_CALL_OPTIONS = ("_args_", "_partial_", "_recursive_", "_convert_")  # of Hydra; no choice of ol2r has one


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
