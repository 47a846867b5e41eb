"""Folders with the user's own choices, DIR/GROUP/NAME.yaml, and the project file `ol2r.yaml` in the working directory.

Folders are named, in this order, by `--config-dir DIR`, by the environment variable OL2R_CHOICES (folders with `:`
between them), by `choices` in the project file, and by installed distributions with an entry point in the group
`ol2r.choices`, whose value is a package. The project file also has defaults of a few settings:

choices: choices        # a folder, or a list of folders, relative to the file
output_dir: results     # instead of outputs, also for `ol2r status`, `report` and so on
data_dir: /data
launcher: {jobs: 4}     # settings of the launcher, or the name of one: slurm
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import nearest, one_line

PROJECT_FILE = "ol2r.yaml"
VARIABLE = "OL2R_CHOICES"
ENTRY_POINTS = "ol2r.choices"
ROLES = ("ranker", "click", "exploration", "fairness", "measure", "intent", "dataset")  # `ol2r new` writes a choice of


@dataclass(frozen=True)
class ProjectFile:
    """The content of `ol2r.yaml`; empty where there is none.

    choices: folders, as the file names them. output_dir and data_dir: None where the file does not set them. launcher:
    the name of a choice, or settings of the launcher.
    """

    choices: tuple[Path, ...] = ()
    output_dir: str | None = None
    data_dir: str | None = None
    launcher: str | Mapping[str, Any] | None = None

    def overrides(self, typed: Iterable[str]) -> list[str]:
        """Return the settings as overrides that stand before the `typed` ones, which therefore decide.

        The launcher's settings are left out where a launcher is typed: another one need not have them.
        """
        places = {"output_dir": self.output_dir, "data_dir": self.data_dir}
        words = [f"{name}={as_typed(value)}" for name, value in places.items() if value is not None]
        if self.launcher is None or any(word.lstrip("+~").partition("=")[0] == "launcher" for word in typed):
            return words
        if isinstance(self.launcher, str):
            return [*words, f"launcher={as_typed(self.launcher)}"]
        return [*words, *(f"launcher.{name}={as_typed(value)}" for name, value in self.launcher.items())]


_KEYS = tuple(ProjectFile.__dataclass_fields__)


def read_project() -> ProjectFile:
    """Return the project file in the working directory; ValueError, of one line that names it, for a bad one."""
    path = Path(PROJECT_FILE)
    if not path.is_file():
        return ProjectFile()
    import yaml

    try:
        content = yaml.safe_load(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{PROJECT_FILE} must be a YAML file that can be read: {one_line(error)}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{PROJECT_FILE} must be lines `KEY: VALUE` with the keys {', '.join(_KEYS)}, got {content!r}")
    for key in content:
        if key not in _KEYS:
            near = nearest(str(key), _KEYS)
            raise ValueError(f"{PROJECT_FILE} must have the keys {', '.join(_KEYS)}, got {key}{near}")
    choices, launcher = content.get("choices"), content.get("launcher")
    folders = choices if isinstance(choices, list) else [] if choices is None else [choices]
    if not all(isinstance(folder, str) and folder for folder in folders):
        raise ValueError(f"choices in {PROJECT_FILE} must be a folder or a list of folders, got {choices!r}")
    for name in ("output_dir", "data_dir"):
        value = content.get(name)
        if value is not None and (not isinstance(value, str) or not value or "${" in value):
            raise ValueError(f"{name} in {PROJECT_FILE} must be a folder, got {value!r}")
    if isinstance(launcher, Mapping):
        for name, value in launcher.items():
            as_typed(value, f"launcher.{name} in {PROJECT_FILE}")
    elif launcher is not None and (not isinstance(launcher, str) or not launcher):
        raise ValueError(f"launcher in {PROJECT_FILE} must be a launcher or its settings {{jobs: 4}}, got {launcher!r}")
    return ProjectFile(tuple(map(Path, folders)), content.get("output_dir"), content.get("data_dir"), launcher)


def default_output_dir() -> Path:
    """Return the folder of runs where none is typed; ValueError for a bad project file."""
    return Path(read_project().output_dir or "outputs").expanduser()  # output_dir in configs/run.yaml


@dataclass(frozen=True)
class ChoiceFolder:
    """A folder with choices, and what names it. `package` is the package that it is, if a distribution brings it."""

    path: Path
    source: str
    package: str = ""


def add_config_dir(options: argparse.ArgumentParser) -> None:
    """Add `--config-dir DIR`, which may be repeated, to the options of a command."""
    options.add_argument(
        *("--config-dir", "-cd"),
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="choices of your own: DIR/ranker/mine.yaml is ranker=mine",
    )


def as_options(folders: Iterable[Path]) -> list[str]:
    """Return the words that name folders on a command line: `--config-dir DIR` for each."""
    return [word for folder in folders for word in ("--config-dir", str(folder))]


def choice_folders(named: Iterable[Path] = ()) -> list[ChoiceFolder]:
    """Return all folders with choices, those `named` on the command line first; each once, with an absolute path.

    ValueError, which says what names it, for a folder that does not exist, and for a bad project file.
    """
    from_variable = [Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    listed = [
        *(ChoiceFolder(path, "--config-dir") for path in named),
        *(ChoiceFolder(path, VARIABLE) for path in from_variable),
        *(ChoiceFolder(path, PROJECT_FILE) for path in read_project().choices),
        *_installed(tuple(sys.path)),
    ]
    folders: dict[Path, ChoiceFolder] = {}
    for folder in listed:
        path = folder.path.expanduser()
        if not path.is_dir():
            source = f"choices in {PROJECT_FILE}" if folder.source == PROJECT_FILE else folder.source
            raise ValueError(f"{source} must be a folder, got {folder.path}, which does not exist")
        folders.setdefault(path.resolve(), ChoiceFolder(path.resolve(), folder.source, folder.package))
    return list(folders.values())


def use_choices(named: Iterable[Path] = ()) -> list[ChoiceFolder]:
    """Return `choice_folders`, after which Python finds the modules in them: `_target_: mine.Mine` is in DIR/mine.py.

    They come last in `sys.path`. The folder of a distribution is not added, because Python finds its package anyway.
    """
    folders = choice_folders(named)
    for folder in folders:
        if not folder.package and str(folder.path) not in sys.path:
            sys.path.append(str(folder.path))
    return folders


def check_modules(targets: Iterable[str], folder: Path, node: str) -> None:
    """Raise ValueError where a class of a choice in `folder` is in a file there, but Python imports another module.

    `node` is the node of the choice's settings (`ranker`). Nothing is imported.
    """
    for target in targets:
        module = target.partition(".")[0]
        files = (folder / f"{module}.py", folder / module / "__init__.py")
        own = next((file for file in files if file.is_file()), None)
        if own is not None and not Path(origin := _origin(module)).resolve().is_relative_to(folder):
            raise ValueError(
                f"{node}._target_={target} must be in {own}, but Python imports {origin} as {module}: rename yours"
            )


def _origin(module: str) -> str:
    """Return the file or folder from which Python imports, or has imported, a module; a word for one without either."""
    spec = getattr(sys.modules.get(module), "__spec__", None) or find_spec(module)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return str((spec.origin if spec else None) or next(iter(places), "nothing"))


def installed_packages() -> frozenset[str]:
    """Return the top-level packages of distributions that bring choices."""
    return frozenset(folder.package for folder in _installed(tuple(sys.path)))


@cache
def _installed(_: tuple[str, ...]) -> tuple[ChoiceFolder, ...]:
    """Return the folders of installed distributions. The argument is `sys.path`, on which they depend."""
    return tuple(folder for point in entry_points(group=ENTRY_POINTS) for folder in _of_distribution(point))


def _of_distribution(point: EntryPoint) -> Iterator[ChoiceFolder]:
    """Yield the folder of an entry point. Its package is not imported, which could take seconds."""
    name = point.dist.name if point.dist else point.name
    package, *below = point.value.partition(":")[0].strip().split(".")
    try:
        spec = find_spec(package)
    except ValueError:  # the name is empty
        spec = None
    places = [Path(place, *below) for place in (spec.submodule_search_locations if spec else None) or ()]
    for place in places:
        if place.is_dir():
            yield ChoiceFolder(place, f"the package {name}", package)
            return
    raise ValueError(
        f"{ENTRY_POINTS} of {name} must be a package that can be found, got {point.value!r}: type pip uninstall {name}"
    )
