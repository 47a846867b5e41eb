"""Figures and page of a recipe, each with a caveat wherever data or protocol differ from those of the paper."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.config.composer import expand
from ol2r_cli.report.estimates import LEVEL
from ol2r_cli.report.figures.drawing import draw, save
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import markdown
from ol2r_cli.reproduce.paper_plan import STAND_IN, PaperPlan
from ol2r_cli.reproduce.paper_table import ReportedValue, comparison_table
from ol2r_cli.reproduce.recipe import PAPERS, Recipe
from ol2r_cli.reproduce.recipe_runs import RecipeRuns
from ol2r_cli.reproduce.run_plan import Condition, Overrides
from ol2r_cli.run.identity import NOT_HASHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg", "pdf")
_WITHOUT_EFFECT = {*NOT_HASHED, "dataset.path", "click"}  # overrides after which numbers remain comparable
_FONT_SIZE = 7  # of the line above a figure, in points
_CHARACTERS = 16  # in an inch of this line
_WARNING_COLOUR = "#8a1c00"


# Rankers with a network that ol2r fits in another way than the papers.
_REFITTED = tuple(f"ranker={name}" for name in ("olranknet", "ollambdarank", "ollambdarank_gt", "p2neurrank"))


def protocol_line(plan: PaperPlan) -> str:
    """The protocol of the runs, such as `quick: T = 1,000, 5 seeds, generated data`."""
    generated = f"dataset={STAND_IN}"
    datasets = ["generated data" if slot.overrides["dataset"] == generated else slot.title for slot in plan.slots]
    parts = []
    if plan.recipe.competitors:
        shared = plan.shared(plan.slots[0])
        rounds, seeds = _whole_number(shared, "rounds"), _whole_number(shared, "replicas")
        folds = len(expand(shared["dataset.fold"])) if "dataset.fold" in shared else 1
        parts.append(f"T = {rounds:,}")
        parts.append(f"{seeds} seed{'s' * (seeds > 1)}" + (f" x {folds} folds" if folds > 1 else ""))
    return f"{plan.scale}: {', '.join([*parts, ' and '.join(dict.fromkeys(datasets))])}"


def _whole_number(overrides: Overrides, name: str) -> int:
    value = overrides[name].partition("=")[2]
    if not value.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {value}")
    return int(value)


def caveat(plan: PaperPlan) -> str:
    """The reason why numbers cannot be compared with those of the paper; empty when they can."""
    protocol = protocol_line(plan)
    typed = [override for name, override in plan.typed.items() if name not in _WITHOUT_EFFECT]
    if plan.scale == "quick":
        return f"{protocol}: shapes can be compared, numbers cannot"
    if not plan.uses_paper_data:
        return f"{protocol}, which is not the data of the paper: numbers cannot be compared"
    if typed:
        return f"{protocol}, with {' '.join(typed)}, which is not the protocol of the paper"
    if _fits_networks_otherwise(plan.recipe):
        return f"{protocol}, with networks that are not fitted as in the paper: numbers cannot be compared"
    return ""


def _fits_networks_otherwise(recipe: Recipe) -> bool:
    """Whether a competitor is a network that ol2r fits in another way than the papers: docs/reproduce.md lists how."""
    return any(word in _REFITTED for competitor in recipe.competitors.values() for word in competitor.words.split())


class CompetitorLabels(Labels):
    """Labels of groups in figures: the name of the competitor."""

    def __init__(self, groups: Mapping[Condition, Group]):
        super().__init__(list(groups.values()))
        self._names = {group: condition.competitor for condition, group in groups.items()}

    def called(self, group: Group) -> str:
        return self._names[group]


def draw_figures(plan: PaperPlan, runs: RecipeRuns, folder: Path) -> Iterator[Path]:
    """Draw the figures of a recipe into a folder and yield their png files; ValueError for runs that lack data."""
    for spec in plan.recipe.figures:
        groups = {
            condition: group
            for condition, group in runs.groups.items()
            if not spec.click or condition.click in spec.click
        }
        if not groups:
            continue
        figure = draw(spec.kind, list(groups.values()), CompetitorLabels(groups), **spec.options)
        _add_heading(figure, caveat(plan) or protocol_line(plan))
        for suffix in SUFFIXES:
            save(figure, folder / f"{spec.kind}.{suffix}")
        yield folder / f"{spec.kind}.png"


def _add_heading(figure: Figure, text: str) -> None:
    """Write a wrapped text above a figure, which grows by the height of the text."""
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text, int(width * _CHARACTERS))
    figure.set_size_inches(width, height + (len(lines) + 0.5) * _FONT_SIZE * 1.3 / 72)
    figure.suptitle("\n".join(lines), fontsize=_FONT_SIZE, fontweight="bold", color=_WARNING_COLOUR)


def markdown_page(plan: PaperPlan, runs: RecipeRuns, values: Sequence[ReportedValue], figures: Sequence[Path]) -> str:
    """The README.md of a recipe; a caveat comes before the first number."""
    recipe, warning = plan.recipe, caveat(plan)
    parts = [
        f"# {recipe.title}",
        f"{PAPERS[recipe.paper][1]}, {recipe.where}: {recipe.shows}.",
        f"> **{warning}**" if warning else protocol_line(plan),
        "The paper says, and published runs of ol2r (`docs/reproduce.md`) show:",
        "\n".join(map(_claim, recipe.claims, recipe.seen)),
        *(f"![{path.stem}]({path.name})" for path in figures),
    ]
    if values:
        parts += [markdown(comparison_table(values, comparable=not warning)), _notes(values, runs)]
    parts += [f"failed: `{job.command}` ({job.reason})" for job in runs.failed]
    command = f"ol2r reproduce {recipe.name} --scale {plan.scale} {shlex.join(plan.typed.values())}".strip()
    return "\n\n".join([*parts, f"    {command}"]) + "\n"


def _claim(claim: str, seen: str) -> str:
    """A claim of the paper, and below it what published runs show of it."""
    verdict, comma, reason = seen.partition(",")
    return f"- {claim}\n  - **{verdict}**{comma}{reason}"


def _notes(values: Sequence[ReportedValue], runs: RecipeRuns) -> str:
    """What ± and n mean, and how settings were chosen."""
    notes = []
    if any(value.value.half_width is not None for value in values):
        units = "seeds, of which there are n."
        if any(value.value.folds > 1 for value in values):
            units = "folds; n counts (fold, seed)."
        notes.append(f"± is half the width of the {LEVEL:.0%} interval of the mean (Student's t) over {units}")
    if runs.candidates:
        notes.append(
            f"Settings are the best of up to {max(map(len, runs.candidates.values()))} by validation NDCG@10, "
            "chosen with other seeds than those reported."
        )
    return " ".join(notes)
