"""The choices of every group and their settings, read from the YAML files alone.

Hydra is not imported, so that `ol2r list`, shell completion and error messages are fast.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from ol2r_cli.config.overrides import as_typed, translate
from ol2r_cli.formatting import nearest

RECIPES = ("reproduce", "benchmark")  # folders of configs/ that are no groups of choices
MEASURE = "measure"  # the group of which several choices are taken at once, by the list `measures`

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_SETTINGS = ("_target_", "defaults", "hydra")


def config_dir() -> Path:
    """Return the folder configs/ of this code: inside an installed package, beside the package in a checkout."""
    package = Path(__file__).parents[1]
    beside = package.parent / "configs"
    # A checkout first: an editable install leaves a stale copy of configs/ elsewhere, never here.
    return (
        beside
        if (beside / "run.yaml").exists() and (package.parent / "pyproject.toml").exists()
        else package / "configs"
    )


@dataclass(frozen=True)
class Setting:
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
        lines = []
        for line in self.path.read_text().splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# "))
        return [line for line in lines if not line.startswith("@package")] or [""]

    @cached_property
    def content(self) -> dict[str, Any]:
        """Return the content of the file."""
        try:
            content = yaml.load(self.path.read_text(), _Loader)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).replace('in "<unicode string>", ', "").split())
            raise ValueError(f"{self.path} must be YAML: {reason}") from None
        if not isinstance(content, dict | None):
            raise ValueError(f"{self.path} must be lines `setting: value`, got {content!r}")
        return content or {}

    @property
    def folder(self) -> Path:
        """Return the folder of choices in which the file is: configs/, or one of the user's."""
        return self.path.parents[self.group.count("/") + 1]

    @property
    def node(self) -> str:
        """Return the node of its settings: `ranker.model` for a choice of the group `ranker/model`."""
        return self.group.replace("/", ".")

    @property
    def values(self) -> dict[str, Any]:
        """Its settings, with their defaults."""
        return {str(key): value for key, value in self.content.items() if key not in _NO_SETTINGS}

    @cached_property
    def settings(self) -> list[Setting]:
        """Its settings with their comments, in the order of the file."""
        if not self.values:
            return []
        text = self.path.read_text()
        lines = text.splitlines()
        pairs = yaml.compose(text, _Loader).value
        return [
            Setting(key.value, _written(value, text), _comment(lines, key, value))
            for key, value in pairs
            if key.value not in _NO_SETTINGS
        ]

    @cached_property
    def brings(self) -> dict[str, str]:
        """Return the choices of other groups in its `defaults` list, by group."""
        entries = defaults_list(self.content, self.group)
        return {group: name for group, name in entries if name and group != self.group}

    @cached_property
    def parents(self) -> list[str]:
        """Return the choices of its own group in its `defaults` list, whose settings it inherits."""
        return [item for item in self.content.get("defaults") or () if isinstance(item, str) and item != "_self_"]


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


def _written(value: yaml.Node, text: str) -> str:
    if isinstance(value, yaml.ScalarNode) or value.flow_style:
        return " ".join(text[value.start_mark.index : value.end_mark.index].split())
    plain = yaml.load(yaml.serialize(value), _Loader)
    return " ".join(yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=10**6).split())


def _comment(lines: Sequence[str], key: yaml.Node, value: yaml.Node) -> str:
    """Return the comment after the value, or after the key of a value that is written on several lines."""
    on_one_line = isinstance(value, yaml.ScalarNode) or value.flow_style
    end = value.end_mark if on_one_line and value.end_mark.line >= key.end_mark.line else key.end_mark
    match = re.search(r"#\s*(.*)", lines[end.line][end.column :]) if end.line < len(lines) else None
    return match[1].strip() if match else ""


