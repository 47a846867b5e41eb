"""What groups are called in tables, by the words of `ol2r run`, and which tasks they share; `legend.py` has figures."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import nearest
from ol2r_cli.report.finished_run import AS_EXPERIMENT, CODE, IGNORED, RECORDING, default_parts, default_settings
from ol2r_cli.report.measures import METRICS
from ol2r_cli.report.run_groups import FINGERPRINT, Group, is_typed

PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
NAMED_PARTS = ("ranker/model", "exploration", "fairness")  # a name has those that its ranker does not bring
ROUNDING = ("device.dtype",)
CLICKS = ("perfect", "navigational", "informational")  # in the order of the papers


class Labels:
    """Names that distinguish all of the given groups by the choices and settings in which they differ.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names, in place of the ranker with its parts; with `one_row_each` each must be the name
    of one row of a panel, as of `--name`, where recipes give one name to all rows of a competitor.
    """

    def __init__(self, groups: Sequence[Group], called: Mapping[Group, str] | None = None, one_row_each: bool = False):
        self.called, self.one_row_each = called or {}, one_row_each
        order = (*PARTS, "")
        names = dict.fromkeys(name for group in groups for name in group.settings)
        self._column = {n: column for column, n in enumerate(sorted(names, key=lambda n: order.index(part_of(n))))}
        self._parts = named_parts(groups)
        self._settings = _distinguishing(groups, list(self._column))
        self._told = _without_defaults(self._settings)
        self._words = _brief({name for settings in self._settings.values() for name in settings})

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish this group from others with the same choices, by dotted name."""
        return self._settings[group]

    def told(self, group: Group) -> dict[str, Any]:
        """The settings that its name has: without defaults that no run typed, and without nulls that are defaults.

        So a default that was typed for one click model only is in the names for all of them.
        They are there where another group with the same choices would look the same without them.
        """
        return self._told[group]

    def parts(self, group: Group) -> dict[str, str]:
        """Its model, exploration and fairness, as far as they are not those that come with its ranker."""
        return self._parts[group]

    def ranker(self, group: Group) -> str:
        """Its fixed name; otherwise the ranker, with the parts that do not come with it."""
        parts = (f"{part}={choice}" for part, choice in self.parts(group).items())
        return self.called.get(group) or " ".join([group.choices["ranker"], *parts])

    def short(self, group: Group) -> str:
        """The settings of `told` as `l2=0.01 alpha=0.1`; with the part where the short name is ambiguous."""
        return " ".join(f"{self._words[name]}={as_typed(value)}" for name, value in self.told(group).items())

    def words(self, group: Group) -> dict[str, str]:
        """Its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings(group).items()}

    def overrides(self, group: Group) -> str:
        """Choices and settings as overrides for `ol2r run`, quoted for a shell."""
        names = {as_one: own for own, as_one in AS_EXPERIMENT.items()} if group.of_users else {}
        return shlex.join(
            f"{names.get(part := name.partition('.')[0], part)}{name[len(part) :]}={value}"
            for name, value in self.words(group).items()
            if (name, value) not in (("fairness", "none"), ("intent", "none"), ("click", "none"))
            and not name.endswith((FINGERPRINT, "results_version", CODE))
        )

    def sort_key(self, group: Group, counts: Callable[[str], bool]) -> list[Any]:
        """A key from the settings for which `counts` is true, in the order of the columns; numbers by size."""
        return [
            (self._column[name], (0, value, "") if isinstance(value, int | float) else (1, 0, as_typed(value)))
            for name, value in self.settings(group).items()
            if counts(name)
        ]

    def ordered(self, groups: Iterable[Group], metrics: Sequence[str] = ()) -> list[Group]:
        """Groups by dataset, click model and task; then the best first by the first metric if it is NDCG, or by name.

        Without metrics it is that of `METRICS`.
        """
        metric = (*metrics, METRICS[0])[0]

        def key(group: Group) -> tuple[object, ...]:
            estimate = group.estimate(metric) if "ndcg" in metric else None
            task = self.sort_key(group, defines_task)
            others = self.ranker(group), self.sort_key(group, lambda name: not defines_task(name))
            mean = (estimate is None, -estimate.mean if estimate else 0)
            return (group.choices["dataset"], click_order(group.choices["click"]), task, *mean, *others)

        return sorted(groups, key=key)


def click_order(click: str) -> tuple[int, str]:
    """A key that sorts click models: those of the papers in their order, then others by name."""
    return ([*CLICKS, click].index(click), click)


def named_parts(groups: Sequence[Group]) -> dict[Group, dict[str, str]]:
    """The model, exploration and fairness of each group that `ol2r run ranker=X` does not bring: its name has them.

    Which model and exploration a ranker of the user brings is not known here: its name has those that were typed, and
    those in which groups of this ranker differ.
    """
    occurring: dict[tuple[str, str], set[str]] = {}
    for group, part in product(groups, NAMED_PARTS):
        occurring.setdefault((group.choices["ranker"], part), set()).add(group.choices.get(part, ""))

    def is_named(group: Group, part: str) -> bool:
        ranker, choice = group.choices["ranker"], group.choices.get(part)
        default = default_parts(ranker).get(part)
        if choice is None or choice == default:
            return False
        is_typed = any(part in run.typed for run in group.runs)
        return default is not None or is_typed or len(occurring[ranker, part]) > 1

    return {group: {part: group.choices[part] for part in NAMED_PARTS if is_named(group, part)} for group in groups}


def _distinguishing(groups: Sequence[Group], names: Sequence[str]) -> dict[Group, dict[str, Any]]:
    """Those of the settings `names` that have several values among the groups with the same choice of their part."""
    values: dict[tuple[str, str], set[str]] = {}
    for group, name in product(groups, names):
        value = as_typed(group.settings[name]) if name in group.settings else ""
        values.setdefault((name, group.choices.get(part_of(name), "")), set()).add(value)

    def distinguishes(group: Group, name: str) -> bool:
        if name not in group.settings:
            return False
        is_copy = group.settings.get(name.replace("exploration.", "ranker."), ...) == group.settings[name]
        if name.startswith("exploration.") and is_copy and not _is_typed(group, name):
            return False
        return len(values[name, group.choices.get(part_of(name), "")]) > 1

    return {group: {name: group.settings[name] for name in names if distinguishes(group, name)} for group in groups}


def _without_defaults(settings: Mapping[Group, dict[str, Any]]) -> dict[Group, dict[str, Any]]:
    """The settings that `Labels.told` returns, of those that distinguish groups."""
    told: dict[Group, dict[str, Any]] = {}
    keys: dict[Group, str] = {}
    typed = {
        (name, group.choices.get(part_of(name)), as_typed(value))
        for group, of_group in settings.items()
        for name, value in of_group.items()
        if value is not None and _is_typed(group, name)
    }
    for group, of_group in settings.items():
        defaults = default_settings(group.choices, group.settings)
        told[group] = {
            name: value
            for name, value in of_group.items()
            if value != defaults.get(name, ...) or (name, group.choices.get(part_of(name)), as_typed(value)) in typed
        }
        keys[group] = json.dumps([group.choices, told[group]], sort_keys=True, default=str)
    count = Counter(keys.values())
    return {group: told[group] if count[keys[group]] == 1 else settings[group] for group in settings}


def _brief(names: Collection[str]) -> dict[str, str]:
    """Settings without their part, `l2` for ranker.l2, unless two of them, or one of the run, would be the same."""
    brief = {name: name.removeprefix(f"{name.partition('.')[0]}.") if part_of(name) else name for name in names}
    count = Counter([*brief.values(), *IGNORED])
    return {name: name if part_of(name) and count[short] > 1 else short for name, short in brief.items()}


def _is_typed(group: Group, name: str) -> bool:
    return any(name in run.typed for run in group.runs)


@cache
def part_of(setting: str) -> str:
    """The part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def defines_task(setting: str) -> bool:
    """Whether different values of a setting are different tasks, instead of competitors in one task.

    What is recorded makes no other task, and how numbers are rounded does not either.
    """
    return setting not in {*RECORDING, *ROUNDING} and part_of(setting) in ("dataset", "click", "intent", "")


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
    words = labels.words(group)
    names = [n for n in words if n in ("dataset", "click", "intent") or (n not in PARTS and defines_task(n))]
    return " ".join(f"{name}={words[name]}" for name in names if (name, words[name]) != ("intent", "none"))


