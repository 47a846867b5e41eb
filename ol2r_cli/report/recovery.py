"""How rankers recover after users have changed their intent: a row for each change of each group of runs.

The standard is a run of the same settings whose users have had the new intent from the start (`intent=none
dataset.intent=2`), after as many rounds as a phase has. docs/algorithms/intents.md describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ol2r_cli.columns import main_cutoff
from ol2r_cli.report.figures.series import Series, evaluation_series
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.result_tables import ordered
from ol2r_cli.report.run_groups import FINGERPRINT, Group
from ol2r_cli.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    import polars as pl

SHARE = 0.95  # of the standard: a ranker that reaches it has recovered
_SCHEDULE, _INTENT = "intent.", "dataset.intent"


@dataclass(frozen=True, eq=False)
class Recovery:
    """One change of intent. NDCG on held-out queries, for the current intent, means over units (seeds or folds).

    before: after the last round before the change. after: at the first evaluation after it. end: after the last round
    of the phase. standard: of the runs whose users have had the intent from the start; None without such runs.
    rounds: for each unit, the number of rounds until `SHARE` of the standard was reached; None where it never was.
    """

    group: Group
    round: int
    intents: tuple[int, int]
    length: int
    before: float
    after: float
    end: float
    standard: float | None
    rounds: Sequence[int | None]

    @property
    def drop(self) -> float:
        """The share of NDCG that is lost at the change: max(0, before - after) / before; 0 if there was none."""
        return max(0.0, self.before - self.after) / self.before if self.before > 0 else 0.0

    @property
    def median(self) -> float | None:
        """The median of `rounds`; None where most units do not recover, or without a standard."""
        values = [self.length + 1 if value is None else value for value in self.rounds]
        middle = median(values) if values else self.length + 1
        return middle if middle <= self.length else None


def recoveries(groups: Sequence[Group], labels: Labels) -> list[Recovery]:
    """Every change of intent in these groups. ValueError if there is none."""
    found = [each for group in ordered(groups, labels, ndcg_metrics(groups)[0]) for each in _of_group(group, groups)]
    if not found:
        raise ValueError("--recovery needs runs whose users change their intent: type ol2r run intent=abrupt")
    return found


def _of_group(group: Group, groups: Sequence[Group]) -> Iterator[Recovery]:
    settings = group.settings
    intents, every = settings.get(f"{_SCHEDULE}intents"), settings.get(f"{_SCHEDULE}every")
    if not isinstance(intents, list) or not isinstance(every, int):
        return
    curve = _curve(group)
    if curve is None:
        return
    again = str(settings.get(f"{_SCHEDULE}_target_", "")).endswith(".Recurring")
    phases = -(-settings["rounds"] // every)
    for phase in range(1, phases if again else min(phases, len(intents))):
        start, end = phase * every, settings["rounds"]
        if again or phase + 1 < len(intents):
            end = min(end, start + every)
        within = (curve.x > start) & (curve.x <= end)
        earlier = curve.x <= start - settings.get(f"{_SCHEDULE}width", 0)
        if not within.any() or not earlier.any():
            continue
        before, after, last = (curve.mean[place] for place in (earlier.nonzero()[0][-1], *within.nonzero()[0][[0, -1]]))
        was, now = intents[(phase - 1) % len(intents)], intents[phase % len(intents)]
        standard = _standard(group, groups, now, every)
        reached = [] if standard is None else list(_reached(curve, within, start, SHARE * standard))
        yield Recovery(group, start, (was, now), end - start, before, after, last, standard, reached)


def _reached(curve: Series, within: Any, start: int, wanted: float) -> Iterator[int | None]:
    """For each unit, the number of rounds until an evaluation is at least `wanted`."""
    rounds = curve.x[within] - start
    for values in curve.values[:, within]:
        places = np.flatnonzero(values >= wanted)
        yield int(rounds[places[0]]) if len(places) else None


def _standard(group: Group, groups: Sequence[Group], intent: int, rounds: int) -> float | None:
    """The mean after so many rounds of the groups whose users have always had this intent; None without any."""
    means = []
    for other in groups:
        if other.choices["intent"] == "none" and other.settings.get(_INTENT) == intent and _fits(group, other):
            curve = _curve(other)
            if curve is not None and (place := np.flatnonzero(curve.x == rounds)).size:
                means.append(float(curve.mean[place[0]]))
    return means[0] if means else None


def _fits(group: Group, other: Group) -> bool:
    """Whether two groups differ only in the schedule, the intent of the dataset and the number of rounds."""
    ours, theirs = (
        {
            name: value
            for name, value in each.settings.items()
            if not name.startswith(_SCHEDULE) and name not in (_INTENT, FINGERPRINT, "rounds")
        }
        for each in (group, other)
    )
    choices, others = ({**each.choices, "intent": ""} for each in (group, other))
    return ours == theirs and choices == others


def _curve(group: Group) -> Series | None:
    """NDCG by round, on the test split, or on the validation split if only that is evaluated."""
    column = f"ndcg_{main_cutoff(group.metrics)}"
    return evaluation_series(group, column, "test") or evaluation_series(group, column, "validation")


def _labels(found: Sequence[Recovery]) -> Labels:
    """Names from the settings in which groups with a schedule differ; those without are only compared with."""
    return Labels(list(dict.fromkeys(each.group for each in found)))


def recovery_table(found: Sequence[Recovery]) -> TextTable:
    """One row for each change."""
    rows, labels = [], _labels(found)
    for each in found:
        recovered = [value for value in each.rounds if value is not None]
        words = [
            each.group.choices["dataset"],
            each.group.choices["click"],
            each.group.choices["intent"],
            labels.ranker(each.group),
            labels.short(each.group),
            f"{each.intents[0]} to {each.intents[1]} after {each.round:,}",
        ]
        numbers = [f"{value:.4f}" for value in (each.before, each.after)]
        numbers += [f"{100 * each.drop:.0f} %", f"{each.end:.4f}"]
        if each.standard is None:
            numbers += ["", "", ""]
        else:
            middle = f"> {each.length:,}" if each.median is None else f"{each.median:,.0f}"
            numbers += [f"{each.standard:.4f}", f"{len(recovered)} of {len(each.rounds)}", middle]
        rows.append([*map(Cell, words), *map(Cell, numbers)])
    words = ["dataset", "click", "intent", "ranker", "settings", "change"]
    headings = [*words, "before", "after", "drop", "end of phase", "from the start", "recovered", "median rounds"]
    return TextTable(headings, rows, [column >= len(words) for column in range(len(headings))]).without_empty()


def recovery_frame(found: Sequence[Recovery]) -> pl.DataFrame:
    """One row for each change, in full precision."""
    import polars as pl

    labels = _labels(found)
    return pl.DataFrame(
        {
            **{part: [each.group.choices[part] for each in found] for part in ("dataset", "click", "intent")},
            "ranker": [labels.ranker(each.group) for each in found],
            "settings": [labels.short(each.group) for each in found],
            "round": [each.round for each in found],
            "intent_before": [each.intents[0] for each in found],
            "intent_after": [each.intents[1] for each in found],
            "rounds_of_phase": [each.length for each in found],
            "before": [each.before for each in found],
            "after": [each.after for each in found],
            "drop": [each.drop for each in found],
            "end": [each.end for each in found],
            "from_the_start": [each.standard for each in found],
            "units": [len(each.rounds) for each in found],
            "recovered": [sum(value is not None for value in each.rounds) for each in found],
            "median_rounds": [each.median if each.rounds else None for each in found],
        },
        schema_overrides={"from_the_start": pl.Float64, "median_rounds": pl.Float64},
    )
