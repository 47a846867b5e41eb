"""`ol2r benchmark check FILE`: whether results of another machine can be published beside ours.

The file must have all rows of its data, with all folds and seeds, and their settings must be those that its choosing
runs choose. Then one fold and one seed of each row is played again, by the protocol here, and compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ol2r_cli.plugins.benchmark import repeat
from ol2r_cli.plugins.benchmark.play import chosen_settings, run_recipe
from ol2r_cli.plugins.benchmark.recipe import (
    AIMS,
    Condition,
    Recipe,
    by_name,
    load_recipe,
    name_of,
    recipe_names,
    value_of,
)
from ol2r_cli.plugins.benchmark.results import Row, rows_of_file
from ol2r_cli.plugins.benchmark.run_plan import LIMITS, plan_of
from ol2r_cli.plugins.benchmark.tables import outdated
from ol2r_cli.run import DONE, FAILED
from ol2r_cli.text.formatting import listed, nearest, plural


def check(file: Path, typed: Sequence[str]) -> int:
    """Check a file of results, and that of its choosing runs beside it; print what is wrong; return the exit code.

    typed: which part is played, such as dataset=yahoo, and data_dir. ValueError for a file or a part without results.
    """
    recipe, rows = _recipe_of(file), rows_of_file(file)
    faults = _faults(recipe, rows)
    for fault in faults:
        print(f"{file.name}: {fault}", file=sys.stderr)
    lines = []
    for title in _titles(recipe, rows, value_of(by_name(typed), "dataset")):
        of_data = [row for row in rows if row.condition.data == title]
        repeated, code = _played(recipe, title, of_data, typed)
        if code != DONE:
            return code
        lines += repeat.comparison(of_data, repeated)
    repeat.show_lines(lines)
    limits = [word for word in typed if name_of(word) in LIMITS]
    return _concluded(file, faults, [compared for _, compared in lines], limits)


def _titles(recipe: Recipe, rows: Sequence[Row], dataset: str) -> list[str]:
    """Return the data of the rows, or those of them that are this dataset; ValueError where there are none."""
    titles = list(dict.fromkeys(row.condition.data for row in rows))
    if not titles or not set(titles) <= recipe.data.keys():
        raise ValueError(f"FILE must have results on {listed([*recipe.data])}, got {listed(titles) or 'none'}")
    wanted = [title for title in titles if dataset in ("", recipe.data[title].choice)]
    if not wanted:
        raise ValueError(f"dataset must be one of the file, {listed(titles)}, got {dataset}")
    return wanted


def _faults(recipe: Recipe, rows: Sequence[Row]) -> list[str]:
    """Return what is wrong with rows, without playing them."""
    titles = dict.fromkeys(row.condition.data for row in rows if row.condition.data in recipe.data)
    missing = [fault for title in titles for fault in (*_missing(recipe, title, rows), *_unplayed(recipe, title, rows))]
    return [*filter(None, [outdated(rows), *missing, *(_fault_of_choice(recipe, row) for row in rows)])]


def _concluded(file: Path, faults: Sequence[str], runs: Sequence[repeat.Compared], limits: Sequence[str]) -> int:
    """Say whether a file can be merged, and return the exit code. limits: the words by which a part was played."""
    others = [compared for compared in runs if compared.same < compared.seeds]
    marked = sum(compared.of_mean is not None for compared in others)
    print(f"\n{len(runs) - len(others)} of {len(runs)} runs have the numbers of {file.name}")
    if marked:
        print(f"{plural(marked, 'run')} of rows with ‡ differ: another processor does not repeat them")
    unlike = len(others) - marked
    wrong = [*faults, *([f"{plural(unlike, 'run')} with other numbers"] if unlike else [])]
    if wrong:
        print(f"{file.name} cannot be merged: {listed(wrong, most=3)}")
        return FAILED
    if limits:
        print(f"nothing is wrong with this part: to check all of {file.name} leave out {' '.join(limits)}")
    else:
        print(f"{file.name} can be merged: type python -m scripts.publish --merge {file}")
    return DONE


def _recipe_of(file: Path) -> Recipe:
    """Return the benchmark after which a file is called."""
    if file.stem not in recipe_names("benchmark"):
        names = recipe_names("benchmark")
        raise ValueError(f"FILE must be called NAME.parquet of {listed(names)}, got {file}{nearest(file.stem, names)}")
    return load_recipe("benchmark", file.stem)


def _missing(recipe: Recipe, title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows of a dataset that are not there, or not with all folds and seeds, and those that are not of it."""
    plan = plan_of(replace(recipe, data={title: recipe.data[title]}))
    there = {row.condition: row for row in rows}
    absent = []
    for trial in plan.final():
        row = there.get(trial.condition)
        if row is None:
            absent.append(trial.condition)
            continue
        folds = {value_of(by_name(run), "dataset.fold") for run in trial.runs}
        seeds = set(range(int(value_of(by_name(trial.words), "replicas"))))
        found = {str(fold or ""): set(of_fold) for fold, of_fold in row.group.seeds.items()}
        if found != dict.fromkeys(folds, seeds):
            yield f"{_called(row.condition)} must have folds {listed(sorted(folds))} with {plural(len(seeds), 'seed')}"
    if absent:
        yield f"{plural(len(absent), 'row')} missing: {listed(list(map(_called, absent)), most=3)}"
    wanted = {trial.condition for trial in plan.final()}
    others = [row.condition for row in rows if row.condition.data == title and row.condition not in wanted]
    if others:
        called = listed(list(map(_called, others)), most=3)
        yield f"{plural(len(others), 'row')} that the benchmark does not have: {called}"


