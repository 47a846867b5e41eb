"""Kendall's tau between users: beside scipy, and for users whose orders are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import RunContext
from ol2r_cli.plugins.benchmark.differences import for_metric
from ol2r_cli.plugins.benchmark.recipe import load_recipe
from ol2r_cli.plugins.benchmark.results import tables_of
from ol2r_cli.tensor.streams import Streams
from scripts.publish import orders, validity
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
    matrix = text[text.index(f"by cumulative NDCG, {len(means[0])} rankers") : text.index("## Validity")].splitlines()
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


@pytest.mark.parametrize("user", ["perfect", "navigational", "informational", "baidu_position", "yandex_dcm"])
def test_last_clicks_are_those_of_simulated_pages(user: str):
    """Of 40,000 lists in random order."""
    lists = torch.from_numpy(np.random.default_rng(1).choice(3, (40_000, 10), p=(0.80724, 0.13155, 0.06121)))
    model = build(dict(Catalogue().choices["click"][user].content), "click")
    context = RunContext(replicas=1, documents=10, features=1, positions=10, queries=1, rounds=1, grades=3)
    model.setup(context, torch.zeros(1, 1))
    random = Streams(torch.arange(len(lists)), ahead=1).at("click", 1)
    last = (model.click(lists, torch.ones_like(lists, dtype=torch.bool), random) * torch.arange(1, 11)).amax(1)
    pages = last[last > 0].double()
    assert validity.last_click(user) == pytest.approx(
        pages.mean().item(), abs=5 * (pages.std() / len(pages) ** 0.5).item()
    )


def test_validity_is_the_share_of_pairs_and_near_users_agree():
    """Of three users two have one order, and the third has it reversed; of other data it is the same but for a pair."""
    first = np.arange(6.0)[:, None, None] * np.ones((6, 2, 3))
    swapped = first[[1, 0, 2, 3, 4, 5]]
    found = {
        "test_ndcg_10": {
            "one": orders.taus({"perfect": -first, "navigational": first, "baidu_position": first}),
            "two": orders.taus({"perfect": -first, "navigational": first, "baidu_position": swapped}),
        }
    }
    clicks = {"perfect": 3.0, "navigational": 1.0, "baidu_position": 0.5}
    text = "\n".join(validity.section(found, clicks, ["baidu_position"]))
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in text.splitlines()
        if "|" in line
    }
    assert rows["navigational"] == ["1.00", "5.1", "0.97 (0.97 to 0.97)"], "29 of 30 pairs"
    assert rows["perfect"][2] == "0.03 (0.03 to 0.03)"
    assert rows["baidu_position"][2] == "1.00 (1.00 to 1.00)"
    # of two pairs r is -1 where the nearer agrees more; so it is in half of the orders of three users, and those equal
    assert rows["clicks a page"][1:] == ["-1.00 (-1.00 to -1.00)", "0.500", "-1.00", "-1.00"]


def test_correlations_are_those_of_numpy():
    random = np.random.default_rng(4)
    users = {name: float(random.random()) for name in "abcd"}
    found = {
        data: orders.taus({user: random.normal(size=(7, 1, 4)) + np.arange(7)[:, None, None] for user in users})
        for data in ("one", "two")
    }
    pairs = [*combinations(users, 2)]

    def r(values: dict[str, float], data: tuple[str, ...]) -> float:
        agreements = [np.mean([(1 + found[each][pair].value) / 2 for each in data]) for pair in pairs]
        return float(np.corrcoef([abs(values[one] - values[other]) for one, other in pairs], agreements)[0, 1])

    both = r(users, ("one", "two"))
    lower = [
        r(dict(zip(users, order, strict=True)), ("one", "two")) <= both + 1e-9 for order in permutations(users.values())
    ]
    text, p, *of_data = validity.predicted(users, found, pairs)
    assert text.startswith(f"{both:.2f} (")
    assert [p, *of_data] == [f"{np.mean(lower):.3f}", f"{r(users, ('one',)):.2f}", f"{r(users, ('two',)):.2f}"]
