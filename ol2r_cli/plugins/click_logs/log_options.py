"""Options of commands that read a click log, and the log that they ask for."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument
from ol2r_cli.commands.data import loaded_with_warnings
from ol2r_cli.config.instantiate import build
from ol2r_cli.config.own_choices import as_options
from ol2r_cli.lazy import lazy
from ol2r_cli.text.formatting import nearest, plural

if TYPE_CHECKING:
    from ol2r_cli.config import composer
    from ol2r_cli.dataset import parse
    from ol2r_cli.dataset.table import Dataset
    from ol2r_cli.plugins.click_logs import click_log, log_file
    from ol2r_cli.plugins.click_logs.click_log import ClickLog
    from ol2r_cli.plugins.click_logs.log_file import Form
else:
    composer = lazy("ol2r_cli.config.composer")
    parse, click_log = lazy("ol2r_cli.dataset.parse"), lazy("ol2r_cli.plugins.click_logs.click_log")
    log_file = lazy("ol2r_cli.plugins.click_logs.log_file")

_OF_DATASET = re.compile(r"[+~]*dataset([.@/][^=]*)?=")
FORM = (
    argument("--columns", metavar="NAME=COLUMN,..", help="columns of the log with other names: query=search_term"),
    argument("--first-rank", type=int, choices=(0, 1), help="the number of the top rank in the log (default: 1)"),
    argument("--separator", metavar="TEXT", help="between the entries of a list that is text (default: found)"),
    argument("--clicks", choices=("flags", "documents", "ranks"), help="what a list of clicks has (default: found)"),
    argument("--skip-bad", action="store_true", help="leave out malformed rows, and count them"),
)


def form_of(given: argparse.Namespace) -> Form:
    """Return what is said of the form of a log; ValueError for a column of another name."""
    columns: dict[str, str] = {}
    for word in (given.columns or "").split(",") if given.columns else ():
        name, equals, column = word.partition("=")
        key = next((key for key, names in log_file.KNOWN.items() if name.lower() in names), "")
        if not key or not equals or not column:
            keys = ", ".join(log_file.KNOWN)
            hint = "" if key else nearest(name, list(log_file.KNOWN))
            raise ValueError(f"--columns must be NAME=COLUMN,.. with names of {keys}, got {word}{hint}")
        columns[key] = column
    return log_file.Form(columns, given.first_rank, given.separator, given.clicks)


def split_data(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that choose a dataset, and the others."""
    of_data = [word for word in words if _OF_DATASET.match(word)]
    return of_data, [word for word in words if word not in of_data]


def data_of(of_data: Sequence[str], config_dir: Sequence[Path]) -> Dataset:
    """Return the dataset of these words, and print its warnings."""
    return loaded_with_warnings(build(composer.compose([*of_data, *as_options(config_dir)]).config.dataset))


def read_log(file: Path, given: argparse.Namespace) -> tuple[ClickLog, str]:
    """Return a click log, and in words how large it is and what was left out, which is shown, too."""
    logging.info("reading %s", file)
    try:
        log, skipped = click_log.read(file, "malformed" if given.skip_bad else "none", form_of(given))
    except parse.DataError as error:
        raise ValueError(f"{error}: type --skip-bad to leave malformed rows out") from None
    queries = int(log.query.max()) + 1
    sizes = f"{log.impressions.sum():,.0f} impressions, {log.clicks.sum():,.0f} clicks, {queries:,} queries"
    pages = "" if log.pages is None else f", {len(log.pages[0]):,} pages"
    logging.info("%s, %s documents%s", sizes, f"{len(log.query):,}", pages)
    left_out = []
    if skipped:
        left_out.append(f"{plural(skipped, 'malformed row')} left out")
    if log.repeats:
        left_out.append(f"{plural(log.repeats, 'repeated row')} left out")
    for line in left_out:
        logging.info(line)
    return log, ", ".join([sizes, *left_out])
