"""The groups that compete in one task, and the group that words of the command line name."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.names import START, Labels
from ol2r_cli.report.parts import PARTS, TASK_PARTS, defines_task
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run_filter import is_typed
from ol2r_cli.text.formatting import nearest

_SHOWN_ROWS = 3  # of those that words match


def tasks(groups: Iterable[Group]) -> list[list[Group]]:
    """Return the groups of each task, in the given order: of a dataset, users and settings of the run."""
    members: dict[str, list[Group]] = {}
    for group in groups:
        settings = {name: value for name, value in group.settings.items() if defines_task(name)}
        choices = [group.choices.get(part, "none") for part in TASK_PARTS]
        key = json.dumps([choices, settings], sort_keys=True, default=str)
        members.setdefault(key, []).append(group)
    return list(members.values())


def task_name(group: Group, labels: Labels) -> str:
    """Return the task of a group as overrides, as far as tasks differ: dataset=mq2008 click=perfect rounds=500."""
    words = {name: value for name, value in labels.words(group).items() if _is_of_task(name)}
    if words.get("intent") == "none":
        del words["intent"]
    return " ".join(f"{name}={value}" for name, value in words.items())


def _is_of_task(name: str) -> bool:
    """Return whether a choice or setting is a part of the task."""
    return name in TASK_PARTS if name in PARTS else defines_task(name)


def find_row(words: str, task: Sequence[Group], labels: Labels, option: str = "--baseline") -> Group | None:
    """Return the only group of a task that matches `words`; None where no group does; ValueError where several do.

    words: the name of a ranker, or choices and settings (`ranker=pairrank ranker.l2=0.1`), separated by spaces.
    """
    matching = _matching(words, task, labels)
    if len(matching) > 1:
        rows = [labels.words(group) for group in matching]
        for row, group in zip(rows, matching, strict=True):
            if start := labels.told[group].get("start.run"):
                row[START] = as_typed(start)
                del row["start.run"]
        typed = [shlex.quote(f"{words} {_telling(row, rows)}") for row in rows[:_SHOWN_ROWS]]
        raise ValueError(
            f"{option} must match one row of each task, got {words}, which matches {len(matching)} with "
            f"{task_name(matching[0], labels)}: type {' or '.join(typed)}{' or ..' * (len(rows) > _SHOWN_ROWS)}"
        )
    return matching[0] if matching else None


def _matching(words: str, task: Iterable[Group], labels: Labels) -> list[Group]:
    wanted = dict((word if "=" in word else f"ranker={word}").split("=", 1) for word in shlex.split(words))
    return [group for group in task if _has(group, wanted, labels)]


def some_row(words: str, groups: Iterable[Group]) -> str:
    """Return what words that match no row of any task must be, as the end of a message."""
    known = sorted({group.choices["ranker"] for group in groups})
    advice = nearest(words, known) or f": the rankers are {', '.join(known)}"
    return f"a ranker, or choices and settings, of some row, got {words}{advice}"


def _has(group: Group, wanted: Mapping[str, str], labels: Labels) -> bool:
    """Return whether a group has these choices and settings, as they are typed, or the start, as it is called."""
    values: dict[str, Any] = {**group.settings, **{part: group.choices.get(part) for part in PARTS}}
    values[START] = labels.told[group].get("start.run")
    return all(name in values and is_typed(values[name], typed) for name, typed in wanted.items())


def _telling(row: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> str:
    """Return a few words that one of these rows has and the others have not, NAME=VALUE separated by spaces.

    Greedy: each tells most of the rows apart that are left. That a part is none is said only where nothing else does.
    """
    left, telling = [other for other in rows if other != row], list[str]()
    while left:

        def told(name: str, left: Sequence[Mapping[str, str]] = left) -> tuple[int, bool]:
            return sum(other.get(name) != row[name] for other in left), row[name] != "none"

        best = max(row, key=told)
        if not told(best)[0]:
            break
        telling.append(shlex.quote(f"{best}={row[best]}"))
        left = [other for other in left if other.get(best) == row[best]]
    return " ".join(telling)


def typed_names(options: Sequence[str], what: str = "OVERRIDES", example: str = "pairrank=ours") -> dict[str, str]:
    """Return the names of rows by what names them, of `--name OVERRIDES=NAME`; ValueError for another form."""
    names: dict[str, str] = {}
    for option in options:
        words, _, name = option.rpartition("=")
        if not words.strip() or not name.strip():
            raise ValueError(f"--name must be {what}=NAME, such as {example}, got {option}")
        names[words] = name
    return names


class FixedNames(NamedTuple):
    """Names that were typed: of rows, and of rankers, whose rows are told apart by what else they are."""

    of_rows: dict[Group, str]
    of_rankers: dict[str, str]


def fixed_names(names: Mapping[str, str], groups: Sequence[Group], labels: Labels) -> FixedNames:
    """Return the names that `--name OVERRIDES=NAME` gives: in every task the row that matches the overrides has it.

    Where they are a ranker alone, of which some task has several rows, it is the name of the ranker in all of its rows.
    names: by words. ValueError for words that match no row or, with settings, several of a task, and where rows of
    different words have one name in a task.
    """
    of_rows: dict[Group, str] = {}
    of_rankers: dict[str, str] = {}
    for words, name in names.items():
        matching = [_matching(words, task, labels) for task in tasks(groups)]
        if not any(matching):
            raise ValueError(f"--name must begin with {some_row(words, groups)}")
        ranker = words.strip().removeprefix("ranker=")
        if max(map(len, matching)) > 1 and ranker in {group.choices["ranker"] for group in groups}:
            of_rankers[ranker] = name
            continue
        rows = [find_row(words, task, labels, "--name") for task in tasks(groups)]
        of_rows |= {row: name for row in rows if row}
    named = FixedNames(of_rows, of_rankers)
    for task in tasks(groups):
        _check_distinct(named, task, labels)
    return named


def _check_distinct(named: FixedNames, task: Iterable[Group], labels: Labels) -> None:
    """Raise ValueError where rows of different words have one name."""
    holders: dict[str, set[Group | str]] = {}
    for group in task:
        ranker = group.choices["ranker"]
        is_of_ranker = ranker in named.of_rankers and group not in named.of_rows
        name = named.of_rows.get(group) or named.of_rankers.get(ranker) or labels.ranker(group)
        holders.setdefault(name, set()).add(ranker if is_of_ranker else group)
    for name in (*named.of_rows.values(), *named.of_rankers.values()):
        if len(holders.get(name, ())) > 1:
            raise ValueError(f"--name must give each row of a task another name, got {name} for {len(holders[name])}")
