"""The runs of a recipe: which overrides each run has, at a scale and with the overrides that the user typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import compose, expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import split_launcher, split_search_path
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.config.project_file import default_output_dir
from ol2r_cli.reproduce.recipe import SCALES, Competitor, PaperDataset, Recipe, load_dataset

STAND_IN = "synthetic"  # the dataset of scale=quick unless another one is typed

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


@dataclass(frozen=True)
class DatasetSlot:
    """A dataset that is used; `stands_for` names the datasets of the paper that it is or that it replaces."""

    title: str
    overrides: Overrides
    stands_for: tuple[str, ...]
    folds: int


@dataclass(frozen=True)
class Condition:
    """One line of a figure: a competitor on a dataset (the title of a slot) under a click model."""

    slot: str
    click: str
    competitor: str


@dataclass(frozen=True, eq=False)
class Trial:
    """One choice of settings under a condition; `runs` are the overrides of its runs, one run for each fold."""

    condition: Condition
    settings: Overrides
    runs: tuple[tuple[str, ...], ...]


class RunPlan:
    """The runs of a recipe at a scale; `typed` are overrides that replace those of the recipe.

    `folders` are those of the typed words that name folders with own choices.
    Raises ValueError for an unknown scale, and for overrides that would change what the recipe compares.
    """

    def __init__(self, recipe: Recipe, scale: str = "quick", typed: Sequence[str] = ()):
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale}")
        self.recipe, self.scale = recipe, scale
        words, folders = split_search_path(typed)
        self.folders = as_options(folders)
        overrides, self.launcher = split_launcher(words)
        self.typed = by_name(overrides)
        self._check()
        default = STAND_IN if scale == "quick" else None
        self.choice = self.typed["dataset"].partition("=")[2] if "dataset" in self.typed else default

    def _check(self) -> None:
        competitors = self.recipe.competitors.values()
        compared = {name for each in competitors for name in by_name(each.words, each.grid, *_quick(each))}
        for name, override in self.typed.items():
            if name in compared:
                raise ValueError(f"{name} is what {self.recipe.name} compares or chooses: leave out {override}")
            if name not in ("click", "dataset.fold") and len(expand(override)) > 1:
                raise ValueError(f"{name} must have one value, got {override}")

    @cached_property
    def slots(self) -> list[DatasetSlot]:
        """The datasets, each once: datasets of the paper with the same replacement share a slot."""
        slots: dict[str, DatasetSlot] = {}
        for dataset in self._paper_datasets:
            source = dataset.source(self.choice)
            title = dataset.title if source is dataset.paper else str(self.choice)
            others = slots[source.words].stands_for if source.words in slots else ()
            slots[source.words] = DatasetSlot(title, by_name(source.words), (*others, dataset.name), source.folds)
        titles = [slot.title for slot in slots.values()]
        return [slot if titles.count(slot.title) == 1 else _with_settings(slot) for slot in slots.values()]

    @property
    def output_dir(self) -> Path:
        """The folder of the runs."""
        typed = self.typed.get("output_dir", "").partition("=")[2]
        return Path(typed).expanduser() if typed else default_output_dir()

    @property
    def uses_paper_data(self) -> bool:
        """Whether all datasets are those of the paper."""
        return all(dataset.source(self.choice) is dataset.paper for dataset in self._paper_datasets)

    @cached_property
    def _paper_datasets(self) -> list[PaperDataset]:
        """The datasets of the paper; when one of them was typed, this one alone."""
        datasets = [load_dataset(name) for name in self.recipe.data]
        return [dataset for dataset in datasets if dataset.choice == self.choice] or datasets

    def candidates(self) -> Iterator[Trial]:
        """The trials from which settings are chosen at scale=paper; none at scale=quick."""
        for condition, shared in self._conditions() if self.scale == "paper" else ():
            competitor = self.recipe.competitors[condition.competitor]
            for settings in _combinations(by_name(competitor.grid)) if competitor.grid else ():
                yield self._trial(condition, by_name(settings), shared | by_name(self.recipe.choose))

    def final(self, best: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """The trials that are reported: with the settings for scale=quick, or with the `best` ones at scale=paper."""
        for condition, shared in self._conditions():
            competitor = self.recipe.competitors[condition.competitor]
            if self.scale == "quick":
                settings = by_name(competitor.quick_settings(condition.click))
            else:
                settings = (best or {}).get(condition, {})
            yield self._trial(condition, settings, shared)

    def _conditions(self) -> Iterator[tuple[Condition, Overrides]]:
        """Every condition with the overrides that its runs share."""
        for slot in self.slots if self.recipe.competitors else ():
            shared = self.shared(slot)
            for click in expand(shared["click"]):
                for competitor in self.recipe.competitors:
                    yield Condition(slot.title, click.partition("=")[2], competitor), shared | {"click": click}

    def shared(self, slot: DatasetSlot) -> Overrides:
        """The overrides of all runs on a dataset."""
        overrides = dict(slot.overrides)
        if self.recipe.queries is not None:
            setting = "dataset.queries.train" if self.choice == STAND_IN else "dataset.queries"
            overrides |= by_name([f"{setting}={self.recipe.queries}"])
        if self.scale == "paper" and slot.folds:
            overrides |= by_name([f"dataset.fold={','.join(map(str, range(1, slot.folds + 1)))}"])
        return _played_blocks(overrides | by_name(self.recipe.words, self.recipe.scale[self.scale]) | self.typed)

    def _trial(self, condition: Condition, settings: Overrides, shared: Overrides) -> Trial:
        competitor = self.recipe.competitors[condition.competitor]
        runs = _combinations(shared | by_name(competitor.words) | settings)
        return Trial(condition, settings, tuple(runs))

    def dataset(self, slot: DatasetSlot) -> Any:
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
                raise ValueError(self._missing_data(slot, str(error))) from None
        return source

    def check_data(self) -> None:
        """Raises ValueError unless all data are present."""
        for slot in self.slots:
            self.dataset(slot)

    def _missing_data(self, slot: DatasetSlot, error: str) -> str:
        reason = error.partition(", or use dataset=")[0]
        # dataset.path would hold for every dataset of the recipe
        reason = reason.replace("then type dataset.path=FOLDER", "then type data_dir=FOLDER, in which it lies")
        return (
            f"{self.recipe.name} at scale={self.scale} needs {slot.title}: {reason}, or go on with the same protocol "
            f"on other data, labelled as such: ol2r reproduce {self.recipe.name} --scale {self.scale} dataset=mq2008 "
            "dataset.path=FOLDER, or dataset=synthetic, or --scale quick"
        )


def _combinations(overrides: Overrides) -> Iterator[tuple[str, ...]]:
    """Overrides of one value each, for every combination of the values listed."""
    return product(*map(expand, overrides.values()))


def _quick(competitor: Competitor) -> list[str]:
    return [competitor.quick] if isinstance(competitor.quick, str) else list(competitor.quick.values())


def _with_settings(slot: DatasetSlot) -> DatasetSlot:
    """A slot whose title also names its settings, because another slot has the same dataset."""
    settings = [override.removeprefix("dataset.") for name, override in slot.overrides.items() if name != "dataset"]
    return DatasetSlot(f"{slot.title}, {' '.join(settings)}", slot.overrides, slot.stands_for, slot.folds)


def _played_blocks(overrides: Overrides) -> Overrides:
    """The overrides with `block_rounds` limited to rounds that are played: the user may type fewer `rounds`."""
    rounds = overrides.get("rounds", "").partition("=")[2]
    listed = re.findall(r"\d+", overrides.get("block_rounds", ""))
    if not listed or not rounds.isdecimal():
        return overrides
    played = ",".join(round for round in listed if int(round) <= int(rounds))
    return overrides | {"block_rounds": f"block_rounds=[{played}]"}
