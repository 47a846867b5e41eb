"""What lists are worth by the clicks of validation sessions: DCG@10 with attraction as gain, without any label.

The user browsing model (Dupret and Piwowarski, SIGIR 2008) says that a document at rank k is clicked with probability
attraction x examination, where examination depends on k and on the rank of the last click above. Both are fitted to the
clicks of all cells that compete on the same queries, as logs of several rankers together (Agarwal, Basu, Schnabel and
Joachims, "Effective evaluation using logged bandit feedback from multiple loggers", KDD 2017). So all cells are valued
by the same attractions, and two of them differ only where they rank differently.

Intervals are over folds, or of one fold over seeds by the jackknife (Efron and Stein, "The jackknife estimate of
variance", The Annals of Statistics 1981): each seed is left out of attractions, too, whose error all cells share.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from ol2r_cli.columns import CUTOFF
from ol2r_cli.lazy import lazy, pl
from ol2r_cli.metrics.intervals import half_width
from ol2r_cli.report.estimates import ALPHA, Values, clusters, holm, of_values, two_sided
from ol2r_cli.report.finished_run import FinishedRun, read_tables
from ol2r_cli.report.run_groups import Group
from ol2r_cli.run.run import VALIDATION_CLICKS, Run

if TYPE_CHECKING:
    import numpy as np

    from ol2r_cli.plugins.click_logs import click_log, position_bias
else:
    np = lazy("numpy")
    click_log, position_bias = (
        lazy("ol2r_cli.plugins.click_logs.click_log"),
        lazy("ol2r_cli.plugins.click_logs.position_bias"),
    )

_DOCUMENT = ("query", "document")
# Shares of the clicks below rank 1 at ranks that no clicked document joins to it: what decides nothing, and a doubt.
_MOST_APART, _SOME_APART = 0.5, 0.05


class _Counts(NamedTuple):
    """The rows of validation_clicks.parquet of some seeds of a cell."""

    cell: Group
    run: FinishedRun
    rows: pl.DataFrame


class _Fit(NamedTuple):
    """The counts of all cells on the same data, the attractions fitted to them, and how good these are.

    impressions: of clicked documents, the harmonic mean over clicks. apart: the share of the clicks below rank 1 at
    ranks that no clicked document joins to it. undecided: why nothing can be decided by them, or nothing.
    """

    counts: list[_Counts]
    attraction: pl.DataFrame
    impressions: float
    apart: float
    undecided: str


class ClickValue(NamedTuple):
    """What a cell is worth by clicks, beside the chosen one.

    value, half_width: the mean of its lists, and half of its 95 % interval. behind, behind_half_width: how much less
    that is than of the chosen cell. p: of this difference, after Holm's correction. None: it takes two folds or seeds.
    sessions: of all its seeds.
    """

    cell: Group
    value: float
    half_width: float | None
    behind: float
    behind_half_width: float | None
    p: float | None
    sessions: int

    @property
    def told_apart(self) -> bool:
        """Return whether it differs significantly from the chosen cell."""
        return self.p is not None and self.p < ALPHA


@lru_cache(maxsize=4)
def click_values(cells: tuple[Group, ...]) -> dict[Group, Values]:
    """Return for each cell the estimated DCG@10 of a list, the mean over its sessions, by (fold, seed).

    ValueError, with what to type, for runs without validation sessions. Bias and variance:
    docs/explanation/tuning_without_labels.md.
    """
    values: dict[Group, dict[tuple[object, int], float]] = {cell: {} for cell in cells}
    for fit in _fits(cells):
        for cell, run, rows in fit.counts:
            for seed, value in values_of_seeds(rows, fit.attraction):
                values[cell][run.fold, seed] = value
    return {cell: _in_order(by_unit) for cell, by_unit in values.items()}


def why_undecided(cells: tuple[Group, ...]) -> str:
    """Return why clicks say nothing of which cell is better, with what to type; empty where they do."""
    return next((fit.undecided for fit in _fits(cells) if fit.undecided), "")


def doubts(cells: tuple[Group, ...]) -> list[str]:
    """Return a line for all that the sessions are too few to tell, on the data where they tell least."""
    lines = []
    fewest, apart = min(fit.impressions for fit in _fits(cells)), max(fit.apart for fit in _fits(cells))
    if fewest < position_bias.LEAST_IMPRESSIONS:
        lines.append(
            f"clicked documents have {fewest:.1f} impressions (harmonic mean over clicks), of which attractions need "
            f"{position_bias.LEAST_IMPRESSIONS}: type more validation_sessions or replicas"
        )
    if apart > _SOME_APART:
        lines.append(f"{apart:.0%} of the clicks below rank 1 are at ranks that no clicked document joins to it")
    return lines


def beside(cells: tuple[Group, ...], chosen: Group) -> list[ClickValue]:
    """Return what each cell is worth, the best first, and how far that is from what the chosen one is worth."""
    values = click_values(cells)
    folds = len(clusters(values[chosen]))
    jackknifed = {} if folds > 1 else _without_each_seed(cells)
    found = []
    for cell in cells:
        pairs = {unit: values[chosen][unit] - value for unit, value in values[cell].items() if unit in values[chosen]}
        own, behind = of_values(values[cell]), of_values(pairs)
        assert own is not None
        assert behind is not None
        spread, spread_behind, n = own.between, behind.between, folds
        if folds == 1:
            n = len(jackknifed[cell])
            spread = stdev(jackknifed[cell]) if n > 1 else None
            pseudo = [best - value for best, value in zip(jackknifed[chosen], jackknifed[cell], strict=True)]
            spread_behind = stdev(pseudo) if n > 1 else None
        p = None if spread_behind is None else two_sided(behind.mean, spread_behind / n**0.5, n - 1)
        interval, interval_behind = half_width(spread, n), half_width(spread_behind, n)
        found.append(ClickValue(cell, own.mean, interval, behind.mean, interval_behind, p, _sessions(cell)))
    others = [value for value in found if value.cell is not chosen and value.p is not None]
    corrected = dict(zip([value.cell for value in others], holm([value.p or 0.0 for value in others]), strict=True))
    return sorted((value._replace(p=corrected.get(value.cell)) for value in found), key=lambda value: value.behind)


def _without_each_seed(cells: tuple[Group, ...]) -> dict[Group, list[float]]:
    """Return the pseudo-values n x - (n - 1) x_s of cells by the n seeds of one fold.

    x is what a cell is worth by all seeds, x_s by those without seed s. Their spread is that of n independent values.
    """
    (fit,) = _fits(cells)
    rows_of: dict[Group, list[pl.DataFrame]] = {}
    for cell, _, rows in fit.counts:
        rows_of.setdefault(cell, []).append(rows)
    tables = {cell: pl.concat(rows) for cell, rows in rows_of.items()}
    values = click_values(cells)
    seeds = sorted(set.intersection(*({seed for _, seed in of_cell} for of_cell in values.values())))
    pseudo: dict[Group, list[float]] = {cell: [] for cell in cells}
    for seed in seeds if len(seeds) > 1 else []:
        others = {cell: table.filter(pl.col("seed") != seed) for cell, table in tables.items()}
        attraction = attractions(pl.concat([*others.values()]))
        for cell, table in others.items():
            without = fmean(value for _, value in values_of_seeds(table, attraction))
            pseudo[cell].append(len(seeds) * fmean(values[cell].values()) - (len(seeds) - 1) * without)
    return pseudo


def _sessions(cell: Group) -> int:
    return sum(int(counts.rows.filter(pl.col("rank") == 1)["shown"].sum()) for counts in _counts_of(cell))


@lru_cache(maxsize=4)
def _fits(cells: tuple[Group, ...]) -> list[_Fit]:
    """Return the attractions by the clicks of all cells, for each of their data."""
    by_data: dict[str, list[_Counts]] = {}
    for counts in chain.from_iterable(map(_counts_of, cells)):
        by_data.setdefault(counts.run.fingerprint, []).append(counts)
    return [_fit(counts) for counts in by_data.values()]


def _fit(counts: list[_Counts]) -> _Fit:
    """Return the attractions of the same data, and what the clicks leave open."""
    rows = pl.concat([of_run.rows for of_run in counts])
    log, places, documents = _as_log(rows)
    examination, attraction, _ = position_bias.pbm(log)
    clicks, top = log.clicks.sum(0), int((places["rank"] == 1).arg_max() or 0)
    below, undecided, apart, impressions = clicks.sum() - clicks[top], "", 0.0, 0.0
    if not clicks.any():
        undecided = "no session has a click"
    elif places["rank"][top] != 1 or not clicks[top]:
        undecided = "no session has a click at rank 1, by which the other ranks are measured"
    else:
        impressions = position_bias.impressions_of_clicked(log)
        apart = float(clicks[~position_bias.joined_places(log, examination, top)].sum() / below) if below else 0.0
    if apart > _MOST_APART:
        told = f"{apart:.0%} of the clicks below rank 1 are at ranks that no clicked document joins to it"
        undecided = f"{told}, so that ranks and documents cannot be told apart"
    found = documents.select(_DOCUMENT).with_columns(attraction=pl.Series(attraction * examination[top]))
    return _Fit(counts, found, impressions, apart, undecided)


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

    Of several runs of a (fold, seed) that with most sessions counts, so that one may have none.
    """
    recording = list(cell.new_seeds(lambda run: _sessions_of(run) > 0, most=_sessions_of))
    known = {(run.fold, seed) for run, seeds in recording for seed in seeds}
    for run in cell.runs:
        if not known.issuperset((run.fold, seed) for seed in run.seeds):
            raise ValueError(f"{run.path} has no validation sessions: run it with validation_sessions=500")
    for run, seeds in recording:
        rows = read_tables(run.path, _recorded)
        yield _Counts(cell, run, rows.filter(pl.col("seed").is_in(seeds), pl.col("rank") <= CUTOFF))


