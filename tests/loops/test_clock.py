"""Compiling is no part of the time of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli import loops
from ol2r_cli.loops import Clock, clock


def test_the_clock_stands_still_between_the_first_stop_and_the_last_start(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "process_time", lambda: 10 * now[0])
    clock, seen = Clock(), []
    for moment, what in ((1, None), (2, clock.stop), (3, clock.stop), (5, clock.start), (9, clock.start), (10, None)):
        now[0] = moment
        if what:
            what()
        seen.append((*clock.read(), clock.compiling))
    assert seen == [(1, 10, 0), (2, 20, 1), (2, 20, 2), (2, 20, 1), (2, 20, 0), (3, 30, 0)]


def test_the_clock_of_runs_stands_still_while_numba_compiles():
    numba = pytest.importorskip("numba")
    assert loops.random_numbers, "compiled loops have been imported"
    began, clock_began = time.monotonic(), clock.read()[0]
    assert numba.njit(lambda numbers: numbers.sum() + 1)(np.ones(3)) == 4
    assert clock.read()[0] - clock_began < (time.monotonic() - began) / 2


@pytest.mark.slow
@pytest.mark.skipif(not loops.available(), reason="needs numba")
def test_a_run_that_compiles_all_of_its_loops_does_not_count_it(tmp_path: Path):
    words = ["ranker=random", "click=perfect", "rounds=20", "device=cpu", "output_dir=out", "measures=[ndcg]"]
    data = ["dataset.queries={train: 5, validation: 0, test: 2}", "dataset.documents=6"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    command = [sys.executable, "-m", "ol2r_cli", "run", *words, *data]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (manifest,) = (json.loads(path.read_text()) for path in tmp_path.glob("out/*/*/run.json"))
    assert manifest["engine"] == "loops"
    assert manifest["seconds"] < manifest["startup_seconds"] / 4
    assert manifest["cpu_seconds"] < 1
