"""Names of groups in tables, with the words of `ol2r run`, and the tasks in which groups are compared."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.finished_run import CODE, IGNORED, RECORDING, default_settings
from ol2r_cli.report.measures import METRICS
from ol2r_cli.report.run_groups import FINGERPRINT, Group, is_typed

PARTS = ("dataset", "click", "intent", "ranker", "ranker/model", "exploration", "fairness")
ROUNDING = ("device.dtype", "device.engine")
_NO_OVERRIDES = (FINGERPRINT, "results_version", CODE)  # settings, or how their names end


class Labels:
    """Names that distinguish all of the given groups by the choices and settings in which they differ.

    A setting of a part (`ranker.l2`) is compared among groups with the same choice of that part, a setting of the run
    (`rounds`) among all groups. A setting of the exploration that only follows the ranker's setting of the same name is
    left out. `called` are fixed names for figures, which otherwise derive the shortest name from the settings.
    """

    def __init__(self, groups: Sequence[Group], called: Mapping[Group, str] | None = None):
        self.called = called or {}
        names = dict.fromkeys(name for group in groups for name in group.settings)
        parts = (*PARTS, "")
        self._column = {n: column for column, n in enumerate(sorted(names, key=lambda n: parts.index(part_of(n))))}
        alike: dict[tuple[str, str], list[Group]] = {}
        for part in parts:
            for group in groups:
                alike.setdefault((part, group.choices.get(part, "")), []).append(group)
        self._differing: dict[tuple[str, str], set[str]] = {}  # settings that differ, or that some groups lack
        for (part, choice), members in alike.items():
            of_part = {name for group in members for name in group.settings if part_of(name) == part}
            self._differing[part, choice] = {
                name
                for name in of_part
                if len({as_typed(g.settings[name]) if name in g.settings else "" for g in members}) > 1
            }
        self._several = several(groups, ("ranker/model", "exploration", "fairness"))
        # Names without their part, unless two settings, or one of the run, would have the same short name.
        differing = {name for group in groups for name in self.settings(group)}
        short = {name: name.partition(".")[2] if part_of(name) else name for name in differing}
        taken = [*short.values(), *IGNORED]
        self._short = {n: n if part_of(n) and taken.count(brief) > 1 else brief for n, brief in short.items()}
        self._taken = Counter(map(self._brief, groups))

    def settings(self, group: Group) -> dict[str, Any]:
        """The settings that distinguish this group from others with the same choices, by dotted name."""
        differing = {n for part in (*PARTS, "") for n in self._differing[part, group.choices.get(part, "")]}
        typed = _typed(group)
        names = [n for n in differing & group.settings.keys() if n in typed or not _follows(group, n)]
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

    def words(self, group: Group) -> dict[str, str]:
        """Its choices, and the settings that distinguish it, as they are typed."""
        choices = {part: group.choices[part] for part in PARTS if part in group.choices}
        return choices | {name: as_typed(value) for name, value in self.settings(group).items()}

    def overrides(self, group: Group) -> str:
        """Choices and settings as overrides for `ol2r run`, quoted for a shell."""
        absent = [(part, "none") for part in ("fairness", "intent")]
        words = [word for word in self.words(group).items() if word not in absent]
        return shlex.join(f"{name}={value}" for name, value in words if not name.endswith(_NO_OVERRIDES))

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
            other_settings = self.sort_key(group, lambda name: not defines_task(name))
            mean = (estimate is None, -estimate.mean if estimate else 0)
            return (group.choices["dataset"], group.choices["click"], task, *mean, self.ranker(group), other_settings)

        return sorted(groups, key=key)


@cache
def part_of(setting: str) -> str:
    """The part of a setting, `ranker/model` for ranker.model.width; empty for a setting of the run."""
    parts = [part for part in PARTS if setting.startswith(f"{part.replace('/', '.')}.")]
    return max(parts, key=len, default="")


def several(groups: Iterable[Group], parts: Sequence[str]) -> set[tuple[str, str]]:
    """(part, ranker) where a ranker occurs with several choices of a part."""
    choices = {(part, g.choices["ranker"], g.choices.get(part, "")) for g in groups for part in parts}
    count = Counter((part, ranker) for part, ranker, _ in choices)
    return {place for place in count if count[place] > 1}


def _typed(group: Group) -> set[str]:
    return {name for run in group.runs for name in run.typed}


def _follows(group: Group, name: str) -> bool:
    """Whether a setting of the exploration equals the ranker's of the same name."""
    part, _, rest = name.partition(".")
    return part == "exploration" and group.settings.get(f"ranker.{rest}", ...) == group.settings[name]


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


def find_baseline(words: str, task: Sequence[Group], labels: Labels) -> Group | None:
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
            f"--baseline must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: add what distinguishes them, such as "
            f"--baseline '{words} {next(distinguishing, '')}'"
        )
    return matching[0] if matching else None
