"""What users see while a ranker learns, beside what they would have seen of a baseline: `ol2r report --trial METRIC`.

The same (fold, seed) has the same queries and users in both rows, so differences are taken page by page within it; a
page is a round. Sums over pages are plain, without a discount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.columns import INTENT
from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.figures.series import Series
from ol2r_cli.report.columns import choices, differing_settings, unless_none
from ol2r_cli.report.estimates import Estimate, clusters, of_values
from ol2r_cli.report.finished_run import FinishedRun, read_tables
from ol2r_cli.report.measures import described, gain, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import find_row, some_row, task_name, tasks
from ol2r_cli.report.units import as_units
from ol2r_cli.run.run import TRACE
from ol2r_cli.tensor.shapes import Float
from ol2r_cli.text.formatting import must_be_one_of, one_of, plural, plus_minus
from ol2r_cli.text.table import Cell, TableColumn, TextTable

ROUNDING = 1e-9  # of the largest sum: what is nearer to 0 is 0
_TOTALS = ("last", "size")  # summaries of columns that are running totals
_NAMED = 3  # in a line


@dataclass(frozen=True)
class TrialResult:
    """A measure of the learner's pages minus that of the baseline's. Pages are counted from 1.

    baseline: the mean of a page of the baseline. a_page, percent: the mean difference of a page, and in percent of
    `baseline`, None where that is not above 0. worst: the mean sum of differences at its lowest, after `worst_page`
    pages; 0 after 0 pages where it is never below 0. break_even: the page from which that mean stays at or above 0, 1
    where it always is, None where it ends below. end: the sum over all pages. last_tenth: the mean difference of a page
    in the last tenth of them. Where lower values are better, the worst is the highest, and above is below.
    """

    baseline: Estimate
    a_page: Estimate
    percent: Estimate | None
    worst: Estimate
    worst_page: int
    break_even: int | None
    end: Estimate
    last_tenth: Estimate


def trial(
    learner: Float[np.ndarray, "n T"],
    baseline: Float[np.ndarray, "n T"],
    folds: Sequence[Any] = (),
    lower_is_better: bool = False,
) -> TrialResult:
    """Return what the learner's pages are beside those of the baseline, of which line i has the same queries and users.

    folds: of the lines. Where there are several, their means are the units of intervals, otherwise lines are. The
    interval of `percent` is that of a ratio of means, by the delta method: of the mean of (d - r b) / mean b, with
    differences d, baseline b and ratio r.
    """
    folds = folds or [None] * len(learner)
    pages = learner.shape[1]

    def over(values: Float[np.ndarray, "n"]) -> Estimate:
        estimate = of_values(dict(zip(zip(folds, range(len(folds)), strict=True), values.tolist(), strict=True)))
        assert estimate is not None
        return estimate

    differences = learner - baseline
    of_baseline, a_page = over(baseline.mean(1)), over(differences.mean(1))
    last_tenth = over(differences[:, 9 * pages // 10 :].mean(1))
    percent = None
    if of_baseline.mean > 0:
        ratio = a_page.mean / of_baseline.mean
        residuals = (differences.mean(1) - ratio * baseline.mean(1)) / of_baseline.mean
        percent = replace(over(100 * residuals), mean=100 * ratio)
    sums = np.cumsum(differences, 1, out=differences)
    lines = Counter(folds)
    mean = np.array([1 / (len(lines) * lines[fold]) for fold in folds]) @ sums
    gains = np.where(np.abs(mean) <= ROUNDING * np.abs(sums).max(), 0, -mean if lower_is_better else mean)
    worst_page, break_even = turning_points(gains)
    return TrialResult(
        baseline=of_baseline,
        a_page=a_page,
        percent=percent,
        worst=over(sums[:, worst_page - 1] if worst_page else np.zeros(len(sums))),
        worst_page=worst_page,
        break_even=break_even,
        end=over(sums[:, -1]),
        last_tenth=last_tenth,
    )


def turning_points(sums: Float[np.ndarray, "T"]) -> tuple[int, int | None]:
    """Return after how many pages a sum of gains is lowest, 0 where it is never below 0; and the page from which it
    stays at or above 0: 1 where it always is, None where it ends below."""
    behind = np.flatnonzero(sums < 0)
    if not len(behind):
        return 0, 1
    break_even = int(behind[-1]) + 2
    return int(sums.argmin()) + 1, break_even if break_even <= len(sums) else None


@dataclass(frozen=True, eq=False)
class PairedPages:
    """A measure of the pages of a row and of its baseline: a line for each (fold, seed) that both have.

    missing: how many (fold, seed) only one of them has.
    """

    folds: Sequence[Any]
    learner: Float[np.ndarray, "n T"]
    baseline: Float[np.ndarray, "n T"]
    missing: int

    def sums(self, every: int) -> Series:
        """Return the sums of differences before the first page, after every `every` pages, and after the last."""
        last = self.learner.shape[1]
        pages = np.unique([*range(0, last, every), last])
        sums = np.cumsum(self.learner - self.baseline, 1)
        lines = np.concatenate([np.zeros((len(sums), 1)), sums[:, pages[1:] - 1]], 1)
        of_folds = clusters(dict(zip(zip(self.folds, range(len(lines)), strict=True), lines, strict=True)))
        if len(of_folds) == 1:
            return Series(pages, lines)
        return Series(pages, np.array([np.mean(of_fold, 0) for of_fold in of_folds.values()]), lines)


Pages = dict[tuple[str, int], Float[np.ndarray, "T"]]  # by (fold, seed)


def paired_pages(learner: Pages, baseline: Pages) -> PairedPages | None:
    """Return the pages of the (fold, seed) that both have; None where there are none."""
    keys = sorted(learner.keys() & baseline.keys())
    if not keys:
        return None
    folds, missing = [fold for fold, _ in keys], len(learner.keys() ^ baseline.keys())
    of_learner, of_baseline = (np.array([pages[key] for key in keys]) for pages in (learner, baseline))
    return PairedPages(folds, of_learner, of_baseline, missing)


def read_pages(group: Group, column: str, what: str = "--trial") -> Pages:
    """Return a column of trace.parquet by (fold, seed), in all rounds.

    ValueError, which begins with `what` was typed, for one that is not there in every round or is a running total.
    """
    found: Pages = {}
    lines: dict[Any, Any] = {}

    def records(run: FinishedRun) -> bool:
        lines.clear()
        if column in _of_pages(run):
            rows = read_tables(run.path, lambda stored: stored.table(TRACE, ["seed", "round", column]))
            if not rows[column].null_count():
                lines.update(rows.partition_by("seed", as_dict=True))
        return bool(lines)

    for run, seeds in group.new_seeds(records):
        found |= {(str(run.fold), seed): lines[seed,][column].to_numpy().astype(float) for seed in seeds}
    if not found:
        run = group.runs[0]
        message = must_be_one_of(what, _of_every_page(run), column)
        raise ValueError(message if message.endswith("?") else f"{message}: {run.path} has these of every page")
    return found


def _of_pages(run: FinishedRun) -> list[str]:
    """Return the columns of trace.parquet that may have a value of single pages."""
    if not (run.path / TRACE.file).exists():
        raise ValueError(f"a trial needs the pages of runs, got {run.path}, which has no {TRACE.file}: name folders")
    shared = (*TRACE.key, "query", INTENT.name)
    columns = run.columns.trace.items()
    return [name for name, column in columns if name not in shared and column.summary not in _TOTALS]


def _of_every_page(run: FinishedRun) -> list[str]:
    """Return the columns of trace.parquet that have a value in every round."""
    rows = read_tables(run.path, lambda stored: stored.table(TRACE, _of_pages(run)))
    return [name for name in rows.columns if not rows[name].null_count()]


def rivals(groups: Sequence[Group], labels: Labels, baseline: str = "") -> dict[Group, Group]:
    """Return of each row, but for baselines and rows of tasks without one, what it is compared with.

    baseline: words for `find_row`; empty: in each task the only row whose ranker neither learns nor needs labels.
    ValueError where nothing is compared, and where several rows may be the baseline.
    """
    found: dict[Group, Group] = {}
    bases: list[Group] = []
    for task in tasks(groups):
        fixed = [] if baseline else [group for group in task if _is_fixed(group)]
        if len(fixed) > 1:
            raise ValueError(_without_baseline(fixed))
        base = find_row(baseline, task, labels) if baseline else next(iter(fixed), None)
        if base:
            bases.append(base)
            found |= {group: base for group in task if group is not base}
    if found:
        return found
    if bases:
        told = task_name(bases[0], labels)
        raise ValueError(
            f"there is nothing to compare with {baseline or labels.ranker(bases[0])}: no other row has its dataset, "
            f"click model and settings of the run{f' ({told})' if told else ''}"
        )
    raise ValueError(f"--baseline must be {some_row(baseline, groups)}" if baseline else _without_baseline(groups))


def _without_baseline(groups: Sequence[Group]) -> str:
    words = [f"--baseline {ranker}" for ranker in dict.fromkeys(group.choices["ranker"] for group in groups)]
    more = [".."] if len(words) > _NAMED else []
    return f"a trial needs the row that would be served otherwise: type {one_of([*words[:_NAMED], *more])}"


def _is_fixed(group: Group) -> bool:
    """Return whether a ranker of ol2r neither learns nor needs labels; False for others, which are not imported."""
    module, _, name = str(group.settings.get("ranker._target_")).rpartition(".")
    if not module.startswith("ol2r_cli."):
        return False
    ranker, learn = getattr(import_module(module), name), import_module("ol2r_cli.interfaces").Ranker.learn
    return ranker.learn is learn and not ranker.needs_labels


class ComparedRow(NamedTuple):
    """A row of the table: what is compared, how many (fold, seed) only one of them has, and how they differ."""

    group: Group
    rival: Group
    missing: int
    trial: TrialResult


def trial_table(groups: Sequence[Group], labels: Labels, column: str, baseline: str = "") -> TextTable:
    """Return a row for each row that is compared, the best of a task first, with lines on what the numbers are.

    ValueError as of `rivals` and `read_pages`, and where no row has a (fold, seed) in common with its baseline.
    """
    found = rivals(labels.ordered(groups), labels, baseline)
    lower_is_better = described(column).higher_is_better is False
    pages = {rival: read_pages(rival, column) for rival in found.values()}
    rows: list[ComparedRow] = []
    for group, rival in found.items():
        pair = paired_pages(read_pages(group, column), pages[rival])
        if pair:
            of_pair = trial(pair.learner, pair.baseline, pair.folds, lower_is_better)
            rows.append(ComparedRow(group, rival, pair.missing, of_pair))
    if not rows:
        raise ValueError(f"a trial needs {next(iter(found)).units.pair} that a row and its baseline have, got none")
    order = [*pages]
    rows.sort(key=lambda row: (order.index(row.rival), -gain(column, row.trial.a_page.mean)))
    notes = _notes(rows, column, labels)
    if len(rows) < len(found):
        notes.append(f"Not compared, without a {rows[0].group.units.pair} in common: {len(found) - len(rows)}.")
    alone = [*dict.fromkeys(task_name(group, labels) for group in groups if group not in {*found, *order})]
    if alone:
        more = ["others"] if len(alone) > _NAMED else []
        notes.append(f"Not compared, without a baseline: {'; '.join([*alone[:_NAMED], *more])}.")
    return replace(TextTable.about(rows, _columns(groups, labels, column)), below=notes)


def _columns(groups: Sequence[Group], labels: Labels, column: str) -> list[TableColumn[ComparedRow]]:
    """Return what a table says of a row."""
    settings = differing_settings(groups, labels)

    def number(title: str, name: str, digits: int) -> TableColumn[ComparedRow]:
        def cell(row: ComparedRow) -> Cell:
            estimate = getattr(row.trial, name)
            text = "" if estimate is None else plus_minus(estimate.mean, estimate.half_width, digits, "+", ",")
            half_width = estimate.half_width if estimate else None
            values = {name: estimate.mean if estimate else None, f"{name}_half_width": half_width}
            return Cell(text, values=values)

        return TableColumn(title, cell, True)

    def worst(row: ComparedRow) -> Cell:
        cell, page = number("", "worst", 2).cell(row), row.trial.worst_page
        return Cell(f"{cell.text} at {page:,}" if page else "none", values={**cell.values, "worst_page": page})

    def break_even(row: ComparedRow) -> Cell:
        page = row.trial.break_even
        text = "never" if page is None else "at once" if page == 1 else f"{page:,}"
        return Cell(text, values={"break_even": page})

    def baseline(row: ComparedRow) -> Cell:
        mean = row.trial.baseline.mean
        return Cell(f"{mean:.4f}", values={"metric": column, "rival": labels.ranker(row.rival), "rival_a_page": mean})

    return [
        TableColumn("dataset", lambda row: Cell(row.group.choices["dataset"], values=choices(row.group))),
        TableColumn("click", lambda row: Cell(unless_none(row.group, "click"))),
        TableColumn("intent", lambda row: Cell(unless_none(row.group, "intent"))),
        TableColumn("ranker", lambda row: Cell(labels.ranker(row.group))),
        TableColumn(
            "settings",
            lambda row: Cell(labels.short(row.group), values={name: row.group.settings.get(name) for name in settings}),
        ),
        TableColumn(
            "pairs",
            lambda row: Cell(row.group.units.pairs(row.trial.a_page), values={"pairs": row.trial.a_page.n}),
            True,
        ),
        TableColumn("baseline", baseline, True),
        number("a page", "a_page", 4),
        number("in %", "percent", 1),
        TableColumn("worst moment", worst, True),
        TableColumn("break-even", break_even, True),
        number("at the end", "end", 2),
        number("a page, last tenth", "last_tenth", 4),
    ]


def _notes(rows: Sequence[ComparedRow], column: str, labels: Labels) -> list[str]:
    """Return what the numbers are."""
    units = rows[0].group.units
    names = one_of([*dict.fromkeys(f"{labels.ranker(row.rival)} {labels.short(row.rival)}".rstrip() for row in rows)])
    over = as_units(*sorted({units.name(row.trial.a_page) for row in rows}))
    lowest, above = ("highest", "below") if described(column).higher_is_better is False else ("lowest", "above")
    lines = [
        f"{heading(column)[:1].upper()}{heading(column)[1:]} minus those of {names} on the same pages, means over the "
        f"{units.pair} that both have. ± is half the {LEVEL:.0%} interval of a mean (Student's t) with the {over}.",
        "Sums over pages are plain, without a discount. The worst moment is the page after which the mean sum is "
        f"{lowest}; from the break-even page on it stays at or {above} 0.",
    ]
    missing = sum(row.missing > 0 for row in rows)
    if missing:
        lines.append(f"Not all {units.pair} are in both rows of {plural(missing, 'comparison')}.")
    return lines
