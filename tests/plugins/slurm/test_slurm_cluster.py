"""Sweeps on a real Slurm, that of scripts/slurm_up.sh: `make test-slurm`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.instantiate import build
from tests.launcher.jobs import does, outcomes, until
from tests.launcher.stumbling import own_configs

ROOT = Path(__file__).parents[3]


def _runs() -> bool:
    """Whether it is that very Slurm: nobody's cluster is for testing."""
    try:
        shown = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return any(line.split() == ["ClusterName", "=", "ol2r"] for line in shown.splitlines())


pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(not _runs(), reason="scripts/slurm_up.sh has not started a Slurm (make test-slurm)"),
]


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "ol2r_cli", "run", *words, f"output_dir={folder}", "experiment=smoke"]


def start(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """A sweep on Slurm that has been started."""
    slurm = ("-m", "launcher=slurm", "launcher.poll=1", "launcher.memory_gb=null")
    pipe, given = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    line = command(folder, *slurm, *words)
    return subprocess.Popen(line, cwd=folder.parent, env=given, stdout=pipe, stderr=pipe, text=True)


def sweep(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Exit code of a sweep on Slurm, and all that it has printed."""
    output, errors = (process := start(folder, *words, **environment)).communicate(timeout=400)
    return process.returncode, output + errors


def alone(folder: Path, *words: str) -> None:
    """The same without Slurm, undisturbed."""
    given = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command(folder, *words), cwd=folder.parent, env=given, check=True, capture_output=True, timeout=300)


def manifests(folder: Path) -> dict[str, dict]:
    """What each run below `folder` says of itself, by its directory."""
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("synthetic/*/run.json")}


def queued() -> list[str]:
    """The states of all jobs of ol2r that have not ended."""
    return subprocess.run(["squeue", "-h", "--name=ol2r", "-o", "%T"], capture_output=True, text=True).stdout.split()


@pytest.fixture
def stone(tmp_path) -> Iterator[Path]:
    """While it lies there, runs stumble over it."""
    path = tmp_path / "stone"
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def test_a_sweep_goes_on_with_what_its_dead_left(tmp_path, stone):
    """A sweep survives its dead and goes on with what is missing."""
    own = own_configs(tmp_path / "own", stone)
    words = [f"--config-dir={own}", "ranker=stumbling", "ranker.how=none,raise,kill", "seed=0,1"]
    code, said = sweep(tmp_path / "runs", *words, "rounds=20")
    assert code == 3, said
    assert said.count("RuntimeError: stumbled over a stone") >= 2
    assert "killed (signal 9)" in said
    states = [manifest["status"] for manifest in manifests(tmp_path / "runs").values()]
    assert sorted(states) == ["failed", "failed", "finished", "finished", "running", "running"]

    runs = manifests(tmp_path / "runs")
    finished = {name: manifest for name, manifest in runs.items() if manifest["status"] == "finished"}
    stone.unlink()
    code, said = sweep(tmp_path / "runs", *words, "rounds=20")
    assert code == 0, said
    after = manifests(tmp_path / "runs")
    assert {manifest["status"] for manifest in after.values()} == {"finished"}
    assert {name: after[name] for name in finished} == finished  # untouched
    assert "2 finished before" in said
    assert not (tmp_path / "runs" / ".sweep").exists()


@pytest.mark.slow
def test_a_pre_empted_job_gives_the_undisturbed_trace(tmp_path, stone):
    """A job that is pre-empted and then out of time gives the undisturbed trace."""
    own, folder = own_configs(tmp_path / "own", stone), tmp_path / "runs"
    words = [f"--config-dir={own}", "ranker=slow", "rounds=1500", "evaluate_every=250", "checkpoint_every=500"]
    process = start(folder, *words)

    def reached(sitting: int) -> bool:
        (manifest,) = list(manifests(folder).values()) or [{"sittings": 0}]
        return manifest["sittings"] == sitting and manifest["status"] == "running" and "RUNNING" in queued()

    until(lambda: reached(1), process)
    urgent = ["sbatch", "--partition=urgent", "--exclusive", f"--output={os.devnull}", "--wrap=sleep 1"]
    subprocess.run(urgent, check=True, capture_output=True)
    until(lambda: reached(2), process)
    # What Slurm sends `launcher.notice` seconds before the time limit; scancel itself would go on trying for minutes.
    limit = subprocess.Popen(["scancel", "--signal=USR2", "--name=ol2r", "--state=RUNNING"])
    until(lambda: reached(3), process)
    stone.unlink()
    output, errors = process.communicate(timeout=300)
    limit.kill()
    limit.wait()
    assert process.returncode == 0, output + errors
    (manifest,) = manifests(folder).values()
    assert manifest["sittings"] == 3
    alone(tmp_path / "alone", *words)
    for table in "trace.parquet", "evaluation.parquet":
        (here,), (there,) = (sorted(place.glob(f"synthetic/*/{table}")) for place in (folder, tmp_path / "alone"))
        assert here.parent.name == there.parent.name
        assert pl.read_parquet(here).equals(pl.read_parquet(there))


def test_stopping_the_sweep_keeps_what_was_done(tmp_path):
    words, folder = ("rounds=100000", "seed=0,1,2"), tmp_path / "runs"
    process = start(folder, *words)
    until(lambda: manifests(folder), process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 130, output + errors
    stopped = manifests(folder)
    assert {manifest["status"] for manifest in stopped.values()} == {"interrupted"}
    assert len(list(folder.glob("synthetic/*/checkpoint.pt"))) == len(stopped)
    until(lambda: not queued())


def test_a_job_that_vanishes_is_missed(tmp_path, monkeypatch):
    """Not even its own supervisor is left to say what happened."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    choice = dict(Catalogue().choices["launcher"]["slurm"].content)
    slurm = build({**choice, "cpus": 1, "poll": 1, "memory_gb": None, "folder": str(tmp_path / "files"), "array": 2})
    done, killed = "import os; os._exit(0)", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    sources = {0: done, 1: killed, 2: done}  # in two arrays
    slurm.submit([does(source, tmp_path, number) for number, source in sources.items()])
    ended = outcomes(slurm, 3)
    slurm.close()
    assert {number: outcome.code for number, outcome in ended.items()} == {0: 0, 1: -9, 2: 0}
