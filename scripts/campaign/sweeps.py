"""Sweeps whose workers or scheduler are killed at drawn moments, and sweeps that are started twice at the same time.

The same command is given until it ends with code 0, at most `ATTEMPTS` times. All runs must then be those of an
undisturbed sweep, byte for byte.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faults import TINY
from small_run import RESULTS
from tally import Tally

from ol2r_cli.run.run_state import find_runs

ATTEMPTS = 6
JOBS = 6
ROOT = Path(__file__).parents[2]


def run(seed: int, count: int, folder: Path) -> Tally:
    """`count` cases: a worker is killed, the scheduler is, or two schedulers start together."""
    tally, root = Tally("killed workers and schedulers"), folder / "sweep"
    began = time.monotonic()
    codes = [_start(root).wait()]
    duration, undisturbed = time.monotonic() - began, _results(root)
    if codes != [0] or len(undisturbed) != JOBS:
        raise RuntimeError(f"the undisturbed sweep ended with {codes}")
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        kind = draw.choice(["a worker is killed", "the scheduler is killed", "two schedulers"])
        shutil.rmtree(root)
        sweeps = [_start(root) for _ in range(2 if kind == "two schedulers" else 1)]
        time.sleep(draw.uniform(0.2, 0.9) * duration)
        victims = [] if kind == "two schedulers" else [sweeps[0].pid]
        if kind == "a worker is killed":
            workers = list(_children(sweeps[0].pid))
            victims = [draw.choice(workers)] if workers else []
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        codes = [sweep.wait() for sweep in sweeps]
        for _ in range(ATTEMPTS):
            if codes[-1] == 0:
                break
            codes.append(_start(root).wait())
        problem = "" if codes[-1] == 0 else f"the sweep ended with {codes}"
        if _results(root) != undisturbed:
            problem = problem or "the runs differ from those of an undisturbed sweep"
        tally.add(f"case {number} ({kind})", problem)
    return tally


def _start(root: Path) -> subprocess.Popen[bytes]:
    words = [
        "dataset=letor",
        f"dataset.path={TINY}",
        "rounds=60",
        "save_interactions=true",
        "block_rounds=[1,20]",
        f"seed={','.join(map(str, range(JOBS)))}",
        "launcher.jobs=2",
        "launcher.retries=1",
        f"output_dir={root / 'outputs'}",
        f"cache_dir={root / 'cache'}",
    ]
    command = [sys.executable, "-m", "ol2r_cli", "run", "-m", *words]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)


def _children(process: int) -> Iterator[int]:
    """The processes that a process has started, and theirs."""
    with suppress(OSError):
        for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            yield int(child)
            yield from _children(int(child))


def _results(root: Path) -> dict[str, dict[str, bytes]]:
    """The files with results of every run."""
    runs = list(find_runs(root / "outputs"))
    return {
        path.name: {name: (path / name).read_bytes() for name in RESULTS if (path / name).is_file()} for path in runs
    }