def find_row(words: str, task: Sequence[Group], labels: Labels, option: str = "--baseline") -> Group | None:
    """The only group of a task that matches `words`; None where no group does; ValueError where several do.

    words: the name of a ranker, or choices and settings (`ranker=pairrank ranker.l2=0.1`), separated by spaces.
    """
    wanted = dict((word if "=" in word else f"ranker={word}").split("=", 1) for word in words.split())
    known = [(group, {**group.settings, **{part: group.choices.get(part) for part in PARTS}}) for group in task]
    matching = [
        group for group, has in known if all(name in has and is_typed(has[name], wanted[name]) for name in wanted)
    ]
    if len(matching) > 1:
        first, *others = map(labels.words, matching)
        distinguishing = (f"{n}={value}" for n, value in first.items() if any(o.get(n) != value for o in others))
        raise ValueError(
            f"{option} must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: add what distinguishes them, such as "
            f"{option} '{words} {next(distinguishing, '')}{'=NAME' * (option == '--name')}'"
        )
    return matching[0] if matching else None


def fixed_names(names: Mapping[str, str], groups: Sequence[Group], labels: Labels) -> dict[Group, str]:
    """The name of each group that words name, as `--name WORDS=NAME`: in every task of the row that matches them.

    names: by words. ValueError for words that match no row or several of a task, and where two rows of a task have one
    name.
    """
    named: dict[Group, str] = {}
    for words, name in names.items():
        rows = [find_row(words, task, labels, "--name") for task in tasks(groups)]
        if not any(rows):
            known = sorted({group.choices["ranker"] for group in groups})
            advice = nearest(words, known) or f": the rankers are {', '.join(known)}"
            raise ValueError(
                f"--name must begin with a ranker, or choices and settings, of some row, got {words}{advice}"
            )
        named |= {row: name for row in rows if row}
    for task in tasks(groups):
        count = Counter(named.get(group) or labels.ranker(group) for group in task)
        for name in {named[group] for group in task if group in named}:
            if count[name] > 1:
                raise ValueError(f"--name must give each row of a task another name, got {name} for {count[name]}")
    return named
