"""The grid of a competitor: which of its cells is chosen for an aim, and how the grid grows beyond its ends.

offline: the best mean NDCG@10 on validation queries after the last round. online: the highest cumulative NDCG@10 of the
choosing seeds. Both are measured with labels. docs/benchmark/protocol.md has the rules, and
`report.best_settings` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product

from ol2r_cli.plugins.benchmark.overrides import Overrides, expand_all, name_of
from ol2r_cli.plugins.benchmark.recipe import Competitor
from ol2r_cli.plugins.benchmark.trials import AIMS, PlayedTrial
from ol2r_cli.report.best_settings import best_cell, means_of

FACTOR = 3  # by which a grid grows beyond an end at which its best cell is


def choose(cells: Sequence[PlayedTrial], aim: str, competitor: Competitor) -> PlayedTrial:
    """Return the best cell for an aim, the first of equal ones; ValueError for cells without validation."""
    cell_of_group = {cell.group: cell for cell in cells}
    unstable = [cell.group for cell in cells if is_unstable(cell.settings, competitor)]
    return cell_of_group[best_cell(list(cell_of_group), _chosen_by(aim), unstable)]


def _chosen_by(aim: str) -> str:
    """Return how a cell is chosen for an aim; '' stands for one choice, as in papers."""
    return "validation" if aim in ("", "offline") else aim


def is_unstable(settings: Overrides, competitor: Competitor) -> bool:
    """Return whether settings are among those that are chosen only where they are clearly better."""
    return not set(expand_all(competitor.unstable)).isdisjoint(settings.values())


def are_equally_good(cells: Sequence[PlayedTrial], aim: str) -> bool:
    """Return whether there are several cells, and all have the same mean of what is maximised for an aim."""
    means = means_of([cell.group for cell in cells], _chosen_by(aim)) if len(cells) > 1 else {}
    return len(cells) > 1 and len(set(means.values())) == 1


def at_an_end(cells: Sequence[PlayedTrial], chosen: Overrides) -> Iterator[tuple[str, float]]:
    """Yield the settings that have the smallest or largest number of the grid, each with the next number beyond it."""
    for name, override in chosen.items():
        numbers = _numbers((cell.settings for cell in cells), name)
        if not numbers:
            continue
        value = float(override.partition("=")[2])
        if value <= 0:
            continue
        if value == numbers[0]:
            yield name, _two_digits(value / FACTOR)
        elif value == numbers[-1]:
            yield name, _two_digits(value * FACTOR)


def _numbers(settings: Iterable[Overrides], name: str) -> list[float]:
    """Return the numbers that a setting has, in order; empty where it has words or one value."""
    with suppress(ValueError):  # words have no order
        numbers = sorted({float(overrides[name].partition("=")[2]) for overrides in settings})
        return numbers if len(numbers) > 1 else []
    return []


def _two_digits(number: float) -> float:
    return float(f"{number:.2g}")


def beyond_the_ends(cells: Sequence[PlayedTrial], competitor: Competitor) -> list[Overrides]:
    """Return settings beyond the ends at which the best ones for an aim are; empty where they are inside.

    A new number is combined with all values of the other settings.
    """
    values = {name: _distinct(cells, name) for name in cells[0].settings}
    added: dict[tuple[str, ...], Overrides] = {}  # by the overrides, so that both aims add the same settings once
    for aim in AIMS:
        for name, number in at_an_end(cells, choose(cells, aim, competitor).settings):
            grown = values | {name: [f"{name}={number:g}"]}
            for words in product(*grown.values()):
                added[words] = {name_of(word): word for word in words}
    return list(added.values())


def _distinct(cells: Sequence[PlayedTrial], name: str) -> list[str]:
    """Return the overrides that a grid has for a setting, each once."""
    return list(dict.fromkeys(cell.settings[name] for cell in cells))
