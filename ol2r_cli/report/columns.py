"""The columns of a report.

Each is one entry: its text, for a terminal, Markdown, HTML and LaTeX, and its values, for csv, json and parquet. Only a
table of groups in LaTeX has click models as columns; of these columns it has those of metrics, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ol2r_cli.report.best_settings import Selection
from ol2r_cli.report.comparison import Comparison, PairedDifference
from ol2r_cli.report.measures import described, digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.parts import PARTS, TASK_PARTS
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import tasks
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import Cell, TableColumn, TextTable


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The table of groups: a row for each, and what a selection and a comparison say of it."""

    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None

    @cached_property
    def table(self) -> TextTable:
        """The table. The place to add a column to the report."""
        labels, settings = self.labels, differing_settings(self.groups, self.labels)
        columns = [
            TableColumn("", self._letter),
            TableColumn("dataset", lambda group: Cell(group.choices["dataset"], values=choices(group))),
            TableColumn("click", lambda group: Cell(unless_none(group, "click"))),
            TableColumn("intent", lambda group: Cell(unless_none(group, "intent"))),
            TableColumn("ranker", self._ranker),
            TableColumn(
                "settings",
                lambda group: Cell(labels.short(group), values={name: group.settings.get(name) for name in settings}),
            ),
            TableColumn("note", self._note),
            TableColumn("chosen from", self._chosen_from, is_number=True),
            TableColumn(
                "n",
                lambda group: Cell(group.units.counted(group), values={"folds": len(group.seeds), "n": group.n}),
                is_number=True,
            ),
            *(TableColumn(heading(metric), partial(self._value, metric), True) for metric in self.metrics),
        ]
        measured = [metric for metric in self.metrics if any(group.estimate(metric) for group in self.groups)]
        return TextTable.about(labels.ordered(self.groups, measured), columns)

    @cached_property
    def best(self) -> frozenset[tuple[Group, str]]:
        """Groups with the metrics in which they are significantly better than all others of their task: bold."""
        if self.comparison is None:
            return frozenset()
        return frozenset(
            (group, metric)
            for metric in self.metrics
            if described(metric).higher_is_better is not None
            for task in tasks(self.groups)
            for group in task
            if self.comparison.is_best(group, metric, task)
        )

    def _letter(self, group: Group) -> Cell:
        """Return the letter that names a group in the marks of others, where all are compared."""
        letters = self.comparison.letters if self.comparison else {}
        letter = letters.get(group, "")
        return Cell(letter, values={"letter": letter} if letters else {})

    def _ranker(self, group: Group) -> Cell:
        is_baseline = self.comparison is not None and group in self.comparison.bases
        return Cell(self.labels.ranker(group) + (" (baseline)" if is_baseline else ""))

    def _note(self, group: Group) -> Cell:
        has_notes = any(other.note for other in self.groups)
        return Cell(group.note, values={"note": group.note} if has_notes else {})

    def _chosen_from(self, group: Group) -> Cell:
        """Return the number of cells of the grid that a group was chosen from."""
        if self.selection is None:
            return Cell("")
        cells = self.selection.cells[group]
        return Cell(str(cells), values={"chosen_from": cells})

    def _value(self, metric: str, group: Group) -> Cell:
        """Return the value of a group in the column of a metric, with its mark."""
        estimate, text = group.estimate(metric), ""
        if estimate:
            text = plus_minus(estimate.mean, estimate.half_width, digits(metric))
            text += f" (n = {estimate.n})" if estimate.n != group.n else ""
        mark = self.comparison.mark(group, metric) if self.comparison else ""
        values = {name: getattr(estimate, name, None) for name in ("mean", "sd", "half_width", "n")}
        values |= self._compared_values(metric, group)
        columns = {f"{metric}_{name}": value for name, value in values.items()}
        return Cell(text, mark, (group, metric) in self.best, columns)

    def _compared_values(self, metric: str, group: Group) -> dict[str, Any]:
        """Return what a frame has of the comparison of a group in a metric; null for a group that is not compared."""
        comparison = self.comparison
        if comparison is None:
            return {}
        if comparison.baseline is None:
            return {"better_than": comparison.mark(group, metric)}
        differences = comparison.against_baseline
        if not differences:
            return {}
        difference = differences.get((group, metric))
        some = difference or next(iter(differences.values()))
        (values,) = TextTable.about([some], _DIFFERENCE_COLUMNS).values()
        return values if difference else dict.fromkeys(values)


