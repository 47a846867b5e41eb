"""The options of figures in `ol2r report`."""

from __future__ import annotations

from ol2r_cli.commands.command import Listed, argument
from ol2r_cli.plugins.figures.kinds import KINDS

FIGURE = (
    argument(
        "--figure",
        metavar="KIND",
        nargs="*",
        action=Listed,
        help="figures in place of the table, into the file --out or a folder (figures); without KIND, list the kinds",
        offers=lambda: KINDS,
    ),
    argument(
        "--option",
        metavar="NAME=VALUE",
        nargs="+",
        action=Listed,
        help="with --figure: split=validation, bands=sd, ylim=0,1",
    ),
)
RECOVERY = (argument("--recovery", action="store_true", help="a row for each change of intent, in place of the table"),)
TRIAL = (
    argument(
        "--trial",
        metavar="METRIC",
        help="what users see of each row minus that of --baseline, page by page: clicks, or a column of trace.parquet",
    ),
)
