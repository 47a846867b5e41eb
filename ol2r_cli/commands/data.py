"""`ol2r data info|prepare|check [override ...]`: what a dataset is like, parsing it ahead, verifying its files."""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ol2r_cli.compose import build, compose

if TYPE_CHECKING:
    from ol2r_cli.dataset.check import Finding
    from ol2r_cli.dataset.table import Dataset

EPILOG = """examples:
  ol2r data info dataset=mq2008 dataset.path=$HOME/MQ2008 dataset.fold=2
  ol2r data info dataset=mslr_web10k 'dataset.group={feature:128,threshold:0}'
  ol2r data prepare dataset=mslr_web30k data_dir=/data
  ol2r data check dataset=yahoo dataset.set=2
"""


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 when the data or the configuration is not what it should be."""
    parser = argparse.ArgumentParser(
        "ol2r data",
        usage="ol2r data info|prepare|check [dataset=CHOICE] [dataset.SETTING=VALUE ...]",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=ACTIONS, help="statistics; parse and cache; counts and checksums")
    parser.add_argument("override", nargs="*", help="as for `ol2r run`")
    known, more = parser.parse_known_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        return ACTIONS[known.action](build(compose([*known.override, *more]).dataset))
    except ValueError as problem:
        print(f"ol2r: {problem}", file=sys.stderr)
        return 2


def info(source: object) -> int:
    """Prints sizes, grade mix and list lengths of every split, and the document groups where there are any."""
    from ol2r_cli.dataset.statistics import constant_features, split_statistics

    dataset = source.load()  # type: ignore[attr-defined]
    constant = constant_features(dataset)
    print(f"{dataset.name}: {dataset.features.shape[1]} features, {_constant(constant)}")
    statistics = split_statistics(dataset)
    grades = [f"grade {grade} %" for grade in range(dataset.grades)]
    rows = [
        [
            split.name,
            f"{split.queries:,}",
            f"{split.documents:,}",
            f"{split.shortest} / {split.median:g} / {split.longest}",
            *(f"{100 * share:.2f}" for share in split.grades),
            f"{100 * split.without_relevant:.2f}",
            f"{split.attainable:.4f}",
        ]
        for split in statistics
    ]
    lengths = "list length min / median / max"
    _show(["split", "queries", "documents", lengths, *grades, "queries without relevant %", "attainable NDCG"], rows)
    if dataset.group is not None:
        _show_groups(dataset)
    return 0


def _constant(columns: Sequence[int], most: int = 12) -> str:
    if not columns:
        return "none constant over the training split"
    listed = ", ".join(map(str, columns[:most])) + (", ..." if len(columns) > most else "")
    return f"{len(columns)} constant over the training split ({listed})"


def _show_groups(dataset: Dataset) -> None:
    """Shares and mean labels by group; merit and parity are the ratios of group 0 to group 1 of both."""
    from ol2r_cli.dataset.statistics import group_statistics

    statistics = group_statistics(dataset)
    groups = range(len(statistics[0].sizes))
    headings = [f"group {group} {what}" for group in groups for what in ("documents", "%", "mean label")]
    rows = []
    for split in statistics:
        cells = [split.name]
        for size, utility in zip(split.sizes, split.utilities, strict=True):
            cells += [f"{size:,}", f"{100 * size / sum(split.sizes):.2f}", _number(utility)]
        rows.append([*cells, _number(split.merit), _number(split.parity)])
    print()
    _show(["split", *headings, "merit", "parity"], rows)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def prepare(source: object) -> int:
    """Parses, normalises and caches, and says how long it took."""
    start = time.perf_counter()
    dataset = source.load()  # type: ignore[attr-defined]
    seconds = time.perf_counter() - start
    documents, features = dataset.features.shape
    print(f"{dataset.name}: {len(dataset.query_ids):,} queries, {documents:,} documents, {features} features, ready "
          f"in {seconds:.2f} s")  # fmt: skip
    return 0


def verify(source: object) -> int:
    """Compares counts and checksums with the known ones; exit code 2 when something differs."""
    from ol2r_cli.dataset.check import check
    from ol2r_cli.dataset.letor import Letor

    findings = check(source) if isinstance(source, Letor) else []
    if not findings:
        print("nothing is known about this dataset to compare with: it has no dataset.expected, no dataset.checksums")
        return 0
    marks = {True: "ok", False: "DIFFERS"}
    rows = [[f.what, _short(f.found), _short(f.expected), marks[f.agrees]] for f in findings]
    _show(["", "found", "expected", ""], rows)
    different = [finding for finding in findings if not finding.agrees]
    if different:
        print(f"ol2r: {_summary(different)}", file=sys.stderr)
    return 2 if different else 0


def _summary(different: Sequence[Finding]) -> str:
    first = different[0]
    more = f", and {len(different) - 1} more differences" if len(different) > 1 else ""
    what = f"{first.what} must be {_short(first.expected)}, got {_short(first.found)}"
    return f"{what}{more}: this is not the published set, or not all of it"


def _short(text: str, digits: int = 16) -> str:
    """A checksum by its first digits."""
    return f"{text[:digits]}..." if len(text) == 64 else text


def _show(headings: list[str], rows: list[list[str]]) -> None:
    """A table on a terminal; elsewhere aligned plain columns, two blanks apart."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*headings)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(map(len, cells)) for cells in zip(headings, *rows, strict=True)]
    for cells in [headings, *rows]:
        aligned = [
            cells[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
        ]
        print("  ".join(aligned).rstrip())


ACTIONS = {"info": info, "prepare": prepare, "check": verify}
