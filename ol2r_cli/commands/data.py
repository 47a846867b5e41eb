"""`ol2r data info|prepare|check [override ...]`: statistics of a dataset, parsing it ahead, checking its files.

examples:
  ol2r data info dataset=mq2008 dataset.path=$HOME/MQ2008 dataset.fold=2
  ol2r data info dataset=mslr_web10k 'dataset.group={feature:128,threshold:0}'
  ol2r data prepare dataset=mslr_web30k data_dir=/data
  ol2r data check dataset=yahoo dataset.set=2
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.text.formatting import listed, number, wrapped
from ol2r_cli.text.program import commands
from ol2r_cli.text.table import show

if TYPE_CHECKING:
    from ol2r_cli.config import composer
    from ol2r_cli.dataset import dataset_statistics as statistics
    from ol2r_cli.dataset import table
    from ol2r_cli.dataset.dataset_statistics import GroupStatistics
    from ol2r_cli.dataset.table import Dataset, DatasetSource
else:
    table = lazy("ol2r_cli.dataset.table")
    composer, statistics = lazy("ol2r_cli.config.composer"), lazy("ol2r_cli.dataset.dataset_statistics")

_MOST = 12  # constant features that are listed


ACTIONS = ("info", "prepare", "check")  # plug-ins may have others, which are commands of two words


@command(
    argument(
        *("action",),
        choices=(*ACTIONS, *(name.split()[1] for name in commands() if name.startswith("data "))),
        help="statistics; parse and cache; counts and checksums",
    ),
    argument(
        "override",
        metavar="SETTING=VALUE",
        nargs="*",
        help="as for `ol2r run`",
    ),
    add_config_dir,
)
def main(given: argparse.Namespace) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if given.action not in ACTIONS:
        raise ValueError(f"{given.action} stands before options: type ol2r data {given.action} ..")
    words = [*given.override, *as_options(given.config_dir)]
    for group, root in Catalogue().elsewhere.items():  # data of another kind of run
        if any(re.match(rf"{group}([.=]|$)", word) for word in given.override):
            if given.action != "info":
                raise ValueError(f"{group} have no {given.action}: type ol2r data info {' '.join(given.override)}")
            _describe(group, root, words)
            return
    source = build(composer.compose(words).config.dataset)
    if given.action == "check":
        _check(source)
    elif given.action == "prepare":
        _prepare(source)
    else:
        _show(loaded_with_warnings(source))


def _describe(group: str, root: str, words: Sequence[str]) -> None:
    """Print what there is to say about the data of another kind of run, in their own columns."""
    data = build(composer.Composer(words, root)(words).settings[group], group).load()
    rows, headings = data.described()
    show(rows, headings, numbers=True)


def _prepare(source: DatasetSource) -> None:
    """Parse a dataset, so that runs find it in the cache, and print its sizes."""
    start = time.perf_counter()
    dataset = loaded_with_warnings(source)
    seconds = time.perf_counter() - start
    sizes = f"{len(dataset.query_ids):,} queries, {len(dataset.labels):,} documents"
    print(f"{dataset.name}: {sizes}, {dataset.features.shape[1]} features, ready in {seconds:.2f} s")


def loaded_with_warnings(source: DatasetSource) -> Dataset:
    """Return a dataset, and print its warnings."""
    dataset: Dataset = table.loaded(source)
    for line in dataset.warnings:
        print(f"warning: {line}", file=sys.stderr)
    return dataset


def _show(dataset: Dataset) -> None:
    """Print the features, sizes of every split, and the document groups if the dataset has any."""
    print(wrapped(_features(dataset)))
    _show_splits(dataset)
    groups = statistics.group_statistics(dataset)
    if groups:
        print()
        _show_groups(groups)


def _features(dataset: Dataset) -> str:
    """Return how many features a dataset has, and which of them are constant."""
    constant = statistics.constant_features(dataset)
    which = f" ({listed(constant, _MOST)})" if constant else ""
    count = f"{len(constant) or 'none'} constant over the training split{which}"
    return f"{dataset.name}: {dataset.features.shape[1]} features, {count}"


def _show_splits(dataset: Dataset) -> None:
    """Print sizes, grades and list lengths of every split."""
    grades = [f"grade {grade} %" for grade in range(dataset.grades)]
    headings = ["split", "queries", "documents", "list length min / median / max"]
    headings += [*grades, "queries without relevant %", "attainable NDCG"]
    rows = []
    for split in statistics.split_statistics(dataset):
        lengths = f"{split.shortest} / {split.median:g} / {split.longest}"
        shares = [f"{100 * share:.2f}" for share in (*split.grades, split.without_relevant)]
        sizes = [f"{split.queries:,}", f"{split.documents:,}"]
        rows.append([split.name, *sizes, lengths, *shares, f"{split.attainable:.4f}"])
    show(rows, headings, numbers=True)


def _show_groups(splits: Sequence[GroupStatistics]) -> None:
    """Print sizes and mean labels of the document groups of every split.

    Sizes are also shares; merit and parity are the ratios of group 0 to each other one of both.
    """
    count = len(splits[0].sizes)
    headings = ["split"]
    for group in range(count):
        headings += [f"group {group} {column}" for column in ("documents", "%", "mean label")]
    for ratio in ("merit", "parity"):
        headings += [f"{ratio} 0:{group}" for group in range(1, count)]
    rows = []
    for split in splits:
        row = [split.name]
        for size, utility in zip(split.sizes, split.utilities, strict=True):
            row += [f"{size:,}", f"{100 * size / sum(split.sizes):.2f}", number(utility)]
        rows.append([*row, *(number(ratio) for ratio in split.ratios)])
    show(rows, headings, numbers=True)


def _check(source: DatasetSource) -> None:
    """Compare counts and checksums with the published ones; ValueError when one differs.

    Every cached array is compared with its checksum; one that differs, or has none, is built again.
    """
    comparisons = []
    if isinstance(source, statistics.Letor):
        source.cache.thorough = True
        comparisons = statistics.compare_with_published(source)
        loaded_with_warnings(source)
        again = f"{', '.join(source.cache.rebuilt)} was damaged, or without a checksum, and has been built again"
        print(f"cache: {again if source.cache.rebuilt else 'intact'}")
    if not comparisons:
        print("nothing is known about this dataset to compare with: it has no dataset.expected, no dataset.checksums")
        return
    # Of checksums the beginning is shown.
    shown = [[text[:16] + "..." if len(text) == 64 else text for text in row] for row in comparisons]
    rows = [[what, found, expected, "ok" if found == expected else "DIFFERS"] for what, found, expected in shown]
    show(rows, ["", "found", "expected", ""], numbers=True)
    differences = [f"{what} must be {expected}, got {found}" for what, found, expected in shown if found != expected]
    if differences:
        raise ValueError(f"{differences[0]}: this is not the published set, or not all of it")
