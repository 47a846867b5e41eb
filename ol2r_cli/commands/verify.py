"""`ol2r verify [RUN|DIR ..]`: recompute what can be recomputed of finished runs, and report every difference."""

from __future__ import annotations

import argparse
import sys

from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.formatting import HelpFormatter, plural, printable, wrapped
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, FAILED
from ol2r_cli.run.run import Run, named_runs

EPILOG = """\
Files are compared with the sizes and hashes in run.json, rounds and seeds are counted, cumulative NDCG is summed up
again, online NDCG is computed from saved interactions, and the summary from the tables.
exit codes: 0 all finished runs are intact, 1 some are not, 2 there is no such run
"""


def parser() -> argparse.ArgumentParser:
    """The options of `ol2r verify`."""
    options = argparse.ArgumentParser(
        "ol2r verify",
        description=(__doc__ or "").partition(": ")[2],
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    options.add_argument("run", metavar="RUN|DIR", nargs="*", help="default: output_dir of ol2r.yaml, or outputs")
    return options


def main(arguments: list[str]) -> int:
    """Exit code 0, 1 if a finished run is not intact, 2 if there is no such run."""
    given = parser().parse_args(arguments)
    try:
        paths = [path for name in given.run or [str(default_output_dir())] for path in named_runs(name)]
    except ValueError as error:
        print(f"ol2r verify: {printable(error)}", file=sys.stderr)
        return BAD_CONFIGURATION
    from ol2r_cli.run.verification import differences

    intact = bad = unfinished = 0
    notes: list[str] = []
    for path in dict.fromkeys(paths):
        run = Run.read(path)
        if run is None or (run.manifest and run.state not in ("finished", "damaged")):
            unfinished += 1
            continue
        found = list(differences(run, notes)) if run.manifest else [str(run.error)]
        for what in found:
            print(wrapped(printable(f"{path}: {what}")), flush=True)
        intact, bad = intact + (not found), bad + bool(found)
    for note in notes:
        print(printable(note), file=sys.stderr)
    rest = f", {unfinished} not finished" if unfinished else ""
    print(f"{plural(intact + bad, 'finished run')}: {intact} intact, {bad} not{rest}")
    return FAILED if bad else DONE
