"""`ol2r report DIR...`: a table over the finished runs below folders, with intervals; model selection by validation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """examples:
  ol2r report outputs                                     one row per experiment: means over seeds and folds
  ol2r report outputs --metric test_ndcg_1 regret         other columns
  ol2r report outputs --out tables/first.md               into a file
  ol2r report outputs --select validation                 of each grid the cell with the best validation NDCG@10
  ol2r report outputs --select validation --keep exploration.shuffle     one for each value of a setting
  ol2r report outputs --select validation --overrides     what to type to run the chosen ones again; such as
  ol2r report outputs --select validation --overrides | xargs -L 1 ol2r run replicas=10 seed=100
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when there is nothing to report, or not what was asked for."""
    parser = argparse.ArgumentParser(
        "ol2r report",
        usage="ol2r report DIR [DIR ...] [--metric NAME ...] [--select validation [--keep SETTING ...] [--overrides]]"
        " [--out FILE]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="folders with runs")
    parser.add_argument("--metric", metavar="NAME", nargs="+", help="columns: names in summary.json")
    parser.add_argument("--select", choices=["validation"], help="one cell of each grid, by its validation NDCG@10")
    parser.add_argument("--keep", metavar="SETTING", nargs="+", help="with --select: not to be chosen, but told apart")
    parser.add_argument("--overrides", action="store_true", help="with --select: lines for `ol2r run` instead")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write to this file; a table's name ends in .md")
    given = parser.parse_intermixed_args(arguments)
    try:
        text = _report(given)
        if given.out is None:
            print(text)
        else:
            _write(given.out, text)
    except ValueError as error:
        print(f"ol2r report: {error}", file=sys.stderr)
        return 2
    return 0


def _report(given: argparse.Namespace) -> str:
    from ol2r_cli.report.collect import collect
    from ol2r_cli.report.groups import groups
    from ol2r_cli.report.labels import Labels
    from ol2r_cli.report.select import select
    from ol2r_cli.report.table import METRICS, check_metrics, left_out, markdown, notes, ordered, usual_metrics

    for option in ("keep", "overrides"):
        if getattr(given, option) and not given.select:
            raise ValueError(f"--{option} goes with --select validation")
    if given.out and given.out.suffix != ".md" and not given.overrides:
        raise ValueError(f"--out must end in .md, got {given.out}")
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
    if given.overrides:
        for line in left_out(found):
            print(f"ol2r report: {line}", file=sys.stderr)
        return "\n".join(labels.overrides(group) for group in ordered(rows, labels, METRICS[0]))
    table = markdown(rows, labels, given.metric or usual_metrics(rows), selection)
    return "\n\n".join([table, *notes(found, rows, selected=selection is not None)])


def _write(path: Path, text: str) -> None:
    from ol2r_cli.results.directory import RunDirectory

    try:
        RunDirectory(path.parent).write_text(path.name, text + "\n")
    except OSError as error:
        raise ValueError(f"--out must be a file that can be written, got {path} ({error.strerror})") from error
    print(f"written: {path}")
