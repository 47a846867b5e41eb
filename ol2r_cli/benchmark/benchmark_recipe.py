"""Recipes of the benchmark: which rankers are compared on which data, and how their settings are chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.formatting import must_be_one_of
from ol2r_cli.reproduce.recipe import RunRecipe, as_record, check_runs, read_yaml

BENCHMARK_SCALES = ("full", "check")
FIRST = "linear"  # in the list of recipes
METRICS = ["test_ndcg_10", "cumulative_ndcg"]


@dataclass(frozen=True)
class BenchmarkData:
    """Overrides that choose a dataset and its folds; `choose` are further ones of the runs that choose settings."""

    words: str
    choose: str = ""


@dataclass(frozen=True, kw_only=True)
class BenchmarkRecipe(RunRecipe):
    """One table for each dataset and click model; configs/benchmark/linear.yaml is an example.

    scale: full, with settings that are chosen by validation, and check, a few rounds with default settings.
    baseline: the competitor with which all others are compared. metrics: the columns of the tables.
    """

    shows: str
    data: dict[str, BenchmarkData]
    baseline: str
    metrics: list[str] = field(default_factory=lambda: list(METRICS))


def benchmark_dir() -> Path:
    """The folder of the recipes."""
    return config_dir() / "benchmark"


def benchmark_names() -> list[str]:
    """All recipes, the linear rankers first."""
    return sorted((path.stem for path in benchmark_dir().glob("*.yaml")), key=lambda name: (name != FIRST, name))


def load_benchmark(name: str) -> BenchmarkRecipe:
    """The recipe with this name; ValueError for an unknown name and for a mistake in the file."""
    names = benchmark_names()
    if name not in names:
        raise ValueError(must_be_one_of("NAME", names, name))
    recipe = as_record(BenchmarkRecipe, {"name": name, **read_yaml(benchmark_dir() / f"{name}.yaml")}, f"{name}.yaml")
    check_runs(recipe, BENCHMARK_SCALES)
    if recipe.baseline not in recipe.competitors:
        raise ValueError(f"{name}.yaml: baseline must be one of its competitors, got {recipe.baseline}")
    return recipe
