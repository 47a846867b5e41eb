"""The table of a paper: rankers by the names of figures, click models as columns, what is common in the caption."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ol2r_cli.metrics.intervals import LEVEL
from ol2r_cli.plugins.latex.latex import Block, LatexTable
from ol2r_cli.report.comparison import Comparison
from ol2r_cli.report.estimates import ALPHA
from ol2r_cli.report.measures import digits, heading
from ol2r_cli.report.names import Labels, Legend
from ol2r_cli.report.notes import TEST_NAMES, what_marks_say
from ol2r_cli.report.run_groups import Group
from ol2r_cli.text.formatting import plus_minus
from ol2r_cli.text.table import LETTERS, Cell

_MISSING = "–"


class ResultsTable:
    """Metrics of groups by name and click model; with a single click model by name and metric.

    A dataset has a block of rows, and with several click models so has each metric. best: what is bold. ValueError for
    two groups that would stand in the same cell.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        labels: Labels,
        metrics: Iterable[str],
        comparison: Comparison | None,
        best: Collection[tuple[Group, str]],
    ):
        self.groups, self.comparison, self.best = groups, comparison, best
        self.metrics = [metric for metric in metrics if any(group.estimate(metric) for group in groups)]
        self.legend = Legend(groups, labels)
        self.names = list(self.legend.styles)
        self.datasets = list(dict.fromkeys(panel.dataset for panel in self.legend.panels))
        self.users = list(dict.fromkeys(panel.users for panel in self.legend.panels))
        self.n = {estimate.n for group in groups for metric in self.metrics if (estimate := group.estimate(metric))}
        self._group_at = self._groups_by_place(labels)
        if comparison and comparison.baseline is None and len(self.names) > len(LETTERS):
            raise ValueError(f"--compare all needs at most {len(LETTERS)} rows, got {len(self.names)}")

    def _groups_by_place(self, labels: Labels) -> dict[tuple[str, str, str], Group]:
        """Return the group in each cell, by dataset, users and name. ValueError for two groups in one."""
        groups: dict[tuple[str, str, str], Group] = {}
        for panel, members in self.legend.panels.items():
            for group in members:
                name = self.legend.names[group]
                first = groups.setdefault((panel.dataset, panel.users, name), group)
                if first is not group:
                    rows = f"{labels.overrides(first)} and {labels.overrides(group)}"
                    raise ValueError(
                        f"two rows of a table of LaTeX must not have one name, got {name} for {rows}: name fewer "
                        "folders, or give them names by --name"
                    )
        return groups

    def latex(self, remarks: Sequence[str], notes: Sequence[str]) -> LatexTable:
        """Return the table of LaTeX. remarks: further sentences of the caption. notes: lines of comment."""
        if len(self.users) > 1:
            headings = self.users
            blocks = [
                self._block(dataset, [(users, metric) for users in self.users], heading(metric))
                for metric in self.metrics
                for dataset in self.datasets
            ]
        else:
            headings = list(map(heading, self.metrics))
            columns = [(self.users[0], metric) for metric in self.metrics]
            blocks = [self._block(dataset, columns, "") for dataset in self.datasets]
        numbers = [False] + [True] * len(headings)
        return LatexTable(["", *headings], numbers, blocks, [*self._caption(), *remarks], notes)

    def _block(self, dataset: str, columns: Sequence[tuple[str, str]], metric: str) -> Block:
        """Return the rows of a dataset, with a cell for each (users, metric); without names that have no cell there."""
        title = [metric if len(self.metrics) > 1 else "", dataset if len(self.datasets) > 1 else ""]
        rows = []
        for name in self.names:
            cells = [self._cell(self._group_at.get((dataset, users, name)), of_column) for users, of_column in columns]
            if any(cell.text != _MISSING for cell in cells):
                rows.append([Cell(name, self._letter(name)), *cells])
        return Block(", ".join(filter(None, title)), rows)

    def _letter(self, name: str) -> str:
        """Return the letter of a row, where all rows are compared."""
        compares_all = self.comparison is not None and self.comparison.baseline is None
        return LETTERS[self.names.index(name)] if compares_all else ""

    def _cell(self, group: Group | None, metric: str) -> Cell:
        estimate = group.estimate(metric) if group else None
        if group is None or estimate is None:
            return Cell(_MISSING)
        text = plus_minus(estimate.mean, estimate.half_width, digits(metric))
        text += f" ({estimate.n})" if len(self.n) > 1 else ""
        return Cell(text, self._mark(group, metric), (group, metric) in self.best)

    def _mark(self, group: Group, metric: str) -> str:
        """Return the mark of a value: a ranker has one letter in all columns, unlike in `Comparison.letters`."""
        if self.comparison is None or self.comparison.baseline is not None:
            return self.comparison.mark(group, metric) if self.comparison else ""
        beaten = self.comparison.beaten(group, metric)
        return "".join(sorted(self._letter(self.legend.names[other]) for other in beaten))

    def _caption(self) -> list[str]:
        """Return what is common to all cells, what ± is, and what marks and bold values mean."""
        what = " ".join(self._common())
        units = self.groups[0].units.below_table(self.groups)
        lines = [f"{what[:1].upper()}{what[1:]}: means ± half of their {LEVEL:.0%} intervals over {units}"]
        lines.append("n is in brackets." if len(self.n) > 1 else f"n = {max(self.n)}.")
        comparison = self.comparison
        if comparison and any(difference.p is not None for difference in comparison.differences):
            baselines = dict.fromkeys(self.legend.names[group] for group in comparison.bases)
            marks = what_marks_say(" or ".join(baselines) or None)
            lines.append(f"{marks} ({TEST_NAMES[comparison.test]}, Holm's correction, p < {ALPHA}).")
        if any(metric in self.metrics for _, metric in self.best):
            lines.append("A bold value is significantly better than all that it is compared with.")
        return lines

    def _common(self) -> list[str]:
        """Return what is common to all cells, in the words of a sentence."""
        common = [heading(self.metrics[0]) if len(self.metrics) == 1 else "results"]
        if len(self.datasets) == 1:
            common.append(f"on {self.datasets[0]}")
        if len(self.users) == 1 and self.users[0]:
            common.append(f"with {self.users[0]} users")
        if all(group.run_kind.plays_rounds for group in self.groups):
            rounds = {int(group.settings["rounds"]) for group in self.groups}
            if len(rounds) == 1:
                common.append(f"after {max(rounds):,} rounds")
        return common
