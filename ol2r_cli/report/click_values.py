"""What lists are worth by the clicks of validation sessions: DCG@10 with attraction as gain, without any label.

The user browsing model (Dupret and Piwowarski, SIGIR 2008) says that a document at rank k is clicked with probability
attraction x examination, where examination depends on k and on the rank of the last click above. Both are fitted to the
clicks of all cells that compete on the same queries, as logs of several rankers together (Agarwal, Basu, Schnabel and
Joachims, "Effective evaluation using logged bandit feedback from multiple loggers", KDD 2017). So all cells are valued
by the same attractions, and two of them differ only where they rank differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ol2r_cli.columns import CUTOFF
from ol2r_cli.lazy import lazy, pl
from ol2r_cli.report.estimates import Values
from ol2r_cli.report.finished_run import FinishedRun, read_tables
from ol2r_cli.report.run_groups import Group

if TYPE_CHECKING:
    import numpy as np

    from ol2r_cli.dataset import click_log, position_bias
else:
    np = lazy("numpy")
    click_log, position_bias = lazy("ol2r_cli.dataset.click_log"), lazy("ol2r_cli.dataset.position_bias")

_DOCUMENT = ("query", "document")


class _Counts(NamedTuple):
    """The rows of validation_clicks.parquet of some seeds of a cell."""

    cell: Group
    run: FinishedRun
    rows: pl.DataFrame


@lru_cache(maxsize=4)
def click_values(cells: tuple[Group, ...]) -> dict[Group, Values]:
    """Return for each cell the estimated DCG@10 of a list, the mean over its sessions, by (fold, seed).

    ValueError, with what to type, for runs without validation sessions. Bias and variance:
    docs/explanation/tuning_without_labels.md.
    """
    by_data: dict[str, list[_Counts]] = {}
    for cell in cells:
        for counts in _counts_of(cell):
            by_data.setdefault(counts.run.fingerprint, []).append(counts)
    values: dict[Group, dict[tuple[object, int], float]] = {cell: {} for cell in cells}
    for of_data in by_data.values():
        attraction = attractions(pl.concat([counts.rows for counts in of_data]))
        for cell, run, rows in of_data:
            for seed, value in values_of_seeds(rows, attraction):
                values[cell][run.fold, seed] = value
    return {cell: _in_order(by_unit) for cell, by_unit in values.items()}


@lru_cache(maxsize=4)
def clicks_a_session(cells: tuple[Group, ...]) -> dict[Group, Values]:
    """Return for each cell the mean number of clicks on the first ten ranks of a session, by (fold, seed).

    It is what is known without a model of users: fewer clicks can also mean that users found sooner what they wanted.
    ValueError as of `click_values`.
    """
    of_seed = pl.col("clicked").sum() / pl.col("shown").filter(pl.col("rank") == 1).sum()
    values: dict[Group, Values] = {}
    for cell in cells:
        by_unit = {}
        for counts in _counts_of(cell):
            for seed, clicks in counts.rows.group_by("seed").agg(of_seed).iter_rows():
                by_unit[counts.run.fold, seed] = clicks
        values[cell] = _in_order(by_unit)
    return values


def _counts_of(cell: Group) -> Iterator[_Counts]:
    """Yield the counts of the runs of a cell, each (fold, seed) once; ValueError for a run without sessions.

    A run without them may be in the cell where another one has played sessions of its seeds.
    """
    recording = list(cell.new_seeds(lambda run: bool(run.settings.get("validation_sessions"))))
    known = {(run.fold, seed) for run, seeds in recording for seed in seeds}
    for run in cell.runs:
        if not known.issuperset((run.fold, seed) for seed in run.seeds):
            raise ValueError(f"{run.path} has no validation sessions: run it with validation_sessions=500")
    for run, seeds in recording:
        rows = read_tables(run.path, lambda run: run.validation_clicks)
        yield _Counts(cell, run, rows.filter(pl.col("seed").is_in(seeds), pl.col("rank") <= CUTOFF))


def attractions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the attraction of each document of each query, of largest likelihood under the user browsing model.

    rows: with the columns query, document, rank, last_click, shown and clicked, and any number of rows for a document
    at a rank below a last click. In the units of the top rank, which is examined with probability 1: the expected
    clicks there. The likelihood is that of the position-based model with a place for each pair of rank and last click.
    """
    summed = rows.group_by(*_DOCUMENT, "rank", "last_click").agg(pl.col("shown", "clicked").sum())
    places = summed.select("rank", "last_click").unique().sort("rank", "last_click").with_row_index("place")
    documents = summed.select(_DOCUMENT).unique().sort(_DOCUMENT).with_row_index("row")
    numbered = summed.join(places, on=["rank", "last_click"]).join(documents, on=_DOCUMENT)
    row, place = numbered["row"].to_numpy(), numbered["place"].to_numpy()
    shown, clicked = np.zeros((2, len(documents), len(places)))
    shown[row, place] = numbered["shown"].to_numpy()
    clicked[row, place] = numbered["clicked"].to_numpy()
    log = click_log.ClickLog(documents["query"].to_numpy(), shown, clicked)
    examination, attraction, _ = position_bias.pbm(log)
    return documents.select(_DOCUMENT).with_columns(attraction=pl.Series(attraction * examination[0]))


def values_of_seeds(rows: pl.DataFrame, attraction: pl.DataFrame) -> Iterator[tuple[int, float]]:
    """Yield the mean of sum_k attraction(document at k) / log2(k + 1) over the sessions of each seed."""
    gain = pl.col("shown") * pl.col("attraction") / (pl.col("rank") + 1).log(2)
    sessions = pl.col("shown").filter(pl.col("rank") == 1).sum()
    valued = rows.join(attraction, on=_DOCUMENT, how="left", maintain_order="left")
    yield from valued.group_by("seed").agg(gain.sum() / sessions).iter_rows()


def _in_order(values: Values) -> Values:
    """Return values in the order of `Group.values`."""
    return {key: values[key] for key in sorted(values, key=lambda key: (str(key[0]), key[1]))}
