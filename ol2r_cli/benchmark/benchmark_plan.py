"""The runs of a benchmark: all of its datasets, click models and rankers, or the part that the user typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ol2r_cli.benchmark.benchmark_recipe import BENCHMARK_SCALES, BenchmarkRecipe
from ol2r_cli.config.composer import expand
from ol2r_cli.reproduce.recipe import Competitor
from ol2r_cli.reproduce.run_plan import DatasetSlot, Overrides, RunPlan, by_name
from ol2r_cli.run.identity import NOT_HASHED

LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit the benchmark to a part
WITHOUT_EFFECT = NOT_HASHED - {"dataset", "measures"} | {"device"}  # on the protocol


class BenchmarkPlan(RunPlan[BenchmarkRecipe, DatasetSlot]):
    """The runs of a benchmark. Typed overrides limit it to a part, or do not change results.

    full: the published protocol; otherwise a check of a few rounds, with default settings and one fold of each dataset.
    added: the words of a ranker of the user, which is the only competitor then; a setting may list several values, of
    which validation chooses. ValueError for typed overrides that would change the protocol.
    """

    def __init__(self, recipe: BenchmarkRecipe, typed: Sequence[str] = (), *, full: bool = True, added: str = ""):
        super().__init__(recipe if not added else replace(recipe, competitors={added: _competitor(added)}), typed)
        self.full = full
        for name, override in self.typed.items():
            if name not in LIMITS and name not in WITHOUT_EFFECT:
                raise ValueError(
                    f"{name} is part of the protocol of {recipe.name}: leave out {override}, or use `ol2r run`"
                )
        if not self.slots:
            choices = dict.fromkeys(by_name(data.words)["dataset"] for data in recipe.data.values())
            raise ValueError(f"dataset must be {' or '.join(choices)}, got {self.typed['dataset']}")

    @property
    def chooses(self) -> bool:
        return self.full

    @cached_property
    def slots(self) -> list[DatasetSlot]:
        typed = self.typed.get("dataset")
        slots = [
            DatasetSlot(title, by_name(data.words), by_name(data.choose)) for title, data in self.recipe.data.items()
        ]
        return [slot for slot in slots if typed in (None, slot.overrides["dataset"])]

    def shared(self, slot: DatasetSlot) -> Overrides:
        overrides = dict(slot.overrides)
        typed = dict(self.typed)
        if "dataset.fold" not in overrides:
            typed.pop("dataset.fold", None)  # a dataset without folds
        elif not self.full:
            overrides["dataset.fold"] = expand(overrides["dataset.fold"])[0]
        return overrides | by_name(self.recipe.words, self.recipe.scale[BENCHMARK_SCALES[not self.full]]) | typed

    def _missing_data(self, slot: DatasetSlot, reason: str) -> str:
        return (
            f"{self.recipe.name} needs {slot.title}: {reason}, or type dataset=synthetic for the generated part alone"
        )


def _competitor(words: str) -> Competitor:
    """A competitor from typed words: settings with several values are its grid."""
    overrides = by_name(words)
    grid = {name: override for name, override in overrides.items() if len(expand(override)) > 1}
    fixed = [override for name, override in overrides.items() if name not in grid]
    return Competitor(words=shlex.join(fixed), grid=shlex.join(grid.values()))
