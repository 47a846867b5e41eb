"""Sweeps with failures, in real processes: other jobs finish, and the same command runs what is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ol2r_cli.run.run import Run, find_runs
from tests.launcher.stumbling import own_configs

ROOT = Path(__file__).parents[2]
SMOKE = ["experiment=smoke"]
OL2R = [sys.executable, "-m", "ol2r_cli"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A process that runs `ol2r run -m`."""
    command = [*OL2R, "run", "-m", *SMOKE, f"output_dir={folder}", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=ENVIRONMENT, cwd=folder.parent, **pipes)  # type: ignore[call-overload]


def finished(folder: Path) -> dict[str, int]:
    """Runs with a summary, with the time at which it was written."""
    paths = [path / "summary.json" for path in find_runs(folder)]
    return {path.parent.name: path.stat().st_mtime_ns for path in paths if path.is_file()}


@pytest.mark.slow
def test_a_sweep_with_failures_ends_like_an_undisturbed_one(tmp_path: Path):
    """Four jobs raise, one is killed by SIGKILL, six have a bad setting; the same command runs the missing five."""
    stone = tmp_path / "stone"
    own = own_configs(tmp_path / "own", stone, "raise")
    words = ["ranker=stumbling,oracle,pairrank", "seed=0,1", "launcher.jobs=2", "rounds=4000", "--config-dir", str(own)]
    calm, troubled = tmp_path / "calm", tmp_path / "troubled"
    undisturbed = started(calm, *words, "click=per,nav")
    assert "12 done" in undisturbed.communicate()[0]
    stone.touch()
    sweep = started(troubled, *words, "click=per,nav,infomational", "--keep-going")
    killed = False
    while not killed and sweep.poll() is None:
        for path in troubled.glob("*/pairrank-navigational-*"):
            state = Run.read(path)
            if not killed and state is not None and state.state == "running":
                os.kill(state.manifest["pid"], signal.SIGKILL)
                killed = True
        time.sleep(0.005)
    out, errors = sweep.communicate()
    assert (killed, sweep.returncode) == (True, 3), errors
    assert "7 done, 5 failed, 6 bad" in out
    told = "RuntimeError: stumbled over a stone", "killed (signal 9)", "did you mean click=informational?"
    assert [line for line in told if line not in errors] == []
    before = finished(troubled)
    stone.unlink()
    again = started(troubled, *words, "click=per,nav")
    assert "5 done, 7 finished before" in again.communicate()[0]
    assert len(before.items() - finished(troubled).items()) == 0, "what was finished is not run again"
    reports = [
        subprocess.run([*OL2R, "report", str(folder)], env=ENVIRONMENT, capture_output=True, text=True).stdout
        for folder in (calm, troubled)
    ]
    assert reports[0] == reports[1] != ""


@pytest.mark.slow
def test_a_stopped_sweep_keeps_what_is_done_and_resumes(tmp_path: Path):
    folder, words = tmp_path / "outputs", ["seed=0,1", "rounds=20000", "launcher.jobs=1", "evaluate_every=20000"]
    stopped, limit = started(folder, *words), time.monotonic() + 120
    while not any(run and run.state == "running" for run in map(Run.read, find_runs(folder))):
        assert stopped.poll() is None, stopped.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)
    stopped.send_signal(signal.SIGTERM)
    out, err = stopped.communicate(timeout=120)
    assert stopped.returncode == 130, err
    assert "1 running jobs keep what they have done" in err
    assert "the same command goes on from here" in err
    assert "1 interrupted, 1 not started" in out
    (path,) = find_runs(folder)
    assert (reached := Run.read(path)) is not None
    assert (reached.state, reached.round < 20000) == ("interrupted", True)
    out, _ = started(folder, *words, "--dry-run").communicate(timeout=120)
    assert f"resumes at round {reached.round}" in out
    assert "1 to resume, 1 new" in out
    final = started(folder, *words)
    out, err = final.communicate(timeout=300)
    assert final.returncode == 0, err
    assert (manifest := Run.read(path)) is not None
    assert manifest.manifest["sittings"] == 2
    assert len(finished(folder)) == 2
    assert not (folder / ".sweep").exists()


