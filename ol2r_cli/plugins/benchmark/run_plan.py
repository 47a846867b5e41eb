"""The plan of a recipe: which runs it has, with the overrides that the user typed.

`play` runs a plan. For a paper, settings of a condition are those of the trial with the best mean validation NDCG@10; a
benchmark chooses them for each of two aims. `ol2r report --select` never chooses settings of fairness, because runs
with other fairness settings are another task there. Here the recipe says what competes, so that the gain of FairCo is
chosen as in the paper.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.grammar import expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed, full_names, split_launcher, split_search_path
from ol2r_cli.config.own_choices import as_options, default_output_dir
from ol2r_cli.plugins import RunKind, run_kinds
from ol2r_cli.plugins.benchmark.recipe import (
    SCALES,
    Competitor,
    Condition,
    Overrides,
    Recipe,
    RecipeData,
    by_name,
    name_of,
    role,
    value_of,
)
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.text.formatting import nearest

LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit a benchmark to a part
ROLES_OF_A_ROW = ("ranker", "exploration", "fairness")  # what rows of a benchmark may differ in
WITHOUT_EFFECT = NOT_HASHED | {"device"}  # settings that do not change the protocol of a benchmark
_SEVERAL_VALUES = ("click", "dataset.fold")  # of a paper; all other typed overrides have one


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
        place = as_typed(self.output_dir / self.recipe.command, "output_dir")
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
        chooses_for_aims = self._chooses and competitor.grid and self.recipe.command == "benchmark"
        return self.recipe.aims if chooses_for_aims else ("",)

    def candidates(self) -> Iterator[Trial]:
        """Yield the trials from which settings are chosen: all cells of the grid of each competitor that has one."""
        if not self._chooses:
            return
        for slot in self.slots:
            shared = slot.shared | by_name(self.recipe.choose) | slot.choose
            for condition, competitor, own_words in self._conditions(slot):
                if not competitor.grid:
                    continue
                values = map(expand, by_name(competitor.grid).values())
                for settings in map(by_name, product(*values)):
                    words = shared | own_words | settings
                    yield Trial(condition, settings, tuple(words.values()))

    def final(self, chosen: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """Yield the trials that are reported: with the `chosen` settings of each condition, or with fixed ones."""
        for slot in self.slots:
            for without_aim, competitor, own_words in self._conditions(slot):
                points = expand_all(competitor.over) or [""]
                for aim, point in product(self.aims(competitor), points):
                    condition = without_aim._replace(aim=aim)
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

    def _conditions(self, slot: Slot) -> Iterator[tuple[Condition, Competitor, Overrides]]:
        """Yield the condition of each click model and competitor, with the overrides that define both."""
        clicks = expand(slot.shared["click"]) if "click" in slot.shared else [""]
        for click, (name, competitor) in product(clicks, self.recipe.competitors.items()):
            condition = Condition(slot.title, click.partition("=")[2], name)
            yield condition, competitor, by_name(click, competitor.words)


def expand_all(words: str) -> list[str]:
    """Return each override of a text for each of its values."""
    return list(chain(*map(expand, by_name(words).values())))


def plan_of(
    recipe: Recipe,
    typed: Sequence[str] = (),
    scale: str | None = None,
    *,
    added: Sequence[str] = (),
    settings: Mapping[Condition, Overrides] | None = None,
) -> RunPlan:
    """Return the plan of a recipe with what the user typed; ValueError for what would change what is compared.

    Words replace those of a paper; they limit a benchmark to a part, or do not change its results. scale: of `SCALES`.
    quick has few seeds, generated data and fixed settings, paper and full are the protocols, and check has a few rounds
    with default settings and one fold of each dataset. added: the words of a ranker of the user, which is the only
    competitor of a benchmark then; a setting may list several values, of which one is chosen as for the other rows.
    settings: as in a plan.
    """
    scales = SCALES[recipe.command]
    scale = scales[0] if scale is None else scale
    if scale not in scales:
        raise ValueError(f"scale must be one of {', '.join(scales)}, got {scale}")
    of_ranker = [word for word in added if not _is_free(name_of(word))]
    if added:
        recipe = replace(recipe, competitors=_added_competitor(of_ranker, added))
    if recipe.command == "benchmark":
        _check_once([*typed, *added])
    words, folders = split_search_path([*typed, *(word for word in added if _is_free(name_of(word)))])
    overrides, launcher = split_launcher(words)
    if recipe.command != "benchmark":  # which refuses beginnings of names
        choices = Composer(as_options(folders), run_kinds()[recipe.runs].name).catalogue.choices
        overrides = full_names(overrides, choices)
    named = by_name(overrides)
    if recipe.command == "benchmark":
        slots = _slots_of_benchmark(recipe, scale, named, by_name(of_ranker))
    else:
        slots = _slots_of_paper(recipe, scale, named)
    return RunPlan(recipe, scale, slots, named, as_options(folders), launcher, settings)


def _is_free(name: str) -> bool:
    """Return whether users may type this setting: it limits a benchmark, or does not change its results."""
    return name in LIMITS or name in WITHOUT_EFFECT or role(name) == "launcher"


def _added_competitor(words: Sequence[str], typed: Sequence[str]) -> dict[str, Competitor]:
    """Return the competitor behind `--add` by its name; its settings with several values are its grid."""
    own = by_name(words)
    if "ranker" not in own or len(expand(own["ranker"])) > 1:
        raise ValueError(f"--add must name one ranker, such as --add ranker=mine, got {shlex.join(typed)}")
    grid = [override for override in own.values() if len(expand(override)) > 1]
    fixed = [override for override in own.values() if override not in grid]
    return {f"{value_of(own, 'ranker')} (added)": Competitor(shlex.join(fixed), shlex.join(grid))}


def _check_once(typed: Sequence[str]) -> None:
    """Raise ValueError for a setting that is typed with two values, one of which would be lost."""
    values: dict[str, str] = {}
    for word in typed:
        if word.startswith("-"):  # an option, such as a folder of components
            continue
        first = values.setdefault(name_of(word), word)
        if first != word:
            raise ValueError(f"{name_of(word)} must be typed once, got {first} and {word}")


def _slots_of_benchmark(recipe: Recipe, scale: str, named: Overrides, of_ranker: Overrides) -> list[Slot]:
    """Return the datasets of a benchmark that are typed, by default all.

    Overrides of an added row may only change roles in which rows differ.
    """
    for name, override in [*named.items(), *of_ranker.items()]:
        if name == "dataset.path":
            raise ValueError(f"leave out {override}: type data_dir=FOLDER, in which the folder of the data set lies")
        if _is_free(name) or (name in of_ranker and role(name) in ROLES_OF_A_ROW):
            continue
        fixed = f"{recipe.name} fixes all settings but {', '.join(LIMITS)}"
        raise ValueError(f"{fixed}: leave out {override}, or use `ol2r run`")
    protocols = {title: by_name(data.words, recipe.words) for title, data in recipe.data.items()}
    if "dataset" in named:
        dataset = value_of(named, "dataset")
        datasets = list(dict.fromkeys(value_of(protocol, "dataset") for protocol in protocols.values()))
        if dataset not in datasets:
            raise ValueError(f"dataset must be {' or '.join(datasets)}, got {dataset}{nearest(dataset, datasets)}")
        protocols = {title: each for title, each in protocols.items() if value_of(each, "dataset") == dataset}
    if "dataset.fold" in named and not any("dataset.fold" in protocol for protocol in protocols.values()):
        raise ValueError(f"leave out {named['dataset.fold']}: {' and '.join(protocols)} has no folds")
    return [_slot_of_benchmark(recipe, title, protocol, named, scale) for title, protocol in protocols.items()]


def _slot_of_benchmark(recipe: Recipe, title: str, protocol: Overrides, named: Overrides, scale: str) -> Slot:
    """Return a dataset with the overrides of its runs; ValueError for a typed click model or fold that it lacks."""
    has_folds = "dataset.fold" in protocol
    typed = {name: override for name, override in named.items() if name != "dataset.fold" or has_folds}
    for name in ("click", "dataset.fold"):
        if name in typed:
            _check_listed(typed[name], protocol[name], title)
    folds = {"dataset.fold": protocol["dataset.fold"]} if has_folds else {}
    reported_folds = folds
    if scale == "check" and has_folds:
        reported_folds = {"dataset.fold": expand(protocol["dataset.fold"])[0]}
    # What is typed counts before the scale, and the scale before the protocol.
    reported = protocol | reported_folds | by_name(recipe.scale[scale]) | typed
    choosing = folds | by_name(recipe.data[title].choose)  # on all folds, also where fewer are reported
    return Slot(title, reported, choosing)


def _check_listed(typed: str, listed: str, title: str) -> None:
    """Raise ValueError unless each value of a typed override is one of those that the protocol lists."""
    values = [override.partition("=")[2] for override in expand(listed)]
    for override in expand(typed):
        name, _, value = override.partition("=")
        if override not in expand(listed):
            raise ValueError(f"{name} must be {' or '.join(values)} with {title}, got {value}{nearest(value, values)}")


def _slots_of_paper(recipe: Recipe, scale: str, named: Overrides) -> list[Slot]:
    """Return the data of a figure or table, or what replaces them."""
    _check_paper(recipe, named)
    kind = run_kinds()[recipe.runs]
    choice = value_of(named, kind.data) or (kind.stand_in if scale == "quick" else "")
    names = _replaced_names(recipe, choice)
    sources = [recipe.data[replaced[-1]].source(choice) for replaced in names]
    slots = []
    for source, title, stands_for in zip(sources, _titles(sources), names, strict=True):
        own = by_name(source.words)
        if recipe.queries is not None:
            name = "dataset.queries.train" if choice == kind.stand_in else "dataset.queries"
            own[name] = f"{name}={recipe.queries}"
        if scale == "paper" and source.folds:
            own["dataset.fold"] = f"dataset.fold={','.join(map(str, range(1, source.folds + 1)))}"
        shared = own | by_name(recipe.words, recipe.scale[scale]) | named
        slots.append(Slot(title, _without_late_blocks(shared), stands_for=stands_for))
    return slots


def _check_paper(recipe: Recipe, named: Overrides) -> None:
    """Raise ValueError for typed overrides that would change what the recipe of a paper compares."""
    compared: Overrides = {}
    for competitor in recipe.competitors.values():
        compared |= by_name(competitor.words, competitor.grid, competitor.over)
    for name, override in named.items():
        if name in compared:
            raise ValueError(f"{name} is what {recipe.name} compares or chooses: leave out {override}")
        if name not in _SEVERAL_VALUES and len(expand(override)) > 1:
            raise ValueError(f"{name} must have one value, got {override}")
    rounds = value_of(named, "rounds")
    least = max((figure.get("options", {}).get("window", 1) for figure in recipe.figures), default=1)
    if rounds.isdecimal() and int(rounds) < least:
        raise ValueError(f"rounds must be {least} or more, of which {recipe.name} draws a mean, got {rounds}")


def _replaced_names(recipe: Recipe, choice: str) -> list[tuple[str, ...]]:
    """Return for each dataset that is used the names of the paper's datasets that it is or replaces.

    Datasets of the paper with the same replacement share it; where `choice` is one of them, it is used alone.
    """
    used = {name: data for name, data in recipe.data.items() if data.choice == choice} or recipe.data
    names: dict[str, list[str]] = {}
    for name, data in used.items():
        names.setdefault(data.source(choice).words, []).append(name)
    return [tuple(replaced) for replaced in names.values()]


def _titles(sources: Sequence[RecipeData]) -> list[str]:
    """Return the title of each dataset, with its settings where several have the same title."""
    count = Counter(source.title for source in sources)
    titles = []
    for source in sources:
        own = by_name(source.words)
        settings = [override.removeprefix("dataset.") for name, override in own.items() if name != source.group]
        ambiguous = count[source.title] > 1 and settings
        titles.append(f"{source.title}, {' '.join(settings)}" if ambiguous else source.title)
    return titles


def _without_late_blocks(shared: Overrides) -> Overrides:
    """Return overrides without the block rounds that are not played: the user may have typed fewer rounds."""
    rounds = value_of(shared, "rounds")
    if "block_rounds" not in shared or not rounds.isdecimal():
        return shared
    played = [number for number in re.findall(r"\d+", shared["block_rounds"]) if int(number) <= int(rounds)]
    return shared | {"block_rounds": f"block_rounds=[{','.join(played)}]"}
