"""`ol2r check ranker=NAME`: holds choices, such as your own, to the laws of all, and shows what breaks them."""

from __future__ import annotations

import argparse
import sys

from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.contracts.law import LEFT_OUT, Law
from ol2r_cli.formatting import HelpFormatter, nearest, wrapped
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, FAILED, exits_when_interrupted

_NAME_WIDTH = 18  # characters of the longest name of a law

EPILOG = """\
Small simulations take the choices through lists of many lengths, several seeds, interruptions and hard cases. For a
law that is broken, the input and the first difference are shown, and for an exception its place in your code.

examples:
  ol2r check ranker=mine --config-dir choices              a ranker of your own, with what it brings
  ol2r check ranker=mine exploration=mine ranker.l2=.1     several choices together, with settings
  ol2r check dataset=letor dataset.path=$HOME/data         a dataset, and a short run on it
exit codes: 0 all laws are kept, 1 some are broken, 2 bad configuration
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r check`."""
    options = argparse.ArgumentParser(
        "ol2r check",
        usage="ol2r check GROUP=CHOICE [GROUP=CHOICE ...] [SETTING=VALUE ...] [--config-dir DIR]",
        description=(__doc__ or "").partition(": ")[2],
        epilog=EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("overrides", nargs="*", metavar="GROUP=CHOICE", help="as for `ol2r run`")
    options.add_argument("--config-dir", metavar="DIR", help="choices of your own: DIR/ranker/mine.yaml is ranker=mine")
    options.add_argument("-v", "--verbose", action="store_true", help="tracebacks of what your code raises")
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 if a law is broken, 2 if the choices or settings are wrong."""
    options = parser()
    if {"-h", "--help"} & set(arguments):
        options.parse_args(["--help"])
    try:
        rest, folders = split_search_path(arguments)
        given, unknown = options.parse_known_intermixed_args(rest)
        if unknown:
            known = [option for action in options._actions for option in action.option_strings]
            raise ValueError(f"there is no option {unknown[0]}{nearest(unknown[0], known) or ': see --help'}")
        with exits_when_interrupted():
            from ol2r_cli.contracts.laws import check
        overrides = [*given.overrides, *(f"--config-dir={folder}" for folder in folders)]
        report = check(overrides, _show)
    except ValueError as error:
        print(f"ol2r check: {error}", file=sys.stderr)
        return BAD_CONFIGURATION
    print("\n" + "\n".join(wrapped(line) for line in report.explanations().splitlines()))
    tracebacks = [violation.traceback for violation in report.violations if violation.traceback]
    if given.verbose:
        print("\n".join(["", *tracebacks]), end="")
    elif tracebacks:
        print("-v shows the traceback")
    return DONE if report.ok else FAILED


def _show(law: Law, sign: str = "", reason: str = "") -> None:
    """Print a line for a law that was checked, and on a terminal also which one is being checked."""
    terminal = sys.stdout.isatty()
    if sign:
        clear = "\x1b[K" if terminal else ""
        text = reason if sign == LEFT_OUT else law.statement
        print(clear + wrapped(f"{sign} {law.name:{_NAME_WIDTH}} {text}", _NAME_WIDTH + 3), flush=True)
    elif terminal:
        print(f"  {law.name} ..", end="\r", flush=True)
