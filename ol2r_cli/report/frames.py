"""A report in full precision, as polars frames: what `--format csv` and `parquet` write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ol2r_cli.report.comparison import Comparison, Difference
from ol2r_cli.report.differences import names
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import PARTS, Labels
from ol2r_cli.report.override import text
from ol2r_cli.report.select import Selection
from ol2r_cli.report.table import ordered

if TYPE_CHECKING:
    import polars as pl


def groups_frame(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str],
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> pl.DataFrame:
    """One row a group: choices, settings in which groups differ, folds, n, and of each metric mean, sd, half_width."""
    names = settings_of(groups, labels)
    rows = []
    for group in ordered(groups, labels, (*metrics, "test_ndcg_10")[0]):
        row: dict[str, Any] = choices_of(group) | {setting: group.settings.get(setting) for setting in names}
        row |= {"chosen_from": selection.cells[selection.groups.index(group)]} if selection else {}
        row |= {"letter": comparison.letters.get(group)} if comparison and comparison.letters else {}
        row |= {"folds": len(group.seeds), "n": group.n}
        for metric in metrics:
            row |= _estimates(group, metric) | (_comparisons(group, metric, comparison) if comparison else {})
        rows.append(row)
    return as_frame(rows)


def differences_frame(comparison: Comparison, labels: Labels) -> pl.DataFrame:
    """One row a comparison and metric."""
    rows, name = [], names(comparison, labels)
    for d in comparison.differences:
        ends = {
            "rival_" + part: choice for part, choice in choices_of(d.rival).items() if part not in ("dataset", "click")
        }
        row: dict[str, Any] = {"metric": d.metric} | choices_of(d.group) | {"row": name[d.group]}
        rows.append(row | ends | {"rival_row": name[d.rival]} | _numbers(d))
    return as_frame(rows)


def choices_of(group: Group) -> dict[str, str | None]:
    """dataset, click, ranker, model, exploration, fairness; None for a model where the ranker has none."""
    return {part.rpartition("/")[2]: group.choices.get(part) for part in PARTS}


def settings_of(groups: Iterable[Group], labels: Labels) -> list[str]:
    """Names of the settings that tell groups apart, in the order of the table."""
    return list(dict.fromkeys(setting for group in groups for setting in labels.settings(group)))


def as_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A column for each key; numbers stay numbers, and a column of several kinds is text as one types it."""
    import polars as pl

    columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
    return pl.DataFrame([pl.Series(key, _of_one_kind(values), strict=False) for key, values in columns.items()])


def _of_one_kind(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or kinds in ({bool}, {str}):
        return values
    return [None if value is None else value if isinstance(value, str) else text(value) for value in values]


def _estimates(group: Group, metric: str) -> dict[str, float | int | None]:
    estimate = group.estimate(metric)
    if estimate is None:
        return dict.fromkeys((f"{metric}_{what}" for what in ("mean", "sd", "half_width", "n")), None)
    return {
        f"{metric}_mean": estimate.mean,
        f"{metric}_sd": estimate.sd,
        f"{metric}_half_width": estimate.half_width,
        f"{metric}_n": estimate.n,
    }


def _comparisons(group: Group, metric: str, comparison: Comparison) -> dict[str, Any]:
    if comparison.baseline is None:
        return {f"{metric}_better_than": comparison.mark(group, metric)}
    difference = comparison.against_baseline(group, metric)
    numbers = _numbers(difference) if difference else dict.fromkeys(NUMBERS, None)
    return {f"{metric}_{key}": value for key, value in numbers.items()}


NUMBERS = ("difference", "difference_half_width", "p", "p_holm", "effect", "wins", "ties", "losses", "pairs", "missing")


def _numbers(d: Difference) -> dict[str, float | int | None]:
    counts = (d.wins, d.ties, d.losses, d.estimate.n, d.missing)
    return dict(zip(NUMBERS, (d.estimate.mean, d.estimate.half_width, d.p, d.holm, d.effect, *counts), strict=True))
