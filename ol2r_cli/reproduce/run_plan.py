"""The runs of a recipe: which overrides each has, with the overrides that the user typed."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

from ol2r_cli.config.composer import compose, expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed, split_launcher, split_search_path
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.config.project_file import default_output_dir
from ol2r_cli.reproduce.recipe import RunRecipe

Overrides = dict[str, str]  # by the name of the setting: {"ranker.l2": "ranker.l2=0.1"}


def by_name(*overrides: str | Iterable[str]) -> Overrides:
    """Overrides by setting, in the order of first mention; the last of several with one name counts.

    A text is split into overrides as a shell splits it.
    """
    named: Overrides = {}
    for part in overrides:
        for override in shlex.split(part) if isinstance(part, str) else part:
            named[override.partition("=")[0].lstrip("+~")] = override
    return named


def combinations(overrides: Overrides) -> Iterator[tuple[str, ...]]:
    """Overrides of one value each, for every combination of the values listed."""
    return product(*map(expand, overrides.values()))


@dataclass(frozen=True)
class DatasetSlot:
    """A dataset that is used; `choose` has further overrides of the runs by which settings are chosen."""

    title: str
    overrides: Overrides
    choose: Overrides = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """One line of a figure: a competitor on a dataset (the title of a slot) under a click model."""

    slot: str
    click: str
    competitor: str


@dataclass(frozen=True, eq=False)
class Trial:
    """One choice of settings under a condition; `runs` are the overrides of its runs, one run for each fold.

    words: the same overrides on one line, which may list several values: dataset.fold=1,2.
    """

    condition: Condition
    settings: Overrides
    runs: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()


_Recipe = TypeVar("_Recipe", bound=RunRecipe)
_Slot = TypeVar("_Slot", bound=DatasetSlot)


class RunPlan(ABC, Generic[_Recipe, _Slot]):
    """The runs of a recipe; `typed` are overrides that replace its own.

    `folders` are those of the typed words that name folders with own choices, `launcher` those that say where jobs run.
    """

    def __init__(self, recipe: _Recipe, typed: Sequence[str]):
        self.recipe = recipe
        words, folders = split_search_path(typed)
        self.folders = as_options(folders)
        overrides, self.launcher = split_launcher(words)
        self.typed = by_name(overrides)

    @property
    @abstractmethod
    def slots(self) -> Sequence[_Slot]:
        """The datasets, each once."""

    @property
    @abstractmethod
    def chooses(self) -> bool:
        """Whether settings are chosen from grids."""

    @abstractmethod
    def shared(self, slot: _Slot) -> Overrides:
        """The overrides of all runs on a dataset."""

    def fixed(self, condition: Condition) -> Overrides:
        """The settings of a competitor where none are chosen."""
        return {}

    def dataset(self, slot: _Slot) -> Any:
        """The object that loads the data of a slot; ValueError, which says how to go on, when there are no data."""
        overrides = [
            override
            for name, override in self.shared(slot).items()
            if name in ("dataset", "data_dir", "cache_dir") or (name.startswith("dataset.") and name != "dataset.fold")
        ]
        source = build(compose([*overrides, *self.folders]).config.dataset)
        if hasattr(source, "locate"):
            try:
                source.locate()
            except ValueError as error:
                reason = str(error).partition(", or use dataset=")[0]
                # dataset.path would hold for every dataset of the recipe
                reason = reason.replace("then type dataset.path=FOLDER", "then type data_dir=FOLDER, in which it lies")
                raise ValueError(self._missing_data(slot, reason)) from None
        return source

    def check_data(self) -> None:
        """Raises ValueError unless all data are present."""
        for slot in self.slots:
            self.dataset(slot)

    @abstractmethod
    def _missing_data(self, slot: _Slot, reason: str) -> str:
        """What to do where the data of a slot are missing, for the given reason."""

    @property
    @abstractmethod
    def part(self) -> str:
        """The folder of output_dir in which the runs are."""

    def job(self, run: Sequence[str]) -> list[str]:
        """The overrides of a job: those of a run, where it is written, and folders with own choices."""
        place = as_typed(self.output_dir / self.part, "output_dir")
        return [*(word for word in run if not word.startswith("output_dir=")), f"output_dir={place}", *self.folders]

    @property
    def output_dir(self) -> Path:
        """The folder with the folder of the runs."""
        typed = self.typed.get("output_dir", "").partition("=")[2]
        return Path(os.path.expanduser(typed)) if typed else default_output_dir()

    def candidates(self) -> Iterator[Trial]:
        """The trials from which settings are chosen."""
        for condition, slot, shared in self._conditions() if self.chooses else ():
            competitor = self.recipe.competitors[condition.competitor]
            for settings in combinations(by_name(competitor.grid)) if competitor.grid else ():
                choose = shared | by_name(self.recipe.choose) | slot.choose
                yield self._trial(condition, by_name(settings), choose)

    def final(self, best: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """The trials that are reported: with the `best` settings where they are chosen, or with fixed ones."""
        for condition, _, shared in self._conditions():
            settings = (best or {}).get(condition, {}) if self.chooses else self.fixed(condition)
            yield self._trial(condition, settings, shared)

    def _conditions(self) -> Iterator[tuple[Condition, _Slot, Overrides]]:
        """Every condition with its dataset and the overrides that its runs share."""
        for slot in self.slots if self.recipe.competitors else ():
            shared = self.shared(slot)
            for click in expand(shared["click"]):
                for competitor in self.recipe.competitors:
                    condition = Condition(slot.title, click.partition("=")[2], competitor)
                    yield condition, slot, shared | {"click": click}

    def _trial(self, condition: Condition, settings: Overrides, shared: Overrides) -> Trial:
        competitor = self.recipe.competitors[condition.competitor]
        words = shared | by_name(competitor.words) | settings
        return Trial(condition, settings, tuple(combinations(words)), tuple(words.values()))
