"""The choices of every group and their settings, read from YAML files alone.

Hydra is not imported, so that `ol2r list`, shell completion and error messages are fast. Where the user's own choices
are is said in own_choices.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ol2r_cli.config.overrides import full_names
from ol2r_cli.plugins import added_lines
from ol2r_cli.text.formatting import one_line

RECIPES = ("reproduce", "benchmark")  # folders of configs/ that are no groups of choices
MEASURE = "measure"  # the group of which several choices are taken at once, by the list `measures`
ROLES = ("ranker", "click", "exploration", "fairness", "measure", "intent", "dataset")  # `ol2r new` writes a choice of

_NO_SETTINGS = ("_target_", "defaults", "hydra")


def config_dir() -> Path:
    """Return the folder configs/ of this code: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).parents[1]
    beside = package.parent / "configs"
    # A checkout first: an editable install leaves a stale copy of configs/ elsewhere, never here.
    is_checkout = (beside / "run.yaml").exists() and (package.parent / "pyproject.toml").exists()
    return beside if is_checkout else package / "configs"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML as Hydra does: 1e-3 is a number, and a date is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if not tag.endswith(":timestamp")]
    for first, forms in _Loader.yaml_implicit_resolvers.items()
}
_EXPONENT = re.compile(r"[-+]?\d[\d_]*(\.[\d_]*)?[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


class Setting(NamedTuple):
    """One line of a YAML file: its name (`l2`), its default as the file writes it, and the comment behind it."""

    name: str
    default: str
    comment: str


@dataclass(frozen=True)
class Choice:
    """One YAML file, read when it is first used; ValueError, which names the file, when it is not a YAML mapping.

    siblings: the choices of its group, from which it may inherit. added: lines of plug-ins behind those of the file.
    """

    group: str
    name: str
    path: Path
    siblings: Mapping[str, Choice] = field(default_factory=dict, repr=False, compare=False)
    added: str = ""

    def text(self) -> str:
        """Return the text of the file, with what is added to it."""
        return self.path.read_text(encoding="utf-8") + self.added

    @cached_property
    def header(self) -> list[str]:
        """Return the comment lines at the top: what the choice is, and its paper."""
        lines = takewhile(lambda line: line.startswith("#"), self.text().splitlines())
        return [line.lstrip("# ") for line in lines if "@package" not in line] or [""]

    @cached_property
    def content(self) -> dict[str, Any]:
        """Return the content of the file."""
        try:
            content = yaml.load(self.text(), _Loader)
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
    def comes_along(self) -> bool:
        """Whether it is part of ol2r rather than of the user's folders."""
        return self.path.is_relative_to(config_dir())

    @cached_property
    def lineage(self) -> list[Choice]:
        """Return the choices from which it inherits, and itself as the last, which decides; ValueError for a circle."""
        lineage: list[Choice] = []
        try:
            for name in self.content.get("defaults") or ():
                if isinstance(name, str) and name in self.siblings:
                    lineage += self.siblings[name].lineage
        except RecursionError:
            raise ValueError(circle(self.siblings.values())) from None
        return [*lineage, self]

    @property
    def values(self) -> dict[str, Any]:
        """Return its settings, with their defaults, inherited ones included."""
        values: dict[str, Any] = {}
        for choice in self.lineage:
            values |= {str(key): value for key, value in choice.content.items() if key not in _NO_SETTINGS}
        return values

    @property
    def settings(self) -> list[Setting]:
        """Return its settings with their comments, after those that it inherits; those in a block behind the block."""
        settings: dict[str, Setting] = {}
        for choice in self.lineage:
            for setting in choice.written_settings():
                inherited = settings.get(setting.name, setting)
                settings[setting.name] = setting._replace(comment=setting.comment or inherited.comment)
        blocks = list(dict.fromkeys(name.partition(".")[0] for name in settings))
        return sorted(settings.values(), key=lambda setting: blocks.index(setting.name.partition(".")[0]))

    def written_settings(self) -> list[Setting]:
        """Return the settings in its own file, in their order; behind a block of settings those with a comment."""
        text = self.text()
        return list(_written(text, yaml.compose(text, _Loader), self.content)) if self.content else []

    @property
    def grid(self) -> dict[str, Any]:
        """Return the values that a preset sweeps, by setting; empty for a preset that is one experiment."""
        return dict(self.content.get("hydra", {}).get("sweeper", {}).get("params", {}))

    @property
    def brings(self) -> dict[str, str]:
        """Return the choices of other groups in its `defaults` list, inherited ones included, by group."""
        brings: dict[str, str] = {}
        for choice in self.lineage:
            entries = defaults_list(choice.content, self.group)
            brings |= {group: name for group, name in entries if name and group != self.group}
        return brings


def _written(text: str, block: yaml.MappingNode, content: Mapping[Any, Any], prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a block of a YAML file, whose content is known; those within it have dotted names."""
    lines = [*text.splitlines(), ""]
    by_name = {str(name): value for name, value in content.items()}
    for key, value in block.value:
        if not prefix and key.value in _NO_SETTINGS:
            continue
        end = key.end_mark  # behind which is the comment, or behind the value where that is on one line
        if isinstance(value, yaml.ScalarNode) or value.flow_style:
            default = " ".join(text[value.start_mark.index : value.end_mark.index].split())
            end = max(end, value.end_mark, key=lambda mark: (mark.line, mark.column))
        else:
            default = yaml.safe_dump(
                by_name.get(key.value), default_flow_style=True, sort_keys=False, width=10**6
            ).strip()
        comment = re.search(r"#\s*(.*)", lines[end.line][end.column :])
        yield Setting(f"{prefix}{key.value}", default, comment[1].strip() if comment else "")
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            within = _written(text, value, by_name.get(key.value) or {}, f"{prefix}{key.value}.")
            yield from (setting for setting in within if setting.comment)


def defaults_list(content: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield (group, choice) of the entries `group: choice` and `override /group@package: choice` of a defaults list.

    A group without a leading slash is below the group of the file: `model` means `ranker/model`.
    """
    below = f"{group}/" if group else ""
    for entry in content.get("defaults") or ():
        for key, name in entry.items() if isinstance(entry, dict) else ():
            match = re.fullmatch(r"(?:override |optional )*(/?)([\w/]+)(?:@\S+)?", key)
            if match and not match[2].startswith("hydra/"):
                yield match[2] if match[1] else below + match[2], name


def circle(choices: Iterable[Choice]) -> str:
    """Return the message for choices that list each other in their defaults, of which one is among `choices`."""
    listed: dict[str, list[str]] = {}
    for choice in choices:
        inherited = [(choice.group, name) for name in choice.content.get("defaults") or () if isinstance(name, str)]
        entries = [*inherited, *defaults_list(choice.content, choice.group)]
        listed[f"{choice.group}={choice.name}"] = [f"{group}={name}" for group, name in entries]
    try:
        TopologicalSorter(listed).prepare()
    except CycleError as error:
        return f"defaults of a file must not lead back to it: {' lists '.join(reversed(error.args[1]))}"
    return "defaults of a file must not lead back to it"


def targets(settings: Any, part: str = "") -> Iterator[tuple[str, str]]:
    """Yield every `_target_` in nested settings, behind the part that it makes: (`ranker.model`, its class)."""
    if isinstance(settings, Mapping):
        if isinstance(target := settings.get("_target_"), str):
            yield part, target
        inner: Iterable[tuple[Any, Any]] = settings.items()
    else:
        inner = enumerate(settings) if isinstance(settings, list | tuple) else ()
    for name, value in inner:
        yield from targets(value, f"{part}.{name}" if part else str(name))


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
        if root == "run":
            self.root = replace(self.root, added="".join(f"{line}\n" for line in added_lines().values()))
        self.defaults = dict(defaults_list(self.root.content))
        self.elsewhere: dict[str, str] = {}  # the groups that only other roots have, each with its root
        for name, other in roots.items():
            groups = [group for group, _ in defaults_list(other.content)]
            self.elsewhere |= {group: name for group in groups if group not in self.defaults}
        self.collisions: list[tuple[Path, Path]] = []
        self.choices = _with_parts_behind(self._read([config_dir(), *own]))

    def _read(self, folders: Iterable[Path]) -> dict[str, dict[str, Choice]]:
        """Return the choices in some folders, by group and name; of a name that is there twice the first."""
        choices: dict[str, dict[str, Choice]] = {group: {} for group in self.defaults}
        for folder in folders:
            for path in _yaml_files(folder):
                group = path.parent.relative_to(folder).as_posix()
                if self._has_group(group):
                    siblings = choices.setdefault(group, {})
                    choice = siblings.setdefault(path.stem, Choice(group, path.stem, path, siblings))
                    if choice.path != path:
                        self.collisions.append((path, choice.path))
        return choices

    def _has_group(self, group: str) -> bool:
        """Return whether files in a folder of this name are choices of the root."""
        top = group.partition("/")[0]
        if group == "." or top in RECIPES:
            return False
        return top in self.defaults or (self.root.name == "run" and top not in self.elsewhere)

    @property
    def groups(self) -> list[str]:
        """Return the groups of an experiment, without those of Hydra."""
        return [group for group in self.choices if group.partition("/")[0] != "hydra"]

    @property
    def parts(self) -> list[str]:
        """Return the groups below those of run.yaml."""
        return [group for group in self.choices if "/" in group and group.partition("/")[0] in self.defaults]

    def about(self, group: str) -> str:
        """Return what the choices of a group are for: the comment behind it in the `defaults` of the root, or of a
        choice that it is part of; empty for a group that no file explains."""
        if group == MEASURE:
            return next((comment for name, _, comment in self.root.settings if name == "measures"), "")
        above, _, name = group.rpartition("/")
        files = self.choices.get(above, {}).values() if above else [self.root]
        found = (re.search(rf"^  - {re.escape(name)}: .*?# (.+)", file.text(), re.MULTILINE) for file in files)
        return next((match[1] for match in found if match), "")

    def chosen(self, overrides: Sequence[str]) -> dict[str, str | None]:
        """Return the choice of each group under overrides: of a list the first value, of several overrides the last."""
        named = "\n".join(full_names(overrides, self.choices))
        typed = dict(re.findall(r"^([\w/]+)='?([\w.-]+)", named, re.MULTILINE))
        typed = {group: name for group, name in typed.items() if group in self.choices}
        preset = self._brought_by("experiment", self.defaults | typed)
        ranker = self._brought_by("ranker", self.defaults | preset | typed)
        chosen = {**self.defaults, **ranker, **preset, **typed}  # the later one decides
        return {group: name for group, name in chosen.items() if group in ranker or group not in self.parts}

    def _brought_by(self, group: str, chosen: Mapping[str, str | None]) -> dict[str, str]:
        """Return the choices of other groups that come with the one that is chosen of a group."""
        choice = self.choices.get(group, {}).get(chosen.get(group) or "")
        return choice.brings if choice else {}

    def tree(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return all settings under these overrides, nested as they are typed, with their defaults."""
        tree: dict[str, Any] = dict(self.root.values)
        for group, name in self.chosen(overrides).items():
            choice = self.choices.get(group, {}).get(name or "")
            if choice and group != "experiment":
                *above, last = group.split("/")
                node = tree
                for part in above:  # what a choice is part of stands before it
                    node = node[part]
                node[last] = choice.values
        return tree


def _with_parts_behind(choices: Mapping[str, dict[str, Choice]]) -> dict[str, dict[str, Choice]]:
    """Return groups in their order, but those below one, such as `ranker/model`, directly behind it."""
    top_of = {group: group.partition("/")[0] for group in choices}
    tops = list(dict.fromkeys(top_of.values()))
    return {group: choices[group] for group in sorted(choices, key=lambda group: (tops.index(top_of[group]), group))}


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
