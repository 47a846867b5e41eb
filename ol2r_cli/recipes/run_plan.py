"""The runs of a recipe: which overrides each has, with the overrides that the user typed."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli.config.catalogue import as_options, default_output_dir
from ol2r_cli.config.composer import compose, expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed, split_launcher, split_search_path
from ol2r_cli.formatting import nearest
from ol2r_cli.recipes.recipe import SCALES, Competitor, Recipe, RecipeData
from ol2r_cli.run.identity import NOT_HASHED

STAND_IN = "synthetic"  # the dataset of scale=quick unless another one is typed
LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit a benchmark to a part
ROLES_OF_A_ROW = ("ranker", "exploration", "fairness")  # what rows of a benchmark may differ in
WITHOUT_EFFECT = NOT_HASHED - {"dataset", "measures"} | {"device"}  # on the protocol of a benchmark

Overrides = dict[str, str]  # by the name of the setting: {"ranker.l2": "ranker.l2=0.1"}


def by_name(*overrides: str | Iterable[str]) -> Overrides:
    """Return overrides by setting, in the order of first mention; the last of several with one name counts.

    A text is split into overrides as a shell splits it.
    """
    words = (word for part in overrides for word in (shlex.split(part) if isinstance(part, str) else part))
    return {word.partition("=")[0].lstrip("+~"): word for word in words}


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


class Condition(NamedTuple):
    """One line of a figure or row of a table: a competitor on a dataset (the title of a slot) under a click model."""

    slot: str
    click: str
    competitor: str


@dataclass(frozen=True, eq=False)
class Trial:
    """One choice of settings under a condition.

    words: the overrides of its runs on one line, which may list several values: dataset.fold=1,2.
    """

    condition: Condition
    settings: Overrides
    words: tuple[str, ...]

    @cached_property
    def runs(self) -> list[tuple[str, ...]]:
        """Return the overrides of its runs, one run for each fold."""
        return list(product(*map(expand, self.words)))


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

    def dataset(self, slot: Slot) -> Any:
        """Return the object that loads the data of a slot; ValueError, which says how to go on, without the data."""
        names = ("dataset", "data_dir", "cache_dir")
        overrides = [
            override
            for name, override in slot.shared.items()
            if name in names or (name.startswith("dataset.") and name != "dataset.fold")
        ]
        source = build(compose([*overrides, *self.folders]).config.dataset)
        if hasattr(source, "locate"):
            try:
                source.locate()
            except ValueError as error:
                # dataset.path would hold for every dataset of the recipe
                reason = str(error).partition(", or use dataset=")[0]
                reason = reason.replace("then type dataset.path=FOLDER", "then type data_dir=FOLDER, in which it lies")
                name, scale, advice = self.recipe.name, "", "type dataset=synthetic for the generated part alone"
                if self.recipe.kind == "reproduce":
                    scale, advice = (
                        f" at scale={self.scale}",
                        (
                            "go on with the same protocol on other data, labelled as such: ol2r reproduce "
                            f"{name} --scale {self.scale} dataset=mq2008 dataset.path=FOLDER, or dataset=synthetic, "
                            "or --scale quick"
                        ),
                    )
                raise ValueError(f"{name}{scale} needs {slot.title}: {reason}, or {advice}") from None
        return source

    def check_data(self) -> None:
        """Raise ValueError unless all data are present."""
        for slot in self.slots:
            self.dataset(slot)

    @property
    def output_dir(self) -> Path:
        """Return the folder with the folder of the runs, which has the name of the command."""
        typed = self.typed.get("output_dir", "").partition("=")[2]
        return Path(os.path.expanduser(typed)) if typed else default_output_dir()

    def job(self, run: Sequence[str]) -> list[str]:
        """Return the overrides of a job: those of a run, where it is written, and folders with own choices."""
        place = as_typed(self.output_dir / self.recipe.kind, "output_dir")
        return [*(word for word in run if not word.startswith("output_dir=")), f"output_dir={place}", *self.folders]

    @property
    def _chooses(self) -> bool:
        return self.scale in ("paper", "full") and self.settings is None

    def candidates(self) -> Iterator[Trial]:
        """Yield the trials from which settings are chosen."""
        for slot, condition in self._conditions() if self._chooses else ():
            grid = by_name(self.recipe.competitors[condition.competitor].grid)
            for settings in product(*map(expand, grid.values())) if grid else ():
                choose = slot.shared | by_name(self.recipe.choose) | slot.choose
                yield self._trial(condition, by_name(settings), choose)

    def final(self, best: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """Yield the trials that are reported: with the `best` settings where they are chosen, or with fixed ones."""
        for slot, condition in self._conditions():
            quick = self.recipe.competitors[condition.competitor].quick
            if isinstance(quick, dict):
                quick = quick.get(condition.click, list(quick.values())[-1])
            chosen = best or {} if self._chooses else self.settings
            settings = by_name(quick) if chosen is None else chosen.get(condition, {})
            yield self._trial(condition, settings, slot.shared)

    def _conditions(self) -> Iterator[tuple[Slot, Condition]]:
        for slot in self.slots if self.recipe.competitors else ():
            for click, competitor in product(expand(slot.shared["click"]), self.recipe.competitors):
                condition = Condition(slot.title, click.partition("=")[2], competitor)
                if self.settings is None or condition in self.settings:
                    yield slot, condition

    def _trial(self, condition: Condition, settings: Overrides, shared: Overrides) -> Trial:
        click = by_name([f"click={condition.click}"])
        words = shared | click | by_name(self.recipe.competitors[condition.competitor].words) | settings
        return Trial(condition, settings, tuple(words.values()))


def paper_plan(recipe: Recipe, scale: str = "quick", typed: Sequence[str] = ()) -> RunPlan:
    """Return the runs of a figure or table of a paper, on its data or on what replaces them.

    Datasets of the paper with the same replacement share a slot; when one of them was typed, it is used alone.
    ValueError for an unknown scale, and for overrides that would change what the recipe compares.
    """
    if scale not in SCALES["reproduce"]:
        raise ValueError(f"scale must be one of {', '.join(SCALES['reproduce'])}, got {scale}")
    words, folders = split_search_path(typed)
    overrides, launcher = split_launcher(words)
    named = by_name(overrides)
    compared: Overrides = {}
    for each in recipe.competitors.values():
        compared |= by_name(each.words, each.grid)
    for name, override in named.items():
        if name in compared:
            raise ValueError(f"{name} is what {recipe.name} compares or chooses: leave out {override}")
        if name not in ("click", "dataset.fold") and len(expand(override)) > 1:
            raise ValueError(f"{name} must have one value, got {override}")
    choice = named["dataset"].partition("=")[2] if "dataset" in named else STAND_IN if scale == "quick" else ""
    sources: dict[str, RecipeData] = {}  # by their words
    names: dict[str, list[str]] = {}
    for name, data in ({n: data for n, data in recipe.data.items() if data.choice == choice} or recipe.data).items():
        source = data.source(choice)
        sources[source.words] = source
        names.setdefault(source.words, []).append(name)
    titles = Counter(source.title for source in sources.values())
    slots = []
    for source_words, source in sources.items():
        own = by_name(source_words)
        settings = [override.removeprefix("dataset.") for name, override in own.items() if name != "dataset"]
        title = source.title if titles[source.title] == 1 else f"{source.title}, {' '.join(settings)}"
        if recipe.queries is not None:
            setting = "dataset.queries.train" if choice == STAND_IN else "dataset.queries"
            own[setting] = f"{setting}={recipe.queries}"
        if scale == "paper" and source.folds:
            own["dataset.fold"] = f"dataset.fold={','.join(map(str, range(1, source.folds + 1)))}"
        shared = own | by_name(recipe.words, recipe.scale[scale]) | named
        rounds = shared.get("rounds", "").partition("=")[2]
        if rounds.isdecimal() and "block_rounds" in shared:  # those that are played: the user may type fewer
            played = [each for each in re.findall(r"\d+", shared["block_rounds"]) if int(each) <= int(rounds)]
            shared["block_rounds"] = f"block_rounds=[{','.join(played)}]"
        slots.append(Slot(title, shared, stands_for=tuple(names[source_words])))
    return RunPlan(recipe, scale, slots, named, as_options(folders), launcher)


def benchmark_plan(
    recipe: Recipe,
    typed: Sequence[str] = (),
    *,
    scale: str = "full",
    added: Sequence[str] = (),
    settings: Mapping[Condition, Overrides] | None = None,
) -> RunPlan:
    """Return the runs of a benchmark. Typed overrides limit it to a part, or do not change results.

    scale: full, the published protocol, or check, a few rounds with default settings and one fold of each dataset.
    added: the words of a ranker of the user, which is the only competitor then; a setting may list several values, of
    which validation chooses. settings: as in a plan. ValueError for typed overrides that would change the protocol.
    """

    def limits(word: str) -> bool:
        """Whether an override leaves the protocol as it is: it limits the benchmark, or changes no result."""
        name = word.partition("=")[0].lstrip("+")
        return name in LIMITS or name in WITHOUT_EFFECT

    typed_words, folders = split_search_path([*typed, *filter(limits, added)])
    overrides, launcher = split_launcher(typed_words)
    named = by_name(overrides)
    own = by_name([word for word in added if not limits(word)])
    if own:
        if "ranker" not in own or len(expand(own["ranker"])) > 1:
            raise ValueError(f"--add must name one ranker, such as --add ranker=mine, got {shlex.join(own.values())}")
        grid = {name: override for name, override in own.items() if len(expand(override)) > 1}
        words = shlex.join(override for name, override in own.items() if name not in grid)
        competitor = Competitor(words, shlex.join(grid.values()))
        recipe = replace(recipe, competitors={f"{own['ranker'].partition('=')[2]} (added)": competitor})
    for name, override in [*named.items(), *own.items()]:
        if name == "dataset.path":
            raise ValueError(f"leave out {override}: type data_dir=FOLDER, in which the folder of the data set lies")
        if not (limits(override) if name in named else role(name) in ROLES_OF_A_ROW):
            raise ValueError(
                f"{name} is part of the protocol of {recipe.name}: leave out {override}, or use `ol2r run`"
            )
    of_data = {title: by_name(data.words, recipe.words) for title, data in recipe.data.items()}
    for name in LIMITS:
        listed = [expand(protocol[name]) for protocol in of_data.values() if name in protocol]
        for override in expand(named[name]) if name in named and listed else ():
            every = list(dict.fromkeys(override for overrides in listed for override in overrides))
            allowed = [each for each in every if name == "dataset" or all(each in overrides for overrides in listed)]
            if override not in allowed:
                value, choices = override.partition("=")[2], [each.partition("=")[2] for each in allowed]
                where = "" if len(listed) == 1 or name != "dataset.fold" else " unless dataset= is typed as well"
                raise ValueError(f"{name} must be {' or '.join(choices)}{where}, got {value}{nearest(value, choices)}")
        if name == "dataset":
            of_data = {title: each for title, each in of_data.items() if named.get(name) in (None, each[name])}
    slots = []
    for title, protocol in of_data.items():
        folds = {"dataset.fold": protocol["dataset.fold"]} if "dataset.fold" in protocol else {}
        typed_limits = {name: override for name, override in named.items() if folds or name != "dataset.fold"}
        if folds and scale == "check":
            protocol["dataset.fold"] = expand(protocol["dataset.fold"])[0]
        shared = protocol | by_name(recipe.scale[scale]) | typed_limits
        slots.append(Slot(title, shared, folds | by_name(recipe.data[title].choose)))  # all folds choose
    return RunPlan(recipe, scale, slots, named, as_options(folders), launcher, settings)


def role(name: str) -> str:
    """Return the group of a setting: `ranker` of `ranker.l2` and `ranker/model`."""
    return re.split(r"[./@]", name, maxsplit=1)[0]
