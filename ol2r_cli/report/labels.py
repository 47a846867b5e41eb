"""Names of groups from the choices and settings in which they differ, and the tasks in which they are compared."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.finished_run import CODE, IGNORED, RECORDING, default_settings
from ol2r_cli.report.run_filter import is_typed
from ol2r_cli.report.run_groups import FINGERPRINT, Group

PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
_NO_OVERRIDES = (FINGERPRINT, "results_version", CODE)  # settings, or how their names end
_OUTSIDE_TASK = RECORDING | {"device.dtype", "device.engine"}  # what is recorded, and how numbers are rounded


class Labels:
    """Names that distinguish all of the given groups.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names for figures, which otherwise derive the shortest name from the settings.
    """

    def __init__(self, groups: Sequence[Group], called: Mapping[Group, str] | None = None):
        self.called = called or {}
        names = dict.fromkeys(name for group in groups for name in group.settings)
        self._column = {name: column for column, name in enumerate(sorted(names, key=_part_rank))}
        self._differing = {
            (part, *choice): _differing(alike, part)
            for part in (*PARTS, "")
            for choice, alike in _by_choice(groups, part).items()
        }
        self._several = {
            (part, *ranker)
            for part in ("ranker/model", "exploration", "fairness")
            for ranker, alike in _by_choice(groups, "ranker").items()
            if len(_by_choice(alike, part)) > 1
        }
        self._short = _short_names({name for group in groups for name in self.settings(group)})
        self._taken = Counter(map(self._brief, groups))

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish this group from others with the same choices, by dotted name."""
        names: set[str] = set()
        for part in (*PARTS, ""):
            names |= self._differing[part, group.choices.get(part, "")]
        names = {name for name in names & group.settings.keys() if name in _typed(group) or not _follows(group, name)}
        return {name: group.settings[name] for name in sorted(names, key=self._column.__getitem__)}

    def ranker(self, group: Group) -> str:
        """The ranker; with its model, exploration and fairness where the ranker occurs with several."""
        ranker = group.choices["ranker"]
        parts = [part for part in PARTS if (part, ranker) in self._several]
        return " ".join([ranker, *(f"{part}={group.choices.get(part, '')}" for part in parts)])

    def short(self, group: Group) -> str:
        """Its settings as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous.

        Without defaults that no run typed, unless another group with these choices then looks the same.
        """
        brief = self._brief(group)
        return brief[-1] if self._taken[brief] < 2 else self._text(self.settings(group))

    def _brief(self, group: Group) -> tuple[Any, ...]:
        """The choices and the short settings of a group."""
        typed, defaults = _typed(group), default_settings(group.choices, group.settings)
        settings = self.settings(group).items()
        shown = {name: value for name, value in settings if name in typed or defaults.get(name, ...) != value}
        return *sorted(group.choices.items()), self._text(shown)

    def _text(self, settings: Mapping[str, Any]) -> str:
        return " ".join(f"{self._short[name]}={as_typed(value)}" for name, value in settings.items())

    def overrides(self, group: Group) -> str:
        """Choices and settings as overrides for `ol2r run`, quoted for a shell."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        choices = {part: name for part, name in choices.items() if name != "none" or part not in ("fairness", "intent")}
        settings = {
            name: as_typed(value) for name, value in self.settings(group).items() if not name.endswith(_NO_OVERRIDES)
        }
        return shlex.join(f"{name}={value}" for name, value in {**choices, **settings}.items())

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """A key from the settings for which `counts` is true, in the order of the columns; numbers by size."""
        settings = self.settings(group).items()
        return [(self._column[name], _sortable(value)) for name, value in settings if counts(name)]


@cache
def part_of(setting: str) -> str:
    """The part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def _part_rank(setting: str) -> int:
    return (*PARTS, "").index(part_of(setting))


