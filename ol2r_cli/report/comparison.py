"""Paired comparisons: every group against a baseline of its task, or all groups of a task against each other.

The same (fold, seed) has the same training queries, users and test queries under every ranker, so that differences are
taken pair by pair and what makes a fold or a seed easy for everybody cancels. docs/comparison.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import gain
from ol2r_cli.report.significance import ALPHA, TESTS, effect_size, holm, paired_t, sign_flips
from ol2r_cli.report.statistics import Estimate, of_values
from ol2r_cli.report.tasks import find_baseline, task_name, tasks
from ol2r_cli.settings import nearest

LETTERS = "abcdefghijklmnoprstuvwxyz"  # those with a superscript form


@dataclass(frozen=True, eq=False)
class Difference:
    """One metric of `group` minus that of `rival`, over the (fold, seed) that both have.

    p: of the test; holm: the same, corrected for all comparisons of this metric; effect: Hedges' g_z of the units.
    wins, ties, losses: pairs in which `group` is better, as good, worse. missing: (fold, seed) that one has alone.
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
        """Whether the means differ, at .05 over all comparisons of this metric together."""
        return self.holm is not None and self.holm < ALPHA

    @property
    def better(self) -> bool:
        """Whether `group` is significantly better."""
        return self.significant and gain(self.metric, self.estimate.mean) > 0

    @property
    def worse(self) -> bool:
        """Whether `rival` is significantly better."""
        return self.significant and gain(self.metric, self.estimate.mean) < 0


@dataclass(frozen=True, eq=False)
class Comparison:
    """All differences of one table.

    baseline: the words for it, None where all are compared with all, and then `letters` has one for each group. bases:
    the groups that are baselines. alone: tasks, in words, in which nothing could be compared.
    """

    baseline: str | None
    test: str
    differences: list[Difference]
    bases: frozenset[Group] = frozenset()
    letters: dict[Group, str] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)

    def against_baseline(self, group: Group, metric: str) -> Difference | None:
        """The difference between a group and its baseline."""
        return self._of_group.get((group, metric)) if self.baseline is not None else None

    def mark(self, group: Group, metric: str) -> str:
        """What stands behind a value: ↑ or ↓, significantly more or less than the baseline; letters of the beaten."""
        if self.baseline is not None:
            found = self.against_baseline(group, metric)
            return arrow(found) if found else ""
        of_metric = [d for d in self.differences if d.metric == metric]
        beaten = [d.rival for d in of_metric if d.group is group and d.better]
        beaten += [d.group for d in of_metric if d.rival is group and d.worse]
        return "".join(sorted(self.letters[rival] for rival in beaten))

    @cached_property
    def _of_group(self) -> dict[tuple[Group, str], Difference]:
        return {(d.group, d.metric): d for d in self.differences}


def arrow(difference: Difference) -> str:
    """↑ where it is significantly above 0, ↓ below."""
    return "" if not difference.significant else "↑" if difference.estimate.mean > 0 else "↓"


def compare(
    groups: Sequence[Group], labels: Labels, metrics: Iterable[str], baseline: str | None = None, test: str = "t"
) -> Comparison:
    """Compare groups, given in the order of the table, within their tasks, in each of these metrics.

    baseline: the words for it, see `find_baseline`; None compares all with all. test: one of `TESTS`. ValueError where
    no task has a baseline, or only it, or more than 25 groups are to be compared with each other.
    """
    if test not in TESTS:
        raise ValueError(f"--test must be {' or '.join(TESTS)}, got {test}")
    pairs: list[tuple[Group, Group]] = []
    found = Comparison(baseline, test, [])
    bases: set[Group] = set()
    for task in tasks(groups):
        if baseline is None:
            own = list(combinations(task, 2))
            found.letters.update(_letters(task, labels) if own else {})
        else:
            base = find_baseline(baseline, task, labels)
            bases |= {base} if base else set()
            own = [(group, base) for group in task if base and group is not base]
        pairs += own
        if not own:
            found.alone.append(task_name(task[0], labels))
    _check_any(pairs, bases, baseline, groups)
    differences: list[Difference] = []
    for metric in metrics:
        of_metric = [d for group, rival in pairs if (d := _difference(metric, group, rival, test)) is not None]
        differences += _corrected(of_metric)
    return replace(found, differences=differences, bases=frozenset(bases))


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


def _difference(metric: str, group: Group, rival: Group, test: str) -> Difference | None:
    """None where they have no (fold, seed) in common."""
    own, other = group.values(metric), rival.values(metric)
    differences = {pair: own[pair] - other[pair] for pair in own if pair in other}
    estimate = of_values(differences)
    if estimate is None:
        return None
    units = _units(differences)
    gains = [gain(metric, difference) for difference in differences.values()]
    return Difference(
        metric,
        group,
        rival,
        estimate,
        p=(paired_t if test == "t" else sign_flips)(units),
        effect=effect_size(units),
        wins=sum(value > 0 for value in gains),
        ties=sum(value == 0 for value in gains),
        losses=sum(value < 0 for value in gains),
        missing=len(own.keys() ^ other.keys()),
    )


def _units(differences: dict[tuple[Any, int], float]) -> list[float]:
    """Independent differences: the means of the folds where there are several, else each seed's."""
    folds: dict[Any, list[float]] = {}
    for (fold, _), value in differences.items():
        folds.setdefault(fold, []).append(value)
    return [fmean(values) for values in folds.values()] if len(folds) > 1 else list(differences.values())


def _corrected(differences: Sequence[Difference]) -> list[Difference]:
    """With Holm's p over all of them that have a p."""
    adjusted = iter(holm([difference.p for difference in differences if difference.p is not None]))
    return [d if d.p is None else replace(d, holm=next(adjusted)) for d in differences]
