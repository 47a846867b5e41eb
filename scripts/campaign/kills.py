"""SIGKILL before, during and after every file operation of a run, then the same command again.

The first cases are the operations of a whole run, from its data to its last file, in order. Further cases kill the run
twice, at operations that are drawn: the second time while it resumes. What is on disk after a kill must be sound and
must not be called finished, and the last command must give the results of an undisturbed run, byte for byte.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

from faults import Disturbance, How, ol2r
from small_run import SmallRun
from tally import Tally

KILLS = (How.KILL_BEFORE, How.KILL_DURING, How.KILL_AFTER)


def run(seed: int, count: int, folder: Path) -> Tally:
    """`count` cases: all of those with one kill, if there are as many, and then cases with two."""
    tally, small = Tally("kills at file operations"), SmallRun(folder / "run")
    for case in cases(seed, count, small.operations):
        small.clear()
        problem = ""
        for kill in case:
            code = ol2r(small.words, small.folder, kill).code
            if code not in (0, -signal.SIGKILL):
                problem = f"ended with {code}"
            problem = problem or small.wrong_now()
        tally.add("; ".join(map(str, case)), problem or small.wrong_at_the_end())
    return tally


def cases(seed: int, count: int, operations: list[str]) -> Iterator[tuple[Disturbance, ...]]:
    """The kills of each case, one after the other."""
    draw = random.Random(seed)
    single = [
        (Disturbance(number, how),)
        for number, operation in enumerate(operations, 1)
        for how in KILLS
        if how != How.KILL_DURING or operation.startswith("write")
    ]
    yield from single if count >= len(single) else draw.sample(single, count)
    for _ in range(count - len(single)):
        yield tuple(Disturbance(draw.randint(1, len(operations)), draw.choice(KILLS)) for _ in range(2))
