"""Kendall's tau between the orders in which users put rankers, where a recipe names another one by `orders`, and how
often the order of two rankers is that of the users fitted to logs.

docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np

from ol2r_cli.config.grammar import expand
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.differences import RESAMPLES, SEED, for_metric, times_drawn
from ol2r_cli.plugins.benchmark.recipe import Recipe, by_name, load_recipe
from ol2r_cli.plugins.benchmark.results import Row, Tables, published, tables_of
from ol2r_cli.report.measures import heading
from ol2r_cli.report.names import click_order
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text.table import TextTable, markdown
from scripts.publish import validity

WITHOUT_CLICKS = ("oracle", "random", "offline_ranknet", "offline_network")  # their places say nothing about a user


class Tau(NamedTuple):
    """Kendall's tau of two users and its 95 % interval.

    apart: the share of draws in which they agree less than either user agrees with itself. Of a user and itself, tau is
    the mean over pairs of draws of its runs. drawn: tau in each draw.
    """

    value: float
    low: float
    high: float
    apart: float
    drawn: Float[np.ndarray, "draws"]


def by_unit(rows: Sequence[Row], metric: str) -> Float[np.ndarray, "n folds seeds"]:
    """Return the values of rows by fold and seed, both in order, so that an index is the same unit in all rows.

    ValueError where a row lacks a fold or seed of the first one.
    """
    values = [row.group.values(metric) for row in rows]
    folds = list(dict.fromkeys(fold for fold, _ in values[0]))
    seeds = list(dict.fromkeys(seed for _, seed in values[0]))
    for row, of_row in zip(rows, values, strict=True):
        if list(of_row) != list(product(folds, seeds)):
            raise ValueError(f"{row.competitor} must have the folds and seeds of {rows[0].competitor}")
    return np.array([list(of_row.values()) for of_row in values]).reshape(len(rows), len(folds), len(seeds))


def taus(values: Mapping[str, Float[np.ndarray, "n folds seeds"]]) -> dict[tuple[str, str], Tau]:
    """Return tau for each two users, from the values of the same n rankers under each; ties count as 0.

    Folds, which all users share, are drawn with replacement for all of them, and then seeds for each user in turn: the
    same values in the same order always give the same intervals.
    """
    random = np.random.default_rng(SEED)
    rankers, count_of_folds, _ = next(iter(values.values())).shape
    first, second = np.triu_indices(rankers, 1)
    folds = times_drawn(random, count_of_folds)
    signs: dict[str, Float[np.ndarray, "pairs"]] = {}  # of the differences in all runs
    drawn_signs: dict[str, list[Float[np.ndarray, "draws pairs"]]] = {}  # in each of two draws
    for user, of_user in values.items():
        mean = of_user.mean((1, 2))
        signs[user] = np.sign(mean[first] - mean[second])
        drawn_signs[user] = []
        for seeds in times_drawn(random, of_user.shape[2], (2, RESAMPLES)):
            means = np.einsum("df,ds,nfs->dn", folds, seeds, of_user)
            drawn_signs[user].append(np.sign(means[:, first] - means[:, second]))
    with_itself = {user: (first_draw * second_draw).mean(1) for user, (first_draw, second_draw) in drawn_signs.items()}
    taus_of_users = {}
    for user, other in combinations_with_replacement(values, 2):
        if user == other:
            drawn = with_itself[user]
            value = drawn.mean()
        else:
            drawn = (drawn_signs[user][0] * drawn_signs[other][1]).mean(1)
            value = (signs[user] * signs[other]).mean()
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        less = drawn < np.minimum(with_itself[user], with_itself[other])
        tau = Tau(value, low, high, float(np.mean(less)), drawn)
        taus_of_users[user, other] = taus_of_users[other, user] = tau
    return taus_of_users


def sections(recipe: Recipe, tables: Tables) -> list[str]:
    """Return the matrices of a recipe as markdown, one for each dataset and metric, and how valid simulated users are;
    empty without `orders`."""
    if not recipe.orders:
        return []
    both = tables_of(published(recipe.orders)) | tables
    of_other, of_recipe = _users(load_recipe(recipe.command, recipe.orders)), _users(recipe)
    users = dict.fromkeys([*of_other, *of_recipe])
    paragraphs = [
        "## Order of the field",
        "Kendall's tau between the orders of rankers that learn from clicks: 1 is the same order, -1 the opposite one. "
        f"In parentheses: its {LEVEL:.0%} interval over seeds and, on data with folds, over folds. On the diagonal: "
        f"between two draws of one user's runs. *: two users order the rankers differently: in {LEVEL:.0%} of the "
        "draws they agree less than either agrees with itself.",
    ]
    found: dict[str, dict[str, dict[tuple[str, str], Tau]]] = {metric: {} for metric in recipe.metrics}
    clicks: dict[str, list[float]] = {user: [] for user in users}  # a page
    for title in dict.fromkeys(title for title, _ in tables):
        for metric in recipe.metrics:
            rows_of_users = {user: for_metric(both[title, user], metric) for user in users if (title, user) in both}
            rankers = _compared_rankers(list(rows_of_users.values()))
            values = {}
            for user, rows in rows_of_users.items():
                compared = [rows[ranker] for ranker in rankers]
                values[user] = by_unit(compared, metric)
                rounds = [row.group.settings["rounds"] for row in compared]
                clicks[user].append(float((by_unit(compared, "clicks").mean((1, 2)) / rounds).mean()))
            found[metric][title] = taus(values)
            paragraphs.append(f"### {title}, by {heading(metric)}, {len(rankers)} rankers")
            paragraphs.append(markdown(_table(found[metric][title])))
    clicks_of_users = {user: float(np.mean(of_user)) for user, of_user in clicks.items()}
    return [*paragraphs, *validity.section(found, clicks_of_users, of_recipe)]


def _compared_rankers(tables: Sequence[Mapping[str, Row]]) -> list[str]:
    """Return the competitors that learn from clicks and that all users have."""
    learning = [name for name, row in tables[0].items() if row.group.choices["ranker"] not in WITHOUT_CLICKS]
    return [name for name in learning if all(name in rows for rows in tables)]


def _users(recipe: Recipe) -> list[str]:
    return [click.partition("=")[2] for click in expand(by_name(recipe.words)["click"])]


def _table(taus_of_users: Mapping[tuple[str, str], Tau]) -> TextTable:
    """Return the matrix of all users; * marks those that agree less with each other than with themselves."""
    users = sorted({user for user, _ in taus_of_users}, key=click_order)
    lines = [[user, *(_text(taus_of_users[user, other]) for other in users)] for user in users]
    return TextTable.of(["user"], users, lines)


def _text(tau: Tau) -> str:
    interval = f"{tau.value:.2f} ({tau.low:.2f} to {tau.high:.2f})"
    return f"{interval}*" if tau.apart >= LEVEL else interval
