"""The index of the published benchmarks, and the overview of each: its mean ranks, and its values side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

import numpy as np

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.benchmark.differences import SEED, for_metric, of_two_settings, places, times_drawn
from ol2r_cli.plugins.benchmark.recipe import Recipe
from ol2r_cli.plugins.benchmark.results import Row, Tables
from ol2r_cli.plugins.benchmark.tables import outdated
from ol2r_cli.report.measures import digits, gain, heading
from ol2r_cli.report.names import click_order
from ol2r_cli.text.table import TextTable, markdown
from scripts.publish.orders import by_unit
from scripts.publish.pages import GENERATED, costs_of, what_is_better

_TOP = """# Expected results

Which result each ranker of `ol2r` gives on data that everybody can have: for readers who compare rankers, and for those
who want to know whether their own numbers are right.

**[Findings](findings.md) is the page to begin with**: the field in one figure and ten sentences.
[Claims](claims.md) has what papers claim and whether these results show it.
[Protocol](protocol.md) has what was fixed before the first run.

## In five lines

- On MQ2008, MQ2007_part, OHSUMED and generated data no ranker that learns from clicks has significantly more test
  NDCG@10 than PDGD, with any of the papers' three users.
- What users see meanwhile differs: PairRank is 24.8 ± 6.3 of cumulative NDCG above PDGD on average over these data,
  57.5 ± 17.7 on generated data and 5.1 ± 5.1 on MQ2008.
- The order of rankers depends on the users: with those of Yandex PairRank is 39 ± 10 below PDGD on MQ2008,
  and 47 ± 25 above it on generated data.
- Of 66 comparative claims of the papers 21 hold and 19 fail.
- Data are small: half of the linear rankers that do not differ significantly from PDGD would have to differ by more
  than 0.021 test NDCG@10, or 48 of cumulative NDCG."""
_BOTTOM = """## Use the results

A table on the terminal, a row made again, a ranker of your own in the table, and all differences from a row:

    ol2r benchmark linear dataset=mq2008 click=inf
    ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD
    ol2r benchmark linear --add ranker=mine
    ol2r report docs/benchmark/linear.parquet dataset=mq2008 click=informational --differences \\
        --baseline 'pdgd ranker.learning_rate=0.1'

The second and the third command need the [data](../how-to/own_data.md) in one folder, `data_dir=FOLDER`.

The raw values have a row for each run and seed. The column `rows` has the rows of the tables to which a run belongs:

    import polars as pl

    values = pl.read_parquet("docs/benchmark/linear.parquet")
    values = values.filter(pl.col("rows").list.contains("PDGD, offline"))
    values.filter(dataset="mq2008", click="informational")["test_ndcg_10"].mean()