class Catalogue:
    """All choices by group, in the order of run.yaml. `own` are folders with the user's choices (`own_choices.py`).

    A group below another one, such as `ranker/model`, is a part of those of its choices that have it in their defaults.
    A file of the user must not have the name of another choice: `collisions` has such files, each with the other one.
    """

    def __init__(self, own: Sequence[Path] = ()):
        self.root = Choice("", "run", config_dir() / "run.yaml")
        self.defaults = dict(defaults_list(self.root.content))
        self.choices: dict[str, dict[str, Choice]] = {group: {} for group in self.defaults}
        self.collisions: list[tuple[Path, Path]] = []
        for folder in (config_dir(), *own):
            for path in _yaml_files(folder):
                self._add(path.parent.relative_to(folder).as_posix(), path)
        groups = [*self.choices]  # a part, such as ranker/model, comes after the group above it
        places = {
            group: groups.index(above if (above := group.partition("/")[0]) in groups else group) for group in groups
        }
        self.choices = {group: self.choices[group] for group in sorted(groups, key=places.__getitem__)}

    def _add(self, group: str, path: Path) -> None:
        if group == "." or group.partition("/")[0] in RECIPES:
            return
        choice = self.choices.setdefault(group, {}).setdefault(path.stem, Choice(group, path.stem, path))
        if choice.path != path:
            self.collisions.append((path, choice.path))

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
        for each in self._lineage(choice):
            for setting in each.settings:
                inherited = settings.get(setting.name, setting)
                settings[setting.name] = Setting(setting.name, setting.default, setting.comment or inherited.comment)
        return list(settings.values())

    def values(self, choice: Choice) -> dict[str, Any]:
        """Return the default values of a choice, inherited ones included."""
        return {name: value for each in self._lineage(choice) for name, value in each.values.items()}

    def brings(self, choice: Choice) -> dict[str, str]:
        """Return the choices of other groups in its defaults, inherited ones included."""
        return {group: name for each in self._lineage(choice) for group, name in each.brings.items()}

    def _lineage(self, choice: Choice) -> list[Choice]:
        """Return the choices from which a choice inherits, and itself as the last, which decides."""
        known = self.choices.get(choice.group, {})
        parents = [known[name] for name in choice.parents if name in known and name != choice.name]
        return [*(each for parent in parents for each in self._lineage(parent)), choice]

    def chosen(self, overrides: Sequence[str]) -> dict[str, str | None]:
        """The choice of every group under these overrides: of a list the first value, of several overrides the last."""
        typed = dict(re.findall(r"^([\w/]+)=(\w+)", "\n".join(translate(list(overrides))), re.MULTILINE))
        typed = {group: name for group, name in typed.items() if group in self.choices}
        preset = self._brought("experiment", typed.get("experiment", self.defaults.get("experiment")))
        ranker = self._brought("ranker", {**self.defaults, **preset, **typed}.get("ranker"))
        chosen = {**self.defaults, **ranker, **preset, **typed}  # the later one decides
        return {group: name for group, name in chosen.items() if group in ranker or group not in self.parts}

    def _brought(self, group: str, name: str | None) -> dict[str, str]:
        choice = self.choices.get(group, {}).get(name or "")
        return self.brings(choice) if choice else {}

    def tree(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return all settings under these overrides, nested as they are typed, with their defaults."""
        tree: dict[str, Any] = dict(self.root.values)
        for group, name in self.chosen(overrides).items():
            choice = self.choices.get(group, {}).get(name or "")
            if choice and group != "experiment":
                *above, last = group.split("/")
                node = tree
                for key in above:  # what a choice is part of stands before it
                    node = node[key]
                node[last] = self.values(choice)
        return tree


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


def dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested settings with their name on the command line: (`dataset.queries.train`, 300)."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def measure_nodes(
    settings: Mapping[str, Any], catalogue: Catalogue, typed: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the settings of every measure that is taken, by its name in the list; `name@5` sets its `cutoff` to 5.

    `typed` has other settings, such as {"measure.ndcg.discount": 1}, of all measures of the list with this name.

    A list that the user types takes what it names. The default list takes `regret` only with trace_regret=true, which
    adds it to every list, because it makes a round slower; trace_blocks=false leaves out `blocks`. ValueError for a
    name that is no measure, for one that is there twice, and for a setting that no measure of the list has.
    """
    listed, known = settings["measures"], catalogue.choices[MEASURE]
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not all(isinstance(n, str) for n in listed):
        raise ValueError(f"measures must be a list of names, such as [ndcg,err@5], got {listed!r}")
    names = list(listed)
    if settings["trace_regret"] and "regret" not in names:
        names.append("regret")
    elif not settings["trace_regret"] and names == catalogue.root.values["measures"]:
        names.remove("regret")
    if not settings["trace_blocks"] and "blocks" in names:
        names.remove("blocks")
    nodes: dict[str, dict[str, Any]] = {}
    for name in names:
        plain, _, cutoff = name.partition("@")
        if plain not in known:
            advice = nearest(plain, known)
            raise ValueError(f"measures must be some of {', '.join(known)}, got '{name}'{advice}")
        node = {"_target_": known[plain].content.get("_target_"), **catalogue.values(known[plain])}
        if plain != name:
            if "cutoff" not in node:
                raise ValueError(f"measures must have {plain} without a number, got '{name}': it has no cutoff")
            if not re.fullmatch(r"[1-9]\d{0,5}", cutoff):
                raise ValueError(f"measures must have a whole number above 0 behind @, as in {plain}@5, got '{name}'")
            node["cutoff"] = int(cutoff)
        if name in nodes:
            raise ValueError(f"measures must have each name once, got '{name}' twice")
        nodes[name] = node
    for key, value in typed.items():
        _, plain, setting = f"{key}..".split(".")[:3]
        having = [node for name, node in nodes.items() if name.partition("@")[0] == plain and setting in node]
        if setting in ("", "_target_", "cutoff") or not having:
            usual = "type measures=[ndcg,err@5], or a setting as in measure.ndcg.discount=1"
            raise ValueError(f"{key} must be a setting of a measure in {as_typed(names)}, without its cutoff: {usual}")
        for node in having:
            node[setting] = value
    return nodes
