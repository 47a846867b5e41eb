"""How rankers recover after users have changed their intent: a row for each change of each group of runs.

The standard is a run of the same settings whose users have had the new intent from the start (`intent=none
dataset.intent=2`), after as many rounds as a phase has. docs/algorithms/intents.md describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ol2r_cli.columns import main_cutoff
from ol2r_cli.report.figures.series import Series, evaluation_series
from ol2r_cli.report.measures import ndcg_metrics
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import FINGERPRINT, Group
from ol2r_cli.report.text_table import TextTable

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
    def recovered(self) -> int:
        """How many units reach the standard."""
        return sum(value is not None for value in self.rounds)

    @property
    def median(self) -> float | None:
        """The median of `rounds`; None where most units do not recover, or without a standard."""
        middle = median([self.length + 1 if value is None else value for value in self.rounds] or [self.length + 1])
        return middle if middle <= self.length else None


def recoveries(groups: Sequence[Group], labels: Labels) -> list[Recovery]:
    """Every change of intent in these groups. ValueError if there is none."""
    changes = [each for group in labels.ordered(groups, ndcg_metrics(groups)) for each in _of_group(group, groups)]
    if not changes:
        raise ValueError("--recovery needs runs whose users change their intent: type ol2r run intent=abrupt")
    return changes


def _of_group(group: Group, groups: Sequence[Group]) -> Iterator[Recovery]:
    settings = group.settings
    intents, every = settings.get(f"{_SCHEDULE}intents"), settings.get(f"{_SCHEDULE}every")
    if not isinstance(intents, list) or not isinstance(every, int) or (curve := _curve(group)) is None:
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
        before, of_phase = curve.mean[earlier][-1], curve.mean[within]
        was, now = intents[(phase - 1) % len(intents)], intents[phase % len(intents)]
        standard = _standard(group, groups, now, every)
        reached: list[int | None] = []
        if standard is not None:
            rounds = [(curve.x[within] - start)[values >= SHARE * standard] for values in curve.values[:, within]]
            reached = [int(of_unit[0]) if len(of_unit) else None for of_unit in rounds]
        yield Recovery(group, start, (was, now), end - start, before, of_phase[0], of_phase[-1], standard, reached)


def _standard(group: Group, groups: Sequence[Group], intent: int, rounds: int) -> float | None:
    """The mean after so many rounds of the group whose users have always had this intent; None without one."""
    for other in groups:
        if other.choices["intent"] == "none" and other.settings.get(_INTENT) == intent and _fits(group, other):
            curve = _curve(other)
            if curve is not None and (at := curve.mean[curve.x == rounds]).size:
                return float(at[0])
    return None


def _fits(group: Group, other: Group) -> bool:
    """Whether two groups differ only in the schedule, the intent of the dataset and the number of rounds."""
    ours, theirs = (
        {
            **{name: value for name, value in each.settings.items() if not name.startswith(_SCHEDULE)},
            **dict.fromkeys((_INTENT, FINGERPRINT, "rounds")),
            "choices": {**each.choices, "intent": ""},
        }
        for each in (group, other)
    )
    return ours == theirs


def _curve(group: Group) -> Series | None:
    """NDCG by round, on the test split, or on the validation split if only that is evaluated."""
    column = f"ndcg_{main_cutoff(group.metrics)}"
    return evaluation_series(group, column, "test") or evaluation_series(group, column, "validation")


def _names(changes: Sequence[Recovery]) -> list[dict[str, str]]:
    """What each row is of; settings are those in which groups with a schedule differ."""
    labels = Labels(list(dict.fromkeys(each.group for each in changes)))
    return [
        {part: each.group.choices[part] for part in ("dataset", "click", "intent")}
        | {"ranker": labels.ranker(each.group), "settings": labels.short(each.group)}
        for each in changes
    ]


def recovery_table(changes: Sequence[Recovery]) -> TextTable:
    """One row for each change."""
    rows = []
    for each, names in zip(changes, _names(changes), strict=True):
        reached = ["", "", ""]
        if each.standard is not None:
            middle = f"> {each.length:,}" if each.median is None else f"{each.median:,.0f}"
            reached = [f"{each.standard:.4f}", f"{each.recovered} of {len(each.rounds)}", middle]
        change = f"{each.intents[0]} to {each.intents[1]} after {each.round:,}"
        numbers = [f"{each.before:.4f}", f"{each.after:.4f}", f"{100 * each.drop:.0f} %", f"{each.end:.4f}"]
        rows.append([*names.values(), change, *numbers, *reached])
    words = ("dataset", "click", "intent", "ranker", "settings", "change")
    numbers = ["before", "after", "drop", "end of phase", "from the start", "recovered", "median rounds"]
    return TextTable.of(words, numbers, rows).without_empty()


def recovery_frame(changes: Sequence[Recovery]) -> pl.DataFrame:
    """One row for each change, in full precision."""
    import polars as pl

    rows = [
        {
            **names,
            "round": each.round,
            "intent_before": each.intents[0],
            "intent_after": each.intents[1],
            "rounds_of_phase": each.length,
            "before": each.before,
            "after": each.after,
            "drop": each.drop,
            "end": each.end,
            "from_the_start": each.standard,
            "units": len(each.rounds),
            "recovered": each.recovered,
            "median_rounds": each.median if each.rounds else None,
        }
        for each, names in zip(changes, _names(changes), strict=True)
    ]
    floats = dict.fromkeys(("from_the_start", "median_rounds"), pl.Float64)
    return pl.DataFrame(rows, schema_overrides=floats, infer_schema_length=None)
