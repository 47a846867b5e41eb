"""A report: its tables, the lines below them, its frame in full precision, and its file in each format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ol2r_cli.files import write_parquet, write_text
from ol2r_cli.lazy import pl
from ol2r_cli.plugins import Output, plugins
from ol2r_cli.report import notes
from ol2r_cli.report.best_settings import Selection, criterion
from ol2r_cli.report.collection import Collection
from ol2r_cli.report.comparison import Comparison, PairedDifference
from ol2r_cli.report.frames import as_csv, as_frame, choices, differing_settings
from ol2r_cli.report.measures import BESIDE, described, digits, heading
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import Group
from ol2r_cli.report.tasks import tasks
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import Cell, TableColumn, TextTable, in_markdown, markdown, print_tables

_CORE = {".md": "md", ".csv": "csv", ".parquet": "parquet", ".json": "json"}


def outputs() -> list[Output]:
    """Return what plug-ins write beside these tables."""
    return [output for plugin in plugins() for output in plugin.outputs]


def endings() -> dict[str, str]:
    """Return the endings of files that have a whole report, with the names of their formats."""
    return _CORE | {ending: form for output in outputs() if output.text for ending, form in output.endings.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report on groups. differences_only: without the table of groups. instead: another table in its place."""

    collection: Collection
    groups: Sequence[Group]
    labels: Labels
    metrics: Sequence[str]
    selection: Selection | None = None
    comparison: Comparison | None = None
    differences_only: bool = False
    instead: TextTable | None = None

    @cached_property
    def tables(self) -> list[TextTable]:
        """The table of groups, and that of differences from a baseline or, with `differences_only`, of all pairs."""
        if self.instead:
            return [self.instead.without_empty()]
        tables = [] if self.differences_only else [self._groups.without_empty()]
        comparison = self.comparison
        if comparison and comparison.differences and (self.differences_only or comparison.baseline is not None):
            tables.append(self._differences.without_empty())
        chosen_by = criterion(self.selection.by).table if self.selection and self.selection.compared else None
        if chosen_by:
            tables.append(chosen_by(self.selection, self.groups, self.labels).without_empty())
        return tables

    @cached_property
    def notes(self) -> list[str]:
        """The lines below the tables: what the numbers are, how rows were compared, which runs are left out."""
        lines = [notes.values_note(self.groups, len(self.collection.runs))]
        lines += [BESIDE[metric] for metric in self.metrics if metric in BESIDE]
        if notes.counts_without_relevant(self.groups, self.metrics):
            lines.append(notes.WITHOUT_RELEVANT)
        lines += notes.discount_notes(self.groups, self.metrics)
        if self.selection is not None and self.selection.chose:
            lines.append(
                f"{notes.choice_note(self.selection)} Model selection used the seeds that are reported. To report "
                "others, run the selected settings with them (--overrides)."
            )
        if self.selection is not None and self.selection.compared:
            lines.append(criterion(self.selection.by).note)
        if self.comparison:
            lines += notes.comparison_notes(self.comparison)
        return lines + self.collection.left_out

    def frame(self) -> pl.DataFrame:
        """Return one row in full precision for each group or, with `differences_only`, for each comparison and
        metric."""
        table = self.instead or (self._differences if self.differences_only else self._groups)
        return as_frame(table.values())

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

    @cached_property
    def _groups(self) -> TextTable:
        """A row for each group, with the marks of a comparison. The place to add a column to the report."""
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

    @cached_property
    def _differences(self) -> TextTable:
        """A row for each difference."""
        names = self.comparison.row_names(self.labels) if self.comparison else {}
        places = {
            group: (group.choices["dataset"], unless_none(group, "click"), unless_none(group, "intent"))
            for group in names
        }
        return self.differences_of(names, places)

    def differences_of(self, names: Mapping[Group, str], places: Mapping[Group, tuple[str, str, str]]) -> TextTable:
        """Return a row for each difference. places: dataset, users and intents of each group."""
        columns = [
            TableColumn[PairedDifference]("metric", lambda d: Cell(heading(d.metric), values={"metric": d.metric})),
            TableColumn("dataset", lambda d: Cell(places[d.group][0], values=choices(d.group))),
            TableColumn("click", lambda d: Cell(places[d.group][1])),
            TableColumn("intent", lambda d: Cell(places[d.group][2])),
            TableColumn("ranker", lambda d: Cell(names[d.group], values={"row": names[d.group]})),
            TableColumn("minus", lambda d: Cell(names[d.rival], values=_of_rival(d.rival, names[d.rival]))),
            *_DIFFERENCE_COLUMNS,
        ]
        return TextTable.about(self.comparison.differences if self.comparison else (), columns)

    def text(self, form: str, options: Any = None) -> str:
        """Return the report as md, csv, json, or in a format of a plug-in, with the arguments of `ol2r report`."""
        for output in outputs():
            if output.text and form in output.endings.values():
                return output.text(self, options)
        if form == "csv":
            return as_csv(self.frame()).rstrip("\n")
        if form == "json":
            return self.frame().write_json()
        return "\n\n".join([*map(markdown, self.tables), *map(in_markdown, self.notes)])

    def __repr__(self) -> str:
        return self.text("md")

    _repr_markdown_ = __repr__  # what a notebook displays

    def print(self) -> None:
        """Print the report on a terminal."""
        print_tables(self.tables, self.notes)

    def write(self, path: Path, form: str, options: Any = None) -> None:
        """Write the report atomically, as `text` has it. ValueError where the file cannot be written."""
        with writing(path):
            if form == "parquet":
                write_parquet(path, self.frame())
            else:
                write_text(path, self.text(form, options).rstrip("\n") + "\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of `path`, and turn an error while writing into a ValueError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {path} ({error.strerror})") from error


def unless_none(group: Group, part: str) -> str:
    """Return a choice of a group; empty where it is none."""
    choice = group.choices.get(part, "none")
    return "" if choice == "none" else choice


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


def _effect(d: PairedDifference) -> Cell:
    return Cell("" if d.effect is None else f"{d.effect:+.2f}", values={"effect": d.effect})


def _counts(d: PairedDifference) -> Cell:
    return Cell(f"{d.wins}/{d.ties}/{d.losses}", values={"wins": d.wins, "ties": d.ties, "losses": d.losses})


def _pairs(d: PairedDifference) -> Cell:
    """Return the number of pairs, and of what they are."""
    return Cell(d.group.units.pairs(d.estimate), values={"pairs": d.estimate.n, "missing": d.missing})


_DIFFERENCE_COLUMNS: Sequence[TableColumn[PairedDifference]] = (
    TableColumn("difference", _difference, True),
    TableColumn("p", lambda d: Cell(p_text(d.p), values={"p": d.p}), True),
    TableColumn("p (Holm)", lambda d: Cell(p_text(d.holm), values={"p_holm": d.holm}), True),
    TableColumn("g_z", _effect, True),
    TableColumn("win/tie/loss", _counts, True),
    TableColumn("pairs", _pairs, True),
)
