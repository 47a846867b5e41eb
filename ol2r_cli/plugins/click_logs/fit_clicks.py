"""`ol2r data fit-clicks FILE [dataset=..]`: a click model fitted to a log, with the labels of a dataset. The YAML file
of the user says how well each fit predicts clicks of other queries.

examples:
  ol2r data fit-clicks log.csv > choices/click/mine.yaml   then: ol2r run click=mine --config-dir choices
  ol2r data fit-clicks log.csv dataset=mq2008 dataset.path=$HOME/MQ2008 > choices/click/mine.yaml
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import add_config_dir
from ol2r_cli.lazy import lazy
from ol2r_cli.plugins.click_logs.log_options import FORM, data_of, read_log, split_data
from ol2r_cli.text.formatting import number

if TYPE_CHECKING:
    from ol2r_cli.dataset.table import Dataset
    from ol2r_cli.plugins.click_logs import attraction, fitted_user, position_bias
    from ol2r_cli.plugins.click_logs.click_log import ClickLog
    from ol2r_cli.plugins.click_logs.fitted_user import FittedUser
else:
    fitted_user = lazy("ol2r_cli.plugins.click_logs.fitted_user")
    attraction = lazy("ol2r_cli.plugins.click_logs.attraction")
    position_bias = lazy("ol2r_cli.plugins.click_logs.position_bias")

FITS = ("adjacent", "all-pairs", "pbm", "dcm")
_ASSUMED = (
    "documents of the log have the shares of grades of MSLR-WEB30K (of MQ2008 with two or three grades), and higher "
    "grades attract more; shown documents are often better, and then the user clicks more often on other lists: type "
    "dataset=.. to take labels"
)


@command(
    argument("override", metavar="FILE|SETTING=VALUE", nargs="*", help="the log, and a dataset with labels of it"),
    add_config_dir,
    argument("--fit", choices=FITS, help="harvesting, or maximum likelihood (default: adjacent)"),
    argument(
        "--documents", metavar="FILE", help="write attraction by document with a 95 %% interval, .csv or .parquet"
    ),
    *FORM,
    name="data fit-clicks",
)
def main(given: argparse.Namespace) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    fit = given.fit or "adjacent"
    file, dataset = _log_and_dataset(given)
    out = _documents_file(given.documents, fit)
    log, read = read_log(file, given)
    if fit == "dcm" and log.pages is None:
        raise ValueError(f"--fit dcm needs sessions, and {file} has counts: type --fit pbm")
    labels, assumed = None, [_ASSUMED]
    if dataset is not None:
        labels, assumed = fitted_user.joined_labels(log, dataset), []
        logging.info("labels of dataset=%s: %s", dataset.name, labels.joined)
        if labels.unknown:
            logging.info("unknown to dataset=%s: %s", dataset.name, labels.unknown)
    held_out = _held_out(log, file)
    values = position_bias.estimated(log, fit)
    user = fitted_user.fitted_user(log, fit, values, labels)
    if out is not None:
        table = attraction.documents_table(log, values, None if labels is None else labels.grade)
        attraction.write_documents(table, out)
        logging.info("%s has the attraction of %s documents", out, f"{len(table):,}")
    doubts, compared = [*position_bias.doubts(log, fit, values), *user.doubts], _compared(user)
    told = [f"assumed: {line}" for line in assumed] + [f"warning: {line}" for line in doubts]
    print(*compared, *told, sep="\n", file=sys.stderr)
    what = "continuation" if fit == "dcm" else "examination"
    comments = [
        f"Users of {file.name}: {what} by rank, {fit} of ol2r data fit-clicks.",
        f"Fitted to {read}.",
        held_out,
        *(f"Assumed: {line}." for line in assumed),
        *compared,
        *(f"Warning: {line}." for line in doubts),
    ]
    print(fitted_user.as_choice(user, comments))


def _log_and_dataset(given: argparse.Namespace) -> tuple[Path, Dataset | None]:
    """Return the file of the log, and the data that have its labels, if some are named."""
    of_data, files = split_data(given.override)
    if len(files) != 1:
        got = f", got {' '.join(files)}" if files else ""
        raise ValueError(f"one FILE is needed, and it takes dataset=..: type ol2r data fit-clicks log.csv{got}")
    if of_data:
        return Path(files[0]), data_of(of_data, given.config_dir)
    if given.config_dir:
        raise ValueError("--config-dir goes with dataset=.. of your own: leave it out, or type dataset=NAME")
    return Path(files[0]), None


def _documents_file(name: str | None, fit: str) -> Path | None:
    """Return the file of attraction by document, if one is asked for."""
    if name is None:
        return None
    if fit == "dcm":
        raise ValueError("--documents needs examination by rank, which --fit dcm does not have: type --fit adjacent")
    if Path(name).suffix not in (".csv", ".parquet"):
        raise ValueError(f"--documents must be a .csv or .parquet file, got {name}")
    return Path(name)


def _held_out(log: ClickLog, file: Path) -> str:
    """Return a sentence on how well each fit predicts clicks of queries to which it was not fitted."""
    folds = min(5, int(log.query.max()) + 1)
    if folds < 2:
        raise ValueError(f"{file} must have two queries or more, as others are held out, got one")
    some = position_bias.some_queries(log, folds)
    reached = position_bias.held_out(some, folds)
    table = ", ".join(f"{name} {number(value, 5)}" for name, value in reached.items())
    queries, of_log = int(some.query.max()) + 1, int(log.query.max()) + 1
    of = "queries" if queries == of_log else f"{queries:,} of {of_log:,} queries"
    return f"Held-out log-likelihood of an impression, {folds} folds of {of}: {table}."


def _compared(user: FittedUser) -> list[str]:
    """Return a table of clicks in the log and of the fitted user on its lists."""
    rows = [("", "log", "fitted user"), *user.compared()]
    return [f"{name:13}  {log:>7}  {of_user:>11}".rstrip() for name, log, of_user in rows]
