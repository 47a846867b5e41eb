"""What it costs to choose settings from clicks, without labels: `ol2r benchmark clicks`.

A cost is the value of the cell that labels choose less that of the cell that clicks choose, paired by fold and seed.
docs/benchmark/protocol.md has the claim and the rule, which were fixed before the first run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, product
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ol2r_cli.config.grammar import expand
from ol2r_cli.plugins.benchmark.differences import values_of_choices, with_choice
from ol2r_cli.plugins.benchmark.recipe import AIMS, BY_CLICKS, Recipe, brief, by_name
from ol2r_cli.plugins.benchmark.results import Row, Tables
from ol2r_cli.report.comparison import paired
from ol2r_cli.report.estimates import Estimate, Values, of_values
from ol2r_cli.text.formatting import plus_minus, wrapped
from ol2r_cli.text.table import TextTable, print_result

MARGIN = 0.01  # of test NDCG@10, which the claim says that choosing by clicks costs less than
_COMPARED = {  # what is compared: the metric, the aim that labels serve, and that of clicks
    "by clicks": ("test_ndcg_10", "offline", "clicks"),
    "by raw clicks": ("test_ndcg_10", "offline", "raw"),
    "cumulative, by clicks": ("cumulative_ndcg", "online", "clicks"),
}
EXPLAINED = "../explanation/tuning_without_labels.md"
_DIGITS = {"test_ndcg_10": 4, "cumulative_ndcg": 1}


class Cost(NamedTuple):
    """What one choice costs in one row, compared as `_COMPARED` says; table: the dataset and the click model."""

    table: tuple[str, str]
    competitor: str
    compared: str
    difference: Estimate
    by_labels: Row
    by_clicks: Row

    @property
    def paired(self) -> Values:
        """Return the cost of each fold and seed."""
        return paired(self.by_labels.group, self.by_clicks.group, _COMPARED[self.compared][0])

    @property
    def is_same_cell(self) -> bool:
        """Return whether labels and clicks choose the same settings."""
        return self.by_labels.words == self.by_clicks.words


def asks_for_costs(recipe: Recipe) -> bool:
    """Return whether a benchmark asks what choices by clicks cost."""
    return not set(recipe.aims).isdisjoint(BY_CLICKS)


def costs(tables: Tables) -> list[Cost]:
    """Return all costs, in the order of tables, rows and `_COMPARED`; those of rows that lack a choice are left out."""
    found = []
    for table, rows in tables.items():
        by_aim = {(row.competitor, row.aim): row for row in rows}
        for competitor in dict.fromkeys(row.competitor for row in rows):
            for compared, (metric, labels, clicks) in _COMPARED.items():
                by_labels, by_clicks = (by_aim.get((competitor, aim)) for aim in (labels, clicks))
                if by_labels is None or by_clicks is None:
                    continue
                difference = of_values(paired(by_labels.group, by_clicks.group, metric))
                if difference is not None:
                    found.append(Cost(table, competitor, compared, difference, by_labels, by_clicks))
    return found


def over_rows(of_rows: Iterable[float]) -> Estimate | None:
    """Return the mean of costs, with rows as units; None without any."""
    return of_values({(None, number): cost for number, cost in enumerate(of_rows)})


def of_users(found: Sequence[Cost], compared: str) -> dict[str, Estimate]:
    """Return the mean cost of a choice over the rows of each user."""
    by_user: dict[str, list[float]] = {}
    for cost in found:
        if cost.compared == compared:
            by_user.setdefault(cost.table[1], []).append(cost.difference.mean)
    estimates = {click: over_rows(of_rows) for click, of_rows in by_user.items()}
    return {click: estimate for click, estimate in estimates.items() if estimate is not None}


def of_all(found: Sequence[Cost], compared: str) -> Estimate | None:
    """Return the mean cost of a choice over all rows. A unit is a row of a dataset, the mean over its users."""
    by_row: dict[tuple[str, str], list[float]] = {}
    for cost in found:
        if cost.compared == compared:
            by_row.setdefault((cost.table[0], cost.competitor), []).append(cost.difference.mean)
    return over_rows(map(fmean, by_row.values()))


def spread_of_choices(found: Sequence[Cost]) -> float | None:
    """Return what both choices add to the standard error of the mean of costs; None without the choosing runs.

    In every draw of folds and seeds both choices are made again, in all rows; the spread is that of the mean cost.
    """
    draws = []
    for cost in found:
        cells = cost.by_labels.choices
        if cells is None:
            return None
        metric, labels, clicks = _COMPARED[cost.compared]
        of_labels, of_clicks = (values_of_choices(cells, metric, (AIMS | BY_CLICKS)[aim]) for aim in (labels, clicks))
        draws.append(of_labels - of_clicks)
    return float(np.mean(draws, axis=0).std())


def verdict(users: Iterable[Estimate]) -> str:
    """Return what the rule says of the claim: confirmed, refuted, or undecided."""
    means = list(users)
    if any(user.mean >= MARGIN for user in means):
        return "refuted"
    is_below = [user.half_width is not None and user.mean + user.half_width < MARGIN for user in means]
    return "confirmed" if is_below and all(is_below) else "undecided"


def users_table(found: Sequence[Cost]) -> TextTable:
    """Return the mean costs over the rows of each user, and over all rows."""
    by_choice = {compared: of_users(found, compared) for compared in _COMPARED}
    all_rows = {compared: of_all(found, compared) for compared in _COMPARED}

    def line(click: str) -> list[str]:
        estimates = all_rows if click == "all" else {name: by_choice[name].get(click) for name in _COMPARED}
        cells = [click]
        for compared, estimate in estimates.items():
            averaged = [cost for cost in found if cost.compared == compared and click in ("all", cost.table[1])]
            spread = spread_of_choices(averaged) if averaged else None
            cells.append(cost_text(compared, estimate, spread))
        return cells

    lines = [line(click) for click in (*by_choice["by clicks"], "all")]
    return TextTable.of(["user"], [_heading(compared) for compared in _COMPARED], lines)


def rows_table(found: Sequence[Cost]) -> TextTable:
    """Return the costs of the rows of one dataset and user, with what was chosen."""
    lines = []
    for competitor, of_row in groupby(found, key=lambda cost: cost.competitor):
        by_choice = {cost.compared: cost for cost in of_row}
        first = by_choice["by clicks"]
        value = first.by_labels.group.estimate("test_ndcg_10")
        known = "" if value is None else plus_minus(value.mean, value.half_width, 4)
        differences = [cost_text(name, by_choice[name].difference) if name in by_choice else "" for name in _COMPARED]
        chosen = [_chosen(first.by_labels), _chosen(first.by_clicks)]
        lines.append([competitor, *chosen, known, *differences])
    texts = ["ranker", "by labels", "by clicks"]
    return TextTable.of(texts, ["test NDCG@10 by labels", *map(_heading, _COMPARED)], lines)


def _heading(compared: str) -> str:
    return f"cost {compared}" if _COMPARED[compared][0] == "test_ndcg_10" else "cost, cumulative NDCG"


def cost_text(compared: str, estimate: Estimate | None, spread: float | None = None) -> str:
    """Return `+0.002 ± 0.001 (0.003)`; in parentheses half the interval with the spread of the choices."""
    if estimate is None:
        return ""
    digits = _DIGITS[_COMPARED[compared][0]]
    text = plus_minus(estimate.mean, estimate.half_width, digits, sign="+")
    if spread is None or estimate.half_width is None:
        return text
    return f"{text} ({with_choice(estimate.half_width, spread):.{digits}f})"


def _chosen(row: Row) -> str:
    """Return the settings of a row that were chosen; * marks those at an end of their grid."""
    marked = []
    for name, override in row.settings.items():
        (word,) = brief([override])
        marked.append(f"{word}*" if name in row.edges else word)
    return " ".join(marked)


def claim(recipe: Recipe, found: Sequence[Cost]) -> list[str]:
    """Return the paragraph with the claim and what it comes to; none unless there are all rows, and no others."""
    clicks = expand(by_name(recipe.words)["click"])
    users_of_recipe = [override.partition("=")[2] for override in clicks]
    expected = set(product(product(recipe.data, users_of_recipe), recipe.competitors))
    if {(cost.table, cost.competitor) for cost in found} != expected:
        return []
    users = of_users(found, "by clicks")
    worst = max(users, key=lambda click: users[click].mean)
    return [
        "**Claim:** choosing by clicks costs less than .01 test NDCG@10 on average over rows against choosing by "
        f"labels, for every user.\n**It is {verdict(users.values())}** for {len(users)} users, "
        f"{len(recipe.competitors)} rankers and {' and '.join(recipe.data)}, by {_sessions(recipe, found)} sessions a "
        f"choice. The largest mean is that of `{worst}`, {cost_text('by clicks', users[worst])}.\n"
        f"Other users may be outside: [limits]({EXPLAINED}#limits)."
    ]


def _sessions(recipe: Recipe, found: Sequence[Cost]) -> str:
    """Return how many sessions one choice has, from the fewest to the most of a row."""
    of_run = int(by_name(recipe.choose)["validation_sessions"].partition("=")[2])
    counts = [of_run * len(cost.by_labels.choices) for cost in found if cost.by_labels.choices is not None]
    return " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts)))) if counts else str(of_run)


def show(recipe: Recipe, tables: Tables) -> None:
    """Print the costs of users and rows, and what the claim comes to."""
    found = costs(tables)
    for table in tables:
        print(f"\n{', '.join(table)}\n")
        print_result(rows_table([cost for cost in found if cost.table == table]))
    print()
    print_result(users_table(found))
    for paragraph in claim(recipe, found):
        print(f"\n{wrapped(paragraph.replace('*', ''), 0)}")
