"""What makes two groups comparable: the same dataset, users and settings of the run. Which of them is the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import PARTS, Labels, part_of
from ol2r_cli.report.override import text

# Settings of the run that decide what is written down or how numbers are rounded, not what is to be learned.
_ON_THE_SIDE = {
    "evaluate_on",
    "trace_blocks",
    "trace_regret",
    "trace_cosine",
    "block_rounds",
    "save_interactions",
    "device.dtype",
}


def of_task(setting: str) -> bool:
    """Whether another value of this setting is another task, rather than another competitor in the same one."""
    return part_of(setting) in ("dataset", "click", "") and setting not in _ON_THE_SIDE


def tasks(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups of each task, in the order in which they come."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        settings = {name: value for name, value in group.settings.items() if of_task(name)}
        key = json.dumps([group.choices["dataset"], group.choices["click"], settings], sort_keys=True, default=str)
        found.setdefault(key, []).append(group)
    return list(found.values())


def task_name(group: Group, labels: Labels) -> str:
    """Its task in words for `ol2r run`, as far as tasks differ: dataset=mq2008 click=perfect rounds=500."""
    settings = {name: value for name, value in labels.settings(group).items() if of_task(name)}
    choices = {part: group.choices[part] for part in ("dataset", "click")}
    return " ".join(f"{name}={text(value)}" for name, value in {**choices, **settings}.items())


def find_baseline(words: str, task: Sequence[Group], labels: Labels) -> Group | None:
    """The one group of a task that these words are true of, None where there is none; ValueError for several.

    words: the name of a ranker, or choices and settings (`ranker=pairrank ranker.l2=0.1`), with blanks between them.
    """
    wanted = dict(_pair(word) for word in words.split())
    fitting = [group for group in task if all(_has(group, name, value) for name, value in wanted.items())]
    if len(fitting) > 1:
        more = f"--baseline '{words} {_telling(fitting, labels)}'"
        raise ValueError(
            f"--baseline must be true of one row of each task, got {words}, which is true of {len(fitting)} with "
            f"{task_name(fitting[0], labels)}: add what tells them apart, such as {more}"
        )
    return fitting[0] if fitting else None


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    return (name, value) if equals else ("ranker", word)


def _has(group: Group, name: str, value: str) -> bool:
    if name in PARTS:
        return group.choices.get(name) == value
    if name not in group.settings:
        return False
    found = group.settings[name]
    if isinstance(found, int | float) and not isinstance(found, bool):
        try:
            return float(value) == found
        except ValueError:
            return False
    return text(found) == value or found == value


def _telling(groups: Sequence[Group], labels: Labels) -> str:
    """A word that is true of the first group and not of some other."""
    first, *others = (_words(group, labels) for group in groups)
    return next((f"{name}={value}" for name, value in first.items() if any(o.get(name) != value for o in others)), "")


def _words(group: Group, labels: Labels) -> Mapping[str, str]:
    choices = {part: group.choices[part] for part in PARTS if part in group.choices}
    return choices | {name: text(value) for name, value in labels.settings(group).items()}
