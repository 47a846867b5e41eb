"""Reports as polars frames in full precision: `load` for a notebook, and the frames behind csv and parquet files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.report.comparison import Comparison, PairedDifference, Selection
from ol2r_cli.report.finished_run import FinishedRun, by_seed, tables_of
from ol2r_cli.report.names import PARTS, Labels
from ol2r_cli.report.run_groups import Group, chosen_runs, group_runs

if TYPE_CHECKING:
    import polars as pl

_FORMULA = re.compile(r"^(?=[=+\-@\t\r])(?![+-][\d.]+([eE][+-]?\d+)?\Z)")
TABLES = ("summary", "evaluation", "trace", "blocks")
_NUMBERS = (
    *("difference", "difference_half_width", "p", "p_holm", "effect"),
    *("wins", "ties", "losses", "pairs", "missing"),
)


def load(
    *places: str | os.PathLike[str],
    table: str = "summary",
    settings: bool = False,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row for each (run, seed) of the finished runs below folders (default: `outputs`).

    Words of `ol2r run` choose among them: load("outputs", "dataset=mq2008", "click=per,inf").
    Columns: run (its id), path, group (rows with the same number differ in fold and seed only: a row of the report),
    dataset, fold, click, intent, ranker, model, exploration, fairness, the settings in which groups differ by their
    dotted name (all with `settings=True`), seed, and the metrics of summary.json. With `table` "evaluation", "trace" or
    "blocks", the rows of that table replace the metrics, several for each seed; `columns` selects some of them, since
    traces are long. A seed of several runs has several rows: use `.unique(["group", "fold", "seed"])`. A damaged run is
    left out with a warning. ValueError for a table, a column or a folder that does not exist, and without finished
    runs.
    """
    if table not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}, got {table}")
    if table != "summary" and (files := [place for place in places if Path(place).is_file()]):
        raise ValueError(f"table must be summary for {files[0]}, which has final values only, got {table}")
    collection = chosen_runs(places)
    groups = group_runs(collection.runs)
    every = dict.fromkeys(name for run in collection.runs for name in run.settings)
    names = list(every) if settings else _settings(groups, Labels(groups))
    runs = as_frame([_run_row(number, group, run, names) for number, group in enumerate(groups) for run in group.runs])
    if table == "summary":
        values = _summary_rows(collection.runs, columns)
    else:
        values = _table_rows(collection.runs, table, columns)
    return runs.join(values, on="path", maintain_order="left_right")


def as_csv(table: pl.DataFrame) -> str:
    """CSV in which text is marked by a quote that a spreadsheet would calculate; numbers are not."""
    import polars as pl

    mark = partial(_FORMULA.sub, "'")
    return table.rename(mark).with_columns(pl.col(pl.String).map_elements(mark, pl.String)).write_csv()


def _run_row(number: int, group: Group, run: FinishedRun, settings: Iterable[str]) -> dict[str, Any]:
    choices = _choices(group)
    row = {"run": run.id, "path": str(run.path), "group": number, "dataset": choices.pop("dataset"), "fold": run.fold}
    return row | choices | {name: run.settings.get(name) for name in settings}


def _summary_rows(runs: Sequence[FinishedRun], columns: Sequence[str] | None) -> pl.DataFrame:
    """path, seed and metrics."""
    import polars as pl

    known = list(dict.fromkeys(name for run in runs for name in run.metrics))
    for name in columns or ():
        if name not in known:
            raise ValueError(f"columns must be some of {', '.join(known)}, got {name}")
    metrics = known if columns is None else list(columns)
    rows: list[dict[str, Any]] = []
    for run in runs:
        for seed, values in sorted(by_seed(run).items()):
            if seed in run.seeds:
                rows.append({"path": str(run.path), "seed": seed} | {name: values.get(name) for name in metrics})
    return as_frame(rows) if rows else pl.DataFrame(schema={"path": pl.String, "seed": pl.Int64})


