"""A job on its node: the run receives the first signal of Slurm or of the sweep, and only that one."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ol2r_cli.launcher.job import Job
from ol2r_cli.plugins.slurm.slurm_task import Task
from tests.launcher.jobs import does, until
from tests.plugins.slurm.fake_slurm import FakeSlurm

ROOT = Path(__file__).parents[3]
# Like a run: after a first request to stop it writes a checkpoint for a moment, and a second one interrupts that.
RUN = """
import os, sys, time
try:
    print("begun", os.getpid(), flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    try:
        time.sleep(0.5)
    except KeyboardInterrupt:
        os._exit(99)
    print("saved", flush=True)
    os._exit(130)
"""
# What the process of submitit does; the file is the result.
NODE = "import pickle, sys; task = pickle.load(open(sys.argv[1], 'rb')); pickle.dump(task(), open(sys.argv[2], 'wb'))"
SAVED = (130, "interrupted: what was done is kept")


class Node:
    """A job that has started; `result` is what the sweep will read, None without a result."""

    def __init__(self, job: Job, folder: Path, requeue: int = 2, **environment: str):
        self.job, self.file = job, folder / "result"
        (folder / "task").write_bytes(pickle.dumps(Task(job, cpus=3, minutes=30, requeue=requeue)))
        command = [sys.executable, "-P", "-c", NODE, str(folder / "task"), str(self.file)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self.process = subprocess.Popen(command, cwd=folder, env=environment)
        until(lambda: re.search("begun.*\n", self.printed) or self.process.poll() is not None)  # the whole line

    @property
    def printed(self) -> str:
        return self.job.log.read_text() if self.job.log.exists() else ""

    def result(self, *signals: int) -> tuple[int, str] | None:
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.05)
        self.process.wait(30)
        return pickle.loads(self.file.read_bytes()) if self.file.exists() and self.file.stat().st_size else None


ALONE = "import os, sys; print(sys.path[0], os.environ['OMP_NUM_THREADS'], flush=True); os._exit(0)"


@pytest.mark.parametrize(
    ("source", "result", "printed"),
    [
        (ALONE, (0, ""), f"{ROOT} 3\n"),
        ("raise OSError('disk full')", (1, "OSError: disk full"), ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", (-11, "killed (signal 11, SIGSEGV)"), ""),
    ],
    ids=["done", "failed", "killed"],
)
def test_a_job_that_ends_by_itself_leaves_a_result(tmp_path, source, result, printed):
    """Its run has the threads of the job, and imports nothing of the working directory."""
    (tmp_path / "random.py").write_text("print('foreign', flush=True)")
    node = Node(does(source, tmp_path), tmp_path)
    assert node.result() == result
    assert node.printed.startswith(printed)


def test_a_run_is_interrupted_although_its_parent_ignores_sigint(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        node = Node(does(RUN, tmp_path), tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert node.result(signal.SIGUSR1, signal.SIGTERM) == SAVED, "the sweep has stopped it: it is not requeued"
    assert "saved" in node.printed


def test_only_the_first_signal_of_slurm_reaches_the_run(tmp_path):
    """Also where Slurm sends signals to every process of a job."""
    node = Node(does(RUN, tmp_path), tmp_path)
    run = int(node.printed.split()[1])
    for number in signal.SIGTERM, signal.SIGUSR2, signal.SIGUSR1:
        os.kill(run, number)
    assert node.result(signal.SIGCONT, signal.SIGTERM, signal.SIGTERM) is None
    assert node.printed.endswith("saved\n")
    assert node.process.returncode == 130


@pytest.mark.parametrize(
    ("environment", "refuses", "command"),
    [
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}, False, "requeue 7_2"),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, False, "requeue 7"),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}, False, None),
        ({"SLURM_JOB_ID": "7"}, True, "requeue 7"),
    ],
)
def test_a_job_requeues_itself_before_its_time_is_up(tmp_path, environment, refuses, command):
    """A job requeues itself before its time is up or has failed."""
    fake = FakeSlurm(tmp_path / "slurm")
    if refuses:
        fake.refuses("")
    node = Node(does(RUN, tmp_path), tmp_path, PATH=fake.path, **environment)
    failed = (1, "out of time: raise launcher.minutes (now 30) or launcher.requeue")
    assert node.result(signal.SIGUSR2) == (None if command and not refuses else failed)
    assert node.printed.endswith("saved\n")
    assert fake.noted("told") == ([command] if command else [])


def test_a_run_that_finishes_after_the_signal_is_done(tmp_path):
    source = RUN.replace("os._exit(130)", "os._exit(0)")
    assert Node(does(source, tmp_path), tmp_path).result(signal.SIGUSR2) == (0, "")
