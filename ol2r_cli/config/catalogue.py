"""The choices of every group and their settings, read from YAML files alone, and the folders in which they are.

Hydra is not imported, so that `ol2r list`, shell completion and error messages are fast. Folders with the user's own
choices, DIR/GROUP/NAME.yaml, are named, in this order, by `--config-dir DIR`, by the environment variable OL2R_CHOICES
(folders with `:` between them), by `choices` in the project file, and by installed distributions with an entry point in
the group `ol2r.choices`, whose value is a package. The project file `ol2r.yaml` in the working directory also has
defaults of a few settings:

choices: choices        # a folder, or a list of folders, relative to the file
output_dir: results     # instead of outputs, also for `ol2r status`, `report` and so on
data_dir: /data
launcher: {jobs: 4}     # settings of the launcher, or the name of one: slurm
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.config.overrides import as_typed, translate
from ol2r_cli.config.ranges import check_settings
from ol2r_cli.formatting import one_line

RECIPES = ("reproduce", "benchmark")  # folders of configs/ that are no groups of choices
MEASURE = "measure"  # the group of which several choices are taken at once, by the list `measures`
ROLES = ("ranker", "click", "exploration", "fairness", "measure", "intent", "dataset")  # `ol2r new` writes a choice of
PROJECT_FILE = "ol2r.yaml"
VARIABLE = "OL2R_CHOICES"
ENTRY_POINTS = "ol2r.choices"

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_SETTINGS = ("_target_", "defaults", "hydra")


def config_dir() -> Path:
    """Return the folder configs/ of this code: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).parents[1]
    beside = package.parent / "configs"
    # A checkout first: an editable install leaves a stale copy of configs/ elsewhere, never here.
    is_checkout = (beside / "run.yaml").exists() and (package.parent / "pyproject.toml").exists()
    return beside if is_checkout else package / "configs"


class Setting(NamedTuple):
    """One line of a YAML file: its name (`l2`), its default as the file writes it, and the comment behind it."""

    name: str
    default: str
    comment: str


@dataclass(frozen=True)
class Choice:
    """One YAML file, read when it is first used; ValueError, which names the file, when it is not a YAML mapping."""

    group: str
    name: str
    path: Path

    @cached_property
    def header(self) -> list[str]:
        """Return the comment lines at the top: what the choice is, and its paper."""
        lines = takewhile(lambda line: line.startswith("#"), self.path.read_text(encoding="utf-8").splitlines())
        return [line.lstrip("# ") for line in lines if "@package" not in line] or [""]

    @cached_property
    def content(self) -> dict[str, Any]:
        """Return the content of the file."""
        try:
            content = yaml.load(self.path.read_text(encoding="utf-8"), _Loader)
        except yaml.YAMLError as error:
            reason = one_line(error).replace(' in "<unicode string>",', ",")
            raise ValueError(f"{self.path} must be YAML: {reason}") from None
        if not isinstance(content, dict | None):
            raise ValueError(f"{self.path} must be lines `setting: value`, got {content!r}")
        return content or {}

    @property
    def node(self) -> str:
        """Return the node of its settings: `ranker.model` for a choice of the group `ranker/model`."""
        return self.group.replace("/", ".")

    @property
    def values(self) -> dict[str, Any]:
        """Return its settings, with their defaults."""
        return {str(key): value for key, value in self.content.items() if key not in _NO_SETTINGS}

    @cached_property
    def settings(self) -> list[Setting]:
        """Return its settings with their comments, in the order of the file."""
        text, settings = self.path.read_text(encoding="utf-8"), []
        lines = [*text.splitlines(), ""]
        for key, value in yaml.compose(text, _Loader).value if self.values else ():
            if key.value in _NO_SETTINGS:
                continue
            end = key.end_mark  # behind which is the comment, or behind the value where that is on one line
            if isinstance(value, yaml.ScalarNode) or value.flow_style:
                default = " ".join(text[value.start_mark.index : value.end_mark.index].split())
                end = max(end, value.end_mark, key=lambda mark: (mark.line, mark.column))
            else:
                content = self.content[key.value]
                default = yaml.safe_dump(content, default_flow_style=True, sort_keys=False, width=10**6).strip()
            comment = re.search(r"#\s*(.*)", lines[end.line][end.column :])
            settings.append(Setting(key.value, default, comment[1].strip() if comment else ""))
        return settings

    @property
    def grid(self) -> dict[str, Any]:
        """Return the values that a preset sweeps, by setting; empty for a preset that is one experiment."""
        return dict(self.content.get("hydra", {}).get("sweeper", {}).get("params", {}))

    @cached_property
    def brings(self) -> dict[str, str]:
        """Return the choices of other groups in its `defaults` list, by group."""
        entries = defaults_list(self.content, self.group)
        return {group: name for group, name in entries if name and group != self.group}


