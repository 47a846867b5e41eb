"""The runs of a recipe: data of a paper or their replacements, at a scale, with the overrides that the user typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ol2r_cli.config.composer import expand
from ol2r_cli.reproduce.recipe import SCALES, Competitor, PaperDataset, Recipe, load_dataset
from ol2r_cli.reproduce.run_plan import Condition, DatasetSlot, Overrides, RunPlan, by_name

STAND_IN = "synthetic"  # the dataset of scale=quick unless another one is typed


@dataclass(frozen=True, kw_only=True)
class PaperSlot(DatasetSlot):
    """A dataset that is used; `stands_for` names the datasets of the paper that it is or that it replaces."""

    stands_for: tuple[str, ...]
    folds: int


class PaperPlan(RunPlan[Recipe, PaperSlot]):
    """The runs of a recipe at a scale.

    Raises ValueError for an unknown scale, and for overrides that would change what the recipe compares.
    """

    def __init__(self, recipe: Recipe, scale: str = "quick", typed: Sequence[str] = ()):
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale}")
        super().__init__(recipe, typed)
        self.scale = scale
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

    part = "reproduce"

    @property
    def chooses(self) -> bool:
        return self.scale == "paper"

    def fixed(self, condition: Condition) -> Overrides:
        return by_name(self.recipe.competitors[condition.competitor].quick_settings(condition.click))

    @cached_property
    def slots(self) -> list[PaperSlot]:
        """The datasets, each once: datasets of the paper with the same replacement share a slot."""
        slots: dict[str, PaperSlot] = {}
        for dataset in self._paper_datasets:
            source = dataset.source(self.choice)
            title = dataset.title if source is dataset.paper else str(self.choice)
            others = slots[source.words].stands_for if source.words in slots else ()
            slots[source.words] = PaperSlot(
                title, by_name(source.words), stands_for=(*others, dataset.name), folds=source.folds
            )
        titles = [slot.title for slot in slots.values()]
        return [slot if titles.count(slot.title) == 1 else _with_settings(slot) for slot in slots.values()]

    @property
    def uses_paper_data(self) -> bool:
        """Whether all datasets are those of the paper."""
        return all(dataset.source(self.choice) is dataset.paper for dataset in self._paper_datasets)

    @cached_property
    def _paper_datasets(self) -> list[PaperDataset]:
        """The datasets of the paper; when one of them was typed, this one alone."""
        datasets = [load_dataset(name) for name in self.recipe.data]
        return [dataset for dataset in datasets if dataset.choice == self.choice] or datasets

    def shared(self, slot: PaperSlot) -> Overrides:
        overrides = dict(slot.overrides)
        if self.recipe.queries is not None:
            setting = "dataset.queries.train" if self.choice == STAND_IN else "dataset.queries"
            overrides |= by_name([f"{setting}={self.recipe.queries}"])
        if self.scale == "paper" and slot.folds:
            overrides |= by_name([f"dataset.fold={','.join(map(str, range(1, slot.folds + 1)))}"])
        return _played_blocks(overrides | by_name(self.recipe.words, self.recipe.scale[self.scale]) | self.typed)

    def _missing_data(self, slot: PaperSlot, reason: str) -> str:
        return (
            f"{self.recipe.name} at scale={self.scale} needs {slot.title}: {reason}, or go on with the same protocol "
            f"on other data, labelled as such: ol2r reproduce {self.recipe.name} --scale {self.scale} dataset=mq2008 "
            "dataset.path=FOLDER, or dataset=synthetic, or --scale quick"
        )


def _quick(competitor: Competitor) -> list[str]:
    return [competitor.quick] if isinstance(competitor.quick, str) else list(competitor.quick.values())


def _with_settings(slot: PaperSlot) -> PaperSlot:
    """A slot whose title also names its settings, because another slot has the same dataset."""
    settings = [override.removeprefix("dataset.") for name, override in slot.overrides.items() if name != "dataset"]
    return replace(slot, title=f"{slot.title}, {' '.join(settings)}")


def _played_blocks(overrides: Overrides) -> Overrides:
    """The overrides with `block_rounds` limited to rounds that are played: the user may type fewer `rounds`."""
    rounds = overrides.get("rounds", "").partition("=")[2]
    listed = re.findall(r"\d+", overrides.get("block_rounds", ""))
    if not listed or not rounds.isdecimal():
        return overrides
    played = ",".join(round for round in listed if int(round) <= int(rounds))
    return overrides | {"block_rounds": f"block_rounds=[{played}]"}
