"""`ol2r data info|prepare|check [override ...]`: statistics of a dataset, parsing it ahead, verifying its files.

examples:
  ol2r data info dataset=mq2008 dataset.path=$HOME/MQ2008 dataset.fold=2
  ol2r data info dataset=mslr_web10k 'dataset.group={feature:128,threshold:0}'
  ol2r data prepare dataset=mslr_web30k data_dir=/data
  ol2r data check dataset=yahoo dataset.set=2
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.formatting import number, show
from ol2r_cli.run.exit_status import DONE

if TYPE_CHECKING:
    from ol2r_cli.dataset.dataset_statistics import PublishedComparison
    from ol2r_cli.dataset.table import Dataset, DatasetSource


@command(
    argument("action", choices=("info", "prepare", "check"), help="statistics; parse and cache; counts and checksums"),
    argument("override", metavar="SETTING=VALUE", nargs="*", help="as for `ol2r run`"),
    add_config_dir,
)
def main(given: argparse.Namespace) -> int:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    from ol2r_cli.config.composer import compose

    source = build(compose([*given.override, *as_options(given.config_dir)]).config.dataset)
    return {"info": info, "prepare": prepare, "check": check}[given.action](source)


def info(source: DatasetSource) -> int:
    """Print sizes, grades and list lengths of every split, and the document groups if the dataset has any."""
    from ol2r_cli.dataset.dataset_statistics import constant_features, split_statistics

    dataset = source.load()
    _warn(dataset)
    print(f"{dataset.name}: {dataset.features.shape[1]} features, {_constant(constant_features(dataset))}")
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
        for split in split_statistics(dataset)
    ]
    grades = [f"grade {grade} %" for grade in range(dataset.grades)]
    lengths = "list length min / median / max"
    headings = ["split", "queries", "documents", lengths, *grades, "queries without relevant %", "attainable NDCG"]
    show(rows, headings, numbers=True)
    if dataset.group is not None:
        _show_groups(dataset)
    return DONE


def _warn(dataset: Dataset) -> None:
    for line in dataset.warnings:
        print(f"warning: {line}", file=sys.stderr)


def _constant(columns: Sequence[int], most: int = 12) -> str:
    if not columns:
        return "none constant over the training split"
    listed = ", ".join(map(str, columns[:most])) + (", ..." if len(columns) > most else "")
    return f"{len(columns)} constant over the training split ({listed})"


def _show_groups(dataset: Dataset) -> None:
    """Print shares and mean labels by group; merit and parity are the ratios of group 0 to each other one of both."""
    from ol2r_cli.dataset.dataset_statistics import group_statistics

    statistics = group_statistics(dataset)
    groups = range(len(statistics[0].sizes))
    headings = [f"group {group} {column}" for group in groups for column in ("documents", "%", "mean label")]
    rows = []
    for split in statistics:
        cells = [split.name]
        for size, utility in zip(split.sizes, split.utilities, strict=True):
            cells += [f"{size:,}", f"{100 * size / sum(split.sizes):.2f}", number(utility)]
        rows.append([*cells, *map(number, split.merits), *map(number, split.parities)])
    print()
    others = [f" 0:{group}" for group in groups[1:]] if len(groups) > 2 else [""]
    ratios = [f"{ratio}{other}" for ratio in ("merit", "parity") for other in others]
    show(rows, ["split", *headings, *ratios], numbers=True)


def prepare(source: DatasetSource) -> int:
    """Parse, normalise and cache the dataset, and print how long it took."""
    start = time.perf_counter()
    dataset = source.load()
    took = f"ready in {time.perf_counter() - start:.2f} s"
    _warn(dataset)
    documents, features = dataset.features.shape
    print(f"{dataset.name}: {len(dataset.query_ids):,} queries, {documents:,} documents, {features} features, {took}")
    return DONE


def check(source: DatasetSource) -> int:
    """Compare counts and checksums with the published ones; ValueError when one differs.

    Every cached array is compared with its checksum; one that differs, or has none, is built again.
    """
    from ol2r_cli.dataset.dataset_statistics import compare_with_published
    from ol2r_cli.dataset.letor import Letor

    comparisons: list[PublishedComparison] = []
    if isinstance(source, Letor):
        source.cache.thorough = True
        comparisons = compare_with_published(source)
        _warn(source.load())
        rebuilt = ", ".join(source.cache.rebuilt)
        again = f"{rebuilt} was damaged, or without a checksum, and has been built again"
        print(f"cache: {again if rebuilt else 'intact'}")
    if not comparisons:
        print("nothing is known about this dataset to compare with: it has no dataset.expected, no dataset.checksums")
        return DONE
    rows = [[c.what, _short(c.found), _short(c.expected), "ok" if c.agrees else "DIFFERS"] for c in comparisons]
    show(rows, ["", "found", "expected", ""], numbers=True)
    different = [f"{what} must be {expected}, got {found}" for what, found, expected, ok in rows if ok != "ok"]
    if different:
        more = f", and {len(different) - 1} more differences" if len(different) > 1 else ""
        raise ValueError(f"{different[0]}{more}: this is not the published set, or not all of it")
    return DONE


def _short(text: str, digits: int = 16) -> str:
    """Return the first digits of a checksum; other text as it is."""
    return f"{text[:digits]}..." if len(text) == 64 else text
