"""The index of the published benchmarks: which result to expect of each ranker, and its mean rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.recipes.entries import Entry, Tables, by_unit, for_metric, of_two_settings, places
from ol2r_cli.recipes.pages import outdated
from ol2r_cli.recipes.recipe import Recipe
from ol2r_cli.recipes.resampling import SEED, times_drawn
from ol2r_cli.recipes.trials import aim_of
from ol2r_cli.report.measures import digits, gain, heading
from ol2r_cli.text_table import TextTable, markdown

_TOP = [
    "# Expected results",
    "Which result each ranker of `ol2r` gives on data that everybody can have, with settings chosen for the value "
    "that is shown. The pages have intervals, settings, costs and the command of every row; "
    "[protocol](protocol.md) says what was fixed beforehand, and [findings](findings.md) what follows from it.",
    "    ol2r benchmark linear dataset=mq2008 click=inf                # a table on the terminal\n"
    "    ol2r benchmark linear dataset=mq2008 click=inf --repeat PDGD  # are the numbers the same here?\n"
    "    ol2r benchmark linear --add ranker=mine                       # a ranker of your own in it\n"
    "    ol2r report docs/benchmark/linear.parquet dataset=mq2008 click=informational --differences \\\n"
    "        --baseline 'pdgd ranker.learning_rate=0.1'            # all differences from a row, with p",
    "Data sets lie in one folder, `data_dir=FOLDER`: [data](../how-to/own_data.md). A page prints mean ± half of the "
    "interval; with folds it is wide because folds differ, and says little about differences, which are paired. "
    "The raw values have a row for each run and seed, and the rows of the tables to which a run belongs:",
    "    import polars as pl\n\n"
    '    values = pl.read_parquet("docs/benchmark/linear.parquet")\n'
    '    values.filter(pl.col("rows").list.contains("PDGD, offline"), dataset="mq2008", click="informational")'
    '["test_ndcg_10"].mean()',
    "Written by `ol2r benchmark --out`; do not edit.",
]


def index(pages: Iterable[tuple[Recipe, Tables]]) -> str:
    """Return the index page: which result to expect of each ranker."""
    paragraphs = list(_TOP)
    for recipe, tables in pages:
        warning = outdated(tables)
        metrics = recipe.metrics[:2]
        shown = " / ".join(f"{heading(metric)} ({aim_of(metric)} choice)" for metric in metrics)
        paragraphs += [
            f"## [{recipe.title}]({recipe.name}.md)",
            *([f"> **{warning}**"] if warning else []),
            f"{shown}; [protocol](protocol.md). Mean rank: by {heading(metrics[0])}, over all columns, with its "
            f"{LEVEL:.0%} interval over folds or seeds. † The two values are of two settings: no ranker has both.",
            markdown(_index_table(tables, metrics)),
        ]
    return "\n\n".join(paragraphs) + "\n"


def _index_table(tables: Tables, metrics: Sequence[str]) -> TextTable:
    """Return a row for each ranker: its mean place by the first metric, and the means of two metrics in every table."""
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


def _means(competitor: str, rows: Sequence[Entry], metrics: Sequence[str]) -> str:
    """Return `0.41 / 812.3 †`: the mean of each metric; empty where the competitor lacks the first."""
    by_metric = [for_metric(rows, metric) for metric in metrics]
    if competitor not in by_metric[0]:
        return ""
    entries = [of_metric[competitor] for of_metric in by_metric]
    means = " / ".join(_mean(entry, metric) for entry, metric in zip(entries, metrics, strict=True))
    return f"{means} †" if of_two_settings(entries) else means


def _mean(entry: Entry, metric: str) -> str:
    estimate = entry.group.estimate(metric)
    if estimate is None:
        return "-"
    is_small = "ndcg_10" in metric or abs(estimate.mean) < 1
    return f"{estimate.mean:.{min(3 if is_small else 1, digits(metric))}f}"


def rank_intervals(
    tables: Mapping[tuple[str, str], Mapping[str, Entry]], metric: str
) -> dict[str, tuple[float, float]]:
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
