"""Folders with the user's own choices, DIR/GROUP/NAME.yaml, and the project file.

The folders are named, in this order, by `--config-dir DIR`, by the environment variable OL2R_CHOICES (folders with `:`
between them), by `choices` in the project file, and by installed distributions with an entry point in the group
`ol2r.choices`, whose value is a package. The project file `ol2r.yaml` in the working directory also has defaults of a
few settings:

choices: choices        # a folder, or a list of folders, relative to the file
output_dir: results     # instead of outputs, also for `ol2r status`, `report` and so on
data_dir: /data
launcher: {jobs: 4}     # settings of the launcher, or the name of one: slurm
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from ol2r_cli.config.catalogue import Choice, targets
from ol2r_cli.config.overrides import as_typed, package_folder
from ol2r_cli.config.ranges import check_settings
from ol2r_cli.plugins import entry_points_of
from ol2r_cli.text.formatting import one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROJECT_FILE = "ol2r.yaml"
VARIABLE = "OL2R_CHOICES"
ENTRY_POINTS = "ol2r.choices"


@dataclass(frozen=True)
class ProjectFile:
    """The content of `ol2r.yaml`; empty where there is none.

    choices: folders, as the file names them. output_dir and data_dir: None where the file does not set them. launcher:
    the name of a choice, or settings of the launcher.
    """

    choices: Sequence[str] = ()
    output_dir: str | None = None
    data_dir: str | None = None
    launcher: str | Mapping[str, Any] | None = None

    def overrides(self, with_launcher: bool) -> list[str]:
        """Return the settings as overrides that stand before those that are typed, which therefore decide.

        The launcher's settings are left out where a launcher is typed: another one need not have them.
        """
        settings: dict[str, Any] = {"output_dir": self.output_dir, "data_dir": self.data_dir}
        if with_launcher:
            launcher = self.launcher if isinstance(self.launcher, Mapping) else {}
            settings |= {f"launcher.{name}": value for name, value in launcher.items()} or {"launcher": self.launcher}
        written = {name: value for name, value in settings.items() if value is not None or "." in name}
        return [f"{name}={as_typed(value, f'{name} in {PROJECT_FILE}')}" for name, value in written.items()]


def read_project() -> ProjectFile:
    """Return the project file in the working directory; ValueError, of one line that names it, for a bad one."""
    try:
        content = yaml.safe_load(Path(PROJECT_FILE).read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        return ProjectFile()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{PROJECT_FILE} must be a YAML file that can be read: {one_line(error)}") from None
    if not isinstance(content, dict):
        keys = ", ".join(ProjectFile.__dataclass_fields__)
        raise ValueError(f"{PROJECT_FILE} must be lines `KEY: VALUE` with the keys {keys}, got {content!r}")
    settings = {key: value for key, value in content.items() if value is not None}
    if isinstance(settings.get("choices"), str):
        settings["choices"] = [settings["choices"]]
    try:
        check_settings(ProjectFile, settings, "")
    except ValueError as error:
        raise ValueError(f"{PROJECT_FILE}: {error}") from None
    return ProjectFile(**settings)


def default_output_dir() -> Path:
    """Return the folder of runs where none is typed; ValueError for a bad project file."""
    return Path(read_project().output_dir or "outputs").expanduser()  # output_dir in configs/run.yaml


class ChoiceFolder(NamedTuple):
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
        help="components of your own: DIR/ranker/mine.yaml is ranker=mine",
    )


def as_options(folders: Iterable[Path]) -> list[str]:
    """Return the words that name folders on a command line: `--config-dir DIR` for each."""
    return [word for folder in folders for word in ("--config-dir", str(folder))]


def choice_folders(named: Iterable[Path] = ()) -> list[ChoiceFolder]:
    """Return all folders with choices, those `named` on the command line first; each once, with an absolute path.

    Python then finds the modules in them, after all others: `_target_: mine.Mine` is in DIR/mine.py. It finds the
    package of a distribution anyway. ValueError, which says what names it, for a folder that does not exist, and for a
    bad project file.
    """
    listed = [
        *(ChoiceFolder(path, "--config-dir") for path in named),
        *(ChoiceFolder(Path(name), VARIABLE) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name),
        *(ChoiceFolder(Path(name), f"choices in {PROJECT_FILE}") for name in read_project().choices),
        *_installed(tuple(sys.path)),
    ]
    folders: dict[Path, ChoiceFolder] = {}
    for folder in listed:
        path = folder.path.expanduser().resolve()
        if not path.is_dir():
            raise ValueError(f"{folder.source} must be a folder, got {folder.path}, which does not exist")
        folders.setdefault(path, folder._replace(path=path))
        if not folder.package and str(path) not in sys.path:
            sys.path.append(str(path))
    return list(folders.values())


def check_modules(choice: Choice) -> None:
    """Raise ValueError where a class of a choice is in a file of its folder, but Python imports another module.

    Nothing is imported.
    """
    folder = choice.path.parents[choice.group.count("/") + 1]
    for _, target in targets(choice.content):
        module = target.partition(".")[0]
        own = [file for file in (folder / f"{module}.py", folder / module / "__init__.py") if file.is_file()]
        origin = _origin(module) if own else None
        if own and not Path(origin or "nothing").resolve().is_relative_to(folder):
            what = f"must be in {own[0]}, but Python imports {origin or 'nothing'} as {module}"
            raise ValueError(f"{choice.node}._target_={target} {what}: rename yours")


def _origin(module: str) -> str | None:
    """Return the file or folder of the module that Python has imported, or would import; None for none."""
    spec = getattr(sys.modules.get(module), "__spec__", None) or find_spec(module)
    if spec is None:
        return None
    return spec.origin or next(iter(spec.submodule_search_locations or ()), None)


def installed_packages() -> frozenset[str]:
    """Return the top-level packages of distributions that bring choices."""
    return frozenset(folder.package for folder in _installed(tuple(sys.path)))


@cache
def _installed(_: tuple[str, ...]) -> tuple[ChoiceFolder, ...]:
    """Return the folders of installed distributions. The argument is `sys.path`, on which they depend."""
    return tuple(_folder_of(point) for point in entry_points_of(ENTRY_POINTS))


def _folder_of(point: EntryPoint) -> ChoiceFolder:
    """Return the folder of the package that an entry point names; ValueError for one that cannot be found."""
    name = point.dist.name if point.dist else point.name
    package = point.value.partition(":")[0].strip()
    folder = package_folder(package)
    if folder:
        return ChoiceFolder(folder, f"the package {name}", package.partition(".")[0])
    must = f"must be a package that can be found, got {point.value!r}: type pip uninstall {name}"
    raise ValueError(f"{ENTRY_POINTS} of {name} {must}")
