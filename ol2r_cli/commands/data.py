"""`ol2r data info|prepare|check [override ...]`: statistics of a dataset, parsing it ahead, verifying its files; and
`fit-clicks FILE`, a user as a click log describes it.

examples:
  ol2r data info dataset=mq2008 dataset.path=$HOME/MQ2008 dataset.fold=2
  ol2r data info dataset=mslr_web10k 'dataset.group={feature:128,threshold:0}'
  ol2r data prepare dataset=mslr_web30k data_dir=/data
  ol2r data check dataset=yahoo dataset.set=2
  ol2r data fit-clicks log.csv > choices/click/mine.yaml   then: ol2r run click=mine --config-dir choices
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.command import argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.formatting import number, wrapped
from ol2r_cli.lazy import lazy
from ol2r_cli.text_table import show

if TYPE_CHECKING:
    from ol2r_cli.config import composer
    from ol2r_cli.dataset import click_log, parse, position_bias
    from ol2r_cli.dataset import dataset_statistics as statistics
    from ol2r_cli.dataset.table import Dataset, DatasetSource
else:
    composer, statistics = lazy("ol2r_cli.config.composer"), lazy("ol2r_cli.dataset.dataset_statistics")
    click_log, parse = lazy("ol2r_cli.dataset.click_log"), lazy("ol2r_cli.dataset.parse")
    position_bias = lazy("ol2r_cli.dataset.position_bias")

FITS = ("adjacent", "all-pairs", "pbm", "dcm")


@command(
    argument(
        *("action",),
        choices=("info", "prepare", "check", "fit-clicks"),
        help="statistics; parse and cache; counts and checksums; a user of a click log",
    ),
    argument("override", metavar="SETTING=VALUE|FILE", nargs="*", help="as for `ol2r run`; for fit-clicks the log"),
    add_config_dir,
    argument("--fit", choices=FITS, help="of fit-clicks: harvesting, or maximum likelihood (default: adjacent)"),
    argument("--skip-bad", action="store_true", help="of fit-clicks: leave out malformed rows, and count them"),
)
def main(given: argparse.Namespace) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    if given.action == "fit-clicks":
        _fit_clicks(given)
        return
    if given.fit or given.skip_bad:
        raise ValueError(f"--fit and --skip-bad go with fit-clicks, got {given.action}: leave them out")
    groups = [word.partition("=")[0].partition(".")[0] for word in given.override]
    if roots := {group: root for group, root in Catalogue().elsewhere.items() if group in groups}:
        group, root = next(iter(roots.items()))  # data of another kind of run
        if given.action != "info":
            raise ValueError(f"{group} have no {given.action}: type ol2r data info {' '.join(given.override)}")
        words = [*given.override, *as_options(given.config_dir)]
        rows, headings = build(composer.Composer(words, root)(words).settings[group], group).load().described()
        show(rows, headings, numbers=True)
        return
    source = build(composer.compose([*given.override, *as_options(given.config_dir)]).config.dataset)
    if given.action == "check":
        _check(source)
        return
    start = time.perf_counter()
    dataset = _load(source)
    if given.action == "info":
        _show(dataset)
    else:
        sizes = f"{len(dataset.query_ids):,} queries, {len(dataset.labels):,} documents"
        took = f"ready in {time.perf_counter() - start:.2f} s"
        print(f"{dataset.name}: {sizes}, {dataset.features.shape[1]} features, {took}")


def _load(source: DatasetSource) -> Dataset:
    dataset = source.load()
    for line in dataset.warnings:
        print(f"warning: {line}", file=sys.stderr)
    return dataset


def _show(dataset: Dataset, most: int = 12) -> None:
    """Print sizes, grades and list lengths of every split, and the document groups if the dataset has any.

    Of groups these are shares and mean labels; merit and parity are the ratios of group 0 to each other one of both.
    """
    constant = statistics.constant_features(dataset)
    listed = f" ({', '.join(map(str, constant[:most]))}{', ...' * (len(constant) > most)})" if constant else ""
    told = f"{len(constant) or 'none'} constant over the training split{listed}"
    print(wrapped(f"{dataset.name}: {dataset.features.shape[1]} features, {told}"))
    rows = [
        [split.name, f"{split.queries:,}", f"{split.documents:,}"]
        + [f"{split.shortest} / {split.median:g} / {split.longest}"]
        + [f"{100 * share:.2f}" for share in (*split.grades, split.without_relevant)]
        + [f"{split.attainable:.4f}"]
        for split in statistics.split_statistics(dataset)
    ]
    grades = [f"grade {grade} %" for grade in range(dataset.grades)]
    lengths = "list length min / median / max"
    headings = ["split", "queries", "documents", lengths, *grades, "queries without relevant %", "attainable NDCG"]
    show(rows, headings, numbers=True)
    if not (of_groups := statistics.group_statistics(dataset)):
        return
    groups = range(len(of_groups[0].sizes))
    headings = [f"group {group} {column}" for group in groups for column in ("documents", "%", "mean label")]
    others = [f" 0:{group}" for group in groups[1:]] if len(groups) > 2 else [""]
    rows = [
        [split.name]
        + [
            cell
            for size, utility in zip(split.sizes, split.utilities, strict=True)
            for cell in (f"{size:,}", f"{100 * size / sum(split.sizes):.2f}", number(utility))
        ]
        + [number(ratio) for ratio in split.ratios]
        for split in of_groups
    ]
    print()
    show(rows, ["split", *headings, *(f"{of}{other}" for of in ("merit", "parity") for other in others)], numbers=True)


def _check(source: DatasetSource) -> None:
    """Compare counts and checksums with the published ones; ValueError when one differs.

    Every cached array is compared with its checksum; one that differs, or has none, is built again.
    """
    comparisons = []
    if isinstance(source, statistics.Letor):
        source.cache.thorough = True
        comparisons = statistics.compare_with_published(source)
        _load(source)
        again = f"{', '.join(source.cache.rebuilt)} was damaged, or without a checksum, and has been built again"
        print(f"cache: {again if source.cache.rebuilt else 'intact'}")
    if not comparisons:
        print("nothing is known about this dataset to compare with: it has no dataset.expected, no dataset.checksums")
        return
    # Of checksums the beginning is shown.
    shown = [[text[:16] + "..." if len(text) == 64 else text for text in each] for each in comparisons]
    rows = [[*row, "ok" if row[1] == row[2] else "DIFFERS"] for row in shown]
    show(rows, ["", "found", "expected", ""], numbers=True)
    if different := [row for row in shown if row[1] != row[2]]:
        more = f", and {len(different) - 1} more differences" if len(different) > 1 else ""
        must = "{0} must be {2}, got {1}".format(*different[0])
        raise ValueError(f"{must}{more}: this is not the published set, or not all of it")


def _fit_clicks(given: argparse.Namespace) -> None:
    """Print the user of a click log as a YAML file, which says how well each fit predicts clicks of other queries."""
    fit = given.fit or "adjacent"
    if len(given.override) != 1 or given.config_dir:
        raise ValueError("fit-clicks needs one FILE: type ol2r data fit-clicks log.csv")
    file, what = Path(given.override[0]), "continuation" if fit == "dcm" else "examination"
    logging.info("reading %s", file)
    try:
        log, skipped = click_log.read(file, "malformed" if given.skip_bad else "none")
    except parse.DataError as error:
        raise ValueError(f"{error}: type --skip-bad to leave malformed rows out") from None
    queries, left_out = int(log.query.max()) + 1, f", {skipped:,} malformed rows left out" if skipped else ""
    sizes = f"{log.impressions.sum():,.0f} impressions, {log.clicks.sum():,.0f} clicks, {queries:,} queries"
    logging.info("%s, %s documents%s", sizes, f"{len(log.query):,}", left_out)
    if fit == "dcm" and log.pages is None:
        raise ValueError(f"--fit dcm needs sessions, and {file} has counts: type --fit pbm")
    if (folds := min(5, queries)) < 2:
        raise ValueError(f"{file} must have two queries or more, as others are held out, got one")
    reached = position_bias.held_out(log, folds)
    table = ", ".join(f"{name} {number(value, 5)}" for name, value in reached.items())
    comments = [
        f"Users of {file.name}: {what} by place, {fit} of ol2r data fit-clicks.",
        f"Fitted to {sizes}{left_out}.",
        f"Held-out log-likelihood of an impression, {folds} folds of queries: {table}.",
        "Assumed: attraction by grade, by quantiles of that of documents: docs/algorithms/real_users.md.",
    ]
    values = position_bias.estimated(log, fit)
    doubts = position_bias.doubts(log, fit, values)
    for line in doubts:
        print(f"warning: {line}", file=sys.stderr)
    print(position_bias.as_choice(log, fit, values, [*comments, *(f"Warning: {line}." for line in doubts)]))
