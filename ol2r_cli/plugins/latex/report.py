"""A report as one table of LaTeX, and its references."""

from __future__ import annotations

import argparse

from ol2r_cli.commands.report import print_or_write, say
from ol2r_cli.plugins.latex.latex import LatexTable, plain_table
from ol2r_cli.plugins.latex.references import bibtex
from ol2r_cli.plugins.latex.results_table import ResultsTable
from ol2r_cli.report import notes
from ol2r_cli.report.collection import chosen_runs
from ol2r_cli.report.columns import difference_table
from ol2r_cli.report.document import Document
from ol2r_cli.report.names import Legend


def latex(document: Document) -> LatexTable:
    """Return one table: that of groups with click models as columns or, with `differences_only`, that of
    differences."""
    groups, labels = document.groups, document.labels
    if document.instead:
        return plain_table(document.tables[0], document.notes)
    if document.differences_only:
        legend = Legend(groups, labels)
        places = {group: (panel.dataset, panel.users, "") for panel in legend.panels for group in legend.panels[panel]}
        differences = document.comparison.differences if document.comparison else ()
        return plain_table(difference_table(differences, legend.names, places), document.notes)
    remarks = []
    if document.selection and document.selection.chose:
        remarks.append(notes.choice_note(document.selection))
    if notes.counts_without_relevant(groups, document.metrics):
        remarks.append(notes.WITHOUT_RELEVANT)
    remarks += notes.discount_notes(groups, document.metrics)
    table = ResultsTable(groups, labels, document.metrics, document.comparison, document.best)
    return table.latex(remarks, [*document.notes, *_chosen_settings(document, table.legend)])


def _chosen_settings(document: Document, legend: Legend) -> list[str]:
    """Return a line with the settings of each row that a selection chose, whose numbers are not in its name."""
    if document.selection is None or not document.selection.chose:
        return []
    return [
        f"{panel.title}, {legend.names[group]}: {document.labels.short(group)}"
        for panel, groups in legend.panels.items()
        for group in groups
        if document.labels.told[group]
    ]


def print_references(options: argparse.Namespace) -> None:
    """Print or write BibTeX, and say on stderr which choices have no reference."""
    known = {"folders", "bibtex", "verify", "out", "typed"}
    others = {name for name, value in vars(options).items() if value not in (None, False)} - known
    if others:
        raise ValueError("--bibtex goes with folders, words that choose runs, --verify and --out: leave out the others")
    collection = chosen_runs(options.folders, options.verify, warn=False)
    text, missing = bibtex(run.choices for run in collection.runs)
    say(collection.left_out)
    if missing:
        say([f"no reference of {', '.join(missing)}"])
    print_or_write(text, options.out)