def other_roots() -> list[str]:
    """Return the names of the root configurations beside `run`, each that of a command."""
    return sorted(path.stem for path in config_dir().glob("*.yaml") if path.stem != "run")


def defaults_list(content: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, str | None]]:
    """(group, choice) of the entries `group: choice` and `override /group@package: choice` of a defaults list.

    A group without a leading slash is below the group of the file: `model` means `ranker/model`.
    """
    below = f"{group}/" if group else ""
    for entry in content.get("defaults") or ():
        for key, name in entry.items() if isinstance(entry, dict) else ():
            match = re.fullmatch(r"(?:override |optional )*(/?)([\w/]+)(?:@\S+)?", key)
            if match and not match[2].startswith("hydra/"):
                yield match[2] if match[1] else below + match[2], name


def targets(settings: Any) -> Iterator[str]:
    """Yield every `_target_` in nested settings."""
    if isinstance(settings, Mapping):
        if isinstance(target := settings.get("_target_"), str):
            yield target
        settings = settings.values()
    for value in settings if not isinstance(settings, str) and isinstance(settings, Iterable) else ():
        yield from targets(value)


class Catalogue:
    """All choices by group, in the order of the root configuration. `own` are folders with the user's choices.

    A root other than `run` has the groups in its defaults; `run` has all others too, but for those of other roots.

    A group below another one, such as `ranker/model`, is a part of those of its choices that have it in their defaults.
    A file of the user must not have the name of another choice: `collisions` has such files, each with the other one.
    """

    def __init__(self, own: Sequence[Path] = (), root: str = "run"):
        _forget_empty_variables()
        roots = {path.stem: Choice("", path.stem, path) for path in sorted(config_dir().glob("*.yaml"))}
        self.root = roots.pop(root)
        self.defaults = dict(defaults_list(self.root.content))
        # The groups that only other roots have, each with its root.
        others = {group: name for name, other in roots.items() for group, _ in defaults_list(other.content)}
        self.elsewhere = {group: name for group, name in others.items() if group not in self.defaults}
        found: dict[str, dict[str, Choice]] = {group: {} for group in self.defaults}
        self.collisions: list[tuple[Path, Path]] = []
        for folder in (config_dir(), *own):
            for path in _yaml_files(folder):
                group = path.parent.relative_to(folder).as_posix()
                top = group.partition("/")[0]
                is_ours = top in self.defaults or (root == "run" and top not in self.elsewhere)
                if group != "." and top not in RECIPES and is_ours:
                    choice = found.setdefault(group, {}).setdefault(path.stem, Choice(group, path.stem, path))
                    if choice.path != path:
                        self.collisions.append((path, choice.path))
        tops = [group for group in found if group.partition("/")[0] == group or group.partition("/")[0] not in found]
        parts = {top: [group for group in found if group.startswith(f"{top}/")] for top in tops}
        self.choices = {group: found[group] for top in tops for group in (top, *parts[top])}

    @property
    def groups(self) -> list[str]:
        """Return the groups of an experiment, without those of Hydra."""
        return [group for group in self.choices if group.partition("/")[0] != "hydra"]

    @property
    def parts(self) -> list[str]:
        """Return the groups below those of run.yaml."""
        return [group for group in self.choices if "/" in group and group.partition("/")[0] in self.defaults]

    def comes_along(self, choice: Choice) -> bool:
        """Return whether a choice is part of ol2r rather than of the user's folders."""
        return choice.path.is_relative_to(self.root.path.parent)

    def settings(self, choice: Choice) -> list[Setting]:
        """Return the settings of a choice, after those that it inherits."""
        settings: dict[str, Setting] = {}
        for setting in (setting for each in self._lineage(choice) for setting in each.settings):
            inherited = settings.get(setting.name, setting)
            settings[setting.name] = setting._replace(comment=setting.comment or inherited.comment)
        return list(settings.values())

    def values(self, choice: Choice) -> dict[str, Any]:
        """Return the default values of a choice, inherited ones included."""
        return {name: value for each in self._lineage(choice) for name, value in each.values.items()}

    def brings(self, choice: Choice) -> dict[str, str]:
        """Return the choices of other groups in its defaults, inherited ones included."""
        return {group: name for each in self._lineage(choice) for group, name in each.brings.items()}

    def _lineage(self, choice: Choice) -> list[Choice]:
        """Return the choices from which a choice inherits, and itself as the last, which decides."""
        known, names = self.choices.get(choice.group, {}), choice.content.get("defaults") or ()
        parents = [known[name] for name in names if isinstance(name, str) and name != choice.name and name in known]
        return [*(each for parent in parents for each in self._lineage(parent)), choice]

    def full_names(self, overrides: Iterable[str]) -> list[str]:
        """Return overrides with the whole names of choices, for their short names and unique beginnings: `click=inf`.

        A name that Hydra would read as a number or as a truth value gets quotes.
        """
        return [self._with_full_names(word) for word in translate(overrides)]

    def _with_full_names(self, word: str) -> str:
        group, _, values = word.partition("=")
        known = self.choices.get(group.lstrip("+"), {})
        if not known or not re.fullmatch(r"[\w.+,-]+", values):  # a list or a call, which Hydra reads
            return word
        return f"{group}={','.join(_full_name(value, known) for value in values.split(','))}"

    def chosen(self, overrides: Sequence[str]) -> dict[str, str | None]:
        """The choice of every group under these overrides: of a list the first value, of several overrides the last."""
        named = "\n".join(self.full_names(overrides))
        typed = dict(re.findall(r"^([\w/]+)='?([\w.-]+)", named, re.MULTILINE))
        typed = {group: name for group, name in typed.items() if group in self.choices}
        brought: dict[str, dict[str, str]] = {"experiment": {}, "ranker": {}}
        for group in brought:
            name = {**self.defaults, **brought["experiment"], **typed}.get(group)
            if choice := self.choices.get(group, {}).get(name or ""):
                brought[group] = self.brings(choice)
        preset, ranker = brought.values()
        chosen = {**self.defaults, **ranker, **preset, **typed}  # the later one decides
        return {group: name for group, name in chosen.items() if group in ranker or group not in self.parts}

    def tree(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return all settings under these overrides, nested as they are typed, with their defaults."""
        tree: dict[str, Any] = dict(self.root.values)
        for group, name in self.chosen(overrides).items():
            choice = self.choices.get(group, {}).get(name or "")
            if choice and group != "experiment":
                *above, last = group.split("/")  # what a choice is part of stands before it
                reduce(dict.__getitem__, above, tree)[last] = self.values(choice)
        return tree


def _full_name(typed: str, names: Collection[str]) -> str:
    """Return the name that is typed, also by its beginning, as Hydra reads it as text; any other word as it is."""
    if typed in ("", "null"):
        return typed
    having = [typed] if typed in names else [name for name in names if name.startswith(typed)]
    if len(having) != 1:
        return typed
    return having[0] if having[0] == "none" else as_typed(having[0])  # Hydra reads none as text, but not 1e3


def _yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files below a folder, sorted, without those in hidden folders and in the directories of runs."""
    found: list[Path] = []
    for place, subfolders, names in os.walk(folder):
        if "run.json" in names:
            subfolders.clear()
            continue
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        found += [Path(place, name) for name in names if name.endswith(".yaml")]
    return sorted(found)


def _forget_empty_variables() -> None:
    """Unset the variables of the environment that name folders in configs/ (`${oc.env:OL2R_DATA,..}`) where they are
    empty, which is otherwise the working folder."""
    for name in "OL2R_CACHE", "OL2R_DATA":
        if not os.environ.get(name):
            os.environ.pop(name, None)


def dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested settings with their name on the command line: (`dataset.queries.train`, 300)."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


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

    def overrides(self, typed: Iterable[str]) -> list[str]:
        """Return the settings as overrides that stand before the `typed` ones, which therefore decide.

        The launcher's settings are left out where a launcher is typed: another one need not have them.
        """
        settings: dict[str, Any] = {"output_dir": self.output_dir, "data_dir": self.data_dir}
        if not any(word.lstrip("+~").partition("=")[0] == "launcher" for word in typed):
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
        help="choices of your own: DIR/ranker/mine.yaml is ranker=mine",
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
        *(ChoiceFolder(Path(name), PROJECT_FILE) for name in read_project().choices),
        *_installed(tuple(sys.path)),
    ]
    folders: dict[Path, ChoiceFolder] = {}
    for folder in listed:
        path = folder.path.expanduser().resolve()
        if not path.is_dir():
            source = f"choices in {PROJECT_FILE}" if folder.source == PROJECT_FILE else folder.source
            raise ValueError(f"{source} must be a folder, got {folder.path}, which does not exist")
        folders.setdefault(path, folder._replace(path=path))
        if not folder.package and str(path) not in sys.path:
            sys.path.append(str(path))
    return list(folders.values())


