"""From the options of `ol2r report` to what is to be shown."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ol2r_cli.report.document import Document


def gather(given: argparse.Namespace, whole: bool = False) -> Document:
    """Everything that was asked for, read, chosen and compared. ValueError when there is nothing, or no such thing.

    whole: with all metrics there are unless some are named, rather than the usual ones.
    """
    from ol2r_cli.report.collect import collect
    from ol2r_cli.report.comparison import compare
    from ol2r_cli.report.document import Document
    from ol2r_cli.report.groups import groups
    from ol2r_cli.report.labels import Labels
    from ol2r_cli.report.measures import METRICS, check_metrics, known_metrics, usual_metrics
    from ol2r_cli.report.notes import left_out
    from ol2r_cli.report.select import select
    from ol2r_cli.report.table import ordered

    _check(given)
    found = collect(given.folders)
    if not found.runs:
        others = "".join(f" ({line})" for line in left_out(found))
        below = " or ".join(map(str, given.folders))
        raise ValueError(f"there are no finished runs below {below}{others}: start one with `ol2r run`")
    rows = groups(found.runs)
    labels = Labels(rows)
    check_metrics(given.metric or (), rows)
    selection = select(rows, labels, given.keep or ()) if given.select else None
    if selection:
        rows = selection.groups
        for warning in selection.warnings:
            print(f"ol2r report: {warning}", file=sys.stderr)
    metrics = given.metric or (known_metrics(rows) if whole else usual_metrics(rows))
    comparison = None
    if given.baseline or given.compare:
        rows = ordered(rows, labels, (*metrics, METRICS[0])[0])  # letters in the order of the table
        comparison = compare(rows, labels, metrics, given.baseline, given.test or "t")
    return Document(found, rows, labels, metrics, selection, comparison, given.differences)


def _check(given: argparse.Namespace) -> None:
    if not given.folders:
        raise ValueError("DIR must be a folder with runs, such as outputs, got none")
    for option in ("keep", "overrides"):
        if getattr(given, option) and not given.select:
            raise ValueError(f"--{option} goes with --select validation")
    if given.baseline is not None and not given.baseline.strip():
        raise ValueError("--baseline must be a ranker, or choices and settings, of some row, got nothing")
    if given.baseline and given.compare:
        raise ValueError("--baseline and --compare all are two ways of comparing: leave out one")
    for option in ("test", "differences"):
        if getattr(given, option) and not (given.baseline or given.compare):
            raise ValueError(f"--{option} goes with --baseline RANKER or --compare all")
    if given.option and given.figure is None:
        raise ValueError("--option goes with --figure KIND")
