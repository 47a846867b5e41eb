"""The runs of a recipe: which overrides each has, with those that the user typed, and running them.

For a paper, settings of a condition are those of the trial with the best mean validation NDCG@10; a benchmark chooses
them for each of two aims (`recipes.choices`). `report.comparison` chooses from whatever runs a folder holds and never
chooses settings of fairness, because runs with other fairness settings are another task there. Here the recipe says
what competes, so that the gain of FairCo is chosen as in the paper.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ol2r_cli.config.catalogue import as_options, default_output_dir
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.grammar import expand
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.overrides import as_typed, split_launcher, split_search_path
from ol2r_cli.formatting import nearest, plural
from ol2r_cli.kinds import RunKind, run_kinds
from ol2r_cli.program import as_called
from ol2r_cli.recipes.choices import AIMS, GridCell, best, beyond_the_ends
from ol2r_cli.recipes.recipe import SCALES, Competitor, Recipe
from ol2r_cli.report.run_groups import Group, collect, group_runs
from ol2r_cli.run import DONE, INTERRUPTED
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.store import create_root
from ol2r_cli.sweep.sweeper import print_plan, sweep

LIMITS = ("dataset", "dataset.fold", "click")  # typed overrides that limit a benchmark to a part
ROLES_OF_A_ROW = ("ranker", "exploration", "fairness")  # what rows of a benchmark may differ in
WITHOUT_EFFECT = NOT_HASHED | {"device"}  # on the protocol of a benchmark

Overrides = dict[str, str]  # by the name of the setting: {"ranker.l2": "ranker.l2=0.1"}


def by_name(*overrides: str | Iterable[str]) -> Overrides:
    """Return overrides by setting, in the order of first mention; the last of several with one name counts.

    A text is split into overrides as a shell splits it.
    """
    words = (word for part in overrides for word in (shlex.split(part) if isinstance(part, str) else part))
    return {word.partition("=")[0].lstrip("+~"): word for word in words}


def expand_all(words: str) -> list[str]:
    """Return each override of a text for each of its values."""
    return [override for several in by_name(words).values() for override in expand(several)]


def value_of(overrides: Overrides, name: str) -> str:
    """Return the value of a setting as typed; empty where there is none."""
    return overrides.get(name, "").partition("=")[2]


def role(name: str) -> str:
    """Return the group of a setting: `ranker` of `ranker.l2` and `ranker/model`."""
    return re.split(r"[./@]", name, maxsplit=1)[0]


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
    """One line of a figure or row of a table: a competitor on a dataset (the title of a slot) under a click model.

    aim: for which its settings are chosen, one of `choices.AIMS`; '' where one choice serves both, or there is none.
    point: the value of `Competitor.over`. click: empty where runs have no click model.
    """

    slot: str
    click: str
    competitor: str
    aim: str = ""
    point: str = ""


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
    def _chooses(self) -> bool:
        return self.scale in ("paper", "full") and self.settings is None

    def _aims(self, competitor: Competitor, choosing: bool) -> Sequence[str]:
        """Return for which aims the settings of a competitor are chosen."""
        if self.settings is not None:
            return ("", *AIMS)  # as they are given
        chosen = self._chooses and competitor.grid and not choosing and self.recipe.kind == "benchmark"
        return AIMS if chosen else ("",)

    def candidates(self) -> Iterator[Trial]:
        """Yield the trials from which settings are chosen."""

        def grid(_: Condition, competitor: Competitor) -> list[Overrides]:
            values = map(expand, by_name(competitor.grid).values())
            return [by_name(settings) for settings in product(*values)] if competitor.grid else []

        if self._chooses:
            yield from self._trials(grid, choosing=True)

    def extensions(self, cells: Mapping[Condition, Sequence[GridCell]]) -> list[Trial]:
        """Return trials beyond the ends of grids; the end of what a setting may be ends a grid, too."""

        def beyond(condition: Condition, competitor: Competitor) -> list[Overrides]:
            unstable = expand_all(competitor.unstable)
            return beyond_the_ends(cells[condition], unstable) if condition in cells else []

        def possible(trial: Trial) -> bool:
            config = self.composer(trial.runs[0]).config
            with suppress(ValueError):
                return all(build(config[part]) is not None for part in ("ranker", "exploration"))
            return False

        return [trial for trial in self._trials(beyond, choosing=True) if possible(trial)]

    def final(self, best: Mapping[Condition, Overrides] | None = None) -> Iterator[Trial]:
        """Yield the trials that are reported: with the `best` settings where they are chosen, or with fixed ones."""

        def fixed(condition: Condition, competitor: Competitor) -> list[Overrides]:
            if self.settings is not None:
                return [self.settings[condition]] if condition in self.settings else []
            if self._chooses:
                return [(best or {}).get(condition, {})]
            quick = competitor.quick
            if isinstance(quick, dict):
                quick = quick.get(condition.click, list(quick.values())[-1])
            return [by_name(quick)]

        yield from self._trials(fixed)

    def _trials(
        self, choices: Callable[[Condition, Competitor], list[Overrides]], choosing: bool = False
    ) -> Iterator[Trial]:
        """Yield a trial for each of the settings that a competitor has under a condition."""
        for slot in self.slots if self.recipe.competitors else ():
            shared = slot.shared | (by_name(self.recipe.choose) | slot.choose if choosing else {})
            clicks = expand(slot.shared["click"]) if "click" in slot.shared else [""]
            for click, (name, competitor) in product(clicks, self.recipe.competitors.items()):
                of_row = Condition(slot.title, click.partition("=")[2], name)
                points = [""] if choosing else expand_all(competitor.over) or [""]
                for aim, point in product(self._aims(competitor, choosing), points):
                    condition = of_row._replace(aim=aim)
                    for settings in choices(condition, competitor):
                        own = settings | by_name(point)
                        words = shared | by_name(click, competitor.words) | own
                        yield Trial(condition._replace(point=point), own, tuple(words.values()))


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
    compared = by_name(*(part for each in recipe.competitors.values() for part in (each.words, each.grid, each.over)))
    for name, override in named.items():
        if name in compared:
            raise ValueError(f"{name} is what {recipe.name} compares or chooses: leave out {override}")
        if name not in ("click", "dataset.fold") and len(expand(override)) > 1:
            raise ValueError(f"{name} must have one value, got {override}")
    kind = run_kinds()[recipe.runs]
    choice = value_of(named, kind.data) or (kind.stand_in if scale == "quick" else "")
    names: dict[str, list[str]] = {}  # of the data of the paper, by the words of what is used
    for name, data in ({n: data for n, data in recipe.data.items() if data.choice == choice} or recipe.data).items():
        names.setdefault(data.source(choice).words, []).append(name)
    sources = [(recipe.data[replaced[-1]].source(choice), replaced) for replaced in names.values()]
    titles = Counter(source.title for source, _ in sources)
    slots = []
    for source, replaced in sources:
        own = by_name(source.words)
        settings = [override.removeprefix("dataset.") for name, override in own.items() if name != kind.data]
        title = ", ".join([source.title, *filter(None, [" ".join(settings)] * (titles[source.title] > 1))])
        if recipe.queries is not None:
            setting = "dataset.queries.train" if choice == kind.stand_in else "dataset.queries"
            own[setting] = f"{setting}={recipe.queries}"
        if scale == "paper" and source.folds:
            own["dataset.fold"] = f"dataset.fold={','.join(map(str, range(1, source.folds + 1)))}"
        shared = own | by_name(recipe.words, recipe.scale[scale]) | named
        rounds = value_of(shared, "rounds")
        if rounds.isdecimal() and "block_rounds" in shared:  # those that are played: the user may type fewer
            played = [each for each in re.findall(r"\d+", shared["block_rounds"]) if int(each) <= int(rounds)]
            shared["block_rounds"] = f"block_rounds=[{','.join(played)}]"
        slots.append(Slot(title, shared, stands_for=tuple(replaced)))
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
    which one is chosen as for the other rows. settings: as in a plan. ValueError for typed overrides that would change
    the protocol.
    """

    def limits(word: str) -> bool:
        name = word.partition("=")[0].lstrip("+")
        return name in LIMITS or name in WITHOUT_EFFECT or role(name) == "launcher"

    typed_words, folders = split_search_path([*typed, *filter(limits, added)])
    overrides, launcher = split_launcher(typed_words)
    named, own = by_name(overrides), by_name([word for word in added if not limits(word)])
    if added:
        if "ranker" not in own or len(expand(own["ranker"])) > 1:
            raise ValueError(f"--add must name one ranker, such as --add ranker=mine, got {shlex.join(added)}")
        grid = {name: override for name, override in own.items() if len(expand(override)) > 1}
        words = shlex.join(override for name, override in own.items() if name not in grid)
        added_ranker = Competitor(words, shlex.join(grid.values()))
        recipe = replace(recipe, competitors={f"{value_of(own, 'ranker')} (added)": added_ranker})
    for name, override in [*named.items(), *own.items()]:
        if name == "dataset.path":
            raise ValueError(f"leave out {override}: type data_dir=FOLDER, in which the folder of the data set lies")
        if not (limits(override) if name in named else role(name) in ROLES_OF_A_ROW):
            if "=" not in override:
                raise ValueError(f"{override} is no setting: to play a row again, type --repeat {override}")
            fixed = f"{recipe.name} fixes all settings but {', '.join(LIMITS)}"
            raise ValueError(f"{fixed}: leave out {override}, or use `ol2r run`")
    protocols = {title: by_name(data.words, recipe.words) for title, data in recipe.data.items()}
    if "dataset" in named:
        datasets = list(dict.fromkeys(value_of(protocol, "dataset") for protocol in protocols.values()))
        if (dataset := value_of(named, "dataset")) not in datasets:
            raise ValueError(f"dataset must be {' or '.join(datasets)}, got {dataset}{nearest(dataset, datasets)}")
        protocols = {title: each for title, each in protocols.items() if value_of(each, "dataset") == dataset}
    slots = []
    for title, protocol in protocols.items():
        limited = {name: word for name, word in named.items() if name in protocol or name != "dataset.fold"}
        for name in limited.keys() & {"click", "dataset.fold"}:
            for override in expand(named[name]):
                if override not in (listed := expand(protocol[name])):
                    value, values = override.partition("=")[2], [each.partition("=")[2] for each in listed]
                    allowed = f"{' or '.join(values)} with {title}"
                    raise ValueError(f"{name} must be {allowed}, got {value}{nearest(value, values)}")
        folds = {name: protocol[name] for name in ("dataset.fold",) if name in protocol}
        one = {name: expand(each)[0] for name, each in folds.items()} if scale == "check" else {}
        shared = protocol | one | by_name(recipe.scale[scale]) | limited
        slots.append(Slot(title, shared, folds | by_name(recipe.data[title].choose)))  # all folds choose
    return RunPlan(recipe, scale, slots, named, as_options(folders), launcher, settings)