BATCH = ["ranker=pdgd", "seed=range(0,6)", "rounds=30000", "evaluate_every=1000", "launcher.jobs=1", "launcher.batch=6"]


def until(sweep: subprocess.Popen[str], reached: Callable[[], object]) -> None:
    """Wait for a moment of a sweep that has not ended."""
    limit = time.monotonic() + 120
    while not reached():
        assert sweep.poll() is None, sweep.communicate()
        assert time.monotonic() < limit
        time.sleep(0.005)


def running(folder: Path) -> list[Run]:
    """The runs below a folder that have played rounds and have not ended."""
    found = [run for run in map(Run.read, find_runs(folder)) if run is not None]
    return [run for run in found if run.state == "running" and (run.path / "checkpoint.pt").exists()]


@pytest.mark.slow
def test_jobs_of_a_killed_batch_go_on_from_their_checkpoints(tmp_path: Path):
    """Jobs of a killed batch go on alone from their checkpoints."""
    calm, troubled = tmp_path / "calm", tmp_path / "troubled"
    words = [*BATCH, "checkpoint_rounds=2000"]
    assert "6 done" in started(calm, *words, "launcher.batch=1").communicate()[0]
    sweep = started(troubled, *words)
    until(sweep, lambda: len(running(troubled)) == 6)
    pids = {run.manifest["pid"] for run in running(troubled)}
    assert len(pids) == 1, "one process plays all"
    os.kill(pids.pop(), signal.SIGKILL)
    out, errors = sweep.communicate()
    assert sweep.returncode == 0, errors
    assert "6 done" in out
    assert errors.count("killed (signal 9): by another process, or because memory ran out; again alone") == 6
    for path in find_runs(troubled):
        run = Run.read_finished(path)
        (other,) = calm.glob(f"*/{path.name}")
        assert run.manifest["sittings"] == 2
        assert run.manifest["ran"][0]["after"] == 0
        tables = [name for name in run.files if name.endswith(".parquet")]
        assert len(tables) == 2
        assert all((path / name).read_bytes() == (other / name).read_bytes() for name in tables)


@pytest.mark.slow
def test_a_stopped_batch_keeps_the_rounds_of_all_its_jobs(tmp_path: Path):
    folder = tmp_path / "outputs"
    sweep = started(folder, *BATCH, "checkpoint_rounds=2000")
    until(sweep, lambda: len(running(folder)) == 6)
    sweep.send_signal(signal.SIGINT)
    out, errors = sweep.communicate(timeout=120)
    assert sweep.returncode == 130, errors
    assert "6 interrupted" in out
    runs = [run for run in map(Run.read, find_runs(folder)) if run is not None]
    assert [run.state for run in runs] == ["interrupted"] * 6
    assert all(0 < run.round < 30000 for run in runs)
    assert "6 done" in started(folder, *BATCH, "checkpoint_rounds=2000").communicate()[0]


@pytest.mark.slow
def test_a_batch_has_the_exit_codes_of_its_jobs(tmp_path: Path):
    """A batch in which one job fails has the exit codes of its jobs.

    Also with retries, which are alone, and for the same command after a failure.
    """
    words = ["ranker=pdgd", "launcher.jobs=1", "launcher.batch=3", "launcher.retries=1"]
    sweep = started(tmp_path / "outputs", *words, "ranker.learning_rate=0.1,1e300,0.2")
    out, errors = sweep.communicate()
    assert sweep.returncode == 3
    assert "2 done, 1 failed" in out
    assert "ranker.learning_rate must be smaller, got 1e+300" in errors
    assert "again (1 of 1)" in errors
    again = started(tmp_path / "outputs", *words, "ranker.learning_rate=0.1,0.3,0.2")
    assert "1 done, 2 finished before" in again.communicate()[0]
