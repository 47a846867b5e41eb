"""Kendall's tau between users: beside scipy, and for users whose orders are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from ol2r_cli.plugins.benchmark.differences import for_metric
from ol2r_cli.plugins.benchmark.recipe import load_recipe
from ol2r_cli.plugins.benchmark.results import tables_of
from scripts.publish import orders
from scripts.publish.orders import by_unit
from tests.plugins.benchmark.small import rows_of


def test_tau_is_that_of_scipy_and_users_apart_are_found():
    random = np.random.default_rng(0)
    quality = np.arange(8.0)

    def runs(order: np.ndarray, noise: float) -> np.ndarray:
        return order[:, None, None] + noise * random.normal(size=(8, 5, 10))

    values = {
        "a": runs(quality, 2),
        "again": runs(quality, 2),
        "reversed": runs(-quality, 2),
        "noise": runs(0 * quality, 2),
    }
    found = orders.taus(values)
    for a, b in combinations(values, 2):
        assert found[a, b].value == pytest.approx(kendalltau(values[a].mean((1, 2)), values[b].mean((1, 2)))[0])
    assert found["a", "a"].value > 0.9 > 0.6 > found["noise", "noise"].value
    assert found["a", "again"].apart < 0.6 < 0.95 < found["a", "reversed"].apart
    assert found["a", "reversed"].low <= found["a", "reversed"].value <= found["a", "reversed"].high < -0.5
    assert found["a", "noise"].apart < 0.95  # a user with a random order does not agree with itself


def test_a_draw_is_a_draw_of_seeds_and_of_shared_folds():
    """Where folds alone differ, all users see the same ones, and every two draws of a user agree."""
    of_folds = np.random.default_rng(1).normal(size=(6, 5, 1)) * np.ones(4)
    found = orders.taus({"a": of_folds, "b": of_folds})
    assert found["a", "a"].low == found["a", "b"].low == found["a", "b"].high == 1


def test_matrices_are_those_of_the_published_values():
    """With the users of the same page beside them, and without rankers that learn from no clicks."""
    recipe = replace(load_recipe("benchmark", "linear"), orders="linear")
    tables = tables_of(rows_of("linear"))
    title = next(iter(tables))[0]
    text = "\n".join(orders.sections(recipe, {table: rows for table, rows in tables.items() if table[0] == title}))
    means = [
        {
            name: row.group.estimate("cumulative_ndcg").mean
            for name, row in for_metric(tables[title, user], "cumulative_ndcg").items()
            if name not in ("the true labels", "random lists", "RankNet on the true labels")
        }
        for user in ("perfect", "informational")
    ]
    tau = kendalltau(*([of[name] for name in means[0]] for of in means))[0]
    matrix = text[text.index(f"by cumulative NDCG, {len(means[0])} rankers") :].splitlines()
    (line,) = (line for line in matrix if line.startswith("| perfect"))
    assert f" {tau:.2f} (" in line.split("|")[4]


def test_values_stand_by_fold_and_seed():
    """A row that lacks a unit is refused."""
    rows = list(for_metric(next(iter(tables_of(rows_of("linear")).values())), "test_ndcg_10").values())[:2]
    known = {(run.fold, seed): of["test_ndcg_10"] for run in rows[1].group.runs for seed, of in run.values.items()}
    values = by_unit(rows, "test_ndcg_10")
    assert values.shape == (2, 5, 10)
    assert values[1].tolist() == [[known[fold, seed] for seed in range(10)] for fold in range(1, 6)]
    rows[1].group.runs.pop()
    with pytest.raises(ValueError, match="must have the folds and seeds of"):
        by_unit(rows, "test_ndcg_10")
