"""The published results: pages say what the results say, and the code still gives the results."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from ol2r_cli.commands.report import main as report
from ol2r_cli.plugins.benchmark import check_file
from ol2r_cli.plugins.benchmark.play import rows_of_benchmark, run_recipe
from ol2r_cli.plugins.benchmark.recipe import AIMS, load_recipe, recipe_names
from ol2r_cli.plugins.benchmark.results import published, published_choices, published_dir
from ol2r_cli.plugins.benchmark.run_plan import plan_of
from ol2r_cli.plugins.benchmark.tables import outdated
from scripts.publish import merge
from scripts.publish.__main__ import main as publish
from tests.plugins.benchmark.small import published_in, rows_of

PUBLISHED = [name for name in recipe_names("benchmark") if (published_dir() / f"{name}.parquet").is_file()]
SMALL = ("drift", "million")
TOLERANCE = 0.05  # of NDCG on another processor, where ties may be broken otherwise


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED, reason="no results are published")
def test_pages_are_those_of_the_results(tmp_path, monkeypatch):
    """Whatever the ids of runs and the order of choosing runs.

    Also after a new results_version, which marks them as outdated: type `python -m scripts.publish`.
    """
    folder = published_dir()
    publish_again(PUBLISHED, tmp_path, monkeypatch)
    for page in tmp_path.glob("*.md"):
        assert page.read_text() == (folder / page.name).read_text(), f"{page.name}: python -m scripts.publish"


@pytest.mark.skipif(not {*SMALL} <= {*PUBLISHED}, reason="no results are published")
def test_small_pages_are_those_of_the_results(tmp_path, monkeypatch):
    """The slow test has all; test_published_pages.py has every number of all pages."""
    folder = published_dir()
    publish_again(SMALL, tmp_path, monkeypatch)
    for name in SMALL:
        assert (tmp_path / f"{name}.md").read_text() == (folder / f"{name}.md").read_text()


def publish_again(names, to, monkeypatch):
    """Write the pages of benchmarks to a folder, from results with other ids of runs and in another order."""
    folder = published_dir()
    for figure in folder.glob("*.svg"):
        (to / figure.name).touch()
    for name in names:
        runs = pl.read_parquet(folder / f"{name}.parquet")
        ids = pl.col("run").unique(maintain_order=True)
        other = dict(runs.select(ids, ids.shuffle(seed=1).alias("other")).iter_rows())
        runs.with_columns(pl.col("run").replace(other)).write_parquet(to / f"{name}.parquet")
        choices = pl.read_parquet(folder / f"{name}_choice.parquet")
        choices.sample(fraction=1, shuffle=True, seed=1).write_parquet(to / f"{name}_choice.parquet")
    tried = pl.read_parquet(folder / "processors.parquet")
    tried.sample(fraction=1, shuffle=True, seed=1).write_parquet(to / "processors.parquet")
    published_in(to, monkeypatch)
    publish([])


@pytest.mark.skipif(not PUBLISHED, reason="no results are published")
def test_the_examples_of_the_index_work(monkeypatch, capsys):
    monkeypatch.chdir(published_dir().parents[1])
    text = (published_dir() / "README.md").read_text()
    (typed,) = re.findall(r"    ol2r report ((?:.*\\\n)*.*)", text)
    assert report(shlex.split(typed.replace("\\\n", " "))) == 0
    assert "pdgd learning_rate=0.1" in capsys.readouterr().out
    *start, expression = dedent("    " + text[text.index("import polars") : text.index("[croissant")]).splitlines()[:-1]
    names: dict[str, object] = {}
    exec("\n".join(start), names)
    assert 0 < eval(expression, names) < 1


def test_results_of_some_data_take_the_place_of_theirs(tmp_path, monkeypatch):
    """Those of new data are put where the recipe has them; all others stay as they are."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    monkeypatch.setattr(merge, "published_dir", lambda: ours)
    whole = {
        file: pl.read_parquet(published_dir() / f"{file}.parquet") for file in ("drift", "drift_choice", "drift_check")
    }
    titles = list(load_recipe("benchmark", "drift").data)
    for file, frame in whole.items():
        of_title = merge.with_title(frame)
        of_title.filter(title=titles[1]).drop("title").write_parquet(theirs / f"{file}.parquet")
        of_title.filter(pl.col("title") != titles[1]).drop("title").write_parquet(ours / f"{file}.parquet")
    for _ in range(2):  # the second time it takes its own place
        merge.merge(theirs / "drift.parquet")
        for file, frame in whole.items():
            assert_frame_equal(pl.read_parquet(ours / f"{file}.parquet"), frame)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in PUBLISHED])
