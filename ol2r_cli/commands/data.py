"""`ol2r data info|prepare|check [override ...]`: statistics of a dataset, parsing it ahead, checking its files; and
`fit-clicks FILE [dataset=..]`, a click model fitted to a log, with the labels of a dataset.

examples:
  ol2r data info dataset=mq2008 dataset.path=$HOME/MQ2008 dataset.fold=2
  ol2r data info dataset=mslr_web10k 'dataset.group={feature:128,threshold:0}'
  ol2r data prepare dataset=mslr_web30k data_dir=/data
  ol2r data check dataset=yahoo dataset.set=2
  ol2r data fit-clicks log.csv > choices/click/mine.yaml   then: ol2r run click=mine --config-dir choices
  ol2r data fit-clicks log.csv dataset=mq2008 dataset.path=$HOME/MQ2008 > choices/click/mine.yaml
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.command import argument, command
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.formatting import listed, number, plural, wrapped
from ol2r_cli.lazy import lazy
from ol2r_cli.text_table import show

if TYPE_CHECKING:
    from ol2r_cli.config import composer
    from ol2r_cli.dataset import click_log, fitted_user, parse, position_bias, table
    from ol2r_cli.dataset import dataset_statistics as statistics
    from ol2r_cli.dataset.click_log import ClickLog
    from ol2r_cli.dataset.dataset_statistics import GroupStatistics
    from ol2r_cli.dataset.fitted_user import FittedUser
    from ol2r_cli.dataset.table import Dataset, DatasetSource
else:
    table = lazy("ol2r_cli.dataset.table")
    composer, statistics = lazy("ol2r_cli.config.composer"), lazy("ol2r_cli.dataset.dataset_statistics")
    click_log, parse = lazy("ol2r_cli.dataset.click_log"), lazy("ol2r_cli.dataset.parse")
    fitted_user, position_bias = lazy("ol2r_cli.dataset.fitted_user"), lazy("ol2r_cli.dataset.position_bias")

FITS = ("adjacent", "all-pairs", "pbm", "dcm")
_ASSUMED = (
    "documents of the log have the shares of grades of MSLR-WEB30K (of MQ2008 with two or three grades), and higher "
    "grades attract more; shown documents are often better, and then the user clicks more often on other lists: type "
    "dataset=.. to take labels"
)
_OF_DATASET = re.compile(r"[+~]*dataset([.@/][^=]*)?=")
_MOST = 12  # constant features that are listed


@command(
    argument(
        *("action",),
        choices=("info", "prepare", "check", "fit-clicks"),
        help="statistics; parse and cache; counts and checksums; fit a click model",
    ),
    argument(
        "override",
        metavar="SETTING=VALUE|FILE",
        nargs="*",
        help="as for `ol2r run`; for fit-clicks the log, and a dataset with labels of its documents",
    ),
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
        _show(_load(source))


def _describe(group: str, root: str, words: Sequence[str]) -> None:
    """Print what there is to say about the data of another kind of run, in their own columns."""
    data = build(composer.Composer(words, root)(words).settings[group], group).load()
    rows, headings = data.described()
    show(rows, headings, numbers=True)


def _prepare(source: DatasetSource) -> None:
    """Parse a dataset, so that runs find it in the cache, and print its sizes."""
    start = time.perf_counter()
    dataset = _load(source)
    seconds = time.perf_counter() - start
    sizes = f"{len(dataset.query_ids):,} queries, {len(dataset.labels):,} documents"
    print(f"{dataset.name}: {sizes}, {dataset.features.shape[1]} features, ready in {seconds:.2f} s")


def _load(source: DatasetSource) -> Dataset:
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
        _load(source)
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


def _fit_clicks(given: argparse.Namespace) -> None:
    """Print the user of a click log as a YAML file, which says how well each fit predicts clicks of other queries."""
    fit = given.fit or "adjacent"
    file, dataset = _log_and_dataset(given)
    log, sizes, left_out = _read_log(file, given.skip_bad)
    if fit == "dcm" and log.pages is None:
        raise ValueError(f"--fit dcm needs sessions, and {file} has counts: type --fit pbm")
    labels, assumed = None, [_ASSUMED]
    if dataset is not None:
        labels, assumed = fitted_user.joined_labels(log, dataset), []
        logging.info("labels of dataset=%s: %s", dataset.name, labels.joined)
    held_out = _held_out(log, file)
    values = position_bias.estimated(log, fit)
    user = fitted_user.fitted_user(log, fit, values, labels)
    doubts, compared = [*position_bias.doubts(log, fit, values), *user.doubts], _compared(user)
    told = [f"assumed: {line}" for line in assumed] + [f"warning: {line}" for line in doubts]
    print(*compared, *told, sep="\n", file=sys.stderr)
    what = "continuation" if fit == "dcm" else "examination"
    comments = [
        f"Users of {file.name}: {what} by rank, {fit} of ol2r data fit-clicks.",
        f"Fitted to {sizes}{left_out}.",
        held_out,
        *(f"Assumed: {line}." for line in assumed),
        *compared,
        *(f"Warning: {line}." for line in doubts),
    ]
    print(fitted_user.as_choice(user, comments))


def _log_and_dataset(given: argparse.Namespace) -> tuple[Path, Dataset | None]:
    """Return the file of the log, and the data that have its labels, if some are named."""
    of_dataset = [word for word in given.override if _OF_DATASET.match(word)]
    files = [word for word in given.override if word not in of_dataset]
    if len(files) != 1:
        got = f", got {' '.join(files)}" if files else ""
        raise ValueError(f"fit-clicks needs one FILE, and takes dataset=..: type ol2r data fit-clicks log.csv{got}")
    if of_dataset:
        config = composer.compose([*of_dataset, *as_options(given.config_dir)]).config
        return Path(files[0]), _load(build(config.dataset))
    if given.config_dir:
        raise ValueError("--config-dir goes with dataset=.. of your own: leave it out, or type dataset=NAME")
    return Path(files[0]), None


def _read_log(file: Path, skip_bad: bool) -> tuple[ClickLog, str, str]:
    """Return a click log, how large it is, and which rows were left out."""
    logging.info("reading %s", file)
    try:
        log, skipped = click_log.read(file, "malformed" if skip_bad else "none")
    except parse.DataError as error:
        raise ValueError(f"{error}: type --skip-bad to leave malformed rows out") from None
    left_out = f", {plural(skipped, 'malformed row')} left out" if skipped else ""
    left_out += f", {plural(log.repeats, 'repeated row')} left out" if log.repeats else ""
    queries = int(log.query.max()) + 1
    sizes = f"{log.impressions.sum():,.0f} impressions, {log.clicks.sum():,.0f} clicks, {queries:,} queries"
    logging.info("%s, %s documents%s", sizes, f"{len(log.query):,}", left_out)
    return log, sizes, left_out


def _held_out(log: ClickLog, file: Path) -> str:
    """Return a sentence on how well each fit predicts clicks of queries to which it was not fitted."""
    folds = min(5, int(log.query.max()) + 1)
    if folds < 2:
        raise ValueError(f"{file} must have two queries or more, as others are held out, got one")
    reached = position_bias.held_out(log, folds)
    table = ", ".join(f"{name} {number(value, 5)}" for name, value in reached.items())
    return f"Held-out log-likelihood of an impression, {folds} folds of queries: {table}."


def _compared(user: FittedUser) -> list[str]:
    """Return a table of clicks in the log and of the fitted user on its lists."""
    rows = [("", "log", "fitted user"), *user.compared()]
    return [f"{name:13}  {log:>7}  {of_user:>11}".rstrip() for name, log, of_user in rows]