def _table_rows(runs: Iterable[FinishedRun], table: str, columns: Sequence[str] | None) -> pl.DataFrame:
    """The rows of one table of all runs, with the path of the run; a column that an old file lacks is null."""
    import polars as pl

    from ol2r_cli.run import tables

    known, runs = getattr(tables, table.upper()), list(runs)
    if table in ("trace", "evaluation"):
        for run in runs:
            known = known.with_columns(getattr(run.columns, table))
    known.check(dict.fromkeys(name for name in columns or () if name not in known.key))
    wanted = [name for name in known.columns if columns is None or name in (*known.key, *columns)]
    types = {name: getattr(pl, known.columns[name]) for name in wanted}
    frames = [pl.DataFrame(schema={"path": pl.String} | types)]
    for run in runs:
        if not (run.path / known.file).exists():
            continue
        with tables_of(run.path) as stored:
            rows = stored.table(known, wanted)
        frames.append(rows.select(pl.lit(str(run.path)).alias("path"), pl.all()))
    return pl.concat(frames, how="diagonal")


def groups_frame(
    groups: Sequence[Group],
    labels: Labels,
    metrics: Sequence[str],
    selection: Selection | None = None,
    comparison: Comparison | None = None,
) -> pl.DataFrame:
    """One row for each group: choices, differing settings, folds, n, and mean, sd, half_width and n of each metric."""
    names = _settings(groups, labels)
    rows = []
    for group in labels.ordered(groups, metrics):
        row: dict[str, Any] = _choices(group) | {setting: group.settings.get(setting) for setting in names}
        row |= {"chosen_from": selection.cells[selection.groups.index(group)]} if selection else {}
        row |= {"letter": comparison.letters.get(group)} if comparison and comparison.letters else {}
        row |= {"note": group.note} if any(each.note for each in groups) else {}
        row |= {"folds": len(group.seeds), "n": group.n}
        for metric in metrics:
            estimate = group.estimate(metric)
            for name in ("mean", "sd", "half_width", "n"):
                row[f"{metric}_{name}"] = getattr(estimate, name) if estimate else None
            row |= _comparison_columns(group, metric, comparison) if comparison else {}
        rows.append(row)
    return as_frame(rows)


def differences_frame(comparison: Comparison, labels: Labels) -> pl.DataFrame:
    """One row for each comparison and metric."""
    rows, names = [], comparison.row_names(labels)
    for d in comparison.differences:
        rival = {f"rival_{part}": name for part, name in _choices(d.rival).items() if part not in ("dataset", "click")}
        row: dict[str, Any] = {"metric": d.metric} | _choices(d.group) | {"row": names[d.group]}
        rows.append(row | rival | {"rival_row": names[d.rival]} | _numbers(d))
    return as_frame(rows)


def as_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A column for each key. Numbers stay numbers; a column of several types is text, as typed on the command line."""
    import polars as pl

    columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
    return pl.DataFrame([pl.Series(key, _of_one_type(values), strict=False) for key, values in columns.items()])


def _of_one_type(values: list[Any]) -> list[Any]:
    types = {type(value) for value in values if value is not None}
    if types <= {int, float} or types in ({bool}, {str}):
        return values
    return [None if value is None else value if isinstance(value, str) else as_typed(value) for value in values]


def _choices(group: Group) -> dict[str, str | None]:
    """dataset, click, intent, ranker, model, exploration, fairness; None for a model that the ranker lacks."""
    return {part.rpartition("/")[2]: group.choices.get(part) for part in PARTS}


def _settings(groups: Iterable[Group], labels: Labels) -> list[str]:
    """Names of the settings that distinguish groups, in the order of the table."""
    return list(dict.fromkeys(setting for group in groups for setting in labels.settings(group)))


def _comparison_columns(group: Group, metric: str, comparison: Comparison) -> dict[str, Any]:
    if comparison.baseline is None:
        return {f"{metric}_better_than": comparison.mark(group, metric)}
    difference = comparison.against_baseline(group, metric)
    numbers = _numbers(difference) if difference else dict.fromkeys(_NUMBERS, None)
    return {f"{metric}_{name}": value for name, value in numbers.items()}


def _numbers(d: PairedDifference) -> dict[str, float | int | None]:
    counts = (d.wins, d.ties, d.losses, d.estimate.n, d.missing)
    return dict(zip(_NUMBERS, (d.estimate.mean, d.estimate.half_width, d.p, d.holm, d.effect, *counts), strict=True))
