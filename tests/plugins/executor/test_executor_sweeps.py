"""Sweeps by executors, of which workers are killed: their files are those of launcher=processes, byte for byte."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ol2r_cli.run import RANKER, SUMMARY
from tests.launcher.jobs import until
from tests.launcher.stumbling import own_configs

ROOT = Path(__file__).parents[3]
UP, DOWN = ROOT / "scripts" / "sge_up.sh", ROOT / "scripts" / "sge_down.sh"
JOBS = 8
RESULTS = ("trace.parquet", "evaluation.parquet", SUMMARY, RANKER)
OWN = """
defaults:
  - executor

executor:
  _target_: tests.plugins.executor.test_executor.pool_of_two
"""
SGE = """
defaults:
  - dask

executor:
  workers: 2
  cluster:
    _target_: dask_jobqueue.SGECluster
    queue: all.q
    cores: 1
    memory: 2GB
    log_directory: {folder}
    local_directory: {folder}
    job_script_prologue: ["export PYTHONPATH={root}"]
"""

pytestmark = pytest.mark.slow


class Sweep:
    """A sweep of eight jobs, slow while the file `stone` lies there."""

    def __init__(self, folder: Path):
        self.folder, self.stone = folder, folder / "stone"
        self.stone.touch()
        self.own = own_configs(folder / "own", self.stone)
        (self.own / "launcher").mkdir()
        (self.own / "launcher" / "pool.yaml").write_text(OWN)
        (self.own / "launcher" / "sge.yaml").write_text(SGE.format(folder=folder, root=ROOT))

    def start(self, output: str, *words: str) -> subprocess.Popen[str]:
        small = ["experiment=smoke", "rounds=60", "evaluate_every=20", "checkpoint_rounds=10", "ranker=slow"]
        every = [*small, f"seed=range(0,{JOBS})", f"output_dir={self.folder / output}", f"--config-dir={self.own}"]
        command = [sys.executable, "-m", "ol2r_cli", "run", "-m", *every, *words]
        pipe, environment = subprocess.PIPE, os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=environment, cwd=self.folder, stdout=pipe, stderr=pipe, text=True)

    def results(self, output: str) -> dict[str, bytes]:
        """The results of the runs, by directory of the run and name."""
        paths = [path for name in RESULTS for path in sorted((self.folder / output).rglob(name))]
        return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in paths}

    def workers(self, output: str) -> list[int]:
        """The processes of workers that say that they have a job."""
        said = [
            path.read_text()
            for path in (self.folder / output / ".sweep").rglob("*")
            if path.name.isdigit() and path.is_file()
        ]
        return [int(found[1]) for text in said if (found := re.search(r" pid (\d+)$", text))]

    def has_begun(self, output: str) -> bool:
        return any((self.folder / output).rglob("checkpoint*"))

    def ends(self, process: subprocess.Popen[str]) -> str:
        """What a sweep has printed that ends with all jobs done."""
        output, errors = process.communicate(timeout=500)
        assert process.returncode == 0, output + errors
        return output + errors

    def expected(self) -> dict[str, bytes]:
        """The results of the same jobs by processes, undisturbed."""
        self.stone.unlink(missing_ok=True)
        self.ends(self.start("processes", "launcher=processes"))
        results = self.results("processes")
        assert len(results) == JOBS * len(RESULTS)
        return results


@pytest.fixture
def sweep(tmp_path) -> Iterator[Sweep]:
    made = Sweep(tmp_path)
    yield made
    made.stone.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("concurrent", ["launcher=pool"]),
        ("distributed", ["launcher=dask", "launcher.executor.workers=2"]),
        ("parsl", ["launcher=parsl"]),
    ],
)
def test_a_sweep_with_a_lost_worker_ends_as_by_processes(package, words, sweep):
    if not find_spec(package):
        pytest.skip(f"needs {package}")
    process = sweep.start("runs", *words)
    until(lambda: sweep.has_begun("runs"), process)
    os.kill(sweep.workers("runs")[0], signal.SIGKILL)
    sweep.stone.unlink()
    sweep.ends(process)
    assert sweep.results("runs") == sweep.expected()
    assert not list((sweep.folder / "runs").rglob(".sweep/*/*/stop"))


@pytest.mark.parametrize(
    "words", [["launcher=pool"], ["launcher=dask", "launcher.executor.workers=2"], ["launcher=parsl"]]
)
def test_a_sweep_that_is_stopped_goes_on_as_if_nothing_was(words, sweep):
    if words[0] != "launcher=pool" and not find_spec(words[0].removeprefix("launcher=").replace("dask", "distributed")):
        pytest.skip(f"needs {words[0]}")
    process = sweep.start("runs", *words)
    until(lambda: sweep.has_begun("runs"), process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, output + errors
    sweep.stone.unlink()
    sweep.ends(sweep.start("runs", *words))
    assert sweep.results("runs") == sweep.expected()


@pytest.fixture
def grid_engine(tmp_path, monkeypatch) -> Iterator[None]:
    """A Grid Engine of this machine."""
    pytest.importorskip("dask_jobqueue")
    started = subprocess.run([UP, tmp_path / "sge"], capture_output=True, text=True, timeout=500)
    if started.returncode == 3:
        pytest.skip(started.stderr.strip().splitlines()[-1])
    assert started.returncode == 0, started.stderr
    for name, value in re.findall(r"^export (\w+)=(.*)$", started.stdout, re.MULTILINE):
        monkeypatch.setenv(name, value)
    yield
    subprocess.run([DOWN, tmp_path / "sge"], timeout=120)


def test_a_sweep_on_a_grid_engine_survives_the_end_of_a_worker(sweep, grid_engine):
    """The scheduler ends the job of a worker, which the cluster replaces."""
    process = sweep.start("runs", "launcher=sge")
    until(lambda: sweep.has_begun("runs"), process)
    jobs = re.findall(r"^\s*(\d+) ", subprocess.run(["qstat"], capture_output=True, text=True).stdout, re.MULTILINE)
    assert len(jobs) == 2
    subprocess.run(["qdel", jobs[0]], check=True)
    sweep.stone.unlink()
    sweep.ends(process)
    assert sweep.results("runs") == sweep.expected()