@dataclass
class RecipeRow:
    """The trial that is reported under a condition, the group of its runs, and from what its settings were chosen."""

    trial: Trial
    group: Group
    cells: Sequence[GridCell] = ()


@dataclass
class RecipeRuns:
    """The runs of a recipe, and a line for each job that failed. code: 0, 3 when some failed, 130 when interrupted.

    cells: what settings were chosen from, by condition without an aim.
    """

    rows: list[RecipeRow] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    code: int = DONE
    cells: dict[Condition, list[GridCell]] = field(default_factory=dict)


def run_recipe(plan: RunPlan) -> RecipeRuns:
    """Run a plan; finished runs are not run again. A condition with a failed run is absent from `rows`."""
    runs = RecipeRuns()
    create_root(plan.output_dir)
    candidates = list(plan.candidates())
    for _ in range(1 + plan.recipe.extend):
        if candidates:
            count = sum(len(trial.runs) for trial in candidates)
            print(f"{plural(count, 'run')} to choose settings", file=sys.stderr)
            for trial, group in _run_trials(candidates, plan, runs).items():
                runs.cells.setdefault(trial.condition, []).append(GridCell(trial.settings, group))
            if runs.code:
                return runs
            candidates = plan.extensions(runs.cells) if plan.recipe.extend else []
    chosen: dict[Condition, Overrides] = {}
    for condition, cells in runs.cells.items():
        unstable = expand_all(plan.recipe.competitors[condition.competitor].unstable)
        chosen |= {condition._replace(aim=aim): best(cells, aim or AIMS[0], unstable).settings for aim in ("", *AIMS)}
    for trial, group in _run_trials(list(plan.final(chosen)), plan, runs).items():
        runs.rows.append(RecipeRow(trial, group, runs.cells.get(trial.condition._replace(aim=""), ())))
    return runs


