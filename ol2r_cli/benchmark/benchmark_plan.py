"""The runs of a benchmark: all of its datasets, click models and rankers, or the part that the user typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ol2r_cli.benchmark.benchmark_recipe import BENCHMARK_SCALES, BenchmarkRecipe
from ol2r_cli.config.composer import expand
from ol2r_cli.formatting import nearest
from ol2r_cli.reproduce.recipe import Competitor
from ol2r_cli.reproduce.run_plan import Condition, DatasetSlot, Overrides, RunPlan, Trial, by_name
from ol2r_cli.run.identity import NOT_HASHED

LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit the benchmark to a part
ROLES_OF_A_ROW = ("ranker", "exploration", "fairness")  # what rows may differ in
WITHOUT_EFFECT = NOT_HASHED - {"dataset", "measures"} | {"device"}  # on the protocol


class BenchmarkPlan(RunPlan[BenchmarkRecipe, DatasetSlot]):
    """The runs of a benchmark. Typed overrides limit it to a part, or do not change results.

    full: the published protocol; otherwise a check of a few rounds, with default settings and one fold of each dataset.
    added: the words of a ranker of the user, which is the only competitor then; a setting may list several values, of
    which validation chooses. settings: those of each row, in place of a choice; rows without an entry are left out.
    ValueError for typed overrides that would change the protocol.
    """

    def __init__(
        self,
        recipe: BenchmarkRecipe,
        typed: Sequence[str] = (),
        *,
        full: bool = True,
        added: Sequence[str] = (),
        settings: Mapping[Condition, Overrides] | None = None,
    ):
        own = [word for word in added if not _limits(word)]
        competitors = {added_name(own): _competitor(own)} if own else recipe.competitors
        super().__init__(replace(recipe, competitors=competitors), [*typed, *filter(_limits, added)])
        self.full, self.settings = full, settings
        for name, override in [*self.typed.items(), *by_name(own).items()]:
            self._check(name, override, added=name not in self.typed)
        choices = dict.fromkeys(by_name(data.words)["dataset"].partition("=")[2] for data in recipe.data.values())
        _check_values(self.typed, "dataset", [choices])
        for name in LIMITS[1:]:
            protocols = [expand(protocol[name]) for slot in self.slots if name in (protocol := self._protocol(slot))]
            _check_values(self.typed, name, [[each.partition("=")[2] for each in values] for values in protocols])

    def _check(self, name: str, override: str, added: bool) -> None:
        """ValueError for an override that would change the protocol. added: it is one of a row that is added."""
        if name == "dataset.path":
            raise ValueError(f"leave out {override}: type data_dir=FOLDER, in which the folder of the data set lies")
        if not (role(name) in ROLES_OF_A_ROW if added else _limits(name)):
            raise ValueError(
                f"{name} is part of the protocol of {self.recipe.name}: leave out {override}, or use `ol2r run`"
            )

    part = "benchmark"

    @property
    def chooses(self) -> bool:
        return self.full and self.settings is None

    def fixed(self, condition: Condition) -> Overrides:
        return (self.settings or {}).get(condition, {})

    def final(self, best: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        trials = super().final(best)
        return (trial for trial in trials if self.settings is None or trial.condition in self.settings)

    @cached_property
    def slots(self) -> list[DatasetSlot]:
        typed = self.typed.get("dataset")
        slots = []
        for title, data in self.recipe.data.items():
            overrides = by_name(data.words)
            folds = {name: override for name, override in overrides.items() if name == "dataset.fold"}
            slots.append(DatasetSlot(title, overrides, folds | by_name(data.choose)))  # all folds choose
        return [slot for slot in slots if typed in (None, slot.overrides["dataset"])]

    def shared(self, slot: DatasetSlot) -> Overrides:
        overrides = self._protocol(slot)
        typed = dict(self.typed)
        if "dataset.fold" not in overrides:
            typed.pop("dataset.fold", None)  # a dataset without folds
        elif not self.full:
            overrides["dataset.fold"] = expand(overrides["dataset.fold"])[0]
        return overrides | by_name(self.recipe.scale[BENCHMARK_SCALES[not self.full]]) | typed

    def _protocol(self, slot: DatasetSlot) -> Overrides:
        """The overrides of the recipe on a dataset."""
        return slot.overrides | by_name(self.recipe.words)

    def _missing_data(self, slot: DatasetSlot, reason: str) -> str:
        return (
            f"{self.recipe.name} needs {slot.title}: {reason}, or type dataset=synthetic for the generated part alone"
        )


def _limits(word: str) -> bool:
    """Whether an override leaves the protocol as it is: it limits the benchmark to a part, or changes no result."""
    name = word.partition("=")[0].lstrip("+")
    return name in LIMITS or name in WITHOUT_EFFECT


def role(name: str) -> str:
    """The group of a setting: `ranker` of `ranker.l2` and `ranker/model`."""
    return re.split(r"[./@]", name, maxsplit=1)[0]


def _check_values(typed: Overrides, name: str, protocols: Sequence[Collection[str]]) -> None:
    """ValueError for a typed value that is not in all of the protocols."""
    for override in expand(typed[name]) if name in typed and protocols else ():
        value = override.partition("=")[2]
        allowed = [each for each in protocols[0] if all(each in values for values in protocols)]
        if value not in allowed:
            where = "" if len(protocols) == 1 or name != "dataset.fold" else " unless dataset= is typed as well"
            raise ValueError(f"{name} must be {' or '.join(allowed)}{where}, got {value}{nearest(value, allowed)}")


def added_name(words: Sequence[str]) -> str:
    """What a ranker of the user is called in tables: `mine (added)`."""
    overrides = by_name(words)
    if "ranker" not in overrides or len(expand(overrides["ranker"])) > 1:
        raise ValueError(f"--add must name one ranker, such as --add ranker=mine, got {shlex.join(words)}")
    return f"{overrides['ranker'].partition('=')[2]} (added)"


def _competitor(words: Sequence[str]) -> Competitor:
    """A competitor from typed words: settings with several values are its grid."""
    overrides = by_name(words)
    grid = {name: override for name, override in overrides.items() if len(expand(override)) > 1}
    fixed = [override for name, override in overrides.items() if name not in grid]
    return Competitor(words=shlex.join(fixed), grid=shlex.join(grid.values()))
