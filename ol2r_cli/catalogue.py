"""What can be chosen and set, read from the YAML files alone.

Hydra is not imported, so that `ol2r list`, the shell's completion and error messages have it at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ol2r_cli.choice import Choice, Setting, defaults_list
from ol2r_cli.compose import config_dir, translate


class Catalogue:
    """All choices by group, in the order of run.yaml; `own` are folders of the user's (`--config-dir`).

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

    def _add(self, group: str, path: Path) -> None:
        if group == ".":
            return
        choice = self.choices.setdefault(group, {}).setdefault(path.stem, Choice(group, path.stem, path))
        if choice.path != path:
            self.hidden.append(path)

    @property
    def groups(self) -> list[str]:
        """The groups an experiment is made of, without Hydra's own."""
        return [group for group in self.choices if group.partition("/")[0] != "hydra"]

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

    def _parents(self, choice: Choice) -> list[Choice]:
        known = self.choices.get(choice.group, {})
        return [known[name] for name in choice.parents if name in known and name != choice.name]

    def chosen(self, overrides: Sequence[str]) -> dict[str, str | None]:
        """The choice of every group under these overrides: of a sweep's list the first, of several the last."""
        typed = dict(re.findall(r"^([\w/]+)=(\w+)", "\n".join(translate(list(overrides))), re.MULTILINE))
        typed = {group: name for group, name in typed.items() if group in self.choices}
        chosen = {**self.defaults, **typed}
        for group in ("ranker", "experiment"):  # the later one decides
            choice = self.choices.get(group, {}).get(chosen.get(group) or "")
            chosen |= choice.brings if choice else {}
        return {**chosen, **typed}

    def tree(self, overrides: Sequence[str]) -> dict[str, Any]:
        """All settings there are under these overrides, nested as they are typed, with their defaults."""
        tree: dict[str, Any] = dict(self.root.values)
        for group, name in self.chosen(overrides).items():
            choice = self.choices.get(group, {}).get(name or "")
            if choice and group != "experiment":
                tree[group] = self.values(choice)
        return tree


def dotted(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested settings by their name on the command line: `dataset.queries.train`, 300."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