def test_published_settings_are_those_that_are_chosen(name):
    recipe = load_recipe("benchmark", name)
    rows = rows_of(name)
    assert any(row.aim in AIMS for row in rows)
    assert [fault for row in rows if (fault := check_file._fault_of_choice(recipe, row))] == []


def test_a_file_has_the_rows_and_choosing_runs_of_its_benchmark():
    """What is published has; a row that nobody asked for, and a grid without its other cells, are told."""
    recipe = load_recipe("benchmark", "drift")
    rows = rows_of("drift")
    assert check_file._faults(recipe, rows) == []
    row = next(row for row in rows if row.aim == "offline" and row.choices is not None)
    invented = replace(row, condition=row.condition._replace(competitor="Ours"))
    told = f"1 row that the benchmark does not have: {row.condition.data}, {row.condition.click}, Ours, offline"
    assert told in check_file._faults(recipe, [*rows, invented])
    chosen = replace(row, choices=row.choices.filter(pl.col("settings") == " ".join(row.settings.values())))
    (fault,) = check_file._faults(recipe, [chosen if each is row else each for each in rows])
    assert f"{row.competitor}, offline must have all choosing runs of its grid, and lacks some of " in fault


def test_the_results_are_small():
    """Five sets of data on two pages, with their figures."""
    assert sum(file.stat().st_size for file in published_dir().iterdir()) < 8e6


@pytest.mark.slow
def test_the_results_follow_the_protocol():
    """Rows, seeds and settings are those of the recipe, and of what its grids grew to; outdated pages had another."""
    for name in PUBLISHED:
        rows = rows_of(name)
        if outdated(rows):
            continue
        recipe = load_recipe("benchmark", name)
        plan = plan_of(recipe)
        grids = {trial.condition.competitor: set() for trial in plan.final()}
        for trial in plan.candidates():
            grids[trial.condition.competitor].add(tuple(trial.settings.values()))
        for competitor, settings in published_choices(name).select("competitor", "settings").unique().iter_rows():
            grids[competitor].add(tuple(settings.split()))
        replicas = int(recipe.scale["full"].partition("replicas=")[2].split()[0])
        for row in rows:
            grid = grids[row.competitor]
            assert {run.seeds for run in row.group.runs} == {tuple(range(replicas))}, (name, row.condition)
            assert not grid or any(set(settings) <= set(row.words) for settings in grid), (name, row.condition)


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_few_rounds_repeat_the_published_check(name, tmp_path, monkeypatch):
    """Exactly with the same processor and versions, within a tolerance elsewhere; without real data, generated ones."""
    if warning := outdated(rows_of(name)):
        pytest.skip(f"{name}: {warning}, as its page says")
    data = Path(os.environ.get("OL2R_DATA", Path(__file__).parents[4] / "shared" / "data"))
    monkeypatch.setenv("OL2R_DATA", str(data))
    part = [] if (data / "MQ2008").is_dir() else ["dataset=synthetic"]
    typed = [f"output_dir={tmp_path}", "launcher.jobs=1", *part]
    plan = plan_of(load_recipe("benchmark", name), typed, "check")
    runs = run_recipe(plan)
    assert runs.code == 0
    expected = {(row.condition.data, row.competitor): row for row in published(f"{name}_check")}
    found = {(row.condition.data, row.competitor): row for row in rows_of_benchmark(runs)}
    compared = found.keys() & expected.keys()
    assert compared
    assert part or compared == expected.keys()
    for key in compared:
        (run,), (before,) = found[key].group.runs, expected[key].group.runs
        same_versions = found[key].versions[run.id] == expected[key].versions[before.id]
        exact = same_versions and before.fingerprint == run.fingerprint
        for seed, values in run.values.items():
            for metric in ("test_ndcg_10", "online_ndcg"):
                expected_value = before.values[seed][metric]
                if exact:
                    assert values[metric] == expected_value, (key, metric)
                else:
                    assert values[metric] == pytest.approx(expected_value, abs=TOLERANCE), (key, metric)
