"""Paired comparisons: how the groups of a table differ.

The same (fold, seed) has the same training queries, users and test queries under every ranker. So differences are taken
within pairs, which cancels the difficulty of a fold or a seed. docs/explanation/comparison.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any

from ol2r_cli.metrics.intervals import LEAST_UNITS
from ol2r_cli.report.estimates import ALPHA, TESTS, Estimate, Values, effect_size, holm, of_values, unit_values
from ol2r_cli.report.measures import gain
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import find_row, some_row, task_name, tasks
from ol2r_cli.text.table import LETTERS

Pair = tuple[Group, Group]


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
        """Return whether the means differ, at level .05 for all comparisons of this metric together."""
        return self.holm is not None and self.holm < ALPHA

    @property
    def better(self) -> Group:
        """Return the group with the better mean."""
        return self.group if gain(self.metric, self.estimate.mean) > 0 else self.rival

    @property
    def worse(self) -> Group:
        """Return the group with the worse mean."""
        return self.rival if self.better is self.group else self.group

    @property
    def arrow(self) -> str:
        """Return ↑ where the difference is significantly above 0, ↓ where it is below."""
        if not self.significant:
            return ""
        return "↑" if self.estimate.mean > 0 else "↓"


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
        """Return the difference between a group and its baseline in each metric."""
        if self.baseline is None:
            return {}
        return {(difference.group, difference.metric): difference for difference in self.differences}

    def mark(self, group: Group, metric: str) -> str:
        """Return the mark of a value: ↑ or ↓ against a baseline, otherwise the letters of the groups that it beats."""
        if self.baseline is not None:
            difference = self.against_baseline.get((group, metric))
            return difference.arrow if difference else ""
        return "".join(sorted(self.letters[other] for other in self.beaten(group, metric)))

    def beaten(self, group: Group, metric: str) -> set[Group]:
        """Return the groups that a group is significantly better than."""
        beaten = set()
        for difference in self.differences:
            if difference.significant and difference.metric == metric and difference.better is group:
                beaten.add(difference.worse)
        return beaten

    def is_best(self, group: Group, metric: str, task: Sequence[Group]) -> bool:
        """Return whether a group is significantly better than every other group of its task that has the metric."""
        others = {other for other in task if other is not group and other.estimate(metric)}
        return bool(others) and others <= self.beaten(group, metric)

    def row_names(self, labels: Labels) -> dict[Group, str]:
        """Return the ranker of each compared group, with the settings of its row."""
        compared = dict.fromkeys(group for d in self.differences for group in (d.group, d.rival))
        return {group: f"{labels.ranker(group)} {labels.short(group)}".rstrip() for group in compared}


def compare(
    groups: Sequence[Group], labels: Labels, metrics: Iterable[str], baseline: str | None = None, test: str = "t"
) -> Comparison:
    """Compare groups, in the order of the table, within their tasks and in each of these metrics.

    baseline: words for `find_row`; None compares all groups with each other. test: one of `TESTS`. ValueError
    where there is nothing to compare, and where more than 25 groups are compared with each other.
    """
    if test not in TESTS:
        raise ValueError(f"--test must be {' or '.join(TESTS)}, got {test}")
    by_task = tasks(groups)
    bases: frozenset[Group] = frozenset()
    letters: dict[Group, str] = {}
    if baseline is None:
        pairs_by_task = [_all_pairs(task, labels) for task in by_task]
        for task in by_task:
            if len(task) > 1:
                letters |= zip(task, LETTERS, strict=False)
    else:
        base_of_tasks = [find_row(baseline, task, labels) for task in by_task]
        bases = frozenset(base for base in base_of_tasks if base)
        if not bases:
            raise ValueError(f"--baseline must be {some_row(baseline, groups)}")
        pairs_by_task = [
            [(group, base) for group in task if group is not base] if base else []
            for base, task in zip(base_of_tasks, by_task, strict=True)
        ]
    pairs = list(chain(*pairs_by_task))
    if not pairs:
        raise ValueError(
            "there is nothing to compare: no two rows have the same dataset, click model and settings of the run"
        )
    alone = [task_name(task[0], labels) for task, compared in zip(by_task, pairs_by_task, strict=True) if not compared]
    return Comparison(baseline, test, differences(pairs, metrics, test), bases, letters, alone)


def _all_pairs(task: Sequence[Group], labels: Labels) -> list[Pair]:
    """Return all pairs of a task; ValueError where there are too many groups for letters."""
    if len(task) > len(LETTERS):
        raise ValueError(
            f"--compare all needs at most {len(LETTERS)} rows of a task, got {len(task)} with "
            f"{task_name(task[0], labels)}: type --select validation, or --baseline RANKER"
        )
    return list(combinations(task, 2))


def paired(group: Group, rival: Group, metric: str) -> dict[tuple[Any, int], float]:
    """Return a metric of `group` minus that of `rival`, by the (fold, seed), or other key, that both have."""
    return paired_values(group.values(metric), rival.values(metric))


def paired_values(values: Values, rival_values: Values) -> dict[tuple[Any, int], float]:
    """Return values minus those of a rival, by the keys that both have."""
    return {pair: values[pair] - rival_values[pair] for pair in values if pair in rival_values}


def differences(pairs: Sequence[Pair], metrics: Iterable[str], test: str) -> list[PairedDifference]:
    """Return the differences of each metric, of groups with a (fold, seed) in common, corrected for all of a metric."""
    found: list[PairedDifference] = []
    for metric in metrics:
        of_pairs = [_difference(group, rival, metric, test) for group, rival in pairs]
        found += _corrected([difference for difference in of_pairs if difference is not None])
    return found


def _difference(group: Group, rival: Group, metric: str, test: str) -> PairedDifference | None:
    """Return the difference of one metric without correction; None where the groups have nothing in common."""
    by_pair = paired(group, rival, metric)
    estimate = of_values(by_pair, group.units.independent)
    if estimate is None:
        return None
    units = unit_values(by_pair, group.units.independent)
    gains = [gain(metric, difference) for difference in by_pair.values()]
    return PairedDifference(
        metric,
        group,
        rival,
        estimate,
        p=TESTS[test](units) if len(units) >= LEAST_UNITS else None,
        effect=effect_size(units),
        wins=sum(number > 0 for number in gains),
        ties=gains.count(0),
        losses=sum(number < 0 for number in gains),
        missing=len(group.values(metric).keys() ^ rival.values(metric).keys()),
    )


def _corrected(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Return differences with Holm's p, over all that have a p."""
    corrected = iter(holm([difference.p for difference in differences if difference.p is not None]))
    return [
        difference if difference.p is None else replace(difference, holm=next(corrected)) for difference in differences
    ]
