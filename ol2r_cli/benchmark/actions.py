"""What `ol2r benchmark` does: shows published tables, runs them again, or adds a ranker to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ol2r_cli.benchmark.benchmark_pages import INDEX, index, outdated, page
from ol2r_cli.benchmark.benchmark_plan import BenchmarkPlan
from ol2r_cli.benchmark.benchmark_recipe import BenchmarkRecipe, benchmark_names, load_benchmark
from ol2r_cli.benchmark.benchmark_tables import by_table, result_table
from ol2r_cli.benchmark.entries import About, Entry, as_published, entries, played, published, results_file
from ol2r_cli.config.composer import expand
from ol2r_cli.formatting import nearest
from ol2r_cli.formatting import show as show_rows
from ol2r_cli.report.figures.drawing import draw, save
from ol2r_cli.report.figures.kinds import NothingToDraw
from ol2r_cli.report.finished_run import FinishedRun, by_seed
from ol2r_cli.report.text_table import markdown, terminal
from ol2r_cli.reproduce.recipe_page import CompetitorLabels
from ol2r_cli.reproduce.recipe_runs import RecipeRuns, print_trials, run_recipe
from ol2r_cli.reproduce.run_plan import Condition, by_name
from ol2r_cli.run.directory import RunDirectory
from ol2r_cli.run.exit_status import DONE, FAILED, INTERRUPTED

TEST = "test_ndcg_10"
WITHOUT_CURVE = ("oracle", "random")  # they would take the scale of the others
Results = list[tuple[FinishedRun, About]]


def show(recipe: BenchmarkRecipe, typed: Sequence[str]) -> int:
    """Print the published tables, or those of the datasets and click models that were typed."""
    plan = BenchmarkPlan(recipe, typed)
    if not (results := _of_plan(published(recipe.name), plan)):
        raise ValueError(
            f"there are no published results of {recipe.name} {' '.join(typed)}".rstrip()
            + f": type ol2r benchmark {recipe.name} {' '.join(typed)} --run".replace("  ", " ")
        )
    _print(recipe, entries(results))
    return DONE


def run(recipe: BenchmarkRecipe, typed: Sequence[str], out: Path | None) -> int:
    """Run what is missing of a benchmark and its check, write results and page, print tables; return the exit code."""
    plan, code = BenchmarkPlan(recipe, typed), DONE
    folder = out or plan.output_dir / plan.part
    for part in (BenchmarkPlan(recipe, typed, full=False), plan):
        runs = _run(part)
        code = code or runs.code
        if code == INTERRUPTED:
            return INTERRUPTED
        if results := played(part, runs):
            rows = entries(results)
            if part.full:
                figures = _curves(recipe, rows, folder)
                RunDirectory(folder).write_text(f"{recipe.name}.md", page(recipe, rows, figures))
                print(f"written: {folder / recipe.name}.md")
            file = results_file(recipe.name, check=not part.full)
            RunDirectory(folder).write_parquet(file, as_published(results))
            print(f"written: {folder / file}")
            if part.full:
                _print(recipe, rows)
    return code


def add(recipe: BenchmarkRecipe, words: Sequence[str], typed: Sequence[str]) -> int:
    """Run a ranker of the user's own as the others were run, and print the published tables with it."""
    plan = BenchmarkPlan(recipe, typed, added=words)
    others = _of_plan(published(recipe.name), plan)
    if not others:
        raise _unpublished(recipe)
    runs = _run(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    own = played(plan, runs)
    data = {(run.fold, run.fingerprint) for run, _ in others}
    for title in dict.fromkeys(about.table for run, about in own if (run.fold, run.fingerprint) not in data):
        print(f"ol2r benchmark: {title} has other data here than the published results", file=sys.stderr)
    for condition, trials in runs.candidates.items():
        if len(trials) > 1 and len(set(trials.values())) == 1:
            place = f"{condition.slot}, {condition.click}"
            print(f"ol2r benchmark: {place}: all settings have the same validation NDCG@10", file=sys.stderr)
    _print(recipe, entries([*others, *own]))
    print(f"runs: {plan.output_dir / plan.part}")
    return runs.code


def repeat(recipe: BenchmarkRecipe, competitors: Sequence[str], typed: Sequence[str]) -> int:
    """Run published rows again, with their settings, and print whether the numbers are the same; return the exit code.

    competitors: the rows, all if empty. Exit code 1 where numbers differ.
    """
    if not (results := published(recipe.name)):
        raise _unpublished(recipe)
    made = {about.row(run): about for run, about in results}
    names = {name.lower(): name for name in recipe.competitors if name in {row[-1] for row in made}}
    for row in competitors:
        if row.lower() not in names:
            quoted = ", ".join(f"'{name}'" for name in names.values())
            raise ValueError(f"--repeat must name rows, {quoted}, got {row}{nearest(row, list(names.values()))}")
    wanted = {names[row.lower()] for row in competitors}
    settings = {
        Condition(*row): by_name([word for word in about.words if word.partition("=")[0] in about.settings])
        for row, about in made.items()
        if not competitors or about.competitor in wanted
    }
    plan = BenchmarkPlan(recipe, typed, settings=settings)
    before = {(*about.row(run), run.fold): run for run, about in _of_plan(results, plan)}
    if not before:
        raise _unpublished(recipe)
    runs = _run(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    lines = [
        [about.table, run.choices["click"], str(run.fold or ""), about.competitor, *_compared(before[key], run)]
        for run, about in played(plan, runs)
        if (key := (*about.row(run), run.fold)) in before
    ]
    same = [line[-2] == "all" for line in lines]
    show_rows(lines, ["data", "click", "fold", "ranker", "seeds the same", "largest difference of NDCG@10"])
    print(f"\n{sum(same)} of {len(lines)} runs have the published numbers in all metrics, to the last digit")
    return runs.code or (DONE if all(same) else FAILED)


def _unpublished(recipe: BenchmarkRecipe) -> ValueError:
    return ValueError(f"there are no published results of {recipe.name} for this: type ol2r benchmark {recipe.name}")


def _compared(before: FinishedRun, after: FinishedRun) -> tuple[str, str]:
    """How many seeds have all metrics alike, and the largest difference of NDCG@10 on test queries."""
    one, other = by_seed(before), by_seed(after)
    same = sum(all(other[seed].get(name) == value for name, value in row.items()) for seed, row in one.items())
    apart = max(abs((other[seed].get(TEST) or 0.0) - (row.get(TEST) or 0.0)) for seed, row in one.items())
    return "all" if same == len(one) else f"{same} of {len(one)}", "" if same == len(one) else f"{apart:.4f}"


def dry_run(recipe: BenchmarkRecipe, typed: Sequence[str], words: Sequence[str] = ()) -> int:
    """Print which runs there would be, without running anything."""
    plan = BenchmarkPlan(recipe, typed, added=words)
    plan.check_data()
    return print_trials(plan)


def write_all(folder: Path) -> int:
    """Write the pages of all published results, and the index, without running anything."""
    found = {}
    for name in benchmark_names():
        if results := published(name):
            recipe, rows = load_benchmark(name), entries(results)
            found[name] = recipe, rows
            figures = {title: file for title, file in _figure_files(recipe, rows).items() if (folder / file).exists()}
            RunDirectory(folder).write_text(f"{name}.md", page(recipe, rows, figures))
            print(f"written: {folder / name}.md")
    if not found:
        raise ValueError("there are no published results: type ol2r benchmark linear --run --out docs/benchmark")
    RunDirectory(folder).write_text(INDEX, index(found))
    print(f"written: {folder / INDEX}")
    return DONE


def _run(plan: BenchmarkPlan) -> RecipeRuns:
    """Run what is missing; failed runs are told."""
    plan.check_data()
    runs = run_recipe(plan)
    for job in runs.failed:
        print(f"ol2r benchmark: failed: {job.command} ({job.reason})", file=sys.stderr)
    if runs.code == INTERRUPTED:
        print("the same command goes on from here", file=sys.stderr)
    return runs


def _of_plan(results: Results, plan: BenchmarkPlan) -> Results:
    """The results of the datasets, click models and folds of a plan."""
    conditions = {(trial.condition.slot, trial.condition.click) for trial in plan.final()}
    folds = {_fold(run) for trial in plan.final() for run in trial.runs}
    return [
        (run, about)
        for run, about in results
        if (about.table, run.choices["click"]) in conditions and (run.fold is None or str(run.fold) in folds)
    ]


def _fold(words: Sequence[str]) -> str:
    return next((word.partition("=")[2] for word in words if word.startswith("dataset.fold=")), "")


def _figure_files(recipe: BenchmarkRecipe, rows: Sequence[Entry]) -> dict[str, str]:
    """The file of the curves of each dataset."""
    titles = dict.fromkeys(row.about.table for row in rows)
    return {title: f"{recipe.name}_{title.lower().replace(', ', '_')}.svg" for title in titles}


def _curves(recipe: BenchmarkRecipe, rows: Sequence[Entry], folder: Path) -> dict[str, str]:
    """Draw the learning curves of each dataset; the name of each file that was written."""
    drawn = {}
    for title, file in _figure_files(recipe, rows).items():
        groups = {
            Condition(*row.table, row.about.competitor): row.group
            for row in rows
            if row.about.table == title and row.group.choices["ranker"] not in WITHOUT_CURVE
        }
        try:
            save(draw("learning_curve", list(groups.values()), CompetitorLabels(groups), bands="none"), folder / file)
        except NothingToDraw:
            continue
        drawn[title] = file
    return drawn


def _print(recipe: BenchmarkRecipe, rows: Sequence[Entry]) -> None:
    """Print the tables, with a warning where the results are of an earlier version."""
    if warning := outdated(rows):
        print(f"ol2r benchmark: {warning}", file=sys.stderr)
    for (title, click), of_table in by_table(rows).items():
        print(f"\n{title}{_folds(recipe, title, of_table)}, {click}\n")
        table = result_table(recipe, of_table)
        if sys.stdout.isatty():
            terminal([table], [])
        else:
            print(markdown(table))
    unit = "over folds, or over seeds where there is one fold"
    marks = f"↑ ↓: significantly higher or lower than {recipe.baseline}, paired, Holm's correction for a column"
    print(f"\n± is half the 95 % interval {unit}; {marks}; * at the end of its grid")


def _folds(recipe: BenchmarkRecipe, title: str, rows: Sequence[Entry]) -> str:
    """The folds of a table that has not all of its dataset's."""
    folds = sorted({run.fold for row in rows for run in row.group.runs if run.fold is not None})
    protocol = by_name(recipe.data[title].words)
    if not folds or len(folds) == len(expand(protocol["dataset.fold"])):
        return ""
    return f", fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))}"
