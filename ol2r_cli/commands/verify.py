"""`ol2r verify [RUN|DIR ..]`: recompute what can be recomputed of finished runs, and report every difference.

Files are compared with the sizes and hashes in run.json, rounds and seeds are counted, cumulative NDCG is summed up
again, online NDCG is computed from saved interactions, and the summary from the tables.
exit codes: 0 all finished runs are intact, 1 some are not, 2 there is no such run
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ol2r_cli.command import argument, command
from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.formatting import plural, printable, wrapped
from ol2r_cli.lazy import lazy
from ol2r_cli.run import DONE, FAILED
from ol2r_cli.run.run import Run, named_runs

if TYPE_CHECKING:
    from ol2r_cli.run import recomputed
else:
    recomputed = lazy("ol2r_cli.run.recomputed")


@command(argument("run", metavar="RUN|DIR", nargs="*", help="default: output_dir of ol2r.yaml, or outputs"))
def main(given: argparse.Namespace) -> int:
    paths = [path for name in given.run or [str(default_output_dir())] for path in named_runs(name)]
    intact = bad = unfinished = 0
    notes: list[str] = []
    for path in dict.fromkeys(paths):
        run = Run.read(path)
        if run is None or (run.manifest and run.state not in ("finished", "damaged")):
            unfinished += 1
            continue
        found = list(recomputed.differences(run, notes)) if run.manifest else [str(run.error)]
        for what in found:
            print(wrapped(printable(f"{path}: {what}")), flush=True)
        intact, bad = intact + (not found), bad + bool(found)
    for note in notes:
        print(printable(note), file=sys.stderr)
    rest = f", {unfinished} not finished" if unfinished else ""
    print(f"{plural(intact + bad, 'finished run')}: {intact} intact, {bad} not{rest}")
    return FAILED if bad else DONE
