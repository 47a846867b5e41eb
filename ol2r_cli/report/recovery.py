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
    of the phase. drop: the share that is lost, max(0, before - after) / before; 0 if before is 0. standard: of the runs
    whose users have had the intent from the start; None without such runs, and then units is 0. recovered: how many
    units reach `SHARE` of the standard. median: of the numbers of rounds until then; None where most do not.
    """

    group: Group
    round: int
    intents: tuple[int, int]
    length: int
    before: float
    after: float
    end: float
    drop: float
    standard: float | None
    units: int
    recovered: int
    median: float | None


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
        start, stop = phase * every, settings["rounds"]
        if again or phase + 1 < len(intents):
            stop = min(stop, start + every)
        within = (curve.x > start) & (curve.x <= stop)
        earlier = curve.x <= start - settings.get(f"{_SCHEDULE}width", 0)
        if not within.any() or not earlier.any():
            continue
        was, now = intents[(phase - 1) % len(intents)], intents[phase % len(intents)]
        before, (after, *_, end) = curve.mean[earlier][-1], curve.mean[within].repeat(2)
        drop = max(0.0, before - after) / before if before > 0 else 0.0
        standard, length = _standard(group, groups, now, every), stop - start
        reached: list[int] = []  # the round of each unit; one beyond the phase where it does not
        if standard is not None:
            rounds = [(curve.x[within] - start)[values >= SHARE * standard] for values in curve.values[:, within]]
            reached = [int(of_unit[0]) if len(of_unit) else length + 1 for of_unit in rounds]
        recovered = sum(number <= length for number in reached)
        middle = median(reached or [length + 1])
        yield Recovery(
            *(group, start, (was, now), length, before, after, end, drop),
            *(standard, len(reached), recovered, middle if middle <= length else None),
        )


def _standard(group: Group, groups: Sequence[Group], intent: int, rounds: int) -> float | None:
    """The mean after so many rounds of the group whose users have always had this intent; None without one.

    It differs from the group in the schedule, the intent of the dataset and the number of rounds only.
    """

    def others(each: Group) -> dict[str, object]:
        kept = {name: value for name, value in each.settings.items() if not name.startswith(_SCHEDULE)}
        return kept | dict.fromkeys((_INTENT, FINGERPRINT, "rounds")) | {"choices": {**each.choices, "intent": ""}}

    for other in groups:
        always = other.choices["intent"] == "none" and other.settings.get(_INTENT) == intent
        curve = _curve(other) if always and others(group) == others(other) else None
        if curve is not None and (at := curve.mean[curve.x == rounds]).size:
            return float(at[0])
    return None


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
            reached = [f"{each.standard:.4f}", f"{each.recovered} of {each.units}", middle]
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
        names
        | {"round": each.round, "intent_before": each.intents[0], "intent_after": each.intents[1]}
        | {"rounds_of_phase": each.length, "before": each.before, "after": each.after, "drop": each.drop}
        | {"end": each.end, "from_the_start": each.standard, "units": each.units, "recovered": each.recovered}
        | {"median_rounds": each.median}
        for each, names in zip(changes, _names(changes), strict=True)
    ]
    floats = dict.fromkeys(("from_the_start", "median_rounds"), pl.Float64)
    return pl.DataFrame(rows, schema_overrides=floats, infer_schema_length=None)
