"""`ol2r benchmark NAME --repeat`: published rows are run again, and their numbers compared to the last digit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ol2r_cli.formatting import nearest
from ol2r_cli.recipes.benchmark_plan import benchmark_plan
from ol2r_cli.recipes.overrides import Overrides, by_name
from ol2r_cli.recipes.play import run_recipe
from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.results import TEST, About, Results, played, published_part
from ol2r_cli.recipes.trials import AIMS
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.text_table import show

_HEADINGS = ["data", "click", "fold", "ranker", "chosen", "seeds the same", "largest difference of NDCG@10"]


def repeat(recipe: Recipe, words: Sequence[str], typed: Sequence[str]) -> int:
    """Run published rows again, with their settings, and print whether the numbers are the same; return the exit code.

    words: names of rows, all if there are none, and overrides. Exit code 1 where numbers differ.
    """
    competitors = [word for word in words if "=" not in word]
    typed = [*typed, *(word for word in words if "=" in word)]
    results = _of_rows(published_part(benchmark_plan(recipe, typed)), competitors)
    settings = {about.row(run): _chosen_settings(about) for run, about in results}
    plan = benchmark_plan(recipe, typed, settings=settings)
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    lines = _comparison(results, played(plan, runs))
    equal = sum(same_seeds == "all" for *_, same_seeds, _ in lines)
    show(lines, _HEADINGS)
    print(f"\n{equal} of {len(lines)} runs have the published numbers in all metrics, to the last digit")
    return runs.code or (DONE if equal == len(lines) else FAILED)


def _of_rows(results: Results, competitors: Sequence[str]) -> Results:
    """Return the results of some competitors, in any case of letters; of all where none is named."""
    names = {about.competitor.lower(): about.competitor for _, about in results}
    for name in competitors:
        if name.lower() not in names:
            quoted = ", ".join(f"'{competitor}'" for competitor in names.values())
            near = nearest(name, list(names.values()))
            raise ValueError(f"--repeat must name rows, {quoted}, got {name}{near}")
    wanted = {names[name.lower()] for name in competitors or names}
    return [(run, about) for run, about in results if about.competitor in wanted]


def _chosen_settings(about: About) -> Overrides:
    return {name: override for name, override in by_name(about.words).items() if name in about.settings}


def _comparison(published: Results, repeated: Results) -> list[list[str]]:
    """Return a line for each repeated run and its settings; those with the same settings for several aims have one."""
    before = {(about.row(run), run.fold): run for run, about in published}
    lines: dict[tuple[Any, ...], list[str]] = {}
    aims: dict[tuple[Any, ...], list[str]] = {}
    for run, about in repeated:
        row = about.row(run)
        earlier = before.get((row, run.fold))
        if earlier is None:
            continue
        settings = (row._replace(aim=""), run.fold, *about.words)
        aims.setdefault(settings, []).append(row.aim)
        aim = "both" if aims[settings] == [*AIMS] else ", ".join(aims[settings])
        lines[settings] = [row.slot, row.click, str(run.fold or ""), row.competitor, aim, *_compared(earlier, run)]
    return list(lines.values())


def _compared(before: FinishedRun, now: FinishedRun) -> tuple[str, str]:
    """Return how many seeds have the same numbers in all metrics, and the largest difference of NDCG@10."""
    same = 0
    differences = []
    for seed, published_values in before.values.items():
        values = now.values[seed]
        same += all(values.get(metric) == value for metric, value in published_values.items())
        differences.append(abs((values.get(TEST) or 0.0) - (published_values.get(TEST) or 0.0)))
    if same == len(before.values):
        return "all", ""
    return f"{same} of {len(before.values)}", f"{max(differences):.4f}"
