"""How rankers recover after users have changed their intent: a row for each change of each group of runs.

The standard is a run of the same settings whose users have had the new intent from the start (`intent=none
dataset.intent=2`), after as many rounds as a phase has. docs/algorithms/intents.md describes the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ol2r_cli.columns import main_cutoff
from ol2r_cli.plugins.figures.series import Series, evaluation_series
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import FINGERPRINT, Group
from ol2r_cli.report.shown_metrics import ndcg_metrics
from ol2r_cli.text.table import Cell, TableColumn, TextTable

SHARE = 0.95  # of the standard: a ranker that reaches it has recovered
_SCHEDULE, _INTENT = "intent.", "dataset.intent"


@dataclass(frozen=True)
class Change:
    """What a change of intent costs a group of runs.

    before, after, end: NDCG at the last evaluation before the change, at the first one after it, and at the end of the
    phase. from_the_start: the standard, NDCG of the group with the new intent from the start; None without one.
    reached: for each unit the first evaluated round of the phase with `SHARE` of it, one beyond where there is none.
    """

    group: Group
    round: int
    intent_before: int
    intent_after: int
    length: int  # rounds of the phase
    before: float
    after: float
    end: float
    from_the_start: float | None
    reached: Sequence[int]

    @property
    def drop(self) -> float:
        """The share of the NDCG before that is lost, 0 to 1."""
        return max(0.0, self.before - self.after) / self.before if self.before > 0 else 0.0

    @property
    def recovered(self) -> int:
        """The number of units that reach the standard."""
        return sum(rounds <= self.length for rounds in self.reached)

    @property
    def median_rounds(self) -> float | None:
        """The median of the rounds until the standard; None where fewer than half reach it."""
        typical = median(self.reached) if self.reached else None
        return typical if typical is not None and typical <= self.length else None


def recovery(groups: Sequence[Group], labels: Labels) -> TextTable:
    """Return a row for each change of intent. ValueError if there is none.

    Values are NDCG on held-out queries for the current intent, means over units (seeds or folds).
    """
    ordered = labels.ordered(groups, ndcg_metrics(groups))
    changes = [change for group in ordered for change in _changes(group, groups)]
    if not changes:
        raise ValueError("--recovery needs runs whose users change their intent: type ol2r run intent=abrupt")
    return TextTable.about(changes, _columns(labels))


def _columns(labels: Labels) -> list[TableColumn[Change]]:
    """Return what a table says of a change."""

    def word(heading: str, text: Callable[[Group], str]) -> TableColumn[Change]:
        return TableColumn(heading, lambda change: Cell(text(change.group), values={heading: text(change.group)}))

    def ndcg(heading: str, name: str) -> TableColumn[Change]:
        def cell(change: Change) -> Cell:
            value = getattr(change, name)
            return Cell("" if value is None else f"{value:.4f}", values={name: value})

        return TableColumn(heading, cell, True)

    return [
        word("dataset", lambda group: group.choices["dataset"]),
        word("click", lambda group: group.choices["click"]),
        word("intent", lambda group: group.choices["intent"]),
        word("ranker", labels.ranker),
        word("settings", labels.short),
        TableColumn("change", _what_changes),
        ndcg("before", "before"),
        ndcg("after", "after"),
        TableColumn("drop", lambda change: Cell(f"{100 * change.drop:.0f} %", values={"drop": change.drop}), True),
        ndcg("end of phase", "end"),
        ndcg("from the start", "from_the_start"),
        TableColumn("recovered", _share_recovered, True),
        TableColumn("median rounds", _rounds_to_recover, True),
    ]


def _what_changes(change: Change) -> Cell:
    values = {
        "round": change.round,
        "intent_before": change.intent_before,
        "intent_after": change.intent_after,
        "rounds_of_phase": change.length,
    }
    return Cell(f"{change.intent_before} to {change.intent_after} after {change.round:,}", values=values)


def _share_recovered(change: Change) -> Cell:
    text = "" if change.from_the_start is None else f"{change.recovered} of {len(change.reached)}"
    return Cell(text, values={"units": len(change.reached), "recovered": change.recovered})


def _rounds_to_recover(change: Change) -> Cell:
    rounds = change.median_rounds
    text = f"> {change.length:,}" if rounds is None else f"{rounds:,.0f}"
    return Cell("" if change.from_the_start is None else text, values={"median_rounds": rounds})


def _changes(group: Group, groups: Sequence[Group]) -> Iterator[Change]:
    """Yield the changes of intent of a group that have evaluations before and after them."""
    intents, every = group.settings.get(f"{_SCHEDULE}intents"), group.settings.get(f"{_SCHEDULE}every")
    curve = _curve(group)
    if not isinstance(intents, list) or not isinstance(every, int) or curve is None:
        return
    for start, stop in _phases(group.settings, len(intents), every):
        phase = start // every
        within = (curve.x > start) & (curve.x <= stop)
        earlier = curve.x <= start - group.settings.get(f"{_SCHEDULE}width", 0)
        if not within.any() or not earlier.any():
            continue
        intent = intents[phase % len(intents)]
        standard = _standard(group, groups, intent, every)
        yield Change(
            group=group,
            round=start,
            intent_before=intents[(phase - 1) % len(intents)],
            intent_after=intent,
            length=stop - start,
            before=float(curve.mean[earlier][-1]),
            after=float(curve.mean[within][0]),
            end=float(curve.mean[within][-1]),
            from_the_start=standard,
            reached=() if standard is None else _rounds_to(SHARE * standard, curve, start, stop),
        )


def _phases(settings: Mapping[str, Any], intents: int, every: int) -> Iterator[tuple[int, int]]:
    """Yield the last round before each phase but the first, and the last round of the phase."""
    rounds = settings["rounds"]
    recurs = str(settings.get(f"{_SCHEDULE}_target_", "")).endswith(".Recurring")
    played = -(-rounds // every)
    for phase in range(1, played if recurs else min(played, intents)):
        is_last = not recurs and phase == intents - 1  # it does not end
        start = phase * every
        yield start, rounds if is_last else min(rounds, start + every)


def _rounds_to(value: float, curve: Series, start: int, stop: int) -> list[int]:
    """Return for each unit how many rounds behind `start` it has a value, one beyond the phase where it never has."""
    within = (curve.x > start) & (curve.x <= stop)
    rounds = curve.x[within] - start
    reached = []
    for values in curve.values[:, within]:
        at = rounds[values >= value]
        reached.append(int(at[0]) if len(at) else stop - start + 1)
    return reached


def _standard(group: Group, groups: Sequence[Group], intent: int, rounds: int) -> float | None:
    """Return the mean after so many rounds of the group whose users have always had this intent; None without one.

    It differs from the group in the schedule, the intent of the dataset and the number of rounds only.
    """
    for other in groups:
        if other.choices["intent"] != "none" or other.settings.get(_INTENT) != intent:
            continue
        curve = _curve(other) if _without_intent(other) == _without_intent(group) else None
        if curve is not None and (curve.x == rounds).any():
            return float(curve.mean[curve.x == rounds][0])
    return None


def _without_intent(group: Group) -> dict[str, object]:
    """Return the choices and settings of a group but for intents and the number of rounds."""
    settings = {name: value for name, value in group.settings.items() if not name.startswith(_SCHEDULE)}
    unset = dict.fromkeys((_INTENT, FINGERPRINT, "rounds"))
    return settings | unset | {"choices": {**group.choices, "intent": ""}}


def _curve(group: Group) -> Series | None:
    """Return NDCG by round, on the test split, or on the validation split if only that is evaluated."""
    column = f"ndcg_{main_cutoff(group.metrics)}"
    return evaluation_series(group, column, "test") or evaluation_series(group, column, "validation")
