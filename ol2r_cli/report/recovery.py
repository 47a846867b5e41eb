"""How rankers recover after users have changed their intent: a row for each change of each group of runs.

The standard is a run of the same settings whose users have had the new intent from the start (`intent=none
dataset.intent=2`), after as many rounds as a phase has. docs/algorithms/intents.md describes the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from ol2r_cli.columns import main_cutoff
from ol2r_cli.report.document import ReportEntry
from ol2r_cli.report.figures.series import Series, evaluation_series
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import FINGERPRINT, Group
from ol2r_cli.report.shown_metrics import ndcg_metrics

SHARE = 0.95  # of the standard: a ranker that reaches it has recovered
_SCHEDULE, _INTENT = "intent.", "dataset.intent"


def recovery(groups: Sequence[Group], labels: Labels) -> list[list[ReportEntry]]:
    """A row for each change of intent. ValueError if there is none.

    Values are NDCG on held-out queries for the current intent, means over units (seeds or folds).
    """
    changes = [(g, row) for g in labels.ordered(groups, ndcg_metrics(groups)) for row in _changes(g, groups)]
    if not changes:
        raise ValueError("--recovery needs runs whose users change their intent: type ol2r run intent=abrupt")
    labels = Labels(list(dict.fromkeys(group for group, _ in changes)))  # settings in which these differ
    rows = []
    for group, row in changes:
        names = {part: group.choices[part] for part in ("dataset", "click", "intent")}
        names |= {"ranker": labels.ranker(group), "settings": labels.short(group)}
        rows.append([*(ReportEntry(part, name, {part: name}) for part, name in names.items()), *row])
    return rows


def _changes(group: Group, groups: Sequence[Group]) -> Iterator[list[ReportEntry]]:
    """What each change of intent costs; where there is no standard, `units` is 0."""
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
        before, (after, *_, end) = float(curve.mean[earlier][-1]), curve.mean[within].repeat(2).tolist()
        drop, length = max(0.0, before - after) / before if before > 0 else 0.0, stop - start
        standard, from_the_start, share, middle = _standard(group, groups, now, every), "", "", ""
        reached: list[int] = []  # the round of each unit; one beyond the phase where it does not
        if standard is not None:
            rounds = [(curve.x[within] - start)[values >= SHARE * standard] for values in curve.values[:, within]]
            reached = [int(of_unit[0]) if len(of_unit) else length + 1 for of_unit in rounds]
        recovered, typical = sum(number <= length for number in reached), median(reached or [length + 1])
        if standard is not None:
            from_the_start, share = f"{standard:.4f}", f"{recovered} of {len(reached)}"
            middle = f"{typical:,.0f}" if typical <= length else f"> {length:,}"
        phase_of = {"round": start, "intent_before": was, "intent_after": now, "rounds_of_phase": length}
        median_rounds = float(typical) if typical <= length else None
        yield [
            ReportEntry("change", f"{was} to {now} after {start:,}", phase_of),
            ReportEntry("before", f"{before:.4f}", {"before": before}, True),
            ReportEntry("after", f"{after:.4f}", {"after": after}, True),
            ReportEntry("drop", f"{100 * drop:.0f} %", {"drop": drop}, True),
            ReportEntry("end of phase", f"{end:.4f}", {"end": end}, True),
            ReportEntry("from the start", from_the_start, {"from_the_start": standard}, True),
            ReportEntry("recovered", share, {"units": len(reached), "recovered": recovered}, True),
            ReportEntry("median rounds", middle, {"median_rounds": median_rounds}, True),
        ]


def _standard(group: Group, groups: Sequence[Group], intent: int, rounds: int) -> float | None:
    """Return the mean after so many rounds of the group whose users have always had this intent; None without one.

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
