"""Paired comparisons: every group against a baseline of its task, or all groups of a task against each other.

The same (fold, seed) has the same training queries, users and test queries under every ranker. So differences are taken
within pairs, which cancels the difficulty of a fold or a seed. docs/comparison.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from ol2r_cli.formatting import nearest
from ol2r_cli.report.estimates import ALPHA, TESTS, Estimate, effect_size, holm, of_values, p_value
from ol2r_cli.report.labels import Labels, find_baseline, task_name, tasks
from ol2r_cli.report.measures import gain
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.text_table import LETTERS


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
    def better(self) -> bool:
        """Whether `group` is significantly better."""
        return self.significant and gain(self.metric, self.estimate.mean) > 0

    @property
    def worse(self) -> bool:
        """Whether `rival` is significantly better."""
        return self.significant and gain(self.metric, self.estimate.mean) < 0

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

    def against_baseline(self, group: Group, metric: str) -> PairedDifference | None:
        """The difference between a group and its baseline."""
        return self._by_group.get((group, metric)) if self.baseline is not None else None

    def mark(self, group: Group, metric: str) -> str:
        """The mark behind a value: ↑ or ↓ against a baseline, otherwise the letters of the groups that it beats."""
        if self.baseline is not None:
            difference = self.against_baseline(group, metric)
            return difference.arrow if difference else ""
        of_metric = [d for d in self.differences if d.metric == metric]
        beaten = [d.rival for d in of_metric if d.group is group and d.better]
        beaten += [d.group for d in of_metric if d.rival is group and d.worse]
        return "".join(sorted(self.letters[rival] for rival in beaten))

    @cached_property
    def _by_group(self) -> dict[tuple[Group, str], PairedDifference]:
        return {(d.group, d.metric): d for d in self.differences}


def compare(
    groups: Sequence[Group], labels: Labels, metrics: Iterable[str], baseline: str | None = None, test: str = "t"
) -> Comparison:
    """Compare groups, in the order of the table, within their tasks and in each of these metrics.

    baseline: words for `find_baseline`; None compares all groups with each other. test: one of `TESTS`. ValueError
    where there is nothing to compare, and where more than 25 groups are compared with each other.
    """
    if test not in TESTS:
        raise ValueError(f"--test must be {' or '.join(TESTS)}, got {test}")
    pairs: list[tuple[Group, Group]] = []
    comparison = Comparison(baseline, test, [])
    bases: set[Group] = set()
    for task in tasks(groups):
        if baseline is None:
            task_pairs = list(combinations(task, 2))
            comparison.letters.update(_letters(task, labels) if task_pairs else {})
        else:
            base = find_baseline(baseline, task, labels)
            bases |= {base} if base else set()
            task_pairs = [(group, base) for group in task if base and group is not base]
        pairs += task_pairs
        if not task_pairs:
            comparison.alone.append(task_name(task[0], labels))
    _check_any(pairs, bases, baseline, groups)
    differences: list[PairedDifference] = []
    for metric in metrics:
        of_metric = [d for group, rival in pairs if (d := _difference(metric, group, rival, test)) is not None]
        differences += _with_holm(of_metric)
    return replace(comparison, differences=differences, bases=frozenset(bases))


def compare_with(base: Group, groups: Iterable[Group], metrics: Iterable[str], test: str = "t") -> Comparison:
    """Compare groups with `base`, all of one task, in each of these metrics; Holm's correction is over the groups."""
    groups = [group for group in groups if group is not base]
    differences: list[PairedDifference] = []
    for metric in metrics:
        found = [_difference(metric, group, base, test) for group in groups]
        differences += _with_holm([difference for difference in found if difference is not None])
    return Comparison("", test, differences, bases=frozenset({base}))


def _check_any(pairs: Sequence[Any], bases: set[Any], baseline: str | None, groups: Sequence[Group]) -> None:
    if pairs:
        return
    if baseline is not None and not bases:
        rankers = sorted({group.choices["ranker"] for group in groups})
        advice = nearest(baseline, rankers) or f": the rankers are {', '.join(rankers)}"
        raise ValueError(f"--baseline must be a ranker, or choices and settings, of some row, got {baseline}{advice}")
    raise ValueError(
        "there is nothing to compare: no two rows have the same dataset, click model and settings of the run"
    )


def _letters(task: Sequence[Group], labels: Labels) -> dict[Group, str]:
    if len(task) > len(LETTERS):
        raise ValueError(
            f"--compare all needs at most {len(LETTERS)} rows of a task, got {len(task)} with "
            f"{task_name(task[0], labels)}: type --select validation, or --baseline RANKER"
        )
    return dict(zip(task, LETTERS, strict=False))


def _difference(metric: str, group: Group, rival: Group, test: str) -> PairedDifference | None:
    """None where the groups have no (fold, seed) in common."""
    values, rival_values = group.values(metric), rival.values(metric)
    differences = {pair: values[pair] - rival_values[pair] for pair in values if pair in rival_values}
    estimate = of_values(differences)
    if estimate is None:
        return None
    units = _units(differences)
    gains = [gain(metric, difference) for difference in differences.values()]
    return PairedDifference(
        metric,
        group,
        rival,
        estimate,
        p=p_value(test, units),
        effect=effect_size(units),
        wins=sum(value > 0 for value in gains),
        ties=sum(value == 0 for value in gains),
        losses=sum(value < 0 for value in gains),
        missing=len(values.keys() ^ rival_values.keys()),
    )


def _units(differences: Mapping[tuple[Any, int], float]) -> list[float]:
    """Independent differences: the means of the folds where there are several, otherwise one for each seed."""
    folds: dict[Any, list[float]] = {}
    for (fold, _), value in differences.items():
        folds.setdefault(fold, []).append(value)
    return [fmean(values) for values in folds.values()] if len(folds) > 1 else list(differences.values())


def _with_holm(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """The differences with Holm's p, over all that have a p."""
    adjusted = iter(holm([difference.p for difference in differences if difference.p is not None]))
    return [d if d.p is None else replace(d, holm=next(adjusted)) for d in differences]