def difference_table(
    differences: Iterable[PairedDifference],
    names: Mapping[Group, str],
    places: Mapping[Group, tuple[str, str, str]] | None = None,
) -> TextTable:
    """Return a row for each difference. names: of the rows that are compared. places: dataset, users and intents of
    each, in other words than those of `ol2r run`."""

    def place(number: int, group: Group) -> str:
        return places[group][number] if places else unless_none(group, TASK_PARTS[number])

    columns = [
        TableColumn[PairedDifference]("metric", lambda d: Cell(heading(d.metric), values={"metric": d.metric})),
        TableColumn("dataset", lambda d: Cell(place(0, d.group), values=choices(d.group))),
        TableColumn("click", lambda d: Cell(place(1, d.group))),
        TableColumn("intent", lambda d: Cell(place(2, d.group))),
        TableColumn("ranker", lambda d: Cell(names[d.group], values={"row": names[d.group]})),
        TableColumn("minus", lambda d: Cell(names[d.rival], values=_of_rival(d.rival, names[d.rival]))),
        *_DIFFERENCE_COLUMNS,
    ]
    return TextTable.about(differences, columns)


def _of_rival(rival: Group, name: str) -> dict[str, Any]:
    """Return what a frame has of the other group of a difference: what may be another choice, and its name."""
    others = {part: choice for part, choice in choices(rival).items() if part not in ("dataset", "click")}
    return {f"rival_{part}": choice for part, choice in others.items()} | {"rival_row": name}


def _difference(d: PairedDifference) -> Cell:
    mean, half_width = d.estimate.mean, d.estimate.half_width
    text = plus_minus(mean, half_width, digits(d.metric) + 1, sign="+")
    return Cell(text, d.arrow, values={"difference": mean, "difference_half_width": half_width})


def p_text(p: float | None) -> str:
    """Return three decimals, scientific notation below .001, <1e-6 below that; empty for None."""
    if p is None:
        return ""
    if p < 1e-6:
        return "<1e-6"
    return f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


_DIFFERENCE_COLUMNS: Sequence[TableColumn[PairedDifference]] = (
    TableColumn("difference", _difference, True),
    TableColumn("p", lambda d: Cell(p_text(d.p), values={"p": d.p}), True),
    TableColumn("p (Holm)", lambda d: Cell(p_text(d.holm), values={"p_holm": d.holm}), True),
    TableColumn(
        "g_z", lambda d: Cell("" if d.effect is None else f"{d.effect:+.2f}", values={"effect": d.effect}), True
    ),
    TableColumn(
        "win/tie/loss",
        lambda d: Cell(f"{d.wins}/{d.ties}/{d.losses}", values={"wins": d.wins, "ties": d.ties, "losses": d.losses}),
        True,
    ),
    TableColumn(
        "pairs",
        lambda d: Cell(d.group.units.pairs(d.estimate), values={"pairs": d.estimate.n, "missing": d.missing}),
        True,
    ),
)


def choices(group: Group) -> dict[str, str | None]:
    """Return dataset, click, intent, ranker, model, exploration and fairness; None for a model that is lacking."""
    return {part.rpartition("/")[2]: group.choices.get(part) for part in PARTS}


def unless_none(group: Group, part: str) -> str:
    """Return a choice of a group; empty where it is none."""
    choice = group.choices.get(part, "none")
    return "" if choice == "none" else choice


def differing_settings(groups: Iterable[Group], labels: Labels) -> list[str]:
    """Return the names of the settings that distinguish groups, in the order of the table."""
    return list(dict.fromkeys(setting for group in groups for setting in labels.settings[group]))
