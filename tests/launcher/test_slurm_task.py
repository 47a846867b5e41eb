"""A job on its node: the run receives the first signal of Slurm or of the sweep, and only that one."""

from __future__ import annotations

import dataclasses
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
from ol2r_cli.launcher.slurm_task import Task
from tests.launcher.fake_slurm import FakeSlurm
from tests.launcher.jobs import does

ROOT = Path(__file__).parents[2]
# Like a run: after a first request to stop it writes a checkpoint for a moment, and a second one interrupts that.
RUN = """
import os, sys, time
try:
    print("begun", flush=True)
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


class Node:
    """A job that has started; `result` is what the sweep will read, None without a result."""

    def __init__(self, job: Job, folder: Path, requeue: int = 2, **environment: str):
        self.job, self.file = job, folder / "result"
        (folder / "task").write_bytes(pickle.dumps(Task(job, cpus=1, minutes=30, requeue=requeue, since=0)))
        command = [sys.executable, "-c", NODE, str(folder / "task"), str(self.file)]
        self.process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
        while not re.search("begun.*\n", self.printed) and self.process.poll() is None:  # the whole line
            time.sleep(0.01)

    @property
    def printed(self) -> str:
        return self.job.log.read_text() if self.job.log.exists() else ""

    def result(self, *signals: int) -> tuple[int, str] | None:
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.05)
        self.process.wait(30)
        return pickle.loads(self.file.read_bytes()) if self.file.exists() and self.file.stat().st_size else None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os; os._exit(0)", (0, "")),
        (
            "import os; print('ol2r run: rounds must be 1 or more', flush=True); os._exit(2)",
            (2, "rounds must be 1 or more"),
        ),
        ("raise OSError('disk full')", (1, "OSError: disk full")),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", (-11, "killed (signal 11, SIGSEGV)")),
    ],
)
def test_a_job_that_ends_by_itself_leaves_a_result(tmp_path, source, expected):
    assert Node(does(source, tmp_path), tmp_path).result() == expected


def test_a_run_imports_nothing_of_the_working_directory(tmp_path):
    (tmp_path / "random.py").write_text("print('foreign', flush=True)")
    job = does("import os, sys; print(sys.path[0], flush=True); os._exit(0)", tmp_path)
    (tmp_path / "task").write_bytes(pickle.dumps(Task(job, cpus=1, minutes=30, requeue=0, since=0)))
    command = [sys.executable, "-P", "-c", NODE, str(tmp_path / "task"), str(tmp_path / "result")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)
    assert job.log.read_text() == f"{ROOT}\n"


def test_a_run_is_interrupted_although_its_parent_ignores_sigint(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        node = Node(does(RUN, tmp_path), tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert node.result(signal.SIGUSR1) == (130, "interrupted: what was done is kept")
    assert "saved" in node.printed


def test_a_run_that_is_killed_leaves_a_result(tmp_path):
    job = does("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    code, reason = Node(job, tmp_path).result()
    assert code == -9
    assert reason.startswith("killed (signal 9)")


def test_a_second_signal_of_slurm_does_not_reach_the_run(tmp_path):
    node = Node(does(RUN, tmp_path), tmp_path)
    assert node.result(signal.SIGCONT, signal.SIGTERM, signal.SIGTERM) is None
    assert node.printed == "begun\nsaved\n"
    assert node.process.returncode == 130


def test_signals_of_slurm_to_every_process_of_a_job_do_not_reach_the_run(tmp_path):
    job = does(RUN.replace('print("begun"', 'print("begun", os.getpid()'), tmp_path)
    node = Node(job, tmp_path)
    run = int(node.printed.split()[1])
    for number in signal.SIGTERM, signal.SIGUSR2, signal.SIGUSR1:
        os.kill(run, number)
    assert node.result(signal.SIGTERM) is None
    assert node.printed.endswith("saved\n")


def test_a_job_that_the_sweep_stops_is_not_requeued(tmp_path):
    node = Node(does(RUN, tmp_path), tmp_path)
    assert node.result(signal.SIGUSR1, signal.SIGTERM) == (130, "interrupted: what was done is kept")
    assert node.printed.endswith("saved\n")


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"SLURM_JOB_ID": "7"}, "requeue 7"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}, "requeue 7_2"),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, "requeue 7"),
    ],
)
def test_a_job_requeues_itself_before_its_time_is_up(tmp_path, environment, command):
    fake = FakeSlurm(tmp_path / "slurm")
    fake.says("scontrol", "")
    node = Node(does(RUN, tmp_path), tmp_path, PATH=fake.path, **environment)
    assert node.result(signal.SIGUSR2) is None
    assert node.printed.endswith("saved\n")
    assert fake.noted("told") == [command]


@pytest.mark.parametrize(("restarts", "slurm_agrees"), [("2", True), ("0", False)])
def test_a_job_out_of_time_that_is_not_requeued_has_failed(tmp_path, restarts, slurm_agrees):
    fake = FakeSlurm(tmp_path / "slurm")
    if slurm_agrees:
        fake.says("scontrol", "")
    node = Node(does(RUN, tmp_path), tmp_path, PATH=fake.path, SLURM_JOB_ID="7", SLURM_RESTART_COUNT=restarts)
    expected = "out of time: raise launcher.minutes (now 30) or launcher.requeue"
    assert node.result(signal.SIGUSR2) == (1, expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_run_that_finishes_after_the_signal_is_done(tmp_path, number):
    source = RUN.replace("os._exit(130)", "os._exit(0)")
    assert Node(does(source, tmp_path), tmp_path).result(number) == (0, "")


def test_libraries_have_the_threads_of_the_job(tmp_path):
    job = does("import os; print(os.environ['OMP_NUM_THREADS'], flush=True); os._exit(0)", tmp_path)
    (tmp_path / "task").write_bytes(pickle.dumps(Task(job, cpus=3, minutes=30, requeue=0, since=0)))
    command = [sys.executable, "-c", NODE, str(tmp_path / "task"), str(tmp_path / "result")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    assert job.log.read_text() == "3\n"


def test_a_requeued_run_resumes_also_with_force(tmp_path):
    job = dataclasses.replace(does("", tmp_path), payload=pickle.dumps({"config": {"force": True, "rounds": 9}}))
    task = Task(job, cpus=1, minutes=30, requeue=0, since=time.time() - 60)
    assert pickle.loads(task.payload())["config"] == {"force": True, "rounds": 9}
    job.directory.mkdir(parents=True)
    (job.directory / "checkpoint.pt").touch()
    assert pickle.loads(task.payload())["config"] == {"force": False, "rounds": 9}
    os.utime(job.directory / "checkpoint.pt", (time.time() - 3600,) * 2)  # of an earlier sweep
    assert pickle.loads(task.payload())["config"]["force"]
