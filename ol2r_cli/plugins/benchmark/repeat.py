"""`ol2r benchmark NAME --repeat`: published rows are run again, and their numbers compared.

They are the same to the last digit, or to nine digits where sums round otherwise. A row with ‡ has other numbers on
another processor: there the means over seeds may differ by half of their published 95 % intervals over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ol2r_cli.plugins.benchmark.play import run_recipe
from ol2r_cli.plugins.benchmark.recipe import AIMS, Recipe
from ol2r_cli.plugins.benchmark.results import TEST, Row, differs_elsewhere, published_part
from ol2r_cli.plugins.benchmark.run_plan import plan_of
from ol2r_cli.report.estimates import of_values
from ol2r_cli.report.finished_run import FinishedRun
from ol2r_cli.run import DONE, FAILED, INTERRUPTED
from ol2r_cli.text.formatting import nearest
from ol2r_cli.text.table import show

_HEADINGS = ["data", "click", "fold", "ranker", "chosen", "seeds the same", "largest difference of NDCG@10"]
_OF_MEAN = "‡: of the mean, in half intervals"

ROUNDING = 1e-9  # of a value, by which sums of equal numbers may differ that are added up in another order


class Compared(NamedTuple):
    """How one run compares with the published one.

    same: how many seeds have the same numbers in all metrics, but for the rounding of sums. exact: whether they have
    them to the last digit. largest: the largest difference of test NDCG@10 of a seed. of_mean: for a row with ‡, the
    difference of the mean over seeds as a share of half its 95 % interval over seeds, the larger one of test NDCG@10
    and cumulative NDCG; None without the mark.
    """

    same: int
    seeds: int
    exact: bool
    largest: float
    of_mean: float | None

    @property
    def is_repeated(self) -> bool:
        """Return whether the published numbers are repeated, as far as they can be."""
        return self.same == self.seeds or (self.of_mean is not None and self.of_mean <= 1)

    def cells(self) -> list[str]:
        """Return the last cells of its line."""
        if self.same == self.seeds:
            return ["all", "", ""]
        of_mean = "" if self.of_mean is None else f"{self.of_mean:.2f}"
        return [f"{self.same} of {self.seeds}", f"{self.largest:.4f}", of_mean]


def repeat(recipe: Recipe, words: Sequence[str], typed: Sequence[str]) -> int:
    """Run published rows again, with their settings, and print whether the numbers are the same; return the exit code.

    words: names of rows, all if there are none, and overrides. Exit code 1 where numbers differ that can be repeated.
    """
    competitors = [word for word in words if "=" not in word]
    typed = [*typed, *(word for word in words if "=" in word)]
    published = _of_competitors(published_part(plan_of(recipe, typed)), competitors)
    plan = plan_of(recipe, typed, settings={row.condition: row.settings for row in published})
    plan.check_data()
    runs = run_recipe(plan)
    if runs.code == INTERRUPTED:
        return INTERRUPTED
    lines = comparison(published, runs.rows)
    show_lines(lines)
    print(f"\n{_conclusion([compared for _, compared in lines])}")
    return runs.code or (DONE if all(compared.is_repeated for _, compared in lines) else FAILED)


def show_lines(lines: Sequence[tuple[list[str], Compared]]) -> None:
    """Print how each run compares."""
    cells = [[*names, *compared.cells()] for names, compared in lines]
    if any(of_mean for *_, of_mean in cells):
        show(cells, [*_HEADINGS, _OF_MEAN])
    else:
        show([line[:-1] for line in cells], _HEADINGS)


def _conclusion(runs: Sequence[Compared]) -> str:
    """Return how many runs have the published numbers, and how many with ‡ have them as far as they can."""
    equal = [run for run in runs if run.same == run.seeds]
    digits = "to the last digit" if all(run.exact for run in equal) else "but for the rounding of sums, below 1e-9"
    text = f"{len(equal)} of {len(runs)} runs have the published numbers in all metrics, {digits}"
    others = [run for run in runs if run.same < run.seeds and run.of_mean is not None]
    if not others:
        return text
    within = sum(run.is_repeated for run in others)
    return (
        f"{text}\n{within} of {len(others)} others have ‡, and the published means within half of their 95% intervals "
        "over seeds: another processor cannot give all of their numbers"
    )


def _of_competitors(rows: Sequence[Row], competitors: Sequence[str]) -> list[Row]:
    """Return the rows of some competitors, in any case of letters; all where none is named."""
    names = {row.competitor.lower(): row.competitor for row in rows}
    for name in competitors:
        if name.lower() not in names:
            quoted = ", ".join(f"'{competitor}'" for competitor in names.values())
            near = nearest(name, list(names.values()))
            raise ValueError(f"--repeat must name rows, {quoted}, got {name}{near}")
    wanted = {names[name.lower()] for name in competitors or names}
    return [row for row in rows if row.competitor in wanted]


def comparison(published: Sequence[Row], repeated: Sequence[Row]) -> list[tuple[list[str], Compared]]:
    """Return what each repeated run is, and how it compares; those with the same settings for several aims are one."""
    before = {(row.condition, run.fold): (row, run) for row in published for run in row.group.runs}
    lines: dict[tuple[Any, ...], tuple[list[str], Compared]] = {}
    aims: dict[tuple[Any, ...], list[str]] = {}
    for row in repeated:
        condition = row.condition
        for run in row.group.runs:
            if (condition, run.fold) not in before:
                continue
            earlier_row, earlier = before[condition, run.fold]
            settings = (condition._replace(aim=""), run.fold, *row.words)
            aims.setdefault(settings, []).append(row.aim)
            aim = "both" if aims[settings] == [*AIMS] else ", ".join(aims[settings])
            names = [condition.data, condition.click, str(run.fold or ""), row.competitor, aim]
            lines[settings] = names, _compared(earlier, run, differs_elsewhere(earlier_row))
    return list(lines.values())


def _compared(before: FinishedRun, now: FinishedRun, has_mark: bool) -> Compared:
    """Return how the seeds of a run compare with the published ones; has_mark: whether its row has ‡."""
    same, exact, largest = 0, True, 0.0
    published = {seed: before.values[seed] for seed in now.values if seed in before.values}
    for seed, expected in published.items():
        values = {metric: now.values[seed].get(metric) for metric in expected}
        same += not is_other(values, expected)
        exact = exact and values == expected
        largest = max(largest, abs((values.get(TEST) or 0.0) - (expected.get(TEST) or 0.0)))
    of_mean = max(_of_mean(before, now, metric) for metric in (TEST, "cumulative_ndcg")) if has_mark else None
    return Compared(same, len(published), exact, largest, of_mean)


def is_other(values: Mapping[str, float | None], expected: Mapping[str, float | None]) -> bool:
    """Return whether a metric that both have is another number, but for the rounding of sums."""
    return any(not _are_equal(values[name], expected[name]) for name in values.keys() & expected.keys())


def _are_equal(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _of_mean(before: FinishedRun, now: FinishedRun, metric: str) -> float:
    """Return the difference of the means of a metric over seeds, in halves of the published interval."""
    published, played = (
        of_values({(None, seed): values.get(metric) or 0.0 for seed, values in run.values.items()})
        for run in (before, now)
    )
    if published is None or played is None or published.mean == played.mean:
        return 0.0
    return abs(published.mean - played.mean) / published.half_width if published.half_width else math.inf
