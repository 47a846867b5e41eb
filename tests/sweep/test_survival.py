"""Sweeps with failures, in real processes: other jobs finish, and the same command runs what is missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ol2r_cli.run.run import Run, find_runs
from tests.launcher.jobs import until
from tests.launcher.stumbling import own_configs
from tests.program import ROOT, python


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A process that runs `ol2r run -m`."""
    command = [sys.executable, "-m", "ol2r_cli", "run", "-m", "experiment=smoke", f"output_dir={folder}", *words]
    env, pipes = os.environ | {"PYTHONPATH": str(ROOT)}, {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=env, cwd=folder.parent, text=True, **pipes)  # type: ignore[call-overload]


def finished(folder: Path) -> dict[str, int]:
    """Runs with a summary, with the time at which it was written."""
    paths = [path / "summary.json" for path in find_runs(folder)]
    return {path.parent.name: path.stat().st_mtime_ns for path in paths if path.is_file()}


BATCH = ["ranker=pdgd", "seed=range(0,6)", "rounds=30000", "evaluate_every=1000", "launcher.jobs=1", "launcher.batch=6"]


def running(folder: Path, name: str = "*") -> list[Run]:
    """The runs below a folder that are played."""
    found = [Run.read(path) for path in folder.glob(f"*/{name}")]
    return [run for run in found if run is not None and run.state == "running"]


def playing(folder: Path) -> list[Run]:
    """Those that have a checkpoint."""
    return [run for run in running(folder) if (run.path / "checkpoint.pt").exists()]


@pytest.mark.slow
def test_a_sweep_with_failures_ends_like_an_undisturbed_one(tmp_path):
    """Four jobs raise, one is killed by SIGKILL, six have a bad setting; the same command runs the missing five."""
    stone = tmp_path / "stone"
    own = own_configs(tmp_path / "own", stone, "raise")
    words = ["ranker=stumbling,oracle,pairrank", "seed=0,1", "launcher.jobs=2", "rounds=4000", "--config-dir", str(own)]
    calm, troubled = tmp_path / "calm", tmp_path / "troubled"
    undisturbed = started(calm, *words, "click=per,nav")
    assert "12 done" in undisturbed.communicate()[0]
    stone.touch()
    sweep = started(troubled, *words, "click=per,nav,infomational", "--keep-going")
    run, *_ = until(lambda: running(troubled, "pairrank-navigational-*"), sweep)
    os.kill(run.manifest["pid"], signal.SIGKILL)
    out, errors = sweep.communicate()
    assert sweep.returncode == 3, errors
    assert "7 done, 5 failed, 6 bad" in out
    told = "RuntimeError: stumbled over a stone", "killed (signal 9)", "did you mean click=informational?"
    assert [line for line in told if line not in errors] == []
    before = finished(troubled)
    stone.unlink()
    again = started(troubled, *words, "click=per,nav")
    assert "5 done, 7 finished before" in again.communicate()[0]
    assert len(before.items() - finished(troubled).items()) == 0, "what was finished is not run again"
    reports = [python("-m", "ol2r_cli", "report", folder).stdout for folder in (calm, troubled)]
    assert reports[0] == reports[1] != ""


@pytest.mark.slow
def test_jobs_of_a_killed_batch_go_on_from_their_checkpoints(tmp_path):
    """Jobs of a killed batch go on alone from their checkpoints."""
    calm, troubled = tmp_path / "calm", tmp_path / "troubled"
    words = [*BATCH, "checkpoint_rounds=2000"]
    assert "6 done" in started(calm, *words, "launcher.batch=1").communicate()[0]
    sweep = started(troubled, *words)
    until(lambda: len(playing(troubled)) == 6, sweep)
    pids = {run.manifest["pid"] for run in playing(troubled)}
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


ALONE = ["seed=0,1", "rounds=20000", "launcher.jobs=1", "evaluate_every=20000", "launcher.batch=1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "jobs", "number", "ends"),
    [(ALONE, 1, signal.SIGTERM, "1 interrupted, 1 not started"), (BATCH, 6, signal.SIGINT, "6 interrupted")],
    ids=["alone", "batch"],
)
def test_a_stopped_sweep_keeps_what_is_done_and_resumes(tmp_path, words, jobs, number, ends):
    folder = tmp_path / "outputs"
    stopped = started(folder, *words, "checkpoint_rounds=2000")
    until(lambda: len(playing(folder)) == jobs, stopped)
    stopped.send_signal(number)
    out, errors = stopped.communicate(timeout=120)
    assert stopped.returncode == 130, errors
    assert f"{jobs} running jobs keep what they have done" in errors
    assert "the same command goes on from here" in errors
    assert ends in out
    runs = [Run.read(path) for path in find_runs(folder)]
    assert [(run.state, 0 < run.round < run.rounds) for run in runs] == [("interrupted", True)] * jobs
    out, _ = started(folder, *words, "--dry-run").communicate(timeout=120)
    assert f"resumes at round {runs[0].round}" in out
    assert f"{jobs} to resume" in out
    out, errors = started(folder, *words).communicate()
    assert f"{max(jobs, 2)} done" in out, errors
    assert Run.read_finished(runs[0].path).manifest["sittings"] == 2
    assert not (folder / ".sweep").exists()


@pytest.mark.slow
def test_a_batch_has_the_exit_codes_of_its_jobs(tmp_path):
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
