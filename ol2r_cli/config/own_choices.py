"""Folders with the user's own choices, DIR/GROUP/NAME.yaml: where they are named, and how Python finds their classes.

They are named, in this order, by `--config-dir DIR`, by the environment variable OL2R_CHOICES (folders with `:` between
them), by `choices` in the project file `ol2r.yaml`, and by installed distributions with an entry point in the group
`ol2r.choices`, whose value is a package.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from ol2r_cli.config.project_file import PROJECT_FILE, read_project

VARIABLE = "OL2R_CHOICES"
ENTRY_POINTS = "ol2r.choices"
ROLES = (
    "ranker",
    "click",
    "exploration",
    "fairness",
    "measure",
    "intent",
    "dataset",
)  # that `ol2r new` writes a choice of


@dataclass(frozen=True)
class ChoiceFolder:
    """A folder with choices, and who names it. `package` is the package that it is, if a distribution brings it."""

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
    """The words that name folders on a command line: `--config-dir DIR` for each."""
    return [word for folder in folders for word in ("--config-dir", str(folder))]


def choice_folders(named: Iterable[Path] = ()) -> list[ChoiceFolder]:
    """All folders with choices, those that are `named` on the command line first; each once, with an absolute path.

    ValueError, which says who names it, for a folder that does not exist, and for a bad project file.
    """
    from_variable = [Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    found = [
        *(ChoiceFolder(path, "--config-dir") for path in named),
        *(ChoiceFolder(path, VARIABLE) for path in from_variable),
        *(ChoiceFolder(path, PROJECT_FILE) for path in read_project().choices),
        *_installed(tuple(sys.path)),
    ]
    folders: dict[Path, ChoiceFolder] = {}
    for folder in found:
        path = folder.path.expanduser()
        if not path.is_dir():
            source = f"choices in {PROJECT_FILE}" if folder.source == PROJECT_FILE else folder.source
            raise ValueError(f"{source} must be a folder, got {folder.path}, which does not exist")
        folders.setdefault(path.resolve(), ChoiceFolder(path.resolve(), folder.source, folder.package))
    return list(folders.values())


def use_choices(named: Iterable[Path] = ()) -> list[ChoiceFolder]:
    """`choice_folders`, after which Python finds the modules in them: `_target_: mine.Mine` is in DIR/mine.py.

    They come last in `sys.path`. The folder of a distribution is not added, because Python finds its package anyway.
    """
    folders = choice_folders(named)
    for folder in folders:
        if not folder.package and str(folder.path) not in sys.path:
            sys.path.append(str(folder.path))
    return folders


def check_modules(targets: Iterable[str], folder: Path, node: str) -> None:
    """ValueError where a class of a choice in `folder` is in a file there, but Python imports a module from elsewhere.

    `node` is the node of the choice's settings (`ranker`). Nothing is imported.
    """
    for target in targets:
        module = target.partition(".")[0]
        files = (folder / f"{module}.py", folder / module / "__init__.py")
        own = next((file for file in files if file.is_file()), None)
        if own is not None and not Path(found := _origin(module)).resolve().is_relative_to(folder):
            raise ValueError(
                f"{node}._target_={target} must be in {own}, but Python imports {found} as {module}: rename yours"
            )


def _origin(module: str) -> str:
    """The file or folder from which Python imports, or has imported, a module; a word for one without either."""
    spec = getattr(sys.modules.get(module), "__spec__", None) or find_spec(module)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return str((spec.origin if spec else None) or next(iter(places), "nothing"))


def installed_packages() -> frozenset[str]:
    """The top-level packages of distributions that bring choices."""
    return frozenset(folder.package for folder in _installed(tuple(sys.path)))


@cache
def _installed(_: tuple[str, ...]) -> tuple[ChoiceFolder, ...]:
    """The folders of installed distributions. The argument is `sys.path`, on which they depend."""
    return tuple(folder for point in entry_points(group=ENTRY_POINTS) for folder in _of_distribution(point))


def _of_distribution(point: EntryPoint) -> Iterator[ChoiceFolder]:
    """The folder of an entry point. Its package is not imported, which could take seconds."""
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