def _unplayed(recipe: Recipe, title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows of a dataset without all choosing runs of their grid, which may have grown."""
    of_cells: dict[Condition, dict[str, int]] = {}
    for trial in plan_of(replace(recipe, data={title: recipe.data[title]})).candidates():
        number = len(trial.runs) * int(value_of(by_name(trial.words), "replicas"))
        of_cells.setdefault(trial.condition, {})[" ".join(trial.settings.values())] = number
    for row in rows:
        cells = of_cells.get(row.condition._replace(aim=""), {})
        if row.choices is None or row.condition.data != title:
            continue
        played = dict(row.choices.select("settings", "fold", "seed").unique().group_by("settings").len().iter_rows())
        lacking = [settings for settings, number in cells.items() if played.get(settings, 0) < number]
        if lacking:
            yield f"{_called(row.condition)} must have all choosing runs of its grid, and lacks some of {lacking[0]}"


def _called(condition: Condition) -> str:
    return ", ".join(filter(None, condition[:4]))


def _fault_of_choice(recipe: Recipe, row: Row) -> str:
    """Return what is wrong with how the settings of a row were chosen; empty where nothing is."""
    if row.aim not in AIMS or row.competitor not in recipe.competitors:  # selection by clicks has aims of its own
        return ""
    if row.choices is None:
        return f"{_called(row.condition)} must have choosing runs in {recipe.name}_choice.parquet, got none"
    chosen = chosen_settings(row.choices, row.aim, row.unstable)
    given = " ".join(row.settings.values())
    return "" if given == chosen else f"{_called(row.condition)} has {given}, and its choosing runs choose {chosen}"


def _played(recipe: Recipe, title: str, rows: Sequence[Row], typed: Sequence[str]) -> tuple[list[Row], int]:
    """Return the rows of a dataset with one seed on its first fold, played again, and the exit code."""
    one_seed = {name: re.sub(r"replicas=\d+", "replicas=1", words) for name, words in recipe.scale.items()}
    folds = [run.fold for run in rows[0].group.runs if run.fold is not None]
    part = [word for word in typed if not word.startswith("dataset=")]
    part += [f"dataset.fold={min(folds)}"] if folds else []
    of_data = replace(recipe, scale=one_seed, data={title: recipe.data[title]})
    plan = plan_of(of_data, part, settings={row.condition: row.settings for row in rows})
    plan.check_data()
    runs = run_recipe(plan)
    return runs.rows, runs.code
