"""What groups are called in tables, in the words of `ol2r run`: the choices and settings in which they differ.

What they are called in figures is in `legend.py`.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.finished_run import IGNORED, default_parts, default_settings
from ol2r_cli.report.parts import NAMED_PARTS, PARTS, click_order, defines_task, part_of
from ol2r_cli.report.run_groups import FINGERPRINT, START_SEED, Group
from ol2r_cli.report.shown_metrics import METRICS
from ol2r_cli.run.run import CODE

_NO_CHOICES = {"fairness": "none", "intent": "none", "click": "none"}  # words that change nothing
_NOT_TYPED = (FINGERPRINT, START_SEED, "results_version", CODE)  # ends of settings that no command has


class Labels:
    """Names that distinguish all of the given groups by the choices and settings in which they differ.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names, in place of the ranker with its parts; with `one_row_each` each must be the name
    of one row of a panel, as of `--name`, where recipes give one name to all rows of a competitor. `rankers` are other
    names of rankers, by their choice. chosen: the settings that a selection chose, whose numbers differ from task to
    task.

    Of each group: parts: its model, exploration and fairness, as far as they are not those that come with its ranker.
    settings: those that distinguish it from others with the same choices, by dotted name. told: the settings that its
    name has, without defaults that no run typed, and nulls that are defaults. So a default that was typed for one click
    model only is in the names for all of them. They are there where another group with the same choices would look the
    same without them.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        called: Mapping[Group, str] | None = None,
        one_row_each: bool = False,
        rankers: Mapping[str, str] | None = None,
    ):
        self.called = called or {}
        self.rankers = rankers or {}
        self.one_row_each = one_row_each
        self.chosen: Collection[str] = ()
        names = _setting_names(groups)
        self._column = {name: column for column, name in enumerate(names)}
        self.parts = {group: _named_parts(group, groups) for group in groups}
        self.settings = _differing(groups, names)
        self.told = _without_defaults(self.settings)
        self._words = _brief(set().union(*self.settings.values()))

    def after_selection(self, chosen: Collection[str]) -> Labels:
        """Return the same labels, of groups that are what a selection left, which chose these settings."""
        labels = copy(self)
        labels.chosen = chosen
        return labels

    def ranker(self, group: Group) -> str:
        """Return its fixed name; otherwise the ranker, with the parts that do not come with it."""
        parts = [f"{part}={choice}" for part, choice in self.parts[group].items()]
        ranker = group.choices["ranker"]
        return self.called.get(group) or " ".join([self.rankers.get(ranker, ranker), *parts])

    def short(self, group: Group) -> str:
        """Return the settings of `told` as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous."""
        return " ".join(f"{self._words[name]}={as_typed(value)}" for name, value in self.told[group].items())

    def words(self, group: Group) -> dict[str, str]:
        """Return its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings[group].items()}

    def overrides(self, group: Group) -> str:
        """Return choices and settings as overrides for the command of its kind, quoted for a shell."""
        overrides = []
        for name, value in self.words(group).items():
            if _NO_CHOICES.get(name) == value or name.endswith(_NOT_TYPED):
                continue
            overrides.append(f"{group.kind.as_typed(name)}={value}")
        return shlex.join(overrides)

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """Return a key from the settings for which `counts` is true, in the order of columns; numbers by size."""
        return [(self._column[name], _by_size(value)) for name, value in self.settings[group].items() if counts(name)]

    def ordered(self, groups: Iterable[Group], metrics: Sequence[str] = ()) -> list[Group]:
        """Return groups by dataset, users and task; then the best first by the first metric if it is NDCG, or by name.

        Without metrics it is that of `METRICS`.
        """
        metric = metrics[0] if metrics else METRICS[0]

        def key(group: Group) -> tuple[object, ...]:
            estimate = group.estimate(metric) if "ndcg" in metric else None
            best_first = (0, -estimate.mean) if estimate else (1, 0)
            task = self.sort_key(group, defines_task)
            name = self.ranker(group), self.sort_key(group, lambda setting: not defines_task(setting))
            return (group.choices["dataset"], click_order(group.choices["click"]), task, *best_first, *name)

        return sorted(groups, key=key)


def _setting_names(groups: Iterable[Group]) -> list[str]:
    """Return the settings of all groups, in the order of their parts, those of the run last."""
    names = dict.fromkeys(chain(*(group.settings for group in groups)))
    order = (*PARTS, "")
    return sorted(names, key=lambda name: order.index(part_of(name)))


def _named_parts(group: Group, groups: Sequence[Group]) -> dict[str, str]:
    """Return its model, exploration and fairness that `ol2r run ranker=X` does not bring: its name has them.

    Which model and exploration a ranker of the user brings is not known here: its name has those that were typed, and
    those in which groups of this ranker differ.
    """
    ranker = group.choices["ranker"]
    defaults = default_parts(ranker)
    named = {}
    for part in NAMED_PARTS:
        choice = group.choices.get(part)
        if choice is None or choice == defaults.get(part):
            continue
        if defaults.get(part) is not None or is_typed_in(group, part) or _varies(part, ranker, groups):
            named[part] = choice
    return named


def _varies(part: str, ranker: str, groups: Iterable[Group]) -> bool:
    """Return whether groups of a ranker differ in the choice of a part."""
    return len({group.choices.get(part) for group in groups if group.choices["ranker"] == ranker}) > 1


def _differing(groups: Sequence[Group], names: Sequence[str]) -> dict[Group, dict[str, Any]]:
    """Return those of the settings `names` that have several values among groups with the same choice of their part.

    A group without the setting counts as a value.
    """
    values: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for name in names:
            value = as_typed(group.settings[name]) if name in group.settings else ""
            values.setdefault(_place(group, name), set()).add(value)

    def differs(group: Group, name: str) -> bool:
        return name in group.settings and len(values[_place(group, name)]) > 1 and not _follows_ranker(group, name)

    return {group: {name: group.settings[name] for name in names if differs(group, name)} for group in groups}


def _place(group: Group, name: str) -> tuple[str, str]:
    """Return a setting, and the group's choice of its part: groups with the same place are compared."""
    return name, group.choices.get(part_of(name), "")