def check_modules(choice: Choice) -> None:
    """Raise ValueError where a class of a choice is in a file of its folder, but Python imports another module.

    Nothing is imported.
    """
    for target in targets(choice.content):
        module, folder = target.partition(".")[0], choice.path.parents[choice.group.count("/") + 1]
        own = [file for file in (folder / f"{module}.py", folder / module / "__init__.py") if file.is_file()]
        spec = getattr(sys.modules.get(module), "__spec__", None) or (find_spec(module) if own else None)
        origin = (spec.origin or next(iter(spec.submodule_search_locations or ()), None)) if spec else None
        if own and not Path(origin or "nothing").resolve().is_relative_to(folder):
            what = f"must be in {own[0]}, but Python imports {origin or 'nothing'} as {module}"
            raise ValueError(f"{choice.node}._target_={target} {what}: rename yours")


def installed_packages() -> frozenset[str]:
    """Return the top-level packages of distributions that bring choices."""
    return frozenset(folder.package for folder in _installed(tuple(sys.path)))


@cache
def _installed(_: tuple[str, ...]) -> tuple[ChoiceFolder, ...]:
    """Return the folders of installed distributions. The argument is `sys.path`, on which they depend.

    Their packages are not imported, which could take seconds.
    """
    folders = []
    for point in entry_points(group=ENTRY_POINTS):
        package, *below = point.value.partition(":")[0].strip().split(".")
        spec, name = find_spec(package) if package else None, point.dist.name if point.dist else point.name
        places = [Path(place, *below) for place in (spec.submodule_search_locations if spec else None) or ()]
        if (place := next(filter(Path.is_dir, places), None)) is None:
            must = f"must be a package that can be found, got {point.value!r}: type pip uninstall {name}"
            raise ValueError(f"{ENTRY_POINTS} of {name} {must}")
        folders.append(ChoiceFolder(place, f"the package {name}", package))
    return tuple(folders)
