"""The page of the benchmark of settings chosen from clicks: what the claim comes to, and the costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.click_costs import EXPLAINED, Cost, claim, cost_text, costs, rows_table, users_table
from ol2r_cli.plugins.benchmark.recipe import Recipe
from ol2r_cli.plugins.benchmark.results import Row, Tables
from ol2r_cli.plugins.benchmark.tables import made_with, outdated
from ol2r_cli.report.estimates import ALPHA, holm, paired_t, unit_values
from ol2r_cli.text.table import markdown
from scripts.publish.pages import GENERATED, command_of, costs_of


def click_costs_page(recipe: Recipe, tables: Tables) -> str:
    """Return the page of a benchmark as markdown: what the claim comes to, and the costs of users and of rows."""
    found = costs(tables)
    warning = outdated(chain(*tables.values()))
    paragraphs = [
        GENERATED,
        f"# {recipe.title}",
        *([f"> **{warning}**"] if warning else []),
        f"This page has {recipe.shows}.",
        f"How clicks choose, and where that is biased: [tuning without labels]({EXPLAINED}).\n"
        "What was fixed beforehand: [protocol](protocol.md#settings-chosen-from-clicks).",
        *claim(recipe, found),
        _rows_that_differ(found),
        f"Mean cost over rows ± half the {LEVEL:.0%} interval, with rows as units; lower is better.\n"
        "In parentheses: half the interval that contains both choices, made again from drawn folds and seeds; the "
        "spread of validation NDCG@10 stands for that of test NDCG@10.\n"
        "Below 0 clicks have chosen the better cell. `all` is over the users of each row.\n"
        "The last column compares with the cell of the best cumulative NDCG, which serves another aim: clicks of "
        "sessions value the ranker that is deployed, not the lists that users saw while it learned.",
        markdown(users_table(found)),
    ]
    for title in dict.fromkeys(title for title, _ in tables):
        of_dataset = {click: rows for (dataset, click), rows in tables.items() if dataset == title}
        paragraphs.append(f"## {title}")
        paragraphs.append(
            f"Settings chosen by each, and costs ± half the {LEVEL:.0%} interval of paired differences, with "
            f"{_units(of_dataset)} as units; lower is better. \\* is at an end of its grid.\nTo run a cell, type a "
            "click model for CLICK, and its ranker and settings for OVERRIDES:"
        )
        paragraphs.append(command_of(list(chain(*of_dataset.values()))))
        for click in of_dataset:
            paragraphs.append(f"### {title}, {click}")
            paragraphs.append(markdown(rows_table([cost for cost in found if cost.table == (title, click)])))
    made = f"{costs_of(tables)}\n{made_with(chain(*tables.values()))}"
    return "\n\n".join([*paragraphs, "## How these results were made", made]) + "\n"


def _rows_that_differ(found: Sequence[Cost]) -> str:
    """Return in how many rows the choices differ, and in which of them the cost is not 0 after Holm's correction."""
    rows = [cost for cost in found if cost.compared == "by clicks"]
    other = [cost for cost in rows if not cost.is_same_cell and cost.difference.half_width is not None]
    same = sum(cost.is_same_cell for cost in rows)
    text = f"In {same} of {len(rows)} rows clicks choose the cell that labels choose."
    if not other:
        return text
    p_of_rows = [paired_t(unit_values(cost.paired)) for cost in other]
    named = [
        f"{cost.competitor} with `{cost.table[1]}` on {cost.table[0]}, {cost_text('by clicks', cost.difference)}"
        for cost, p in zip(other, holm(p_of_rows), strict=True)
        if p < ALPHA
    ]
    return (
        f"{text}\nWith the cells fixed, the interval of {sum(p < ALPHA for p in p_of_rows)} of the others excludes 0; "
        f"after Holm's correction for {len(other)} rows the cost is significant in "
        f"{f'{len(named)}: ' if named else 'none'}{'; '.join(named)}."
    )


def _units(tables: Mapping[str, Sequence[Row]]) -> str:
    """Return what the units of intervals are on a dataset."""
    return "folds" if any(len(row.group.seeds) > 1 for row in chain(*tables.values())) else "seeds"
