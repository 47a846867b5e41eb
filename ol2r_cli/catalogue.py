"""What can be chosen and set, read from the YAML files alone.

Hydra is not imported, so that `ol2r list`, the shell's completion and error messages have it at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ol2r_cli.choice import Choice, Setting, defaults_list
from ol2r_cli.compose import RECIPES, config_dir, translate


class Catalogue:
    """All choices by group, in the order of run.yaml; `own` are folders of the user's (`--config-dir`).

    A group below another one, such as `ranker/model`, is a part of its choices: of those that bring it along.
    A file of the user's that has the name of a choice that comes with ol2r is ignored by Hydra: it is in `hidden`.
    Raises ValueError for a folder that does not exist.
    """

    def __init__(self, own: Sequence[Path] = ()):
        self.root = Choice("", "run", config_dir() / "run.yaml")
        self.defaults = dict(defaults_list(self.root.content))
        self.choices: dict[str, dict[str, Choice]] = {group: {} for group in self.defaults}
        self.hidden: list[Path] = []
        for folder in (config_dir(), *own):
            if not folder.is_dir():
                raise ValueError(f"--config-dir must be a folder, got {folder}, which does not exist")
            for path in sorted(folder.rglob("*.yaml")):
                self._add(path.parent.relative_to(folder).as_posix(), path)
        places = [*self.choices]
        self.choices = {group: self.choices[group] for group in sorted(places, key=lambda g: _place(g, places))}

    def _add(self, group: str, path: Path) -> None:
        if group == "." or group.partition("/")[0] == RECIPES:
            return
        choice = self.choices.setdefault(group, {}).setdefault(path.stem, Choice(group, path.stem, path))
        if choice.path != path:
            self.hidden.append(path)

    @property
    def groups(self) -> list[str]:
        """The groups an experiment is made of, without Hydra's own."""
        return [group for group in self.choices if group.partition("/")[0] != "hydra"]

    @property
    def parts(self) -> list[str]:
        """The groups below those of run.yaml."""
        return [group for group in self.choices if "/" in group and group.partition("/")[0] in self.defaults]

    def comes_along(self, choice: Choice) -> bool:
        """Whether a choice is part of ol2r, not the user's own."""
        return choice.path.is_relative_to(self.root.path.parent)

    def settings(self, choice: Choice) -> list[Setting]:
        """The settings of a choice, those of the choices it builds on first."""
        found: dict[str, Setting] = {}
        for parent in self._parents(choice):
            found |= {setting.name: setting for setting in self.settings(parent)}
        for setting in choice.settings:
            inherited = found.get(setting.name, setting)
            found[setting.name] = Setting(setting.name, setting.default, setting.comment or inherited.comment)
        return list(found.values())

    def values(self, choice: Choice) -> dict[str, Any]:
        """Likewise the defaults."""
        values: dict[str, Any] = {}
        for parent in self._parents(choice):
            values |= self.values(parent)
        return values | choice.values

    def brings(self, choice: Choice) -> dict[str, str]:
        """The choices of other groups that come with it, or with those it builds on."""
        brought: dict[str, str] = {}
        for parent in self._parents(choice):
            brought |= self.brings(parent)
        return brought | choice.brings

    def _parents(self, choice: Choice) -> list[Choice]:
        known = self.choices.get(choice.group, {})
        return [known[name] for name in choice.parents if name in known and name != choice.name]

    def chosen(self, overrides: Sequence[str]) -> dict[str, str | None]:
        """The choice of every group under these overrides: of a sweep's list the first, of several the last."""
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
        """All settings there are under these overrides, nested as they are typed, with their defaults."""
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


def _place(group: str, places: Sequence[str]) -> int:
    """Where it is listed: a part at the place of the group that it is below."""
    above = group.partition("/")[0]
    return places.index(above if above in places else group)


def dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested settings by their name on the command line: `dataset.queries.train`, 300."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
