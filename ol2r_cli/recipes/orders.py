"""Kendall's tau between the orders in which users put rankers, where a recipe names another one by `orders`.

docs/benchmark/protocol.md has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from ol2r_cli.config.grammar import expand
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.recipes.choices import RESAMPLES, SEED
from ol2r_cli.recipes.pages import Tables, by_unit, for_metric, tables_of
from ol2r_cli.recipes.recipe import Recipe, load_recipe
from ol2r_cli.recipes.results import published, published_choices
from ol2r_cli.recipes.run_plan import by_name
from ol2r_cli.report.measures import heading
from ol2r_cli.report.parts import click_order
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text_table import TextTable, markdown

WITHOUT_CLICKS = ("oracle", "random", "offline_ranknet", "offline_network")  # their places say nothing about a user


class Tau(NamedTuple):
    """Kendall's tau of two users and its 95 % interval.

    apart: the share of draws in which they agree less than either user agrees with itself. Of a user and itself, tau is
    the mean over pairs of draws of its runs.
    """

    value: float
    low: float
    high: float
    apart: float


def taus(values: Mapping[str, Float[np.ndarray, "n folds seeds"]]) -> dict[tuple[str, str], Tau]:
    """Return tau for each two users, from the values of the same n rankers under each; ties count as 0.

    Folds, which all users share, are drawn with replacement for all of them, and then seeds for each user in turn: the
    same values in the same order always give the same intervals.
    """
    random = np.random.default_rng(SEED)
    signs: dict[str, list[Float[np.ndarray, "draws pairs"]]] = {}  # of the differences in all runs, and in two draws
    first = next(iter(values.values()))
    upper = np.triu_indices(len(first), 1)
    folds = random.multinomial(first.shape[1], [1 / first.shape[1]] * first.shape[1], RESAMPLES)
    for user, each in values.items():
        seeds = random.multinomial(each.shape[2], [1 / each.shape[2]] * each.shape[2], (2, RESAMPLES))
        means = [each.mean((1, 2))[None], *(np.einsum("df,ds,nfs->dn", folds, drawn, each) for drawn in seeds)]
        signs[user] = [np.sign(mean[:, upper[0]] - mean[:, upper[1]]) for mean in means]
    again = {user: (one * two).mean(1) for user, (_, one, two) in signs.items()}
    found = {}
    for a, b in combinations_with_replacement(values, 2):
        drawn = again[a] if a == b else (signs[a][1] * signs[b][2]).mean(1)
        value = drawn if a == b else signs[a][0] * signs[b][0]
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        found[a, b] = Tau(value.mean(), low, high, float(np.mean(drawn < np.minimum(again[a], again[b]))))
    return found


def sections(recipe: Recipe, tables: Tables) -> list[str]:
    """Return the matrices of a recipe as markdown, one for each dataset and metric; empty without `orders`."""
    if not recipe.orders:
        return []
    both = tables_of(published(recipe.orders), published_choices(recipe.orders)) | tables
    users = dict.fromkeys([*_users(load_recipe(recipe.kind, recipe.orders)), *_users(recipe)])
    parts = [
        "## Order of the field",
        f"Kendall's tau between the orders of rankers that learn from clicks, with its {LEVEL:.0%} interval over seeds "
        "and, on data with folds, over folds. On the diagonal: between two draws of the same user's runs. * a draw of "
        f"both users agrees less than two draws of either user, in {LEVEL:.0%} of the draws.",
    ]
    for title in dict.fromkeys(title for title, _ in tables):
        for metric in recipe.metrics:
            of_users = {user: for_metric(both[title, user], metric) for user in users if (title, user) in both}
            names = [
                name
                for name, row in next(iter(of_users.values())).items()
                if row.group.choices["ranker"] not in WITHOUT_CLICKS and all(name in each for each in of_users.values())
            ]
            values = {user: by_unit([rows[name] for name in names], metric) for user, rows in of_users.items()}
            table = _table(taus(values))
            parts += [f"### {title}, by {heading(metric)}, {len(names)} rankers", markdown(table)]
    return parts


def _users(recipe: Recipe) -> list[str]:
    return [click.partition("=")[2] for click in expand(by_name(recipe.words)["click"])]


def _table(found: Mapping[tuple[str, str], Tau]) -> TextTable:
    users = sorted({user for user, _ in found}, key=click_order)
    lines = []
    for a in users:
        taus_of_user = [found[a, b] if (a, b) in found else found[b, a] for b in users]
        texts = [
            f"{tau.value:.2f} ({tau.low:.2f} to {tau.high:.2f})" + ("*" if tau.apart >= LEVEL else "")
            for tau in taus_of_user
        ]
        lines.append([a, *texts])
    return TextTable.of(["user"], users, lines)