def _run_trials(trials: Sequence[Trial], plan: RunPlan, runs: RecipeRuns) -> dict[Trial, Group]:
    """Return the group of every trial whose runs have all finished; failures are printed, and added to `runs`."""
    jobs = list(dict.fromkeys(job for trial in trials for job in trial.runs))
    one_at_a_time = (
        ["launcher=processes", "launcher.jobs=1", "launcher.batch=1"] if plan.recipe.alone and not plan.launcher else []
    )
    launcher = [*one_at_a_time, *plan.launcher]
    result = sweep([plan.job(job) for job in jobs], launcher, terminal=sys.stderr, kind=plan.kind)
    for job in result.failed:
        runs.failed.append(f"`{job.command}` ({job.reason})")
        print(f"ol2r {plan.recipe.kind}: failed: {as_called(job.command)} ({job.reason})", file=sys.stderr)
    runs.code = runs.code or result.code
    if result.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
    directories = {job: path for job, path in zip(jobs, result.directories, strict=True) if path is not None}
    groups = {}
    for trial in trials:
        if directories.keys() >= set(trial.runs):
            collected = collect([directories[job] for job in trial.runs])
            if collected.damaged:
                raise ValueError(f"a run is damaged, {collected.damaged[0]}: type force=true to run it again")
            (groups[trial],) = group_runs(collected.runs)
    return groups


def dry_run(plan: RunPlan) -> int:
    """Print the runs of a plan without running or writing anything; return the exit code."""
    candidates, final = list(plan.candidates()), list(plan.final())
    jobs = [[*plan.job(run), *plan.launcher] for trial in candidates or final for run in trial.runs]
    if candidates:
        count = sum(len(trial.runs) for trial in final)
        grown = ", more where the best is at the end of a grid" if plan.recipe.extend else ""
        print(f"{len(jobs)} runs to choose settings{grown}, then {count} with those that were chosen\n")
    if not jobs:
        print("nothing is run: the figure is about the data")
        return DONE
    return print_plan(jobs, plan.composer, kind=plan.kind)
