"""`ol2r report DIR...`: tables and figures over finished runs, with intervals, comparisons and choice by validation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ol2r_cli.report.document import Document

EPILOG = """examples:
  ol2r report outputs                                     one row per experiment: means over seeds and folds
  ol2r report outputs --metric test_ndcg_1 regret         other columns
  ol2r report outputs --out tables/first.md               into a file; also .csv, .parquet, .tex, .html

paired comparisons, over the folds and seeds that both have, after Holm's correction
  ol2r report outputs --baseline pairrank                 every row against this ranker's, in the same task
  ol2r report outputs --baseline 'ranker=pairrank ranker.l2=0.1' --test permutation
  ol2r report outputs --compare all                       every row against every other: letters name the beaten
  ol2r report outputs --compare all --differences --out pairs.csv

choice of settings
  ol2r report outputs --select validation                 of each grid the cell with the best validation NDCG@10
  ol2r report outputs --select validation --keep exploration.shuffle     one for each value of a setting
  ol2r report outputs --select validation --overrides     what to type to run the chosen ones again; such as
  ol2r report outputs --select validation --overrides | xargs -L 1 ol2r run replicas=10 seed=100

figures
  ol2r report --figure                                    the kinds there are
  ol2r report outputs --figure learning_curve cumulative_ndcg --out figures --format pdf
  ol2r report outputs --figure learning_curve --option split=validation --out curve.svg
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when there is nothing to report, or not what was asked for."""
    given = parser().parse_intermixed_args(arguments)
    try:
        if given.figure is None:
            _tables(given)
        else:
            from ol2r_cli.commands.figures import figures

            figures(given)
    except ValueError as error:
        print(f"ol2r report: {error}", file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """The options, in the order of the help."""
    own = argparse.ArgumentParser(
        "ol2r report",
        usage="ol2r report DIR [DIR ...] [--metric NAME ...] [--select validation [--keep SETTING ...] [--overrides]]"
        " [--baseline WORDS | --compare all] [--test t|permutation] [--differences]"
        " [--figure KIND ... [--option NAME=VALUE ...]] [--format FORMAT] [--out FILE]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = own.add_argument
    add("folders", metavar="DIR", nargs="*", type=Path, help="folders with runs")
    add("--metric", metavar="NAME", nargs="+", help="columns: names in summary.json")
    add("--select", choices=["validation"], help="one cell of each grid, by its validation NDCG@10")
    add("--keep", metavar="SETTING", nargs="+", help="with --select: not to be chosen, but told apart")
    add("--overrides", action="store_true", help="with --select: lines for `ol2r run` instead")
    add("--baseline", metavar="WORDS", help="a ranker, or choices and settings that one row of each task has")
    add("--compare", choices=["all"], help="every row with every other of its task")
    add("--test", choices=["t", "permutation"], help="of the paired differences (t)")
    add("--differences", action="store_true", help="a row for each comparison and metric, in place of the table")
    add("--figure", metavar="KIND", nargs="*", help="figures instead; without KIND a list of those there are")
    add("--option", metavar="NAME=VALUE", nargs="+", help="with --figure: such as split=validation")
    add(
        "--format",
        choices=["md", "csv", "parquet", "latex", "html", "png", "svg", "pdf"],
        help="else by --out's ending",
    )
    add("--out", metavar="FILE", type=Path, help="write to this file; figures also to a folder (figures)")
    return own


def _tables(given: argparse.Namespace) -> None:
    from ol2r_cli.commands.gathering import gather

    form = _format(given)
    document = gather(given, whole=form in ("csv", "parquet"))
    if given.overrides:
        text = _overrides(document)
    elif given.out is not None:
        document.write(given.out, form)
        print(f"written: {given.out}")
        return
    elif form == "terminal":
        document.print()
        return
    else:
        text = document.text(form)
        for line in document.notes if form == "csv" else ():
            print(f"ol2r report: {line}", file=sys.stderr)
    if given.out is None:
        print(text)
        return
    from ol2r_cli.report.document import writing
    from ol2r_cli.results.directory import RunDirectory

    writing(given.out, lambda: RunDirectory(given.out.parent).write_text(given.out.name, text + "\n"))
    print(f"written: {given.out}")


def _format(given: argparse.Namespace) -> str:
    """That of --format, else by the ending of --out, else a table for a terminal, and markdown elsewhere."""
    from ol2r_cli.report.document import FORMATS, SUFFIXES

    if given.overrides:
        return "md"
    if given.format not in (*FORMATS, None):
        raise ValueError(f"--format must be one of {', '.join(FORMATS)} without --figure KIND, got {given.format}")
    if given.out is not None:
        ending = SUFFIXES.get(given.out.suffix)
        if ending is None and given.format is None:
            raise ValueError(f"--out must end in {', '.join(SUFFIXES)}, got {given.out}")
        if given.format and ending not in (None, given.format):
            raise ValueError(f"--out must not end in {given.out.suffix} with --format {given.format}, got {given.out}")
        return str(given.format or ending)
    if given.format in ("parquet", "html"):
        raise ValueError(f"--format {given.format} needs a file: type --out report.{given.format}")
    return given.format or ("terminal" if sys.stdout.isatty() else "md")


def _overrides(document: Document) -> str:
    from ol2r_cli.report.measures import METRICS
    from ol2r_cli.report.notes import left_out
    from ol2r_cli.report.table import ordered

    for line in left_out(document.collection):
        print(f"ol2r report: {line}", file=sys.stderr)
    return "\n".join(map(document.labels.overrides, ordered(document.groups, document.labels, METRICS[0])))
