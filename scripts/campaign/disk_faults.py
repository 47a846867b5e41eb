"""A full disk (ENOSPC) or an input/output error (EIO) at every file operation of a run: once, or from then on.

The run must end with one line and a truthful exit code, and must not be called finished unless it is. The same command
on a working disk must then give the results of an undisturbed run.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path

from faults import Disturbance, How, ol2r
from small_run import SmallRun, bad_output, checked
from tally import Tally

from ol2r_cli.run.run_state import read_state


def run(seed: int, count: int, folder: Path) -> Tally:
    """All operations, errors and durations, or `count` of them that are drawn."""
    tally, small = Tally("failing disk"), SmallRun(folder / "run")
    cases = [
        Disturbance(number, how, error)
        for number in range(1, len(small.operations) + 1)
        for how in (How.FAIL_ONCE, How.FAIL_FROM_THEN_ON)
        for error in (errno.ENOSPC, errno.EIO)
    ]
    for case in random.Random(seed).sample(cases, min(count, len(cases))):
        small.clear()
        ended = ol2r(small.words, small.folder, case)
        problem = f"it wrote {ended.errors[-400:]!r}" if bad_output(ended.errors) else small.wrong_now()
        state = checked(lambda: getattr(read_state(small.path), "state", "none"))
        if (state == "finished") != (ended.code == 0):
            problem = problem or f"it ended with {ended.code}, and is called {state}"
        if ended.code not in (0, 1, 2) or bool(ended.code) != bool(ended.errors):
            problem = problem or f"it ended with {ended.code} and the words {ended.errors!r}"
        tally.add(str(case), problem or small.wrong_at_the_end(), refused=bool(ended.code))
    return tally
