"""One choice, read from its YAML file alone: what it says of itself, its settings, and what it brings along."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_SETTINGS = ("_target_", "defaults", "hydra")


@dataclass(frozen=True)
class Setting:
    """One line of a YAML file: its name (`l2`), its default as the file writes it, and the comment behind it."""

    name: str
    default: str
    comment: str


@dataclass(frozen=True)
class Choice:
    """One YAML file. Raises ValueError, naming the file, when it is read and is not a YAML mapping."""

    group: str
    name: str
    path: Path

    @cached_property
    def header(self) -> list[str]:
        """The comment lines at the top: what it is, and the paper it comes from."""
        lines = []
        for line in self.path.read_text().splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# "))
        return [line for line in lines if not line.startswith("@package")] or [""]

    @cached_property
    def content(self) -> dict[str, Any]:
        """All that the file says."""
        try:
            content = yaml.load(self.path.read_text(), _Loader)
        except yaml.YAMLError as error:
            raise ValueError(f"{self.path} must be YAML: {' '.join(str(error).split())}") from None
        if not isinstance(content, dict | None):
            raise ValueError(f"{self.path} must be lines `setting: value`, got {content!r}")
        return content or {}

    @property
    def node(self) -> str:
        """Where its settings stand: `ranker.model` for a choice of the group `ranker/model`."""
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
        """Choices of other groups that come with this one, by its `defaults` list."""
        entries = defaults_list(self.content, self.group)
        return {group: name for group, name in entries if name and group != self.group}

    @cached_property
    def parents(self) -> list[str]:
        """Choices of its own group that it builds on, by its `defaults` list."""
        return [item for item in self.content.get("defaults") or () if isinstance(item, str) and item != "_self_"]


def defaults_list(content: Mapping[str, Any], group: str = "") -> Iterator[tuple[str, str | None]]:
    """(group, choice) of the entries `group: choice` and `override /group@package: choice` of a defaults list.

    Without a slash before it, a group is one below the `group` that the file is of: `model` is `ranker/model`.
    """
    below = f"{group}/" if group else ""
    for entry in content.get("defaults") or ():
        for key, name in entry.items() if isinstance(entry, dict) else ():
            found = re.fullmatch(r"(?:override |optional )*(/?)([\w/]+)(?:@\S+)?", key)
            if found and not found[2].startswith("hydra/"):
                yield found[2] if found[1] else below + found[2], name


def _written(value: yaml.Node, text: str) -> str:
    """A value on one line."""
    if isinstance(value, yaml.ScalarNode) or value.flow_style:
        return " ".join(text[value.start_mark.index : value.end_mark.index].split())
    plain = yaml.load(yaml.serialize(value), _Loader)
    return " ".join(yaml.safe_dump(plain, default_flow_style=True, sort_keys=False, width=10**6).split())


def _comment(lines: Sequence[str], key: yaml.Node, value: yaml.Node) -> str:
    """What stands behind `#` where the value ends, or behind the key of a value on lines of its own."""
    here = isinstance(value, yaml.ScalarNode) or value.flow_style
    end = value.end_mark if here and value.end_mark.line >= key.end_mark.line else key.end_mark
    found = re.search(r"#\s*(.*)", lines[end.line][end.column :]) if end.line < len(lines) else None
    return found[1].strip() if found else ""