def _recorded(run: Run) -> pl.DataFrame:
    """Return the counts of a run with the types that they have; PolarsError for what is no number."""
    return run.validation_clicks.select(pl.col(name).cast(kind) for name, kind in VALIDATION_CLICKS.schema.items())


def _sessions_of(run: FinishedRun) -> int:
    return int(run.settings.get("validation_sessions") or 0)


def attractions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the attraction of each document of each query, of largest likelihood under the user browsing model.

    rows: with the columns query, document, rank, last_click, shown and clicked, and any number of rows for a document
    at a rank below a last click. In the units of the top rank, which is examined with probability 1: the expected
    clicks there. The likelihood is that of the position-based model with a place for each pair of rank and last click.
    """
    log, _, documents = _as_log(rows)
    examination, attraction, _ = position_bias.pbm(log)
    return documents.select(_DOCUMENT).with_columns(attraction=pl.Series(attraction * examination[0]))


def _as_log(rows: pl.DataFrame) -> tuple[click_log.ClickLog, pl.DataFrame, pl.DataFrame]:
    """Return counts as a log whose places are pairs of rank and last click, and its places and documents in order."""
    summed = rows.group_by(*_DOCUMENT, "rank", "last_click").agg(pl.col("shown", "clicked").sum())
    places = summed.select("rank", "last_click").unique().sort("rank", "last_click").with_row_index("place")
    documents = summed.select(_DOCUMENT).unique().sort(_DOCUMENT).with_row_index("row")
    numbered = summed.join(places, on=["rank", "last_click"]).join(documents, on=_DOCUMENT)
    row, place = numbered["row"].to_numpy(), numbered["place"].to_numpy()
    shown, clicked = np.zeros((2, len(documents), len(places)))
    shown[row, place] = numbered["shown"].to_numpy()
    clicked[row, place] = numbered["clicked"].to_numpy()
    return click_log.ClickLog(documents["query"].to_numpy(), shown, clicked), places, documents


def values_of_seeds(rows: pl.DataFrame, attraction: pl.DataFrame) -> Iterator[tuple[int, float]]:
    """Yield the mean of sum_k attraction(document at k) / log2(k + 1) over the sessions of each seed."""
    gain = pl.col("shown") * pl.col("attraction") / (pl.col("rank") + 1).log(2)
    sessions = pl.col("shown").filter(pl.col("rank") == 1).sum()
    valued = rows.join(attraction, on=_DOCUMENT, how="left", maintain_order="left")
    yield from valued.group_by("seed").agg(gain.sum() / sessions).iter_rows()


def _in_order(values: Values) -> Values:
    """Return values in the order of `Group.values`."""
    return {key: values[key] for key in sorted(values, key=lambda key: (str(key[0]), key[1]))}
