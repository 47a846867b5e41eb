"""Write the pages of the published results, with their index and the page of claims, into docs/benchmark.

    python -m scripts.publish                               all pages
    python -m scripts.publish --runs outputs/benchmark      also figures, of those runs
    python -m scripts.publish --merge FOLDER/linear.parquet     with these results of some data, in place of theirs

`ol2r benchmark NAME --run --out docs/benchmark` writes the results of all data, with dataset=.. and another folder
those of one. They have no rounds, so that figures need the directories of the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ol2r_cli.plugins.benchmark import click_costs, results
from ol2r_cli.plugins.benchmark.differences import for_metric
from ol2r_cli.plugins.benchmark.paper import drawn
from ol2r_cli.plugins.benchmark.recipe import Condition, Recipe, load_recipe, recipe_names
from ol2r_cli.plugins.benchmark.results import TEST, Tables, published, tables_of
from ol2r_cli.plugins.figures.drawing import save
from ol2r_cli.plugins.figures.look import MOST_CURVES, NothingToDraw
from ol2r_cli.report.collection import collect
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.store import RunDirectory
from scripts.publish import orders
from scripts.publish.claims_page import claims_page
from scripts.publish.click_costs_page import click_costs_page
from scripts.publish.index_page import index, overview
from scripts.publish.merge import merge
from scripts.publish.pages import benchmark_page

WITHOUT_CURVE = ("oracle", "random")  # they would take the scale of the others


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", metavar="DIR", type=Path, help="a folder of runs, of which figures are drawn")
    parser.add_argument("--out", metavar="DIR", type=Path, default=results.published_dir(), help="(docs/benchmark)")
    parser.add_argument("--merge", metavar="FILE", type=Path, help="results of some data of a benchmark")
    given = parser.parse_args(words)
    if given.merge:
        merge(given.merge)
    every = {name: tables_of(published(name)) for name in recipe_names("benchmark")}
    pages = [(load_recipe("benchmark", name), tables) for name, tables in every.items() if tables]
    if not pages:
        parser.error("there are no published results: type ol2r benchmark linear --run --out docs/benchmark")
    paths = {run.id: run.path for run in collect([given.runs]).runs} if given.runs else {}
    directory = RunDirectory(given.out)
    for recipe, tables in pages:
        write_page(recipe, tables, paths, directory)
    directory.write_text("claims.md", claims_page())
    directory.write_text("README.md", index(pages))
    print(f"written: {given.out / 'README.md'}")
    return 0


def write_page(recipe: Recipe, tables: Tables, paths: Mapping[str, Path], directory: RunDirectory) -> None:
    """Write the page of a benchmark, with its figures: those of runs in `paths`, by id, or those that are there."""
    if click_costs.asks_for_costs(recipe):
        page = click_costs_page(recipe, tables)
    else:
        figures = {title: f"{recipe.name}_{title.lower().replace(', ', '_')}.svg" for title, _ in tables}
        for title, file in figures.items():
            with suppress(NothingToDraw):
                if curves := curves_of(tables, title, paths):
                    save(drawn("learning_curve", curves, bands="none"), directory / file)
        there = {title: file for title, file in figures.items() if (directory / file).exists()}
        page = benchmark_page(recipe, tables, overview(recipe, tables), there, orders.sections(recipe, tables))
    directory.write_text(f"{recipe.name}.md", page)
    print(f"written: {directory / recipe.name}.md")


def curves_of(tables: Tables, title: str, paths: Mapping[str, Path]) -> dict[Condition, Group]:
    """Return the groups of a dataset whose curves are drawn; of many competitors, those without variants of rankers.

    Empty unless all of their runs are in `paths`.
    """
    curves = {}
    for table, rows in tables.items():
        for name, row in for_metric(rows, TEST).items():
            if table[0] == title and row.group.choices["ranker"] not in WITHOUT_CURVE:
                curves[Condition(*table, name)] = row.group
    if len({condition.competitor for condition in curves}) > MOST_CURVES:
        curves = {condition: group for condition, group in curves.items() if ", " not in condition.competitor}
    if not all(run.id in paths for group in curves.values() for run in group.runs):
        return {}
    return {condition: in_paths(group, paths) for condition, group in curves.items()}


def in_paths(group: Group, paths: Mapping[str, Path]) -> Group:
    """Return a group whose runs have the directories of these paths."""
    return replace(group, runs=[replace(run, path=paths[run.id]) for run in group.runs])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
