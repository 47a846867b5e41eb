"""`ol2r verify [RUN|DIR ..]`: recompute what can be recomputed of finished runs, and report every difference.

Files are compared with the sizes and hashes in run.json, rounds and seeds are counted, cumulative NDCG is summed up
again, online NDCG is computed from saved interactions, and the summary from the tables.
exit codes: 0 all finished runs are intact, 1 some are not, 2 there is no such run
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Literal

from ol2r_cli.commands.command import argument, command
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.run import DONE, FAILED
from ol2r_cli.run.run import Run, named_runs
from ol2r_cli.text.formatting import plural, printable, wrapped


@command(argument("run", metavar="RUN|DIR", nargs="*", help="default: output_dir of ol2r.yaml, or outputs"))
def main(given: argparse.Namespace) -> int:
    names = given.run or [str(default_output_dir())]
    notes: list[str] = []
    counts = Counter(_verify(path, notes) for path in dict.fromkeys(chain.from_iterable(map(named_runs, names))))
    for note in notes:
        print(printable(note), file=sys.stderr)
    rest = f", {counts['unfinished']} not finished" if counts["unfinished"] else ""
    finished = plural(counts["intact"] + counts["bad"], "finished run")
    print(f"{finished}: {counts['intact']} intact, {counts['bad']} not{rest}")
    return FAILED if counts["bad"] else DONE


def _verify(path: Path, notes: list[str]) -> Literal["intact", "bad", "unfinished"]:
    """Print every difference of a run, and return what it is."""
    run = Run.read(path)
    if run is None or (run.manifest and run.state not in ("finished", "damaged")):
        return "unfinished"
    from ol2r_cli.run import recomputed

    differences = list(recomputed.differences(run, notes)) if run.manifest else [str(run.error)]
    for difference in differences:
        print(wrapped(printable(f"{path}: {difference}")), flush=True)
    return "bad" if differences else "intact"
