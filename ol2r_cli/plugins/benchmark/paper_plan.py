"""The runs of a figure or table of a paper, on its data or on what replaces them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ol2r_cli.config.grammar import expand
from ol2r_cli.plugins import run_kinds
from ol2r_cli.plugins.benchmark.overrides import Overrides, by_name, value_of
from ol2r_cli.plugins.benchmark.recipe import SCALES, Recipe, RecipeData
from ol2r_cli.plugins.benchmark.run_plan import RunPlan, Slot, read_typed

_SEVERAL_VALUES = ("click", "dataset.fold")  # all other overrides have one


def paper_plan(recipe: Recipe, scale: str = "quick", typed: Sequence[str] = ()) -> RunPlan:
    """Return the plan of a figure or table of a paper.

    ValueError for an unknown scale, and for overrides that would change what the recipe compares.
    """
    if scale not in SCALES["reproduce"]:
        raise ValueError(f"scale must be one of {', '.join(SCALES['reproduce'])}, got {scale}")
    named, folders, launcher = read_typed(typed)
    _check_typed(recipe, named)
    kind = run_kinds()[recipe.runs]
    choice = value_of(named, kind.data) or (kind.stand_in if scale == "quick" else "")
    names = _replaced_names(recipe, choice)
    sources = [recipe.data[replaced[-1]].source(choice) for replaced in names]
    slots = []
    for source, title, stands_for in zip(sources, _titles(sources), names, strict=True):
        own = _of_source(source, recipe, scale, is_generated=choice == kind.stand_in)
        shared = own | by_name(recipe.words, recipe.scale[scale]) | named
        slots.append(Slot(title, _without_late_blocks(shared), stands_for=stands_for))
    return RunPlan(recipe, scale, slots, named, folders, launcher)


def _check_typed(recipe: Recipe, named: Overrides) -> None:
    """Raise ValueError for typed overrides that would change what the recipe compares."""
    compared: Overrides = {}
    for competitor in recipe.competitors.values():
        compared |= by_name(competitor.words, competitor.grid, competitor.over)
    for name, override in named.items():
        if name in compared:
            raise ValueError(f"{name} is what {recipe.name} compares or chooses: leave out {override}")
        if name not in _SEVERAL_VALUES and len(expand(override)) > 1:
            raise ValueError(f"{name} must have one value, got {override}")
    rounds = value_of(named, "rounds")
    least = _smoothed_rounds(recipe)
    if rounds.isdecimal() and int(rounds) < least:
        raise ValueError(f"rounds must be {least} or more, of which {recipe.name} draws a mean, got {rounds}")


def _smoothed_rounds(recipe: Recipe) -> int:
    """Return how many rounds the longest mean in the figures of a recipe is over, 1 without one."""
    windows = [spec.get("options", {}).get("window", 1) for spec in recipe.figures]
    return max(windows, default=1)


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


def _of_source(source: RecipeData, recipe: Recipe, scale: str, is_generated: bool) -> Overrides:
    """Return the overrides that choose the data: how many of their queries, and all folds that the paper reports."""
    own = by_name(source.words)
    if recipe.queries is not None:
        name = "dataset.queries.train" if is_generated else "dataset.queries"
        own[name] = f"{name}={recipe.queries}"
    if scale == "paper" and source.folds:
        folds = ",".join(map(str, range(1, source.folds + 1)))
        own["dataset.fold"] = f"dataset.fold={folds}"
    return own


def _without_late_blocks(shared: Overrides) -> Overrides:
    """Return overrides without the block rounds that are not played: the user may have typed fewer rounds."""
    rounds = value_of(shared, "rounds")
    if "block_rounds" not in shared or not rounds.isdecimal():
        return shared
    played = [number for number in re.findall(r"\d+", shared["block_rounds"]) if int(number) <= int(rounds)]
    return shared | {"block_rounds": f"block_rounds=[{','.join(played)}]"}
