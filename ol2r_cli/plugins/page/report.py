"""A report as a page: what stands on it, and which options go with it."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ol2r_cli.commands.report import chosen_format, is_asked
from ol2r_cli.plugins.figures.look import PLAIN, Look
from ol2r_cli.plugins.figures.report import figure_options
from ol2r_cli.plugins.page.html_page import PageContent, page
from ol2r_cli.report.document import Document, endings, outputs
from ol2r_cli.report.shown_metrics import ndcg_metrics, usual_metrics


def check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go with a page."""
    if options.figure is not None or chosen_format(options, endings(), "for tables") != "html":
        return
    for output in outputs():
        if output.table and is_asked(options, output):
            raise ValueError(f"--{output.name} has no html: type --format md, csv, parquet or latex")
    files = [folder for folder in options.folders if Path(folder).is_file()]
    if files:
        reason = f"got {files[0]}, which has final values: type --format md"
        raise ValueError(f"a page needs the folders of runs, {reason}")
    figure_options([], options)


def page_of(document: Document, options: argparse.Namespace | None) -> str:
    """Return the page of a report: the usual metrics, and also the table of groups."""
    groups = document.labels.ordered(document.groups, ndcg_metrics(document.groups))
    shown = replace(document, metrics=usual_metrics(groups), differences_only=False)
    left_out = document.collection.left_out
    content = PageContent(
        groups=groups,
        labels=document.labels,
        look=PLAIN if options is None else Look(**figure_options([], options)),
        tables=shown.tables,
        notes=[note for note in document.notes if note not in left_out],
        has_best=bool(document.best),
        warnings=left_out + (document.selection.warnings if document.selection else []),
        selection=document.selection,
        comparison=document.comparison,
    )
    return page(content)
