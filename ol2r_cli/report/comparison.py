"""Paired comparisons: how the groups of a table differ.

The same (fold, seed) has the same training queries, users and test queries under every ranker. So differences are taken
within pairs, which cancels the difficulty of a fold or a seed. docs/comparison.md has the formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from ol2r_cli.formatting import nearest
from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.report.estimates import ALPHA, TESTS, Estimate, effect_size, holm, of_values, unit_values
from ol2r_cli.report.measures import gain
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import find_row, task_name, tasks
from ol2r_cli.text_table import LETTERS


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """One metric of `group` minus that of `rival`, over the (fold, seed) that both have.

    p: of the test; None for two units. holm: the same, corrected for all comparisons of this metric. effect: Hedges'
    g_z of the units. wins, ties, losses: pairs in which `group` is better, equal, worse. missing: (fold, seed) that
    only one of them has.
    """

    metric: str
    group: Group
    rival: Group
    estimate: Estimate
    p: float | None
    effect: float | None
    wins: int
    ties: int
    losses: int
    missing: int
    holm: float | None = None

    @property
    def significant(self) -> bool:
        """Whether the means differ, at level .05 for all comparisons of this metric together."""
        return self.holm is not None and self.holm < ALPHA

    @property
    def arrow(self) -> str:
        """↑ where the difference is significantly above 0, ↓ where it is below."""
        return "" if not self.significant else "↑" if self.estimate.mean > 0 else "↓"


@dataclass(frozen=True, eq=False)
class Comparison:
    """All differences of one table.

    baseline: the words that name it; None compares all groups, and then `letters` has a letter for each. bases: the
    groups that are baselines. alone: names of the tasks without a comparison.
    """

    baseline: str | None
    test: str
    differences: list[PairedDifference]
    bases: frozenset[Group] = frozenset()
    letters: dict[Group, str] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)

    @cached_property
    def against_baseline(self) -> dict[tuple[Group, str], PairedDifference]:
        """The difference between a group and its baseline in each metric."""
        return {} if self.baseline is None else {(d.group, d.metric): d for d in self.differences}

    def mark(self, group: Group, metric: str) -> str:
        """The mark behind a value: ↑ or ↓ against a baseline, otherwise the letters of the groups that it beats."""
        if self.baseline is not None:
            difference = self.against_baseline.get((group, metric))
            return difference.arrow if difference else ""
        return "".join(sorted(self.letters[other] for other in self.beaten(group, metric)))

    def beaten(self, group: Group, metric: str) -> set[Group]:
        """The groups that a group is significantly better than."""
        found = set()
        for difference in self.differences:
            if difference.significant and difference.metric == metric:
                is_better = gain(metric, difference.estimate.mean) > 0
                better, worse = (difference.group, difference.rival)[:: 1 if is_better else -1]
                found |= {worse} if better is group else set()
        return found

    def is_best(self, group: Group, metric: str, task: Sequence[Group]) -> bool:
        """Whether a group is significantly better than every other group of its task that has the metric."""
        others = {other for other in task if other is not group and other.estimate(metric)}
        return bool(others) and others <= self.beaten(group, metric)

    def row_names(self, labels: Labels) -> dict[Group, str]:
        """The ranker of each compared group; with its settings where several have the same dataset and click model."""
        compared = dict.fromkeys(group for d in self.differences for group in (d.group, d.rival))
        rows = {group: (group.choices["dataset"], group.choices["click"], labels.ranker(group)) for group in compared}
        count = Counter(rows.values())
        return {
            group: " ".join(filter(None, [row[-1], labels.short(group) if count[row] > 1 else ""]))
            for group, row in rows.items()
        }


def compare(
    groups: Sequence[Group], labels: Labels, metrics: Iterable[str], baseline: str | None = None, test: str = "t"
) -> Comparison:
    """Compare groups, in the order of the table, within their tasks and in each of these metrics.

    baseline: words for `find_row`; None compares all groups with each other. test: one of `TESTS`. ValueError
    where there is nothing to compare, and where more than 25 groups are compared with each other.
    """
    if test not in TESTS:
        raise ValueError(f"--test must be {' or '.join(TESTS)}, got {test}")
    pairs: list[tuple[Group, Group]] = []
    bases: set[Group] = set()
    letters: dict[Group, str] = {}
    alone = []
    for task in tasks(groups):
        if baseline is None:
            task_pairs = list(combinations(task, 2))
            if len(task) > len(LETTERS):
                raise ValueError(
                    f"--compare all needs at most {len(LETTERS)} rows of a task, got {len(task)} with "
                    f"{task_name(task[0], labels)}: type --select validation, or --baseline RANKER"
                )
            letters |= zip(task, LETTERS, strict=False) if task_pairs else ()
        else:
            base = find_row(baseline, task, labels)
            bases |= {base} if base else set()
            task_pairs = [(group, base) for group in task if base and group is not base]
        pairs += task_pairs
        if not task_pairs:
            alone.append(task_name(task[0], labels))
    if not pairs and baseline is not None and not bases:
        rankers = sorted({group.choices["ranker"] for group in groups})
        advice = nearest(baseline, rankers) or f": the rankers are {', '.join(rankers)}"
        raise ValueError(f"--baseline must be a ranker, or choices and settings, of some row, got {baseline}{advice}")
    if not pairs:
        raise ValueError(
            "there is nothing to compare: no two rows have the same dataset, click model and settings of the run"
        )
    return Comparison(baseline, test, _differences(pairs, metrics, test), frozenset(bases), letters, alone)


def paired(group: Group, rival: Group, metric: str) -> dict[tuple[Any, int], float]:
    """A metric of `group` minus that of `rival`, by the (fold, seed), or other key, that both have."""
    values, rival_values = group.values(metric), rival.values(metric)
    return {pair: values[pair] - rival_values[pair] for pair in values if pair in rival_values}


def _differences(pairs: Sequence[tuple[Group, Group]], metrics: Iterable[str], test: str) -> list[PairedDifference]:
    """The differences of each metric, of groups with a (fold, seed) in common; Holm's p is over all with a p."""
    differences: list[PairedDifference] = []
    for metric in metrics:
        of_metric = []
        for group, rival in pairs:
            differing = paired(group, rival, metric)
            if (estimate := of_values(differing, group.units.independent)) is None:
                continue
            units = unit_values(differing, group.units.independent)
            gains = [gain(metric, difference) for difference in differing.values()]
            p = TESTS[test](units) if len(units) >= LEAST_UNITS else None
            counts = sum(g > 0 for g in gains), gains.count(0), sum(g < 0 for g in gains)
            missing = len(group.values(metric).keys() ^ rival.values(metric).keys())
            of_metric.append(PairedDifference(metric, group, rival, estimate, p, effect_size(units), *counts, missing))
        adjusted = iter(holm([d.p for d in of_metric if d.p is not None]))
        differences += [d if d.p is None else replace(d, holm=next(adjusted)) for d in of_metric]
    return differences