def _by_choice(groups: Iterable[Group], *parts: str) -> dict[tuple[str, ...], list[Group]]:
    """Groups by their choices for these parts."""
    members: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        members.setdefault(tuple(group.choices.get(part, "") for part in parts), []).append(group)
    return members


def _differing(alike: Sequence[Group], part: str) -> frozenset[str]:
    """Settings of a part that differ among these groups, or that some of them lack."""
    names = {name for group in alike for name in group.settings if part_of(name) == part}
    return frozenset(
        name
        for name in names
        if len({as_typed(group.settings[name]) if name in group.settings else "" for group in alike}) > 1
    )


def _typed(group: Group) -> set[str]:
    return {name for run in group.runs for name in run.typed}


def _follows(group: Group, name: str) -> bool:
    """Whether a setting of the exploration equals the ranker's of the same name."""
    part, _, rest = name.partition(".")
    return part == "exploration" and group.settings.get(f"ranker.{rest}", ...) == group.settings[name]


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Names without their part, unless two settings, or one of the run, would have the same short name."""
    short = {name: name.partition(".")[2] if part_of(name) else name for name in names}
    taken = [*short.values(), *IGNORED]
    return {name: name if part_of(name) and taken.count(brief) > 1 else brief for name, brief in short.items()}


def _sortable(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float)
    return (0, value, "") if number else (1, 0, as_typed(value))


def defines_task(setting: str) -> bool:
    """Whether different values of a setting are different tasks, instead of competitors in one task."""
    return setting not in _OUTSIDE_TASK and part_of(setting) in ("dataset", "click", "intent", "")


def tasks(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups of each task, in the given order. A task is a dataset, a click model and settings of the run."""
    members: dict[str, list[Group]] = {}
    for group in groups:
        settings = {name: value for name, value in group.settings.items() if defines_task(name)}
        choices = [group.choices.get(part, "none") for part in ("dataset", "click", "intent")]
        key = json.dumps([choices, settings], sort_keys=True, default=str)
        members.setdefault(key, []).append(group)
    return list(members.values())


def task_name(group: Group, labels: Labels) -> str:
    """The task of a group as overrides, as far as tasks differ: dataset=mq2008 click=perfect rounds=500."""
    settings = {name: value for name, value in labels.settings(group).items() if defines_task(name)}
    choices = {part: group.choices[part] for part in ("dataset", "click")}
    if group.choices.get("intent", "none") != "none":
        choices["intent"] = group.choices["intent"]
    return " ".join(f"{name}={as_typed(value)}" for name, value in {**choices, **settings}.items())


def find_baseline(words: str, task: Sequence[Group], labels: Labels) -> Group | None:
    """The only group of a task that matches `words`; None where no group does; ValueError where several do.

    words: the name of a ranker, or choices and settings (`ranker=pairrank ranker.l2=0.1`), separated by spaces.
    """
    wanted = dict(_name_and_value(word) for word in words.split())
    matching = [group for group in task if all(_matches(group, name, value) for name, value in wanted.items())]
    if len(matching) > 1:
        more = f"--baseline '{words} {_distinguishing(matching, labels)}'"
        raise ValueError(
            f"--baseline must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: add what distinguishes them, such as {more}"
        )
    return matching[0] if matching else None


def _name_and_value(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    return (name, value) if equals else ("ranker", word)


def _matches(group: Group, name: str, typed: str) -> bool:
    if name in PARTS:
        return group.choices.get(name) == typed
    return name in group.settings and is_typed(group.settings[name], typed)


def _distinguishing(groups: Sequence[Group], labels: Labels) -> str:
    """An override that matches the first group and not all others."""
    first, *others = (_choices_and_settings(group, labels) for group in groups)
    return next((f"{name}={value}" for name, value in first.items() if any(o.get(name) != value for o in others)), "")


def _choices_and_settings(group: Group, labels: Labels) -> Mapping[str, str]:
    choices = {part: group.choices[part] for part in PARTS if part in group.choices}
    return choices | {name: as_typed(value) for name, value in labels.settings(group).items()}
