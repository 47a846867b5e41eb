"""What tells the groups of a report apart: choices, and the settings in which groups with the same choice differ."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from ol2r_cli.report.groups import FINGERPRINT, Group
from ol2r_cli.report.override import text
from ol2r_cli.report.settings import NEVER_COUNT

PARTS = ("dataset", "click", "ranker", "ranker/model", "exploration", "fairness")
_NO_OVERRIDES = (FINGERPRINT, "results_version")


class Labels:
    """Names for groups, such that no two of these groups have the same.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, one of the run itself
    (`rounds`) among all. One of the exploration that merely follows the ranker's of the same name is left out.
    """

    def __init__(self, groups: Sequence[Group]):
        known = dict.fromkeys(name for group in groups for name in group.settings)
        self._place = {name: place for place, name in enumerate(sorted(known, key=_rank))}
        self._differing = {
            (part, *choice): _differing(alike, part)
            for part in (*PARTS, "")
            for choice, alike in _by(groups, part).items()
        }
        self._following = {choice: _following(alike) for choice, alike in _by(groups, "ranker", "exploration").items()}
        self._several = {
            (part, *ranker)
            for part in ("ranker/model", "exploration", "fairness")
            for ranker, alike in _by(groups, "ranker").items()
            if len(_by(alike, part)) > 1
        }
        self._short = _shortened({name for group in groups for name in self.settings(group)})

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that tell this group from others with the same choices, by dotted name."""
        names: set[str] = set()
        for part in (*PARTS, ""):
            names |= self._differing[part, group.choices.get(part, "")]
        names -= self._following[group.choices.get("ranker", ""), group.choices.get("exploration", "")]
        return {
            name: group.settings[name] for name in sorted(names & group.settings.keys(), key=self._place.__getitem__)
        }

    def ranker(self, group: Group) -> str:
        """The ranker; with its model, exploration and fairness where it occurs with several."""
        ranker = group.choices["ranker"]
        more = [part for part in PARTS if (part, ranker) in self._several]
        return " ".join([ranker, *(f"{part}={group.choices.get(part, '')}" for part in more)])

    def called(self, group: Group) -> str:
        """What a figure is to call it; empty where the figure finds the fewest words by itself."""
        return ""

    def short(self, group: Group) -> str:
        """Its settings as `l2=0.01 alpha=0.1`; with the part they are of where the name alone says too little."""
        return " ".join(f"{self._short[name]}={text(value)}" for name, value in self.settings(group).items())

    def overrides(self, group: Group) -> str:
        """Choices and settings as words for `ol2r run`, quoted for a shell."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        if choices.get("fairness") == "none":
            del choices["fairness"]
        typed = {name: text(value) for name, value in self.settings(group).items() if name not in _NO_OVERRIDES}
        return shlex.join(f"{name}={value}" for name, value in {**choices, **typed}.items())

    def order(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """A key to sort groups by those of their settings that count, in the order of the columns, numbers by size."""
        settings = self.settings(group).items()
        return [(self._place[name], _sortable(value)) for name, value in settings if counts(name)]


@cache
def part_of(setting: str) -> str:
    """The part a setting is of, `ranker/model` for ranker.model.width; '' for those of the run itself."""
    of = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(of, key=len, default="")


def _rank(setting: str) -> int:
    return (*PARTS, "").index(part_of(setting))


def _by(groups: Iterable[Group], *parts: str) -> dict[tuple[str, ...], list[Group]]:
    """Groups by what they chose for these parts."""
    found: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        found.setdefault(tuple(group.choices.get(part, "") for part in parts), []).append(group)
    return found


def _differing(alike: Sequence[Group], part: str) -> frozenset[str]:
    """Settings of a part that are not the same, or not there, in all of these groups."""
    names = {name for group in alike for name in group.settings if part_of(name) == part}
    return frozenset(
        name
        for name in names
        if len({text(group.settings[name]) if name in group.settings else "" for group in alike}) > 1
    )


def _following(alike: Sequence[Group]) -> frozenset[str]:
    """Settings of the exploration that equal the ranker's of the same name in all groups, and were not typed in any."""
    typed = {name for group in alike for run in group.runs for name in run.typed}
    pairs = {
        name: f"ranker.{name.partition('.')[2]}"
        for group in alike
        for name in group.settings
        if part_of(name) == "exploration" and not name.endswith("._target_")
    }
    return frozenset(
        name
        for name, fellow in pairs.items()
        if name not in typed
        and all(
            fellow in group.settings and name in group.settings and group.settings[fellow] == group.settings[name]
            for group in alike
        )
    )


def _shortened(names: Iterable[str]) -> dict[str, str]:
    """Names without the part they are of, but where that would be two settings, or one of the run itself."""
    short = {name: name.partition(".")[2] if part_of(name) else name for name in names}
    taken = [*short.values(), *NEVER_COUNT]
    return {name: name if part_of(name) and taken.count(brief) > 1 else brief for name, brief in short.items()}


def _sortable(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float)
    return (0, value, "") if number else (1, 0, text(value))