def _follows_ranker(group: Group, name: str) -> bool:
    """Return whether a setting of the exploration was not typed, and has the value that it has for the ranker."""
    if not name.startswith("exploration.") or is_typed_in(group, name):
        return False
    return group.settings.get(name.replace("exploration.", "ranker."), ...) == group.settings[name]


def _without_defaults(settings: Mapping[Group, dict[str, Any]]) -> dict[Group, dict[str, Any]]:
    """Return the settings that `Labels.told` has, of those that distinguish groups."""
    typed = _typed_values(settings)
    told: dict[Group, dict[str, Any]] = {}
    for group, values in settings.items():
        defaults = default_settings(group.choices, group.settings)
        told[group] = {
            name: value
            for name, value in values.items()
            if value != defaults.get(name, ...) or (*_place(group, name), as_typed(value)) in typed
        }
    looks = {group: json.dumps([group.choices, told[group]], sort_keys=True, default=str) for group in told}
    count = Counter(looks.values())
    return {group: told[group] if count[looks[group]] == 1 else settings[group] for group in settings}


def _typed_values(settings: Mapping[Group, dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Return the settings that some run typed, each with its `_place` and value."""
    typed = set()
    for group, values in settings.items():
        for name, value in values.items():
            if value is not None and is_typed_in(group, name):
                typed.add((*_place(group, name), as_typed(value)))
    return typed


def _by_size(value: Any) -> tuple[int, float, str]:
    """Return a key that sorts values of a setting: numbers by size, before others as text."""
    return (0, value, "") if isinstance(value, int | float) else (1, 0, as_typed(value))


def _brief(names: Collection[str]) -> dict[str, str]:
    """Return settings without their part, `l2` for ranker.l2, unless two, or one of the run, would be the same."""
    brief = {name: name.removeprefix(f"{name.partition('.')[0]}.") if part_of(name) else name for name in names}
    count = Counter([*brief.values(), *IGNORED])
    return {name: name if part_of(name) and count[short] > 1 else short for name, short in brief.items()}


def is_typed_in(group: Group, name: str) -> bool:
    """Return whether the command of one of the group's runs has this choice or setting."""
    return any(name in run.typed for run in group.runs)
