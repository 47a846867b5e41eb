"""`ol2r check ranker=NAME`: property checks of components, such as your own.

Small simulations take the components through lists of many lengths, several seeds, interruptions and hard cases.
A failed check is shown with its input and the first difference, an exception with its place in your code.

examples:
  ol2r check ranker=mine --config-dir choices              a ranker of your own, with what it brings
  ol2r check ranker=mine exploration=mine ranker.l2=.1     several components together, with settings
  ol2r check dataset=letor dataset.path=$HOME/data         a dataset, and a short run on it
exit codes: 0 all checks passed, 1 some failed, 2 bad configuration
"""

from __future__ import annotations

import argparse
import sys

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.overrides import split_search_path
from ol2r_cli.config.own_choices import add_config_dir, as_options
from ol2r_cli.run import DONE, FAILED, exits_when_interrupted
from ol2r_cli.text.formatting import wrapped

_NAME_WIDTH = 18  # characters of the longest name of a law


@command(
    argument("overrides", nargs="*", metavar="GROUP=CHOICE", help="as for `ol2r run`"),
    add_config_dir,
    argument("-v", "--verbose", action="store_true", help="tracebacks of what your code raises"),
    allow_abbrev=False,
)
def main(given: argparse.Namespace) -> int:
    """Return 1 if a check failed."""
    overrides, folders = split_search_path([*given.overrides, *as_options(given.config_dir)])
    with exits_when_interrupted():
        from ol2r_cli.plugins.check.laws import check
    report = check([*overrides, *(f"--config-dir={folder}" for folder in folders)], _show)
    print("\n" + "\n".join(wrapped(line) for line in report.explanations().splitlines()))
    tracebacks = [violation.traceback for violation in report.violations if violation.traceback]
    if given.verbose:
        print("\n".join(["", *tracebacks]), end="")
    elif tracebacks:
        print("-v shows the traceback")
    return DONE if report.ok else FAILED


def _show(law: str, sign: str = "", text: str = "") -> None:
    terminal = sys.stdout.isatty()
    if sign:
        clear = "\x1b[K" if terminal else ""
        print(clear + wrapped(f"{sign} {law:{_NAME_WIDTH}} {text}", _NAME_WIDTH + 3), flush=True)
    elif terminal:
        print(f"  {law} ..", end="\r", flush=True)
