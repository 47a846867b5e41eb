"""A report in a few sentences: what was run, who came first in each task, and what was significant."""

from __future__ import annotations

from collections.abc import Sequence

from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.figures import names
from ol2r_cli.report.figures.legend import Legend
from ol2r_cli.report.groups import Group
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.override import text
from ol2r_cli.report.select import Selection
from ol2r_cli.report.table import plus_minus
from ol2r_cli.report.tasks import of_task, tasks

_RANKED_BY = ("test_ndcg_10", "online_ndcg")  # the first that any group has
_TASKS = 12  # how many are told one by one


def summary(groups: Sequence[Group], selection: Selection | None, comparison: Comparison | None) -> list[str]:
    """Sentences, a paragraph each."""
    return [_what(groups, selection), *([_compared(comparison)] if comparison else [])]


def leaders(groups: Sequence[Group], labels: Labels) -> list[str]:
    """For each task the group with the best mean, and the next, as the figures call them."""
    metric = next((name for name in _RANKED_BY if any(group.estimate(name) for group in groups)), None)
    legend, lines = Legend(groups, labels), []
    for task in tasks(groups) if metric else []:
        means = {group: estimate for group in task if (estimate := group.estimate(str(metric)))}
        order = sorted(means, key=lambda group: -means[group].mean)
        if len(order) < 2:
            continue
        first, second = (
            f"{legend.label(group)} ({plus_minus(means[group], digits(str(metric)))})" for group in order[:2]
        )
        own = labels.settings(task[0]).items()
        apart = " ".join(f"{names.symbol(name)}={text(value)}" for name, value in own if of_task(name))
        place = f"{names.dataset(task[0].choices['dataset'])}, {task[0].choices['click']} users"
        place += f" ({apart})" if apart else ""
        lines.append(f"{place}: the best mean {heading(str(metric))} is that of {first}, then {second}.")
    more = len(lines) - _TASKS
    return lines if more <= 0 else [*lines[:_TASKS], f"{more} more tasks are in the table."]


def _what(groups: Sequence[Group], selection: Selection | None) -> str:
    runs = sum(len(group.runs) for group in groups)
    counts = [
        _counted(len({group.choices[part] for group in groups}), noun)
        for part, noun in (("ranker", "ranker"), ("click", "click model"), ("dataset", "dataset"))
    ]
    rounds = sorted({int(group.settings["rounds"]) for group in groups})
    sizes = sorted({group.n for group in groups})
    unit = "(fold, seed)" if any(len(group.seeds) > 1 for group in groups) else "seed"
    values = _between(sizes, unit) + (" each" if len(groups) > 1 else "")
    of = f"{_counted(len(groups), 'group')} of {_counted(runs, 'run')}"
    line = f"{of}: {', '.join(counts)}, {_between(rounds, 'round')}; {values}."
    if selection and max(selection.cells, default=1) > 1:
        line += f" Each is the best by validation NDCG@10 of up to {max(selection.cells)} cells of its grid."
    return line


def _compared(comparison: Comparison) -> str:
    tested = [difference for difference in comparison.differences if difference.holm is not None]
    significant = sum(difference.significant for difference in tested)
    against = "each other" if comparison.baseline is None else comparison.baseline
    if not tested:
        return f"Differences from {against} could not be tested: that takes two seeds or more."
    return f"Significant differences from {against}: {significant} of {len(tested)} that were tested."


def _counted(number: int, noun: str) -> str:
    """2 runs, but 2 (fold, seed)."""
    return f"{number:,} {noun}{'s' * (number != 1 and not noun.endswith(')'))}"


def _between(numbers: Sequence[int], noun: str) -> str:
    return _counted(numbers[0], noun) if len(numbers) == 1 else f"{numbers[0]:,} to {_counted(numbers[-1], noun)}"