[croissant.json](croissant.json) describes all columns of these files."""


def index(pages: Sequence[tuple[Recipe, Tables]]) -> str:
    """Return the index page: what each page has, and how results are used."""
    lines = ["| page | data | click models | rows | CPU hours |", "|---|---|---|---:|---:|"]
    for recipe, tables in pages:
        data = "; ".join(dict.fromkeys(title for title, _ in tables))
        users = ", ".join(sorted({click for _, click in tables}, key=click_order))
        competitors = {row.competitor for rows in tables.values() for row in rows}
        warning = outdated(chain(*tables.values()))
        shown_warning = f", **{warning}**" if warning else ""
        costs = costs_of(tables)
        lines.append(
            f"| [{recipe.title}]({recipe.name}.md){shown_warning} | {data} | {users} | {len(competitors)} "
            f"| {costs.reported + costs.choosing:.1f} |"
        )
    shown = (
        "Each page begins with mean ranks. Its tables have intervals, settings, costs and commands. A row is a ranker "
        "or a variant of one. CPU hours have those of model selection."
    )
    return "\n\n".join([GENERATED, _TOP, "## Pages", shown, "\n".join(lines), _BOTTOM]) + "\n"


def overview(recipe: Recipe, tables: Tables) -> str:
    """Return the section with the mean rank of each ranker, and two metrics on all data."""
    metrics = recipe.metrics[:2]
    shown = " / ".join(heading(metric) for metric in metrics)
    caption = (
        f"Best first by mean rank: that by {heading(metrics[0])} over all columns, with its {LEVEL:.0%} interval over "
        f"folds or seeds. Better is {what_is_better(metrics)}. A column has {shown}."
    )
    return f"## Overview\n\n{caption}\n\n{markdown(_overview_table(tables, metrics))}"


def _overview_table(tables: Tables, metrics: Sequence[str]) -> TextTable:
    """Return a row for each ranker: its mean rank by the first metric, and the means of two metrics in every table."""
    first = {table: for_metric(rows, metrics[0]) for table, rows in tables.items()}
    ranks: dict[str, list[int]] = {}
    for entries in first.values():
        for competitor, place in places(entries, metrics[0]).items():
            ranks.setdefault(competitor, []).append(place)
    intervals = rank_intervals(first, metrics[0])
    lines = []
    for competitor in sorted(ranks, key=lambda competitor: fmean(ranks[competitor])):
        low, high = intervals[competitor]
        rank = f"{fmean(ranks[competitor]):.1f} ({low:.1f} to {high:.1f})"
        lines.append([competitor, rank, *(_means(competitor, rows, metrics) for rows in tables.values())])
    return TextTable.of(["ranker"], ["mean rank", *(", ".join(table) for table in tables)], lines)


def _means(competitor: str, rows: Sequence[Row], metrics: Sequence[str]) -> str:
    """Return `0.41 / 812.3 †`: the mean of each metric; empty where the competitor lacks the first."""
    by_metric = [for_metric(rows, metric) for metric in metrics]
    if competitor not in by_metric[0]:
        return ""
    entries = [of_metric[competitor] for of_metric in by_metric]
    means = " / ".join(_mean(entry, metric) for entry, metric in zip(entries, metrics, strict=True))
    return f"{means} †" if of_two_settings(entries) else means


def _mean(entry: Row, metric: str) -> str:
    estimate = entry.group.estimate(metric)
    if estimate is None:
        return "-"
    is_small = "ndcg_10" in metric or abs(estimate.mean) < 1
    return f"{estimate.mean:.{min(3 if is_small else 1, digits(metric))}f}"


def rank_intervals(tables: Mapping[tuple[str, str], Mapping[str, Row]], metric: str) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each competitor's mean rank, when the folds or seeds of each dataset are redrawn.

    The same units are drawn for all competitors and click models of a dataset.
    """
    random = np.random.default_rng(SEED)
    drawn: dict[str, np.ndarray] = {}  # [draws, units], by dataset
    ranks: dict[str, list[np.ndarray]] = {}  # [draws] for each table, by competitor
    for (dataset, _), rows in tables.items():
        measured = {name: row for name, row in rows.items() if row.group.estimate(metric) is not None}
        values = gain(metric, 1) * by_unit(list(measured.values()), metric)
        folds = values.shape[1]
        units = values.mean(axis=2) if folds > 1 else values[:, 0]
        if dataset not in drawn:
            drawn[dataset] = times_drawn(random, units.shape[1])
        means = np.einsum("du,nu->dn", drawn[dataset], units)
        ranks_of_table = 1 + (means[:, None, :] > means[:, :, None]).sum(axis=-1)
        for competitor, of_competitor in zip(measured, ranks_of_table.T, strict=True):
            ranks.setdefault(competitor, []).append(of_competitor)
    tail = (1 - LEVEL) / 2
    intervals = {}
    for competitor, of_tables in ranks.items():
        low, high = np.quantile(np.mean(of_tables, axis=0), [tail, 1 - tail])
        intervals[competitor] = low, high
    return intervals
