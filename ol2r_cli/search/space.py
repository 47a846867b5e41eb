"""Ranges and fixed overrides together: which settings a trial has, and how many different trials there can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ol2r_cli.catalogue import Catalogue, dotted
from ol2r_cli.compose import own_folders, translate
from ol2r_cli.search.ranges import Range, read_range
from ol2r_cli.settings import nearest

if TYPE_CHECKING:
    from optuna.trial import Trial

ROLES = ("ranker", "exploration", "fairness")  # whose settings may be searched: the others say what the task is
COUNTED = 10_000  # a space of more combinations counts as endless


class Space:
    """The words behind `ol2r search`: overrides that all trials share, and ranges.

    Where `ranker=pairrank,pdgd` is searched, a range of a setting that the drawn ranker does not have is not drawn
    from in that trial; one that no choice has is an error. `ValueError` when the words are no space.
    """

    def __init__(self, words: Sequence[str]):
        read = [(word, read_range(word)) for word in translate(list(words))]
        self.fixed = [word for word, range in read if range is None]
        self.ranges = sorted((range for _, range in read if range), key=lambda range: _depth(range.name))
        self.catalogue = Catalogue(own_folders(self.fixed)[1])
        self._check_names()
        self.present = cache(self._present)

    def _check_names(self) -> None:
        names = [range.name for range in self.ranges]
        if not names:
            raise ValueError("a search needs a range: type SETTING=RANGE, such as 'ranker.l2=log(1e-4,10)'")
        for name in names:
            role = name.replace("/", ".").partition(".")[0]
            if role not in (*ROLES, *self.catalogue.groups, *self.catalogue.root.values):
                raise ValueError(f"there is no setting or group '{name}'{nearest(role, ROLES)}")
            if role not in ROLES:
                raise ValueError(
                    f"{name} must have one value: a search chooses settings of {', '.join(ROLES)}; what else differs"
                    " makes another task: use `ol2r run -m`"
                )
        given = names + [word.partition("=")[0].lstrip("+") for word in self.fixed]
        for name in names:
            if given.count(name) > 1:
                raise ValueError(f"{name} must be given once: as a range or as a value")
        preset = self.catalogue.chosen(self.fixed).get("experiment") or ""
        content = self.catalogue.choices["experiment"][preset].content if self._knows(preset) else {}
        swept = content.get("hydra", {}).get("sweeper", {}).get("params", {})
        if missing := [name for name in swept if name not in given]:
            raise ValueError(f"experiment={preset} is a grid: give a range or a value to {', '.join(missing)} as well")

    def _knows(self, preset: str) -> bool:
        return preset in self.catalogue.choices.get("experiment", {})

    def _present(self, words: tuple[str, ...]) -> frozenset[str]:
        """Settings and groups that there are under these overrides."""
        overrides = [*self.fixed, *words]
        settings = (name for name, _ in dotted(self.catalogue.tree(overrides)))
        return frozenset([*settings, *self.catalogue.chosen(overrides)])

    def draw(self, trial: Trial) -> list[str]:
        """The overrides of a trial, drawn by Optuna; those of a trial that has been drawn are what they were."""
        words: list[str] = []
        for range in self.ranges:
            if self._applies(range, words):
                words.append(f"{range.name}={range.suggest(trial)}")
        return words

    def _applies(self, range: Range, words: Sequence[str]) -> bool:
        groups = tuple(word for word in words if _is_choice(word))
        return range.name in self.present(groups)

    def choices(self) -> Iterator[list[str]]:
        """Every combination of the groups that are searched; one empty one where none is."""
        groups = [range for range in self.ranges if _is_choice(range.name)]
        yield from (_words(values, groups) for values in self._combinations(groups))

    def applying(self, words: Sequence[str]) -> list[Range]:
        """The ranges, groups apart, that are drawn from under this combination of groups."""
        return [range for range in self.ranges if not _is_choice(range.name) and self._applies(range, words)]

    def cells(self) -> list[dict[str, Any]] | None:
        """Every trial there can be, as Optuna's parameters; None when there are too many to count."""
        if any(range.values is None for range in self.ranges):
            return None
        cells = []
        for cell in self._combinations(self.ranges):
            cells.append(cell)
            if len(cells) > COUNTED:
                return None
        return cells

    def typed(self, cell: Mapping[str, Any]) -> list[str]:
        """The overrides that Optuna's parameters stand for."""
        return _words(cell, self.ranges)

    def _combinations(self, ranges: Sequence[Range], chosen: Mapping[str, Any] | None = None) -> Iterator[dict]:
        chosen = chosen or {}
        if not ranges:
            yield dict(chosen)
            return
        first, *rest = ranges
        if not self._applies(first, self.typed(chosen)):
            yield from self._combinations(rest, chosen)
            return
        for value in first.values or ():
            yield from self._combinations(rest, {**chosen, first.name: value})


def _words(values: Mapping[str, Any], ranges: Sequence[Range]) -> list[str]:
    return [f"{range.name}={range.typed(values[range.name])}" for range in ranges if range.name in values]


def _is_choice(word: str) -> bool:
    """Whether a name, or the name in an override, is a group and not a setting of one."""
    return "." not in word.partition("=")[0]


def _depth(name: str) -> tuple[int, bool, bool]:
    """What decides which settings there are comes first: ranker, then ranker/model, other groups, then settings."""
    return int(not _is_choice(name)), "/" in name, name.partition(".")[0] != "ranker"
