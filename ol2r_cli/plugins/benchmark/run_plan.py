"""The plan of a recipe: which runs it has, with the overrides that the user typed.

`paper_plan` and `benchmark_plan` make plans; `play` runs them. For a paper, settings of a condition are those of the
trial with the best mean validation NDCG@10; a benchmark chooses them for each of two aims (`recipes.grid`). `ol2r
report --select` never chooses settings of fairness, because runs with other fairness settings are another task there.
Here the recipe says what competes, so that the gain of FairCo is chosen as in the paper.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.grammar import expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed, split_launcher, split_search_path
from ol2r_cli.config.own_choices import as_options, default_output_dir
from ol2r_cli.plugins import RunKind, run_kinds
from ol2r_cli.plugins.benchmark.grid import beyond_the_ends
from ol2r_cli.plugins.benchmark.overrides import Overrides, by_name, expand_all, value_of
from ol2r_cli.plugins.benchmark.recipe import Competitor, Recipe
from ol2r_cli.plugins.benchmark.trials import Condition, PlayedTrial, Trial


def read_typed(words: Sequence[str]) -> tuple[Overrides, list[str], list[str]]:
    """Return overrides of runs, options that name folders with own choices, and overrides that say where jobs run."""
    overrides_and_launcher, folders = split_search_path(words)
    overrides, launcher = split_launcher(overrides_and_launcher)
    return by_name(overrides), as_options(folders), launcher


@dataclass(frozen=True)
class Slot:
    """A dataset that is used, with the overrides of all runs on it.

    choose: further ones of the runs by which settings are chosen. stands_for: names of the datasets of the paper that
    it is or that it replaces.
    """

    title: str
    shared: Overrides
    choose: Overrides = field(default_factory=dict)
    stands_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPlan:
    """The runs of a recipe at a scale.

    typed: overrides that replace those of the recipe. folders: options that name folders with own choices. launcher:
    overrides that say where jobs run. settings: those of each condition, in place of a choice; conditions without an
    entry are left out.
    """

    recipe: Recipe
    scale: str
    slots: Sequence[Slot]
    typed: Overrides
    folders: Sequence[str]
    launcher: Sequence[str]
    settings: Mapping[Condition, Overrides] | None = None

    @cached_property
    def kind(self) -> RunKind:
        """Return the kind of all runs."""
        return run_kinds()[self.recipe.runs]

    @cached_property
    def composer(self) -> Composer:
        """Return what composes all runs."""
        return Composer(self.folders, self.kind.name)

    @property
    def stand_in(self) -> str:
        """Return the override for generated data, which scale=quick has unless others are typed."""
        return f"{self.kind.data}={self.kind.stand_in}"

    def dataset(self, slot: Slot) -> Any:
        """Return the object that loads the data of a slot; ValueError, which says how to go on, without the data."""
        first = [expand(override)[0] for override in slot.shared.values()]
        source = build(self.composer(first).config[self.kind.data])
        try:
            if hasattr(source, "locate"):
                source.locate()
        except ValueError as error:
            # dataset.path would hold for every dataset of the recipe
            reason = (
                str(error)
                .partition(", or use dataset=")[0]
                .replace("then type dataset.path=FOLDER", "then type data_dir=FOLDER, in which it lies")
            )
            advice = f"or go on with generated data, labelled as such: type {self.stand_in}"
            raise ValueError(f"{self.recipe.name} needs {slot.title}: {reason}, {advice}") from None
        return source

    def check_data(self) -> None:
        """Raise ValueError unless all data are present."""
        for slot in self.slots:
            self.dataset(slot)

    @property
    def output_dir(self) -> Path:
        """Return the folder with the folder of the runs, which has the name of the command."""
        typed = value_of(self.typed, "output_dir")
        return Path(os.path.expanduser(typed)) if typed else default_output_dir()

    def job(self, run: Sequence[str]) -> list[str]:
        """Return the overrides of a job: those of a run, where it is written, and folders with own choices."""
        place = as_typed(self.output_dir / self.recipe.kind, "output_dir")
        return [*(word for word in run if not word.startswith("output_dir=")), f"output_dir={place}", *self.folders]

    @property
    def shared(self) -> Collection[str]:
        """Return the overrides of the protocol on all datasets, which say nothing about one run."""
        choose = by_name(self.recipe.choose).values()
        words = [{*slot.shared.values(), *choose, *slot.choose.values()} for slot in self.slots]
        return {*set[str].intersection(*words), *self.job([])}

    @property
    def _chooses(self) -> bool:
        return self.scale in ("paper", "full") and self.settings is None

    def aims(self, competitor: Competitor) -> Collection[str]:
        """Return for which aims the settings of a competitor are chosen; '' stands for one choice, or none."""
        if self.settings is not None:
            return ("", *self.recipe.aims)  # as they are given
        chooses_for_aims = self._chooses and competitor.grid and self.recipe.kind == "benchmark"
        return self.recipe.aims if chooses_for_aims else ("",)

    def candidates(self) -> Iterator[Trial]:
        """Yield the trials from which settings are chosen: all cells of the grid of each competitor that has one."""
        if not self._chooses:
            return
        for slot in self.slots:
            shared = slot.shared | by_name(self.recipe.choose) | slot.choose
            for condition, competitor, own_words in self._rows(slot):
                if not competitor.grid:
                    continue
                values = map(expand, by_name(competitor.grid).values())
                for settings in map(by_name, product(*values)):
                    words = shared | own_words | settings
                    yield Trial(condition, settings, tuple(words.values()))

    def extensions(self, grids: Mapping[Condition, Sequence[PlayedTrial]]) -> Iterator[Trial]:
        """Yield trials beyond the ends of grids; the end of what a setting may be ends a grid, too."""
        for condition, cells in grids.items():
            words = by_name(cells[0].trial.words)
            for settings in beyond_the_ends(cells, self.recipe.competitors[condition.competitor]):
                trial = Trial(condition, settings, tuple((words | settings).values()))
                if self._is_possible(trial):
                    yield trial

    def _is_possible(self, trial: Trial) -> bool:
        """Return whether the ranker and the exploration can be built with the settings of a trial."""
        config = self.composer(trial.runs[0]).config
        with suppress(ValueError):
            return all(build(config[part]) is not None for part in ("ranker", "exploration"))
        return False

    def final(self, chosen: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """Yield the trials that are reported: with the `chosen` settings of each condition, or with fixed ones."""
        for slot in self.slots:
            for row, competitor, own_words in self._rows(slot):
                points = expand_all(competitor.over) or [""]
                for aim, point in product(self.aims(competitor), points):
                    condition = row._replace(aim=aim)
                    settings = self._final_settings(condition, competitor, chosen or {})
                    if settings is not None:
                        settings_of_point = settings | by_name(point)
                        words = slot.shared | own_words | settings_of_point
                        yield Trial(condition._replace(point=point), settings_of_point, tuple(words.values()))

    def _final_settings(
        self, condition: Condition, competitor: Competitor, chosen: Mapping[Condition, Overrides]
    ) -> Overrides | None:
        """Return the settings of a condition that are reported; None where it is left out."""
        if self.settings is not None:
            return self.settings.get(condition)
        if self._chooses:
            return chosen.get(condition, {})
        quick = competitor.quick
        if isinstance(quick, dict):
            quick = quick.get(condition.click, list(quick.values())[-1])
        return by_name(quick)

    def _rows(self, slot: Slot) -> Iterator[tuple[Condition, Competitor, Overrides]]:
        """Yield the condition of each click model and competitor, with the overrides that define both."""
        clicks = expand(slot.shared["click"]) if "click" in slot.shared else [""]
        for click, (name, competitor) in product(clicks, self.recipe.competitors.items()):
            condition = Condition(slot.title, click.partition("=")[2], name)
            yield condition, competitor, by_name(click, competitor.words)
