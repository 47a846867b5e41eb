"""Which metrics groups have, which of them stand for groups, and which a table shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ol2r_cli.columns import main_cutoff, ndcg_columns
from ol2r_cli.report.measures import heading
from ol2r_cli.report.run_groups import Group
from ol2r_cli.text.formatting import must_be_one_of


class NDCGMetrics(NamedTuple):
    """The metrics of NDCG at one cutoff."""

    test: str
    validation: str
    cumulative: str
    online: str


def known_metrics(groups: Sequence[Group]) -> list[str]:
    """Return all metrics that the summary of some run has."""
    return list(dict.fromkeys(name for group in groups for name in group.metrics))


def ndcg_metrics(groups: Sequence[Group]) -> NDCGMetrics:
    """Return the metrics of NDCG at the cutoff that stands for these groups."""
    online, cumulative, ndcg = ndcg_columns(main_cutoff(known_metrics(groups)))
    return NDCGMetrics(f"test_{ndcg.name}", f"validation_{ndcg.name}", cumulative.name, online.name)


METRICS = ndcg_metrics(())  # without another cutoff


def usual_metrics(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return the default columns of a table: NDCG, what a fairness is about, and what further measures declare."""
    metrics = [*ndcg_metrics(groups)]
    if any(group.choices.get("fairness", "none") != "none" for group in groups):
        metrics += ["unfairness", "violations"]
    known = known_metrics(groups)
    for column in declared_columns(groups):
        metrics += [name for name in (f"test_{column}", column) if name in known]
    return tuple(dict.fromkeys(metrics))


def declared_columns(groups: Sequence[Group]) -> list[str]:
    """Return the columns that measures of the runs declare, those of an evaluation before those of the trace."""
    columns: dict[str, None] = {}
    for group in groups:
        for run in group.runs:
            columns |= dict.fromkeys([*run.columns.additional.evaluation, *run.columns.additional.trace])
    return list(columns)


def check_metrics(metrics: Sequence[str], groups: Sequence[Group], option: str = "--metric") -> list[str]:
    """Return the names of metrics, or of headings such as `test NDCG@10`; ValueError for what no run has."""
    known = known_metrics(groups)
    by_heading = {heading(name).lower().strip("|"): name for name in reversed(known)}
    names = [name if name in known else by_heading.get(name.lower().strip("|"), name) for name in metrics]
    for name in names:
        if name not in known:
            usual = [metric for metric in ndcg_metrics(groups) if metric in known]
            is_ndcg = any(name.lower() in metric.split("_") for metric in usual)
            raise ValueError(must_be_one_of(option, usual if is_ndcg else known, name))
    return names
