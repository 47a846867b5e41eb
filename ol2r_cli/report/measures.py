"""The metrics of summary.json as reports show them: default columns, headings, axis labels, digits and directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ol2r_cli.columns import Column, RunColumns, main_cutoff, metrics_of, ndcg_columns
from ol2r_cli.formatting import must_be_one_of

if TYPE_CHECKING:
    from ol2r_cli.report.run_groups import Group

# What real users do, below a table that has the metric: docs/algorithms/real_users.md has the sources.
BESIDE = {
    "page_clicks": (
        "Logs of search engines, for comparison: Baidu-ULTR has .69 clicks a page, a click on .466 and several on .131 "
        "of the pages, click rates of .278, .142, .073, .034 and .007 at ranks 1, 2, 3, 5 and 10; sixty navigational "
        "queries of Yandex have .687, .082, .033, .012 and .003 there."
    )
}
_shared = metrics_of([RunColumns()])
_declared: dict[str, Column] = {}  # metrics of the measures of runs that have been read


def declare(columns: RunColumns) -> None:
    """Remember how the metrics of a run are shown, for the functions below."""
    if columns.declared():
        _declared.update(metrics_of([columns]))


def described(metric: str) -> Column:
    """How reports show a metric of summary.json; one that no run declares keeps its name."""
    return _shared.get(metric) or _declared.get(metric) or Column(metric, digits=2)


def heading(metric: str) -> str:
    """The name of a metric in a table."""
    return described(metric).heading


def digits(metric: str) -> int:
    """The number of digits shown behind the decimal point."""
    return described(metric).digits


def gain(metric: str, difference: float) -> float:
    """Above 0 where a difference is an improvement; the difference itself for a metric without a direction."""
    return -difference if described(metric).higher_is_better is False else difference


def ndcg_metrics(groups: Sequence[Group]) -> tuple[str, str, str, str]:
    """Test, validation, cumulative and online NDCG at the cutoff that stands for these groups."""
    online, cumulative, ndcg = ndcg_columns(main_cutoff(known_metrics(groups)))
    return f"test_{ndcg.name}", f"validation_{ndcg.name}", cumulative.name, online.name


def usual_metrics(groups: Sequence[Group]) -> tuple[str, ...]:
    """The default columns of a table: with unfairness and violations where a run has a fairness, and with one metric
    of every column that a measure of a run declares, on test queries where it is evaluated."""
    fair = any(group.choices.get("fairness", "none") != "none" for group in groups)
    others, known = [run.columns.additional for group in groups for run in group.runs], known_metrics(groups)
    declared = [name for each in others for name in [*(f"test_{name}" for name in each.evaluation), *each.trace]]
    of_measures = [name for name in declared if name in known]
    return tuple(dict.fromkeys([*ndcg_metrics(groups), *(("unfairness", "violations") if fair else ()), *of_measures]))


def known_metrics(groups: Sequence[Group]) -> list[str]:
    """All metrics that the summary of some run has."""
    return list(dict.fromkeys(name for group in groups for name in group.metrics))


METRICS = ndcg_metrics(())  # without another cutoff


def check_metrics(metrics: Sequence[str], groups: Sequence[Group], option: str = "--metric") -> list[str]:
    """The names of metrics, or of headings such as `test NDCG@10`; ValueError for what is in no summary of a run."""
    known = known_metrics(groups)
    by_heading = {heading(name).lower(): name for name in reversed(known)}
    names = [name if name in known else by_heading.get(name.lower(), name) for name in metrics]
    for name in names:
        if name not in known:
            usual = [metric for metric in ndcg_metrics(groups) if metric in known]
            hints = usual if any(name.lower() in metric.split("_") for metric in usual) else known
            raise ValueError(must_be_one_of(option, hints or ["none: nothing was measured"], name))
    return names
