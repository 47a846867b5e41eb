"""What happens on the node when Slurm, or the sweep, sends signals: the run hears of the first one, once."""

from __future__ import annotations

import dataclasses
import os
import pickle
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
# Like a run: asked to stop it takes a moment to write its checkpoint, and asked again it gives that up.
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
# As submitit's process does it; the file is the result.
NODE = "import pickle, sys; task = pickle.load(open(sys.argv[1], 'rb')); pickle.dump(task(), open(sys.argv[2], 'wb'))"


class Node:
    """A job on its way; `result` is what the sweep will find, None where nothing was left."""

    def __init__(self, job: Job, folder: Path, again: int = 2, **environment: str):
        self.job, self.left = job, folder / "result"
        (folder / "task").write_bytes(pickle.dumps(Task(job, cpus=1, minutes=30, again=again, since=0)))
        command = [sys.executable, "-c", NODE, str(folder / "task"), str(self.left)]
        self.process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
        while "begun" not in self.printed and self.process.poll() is None:
            time.sleep(0.01)

    @property
    def printed(self) -> str:
        return self.job.log.read_text() if self.job.log.exists() else ""

    def result(self, *signals: int) -> tuple[int, str] | None:
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.05)
        self.process.wait(30)
        return pickle.loads(self.left.read_bytes()) if self.left.exists() and self.left.stat().st_size else None


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
def test_an_end_by_itself_is_a_result(tmp_path, source, expected):
    assert Node(does(source, tmp_path), tmp_path).result() == expected


def test_a_request_is_heard_where_interrupts_were_ignored_when_it_all_began(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a shell does to what it starts in the background
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


def test_slurm_ends_a_job_and_says_so_twice(tmp_path):
    node = Node(does(RUN, tmp_path), tmp_path)
    assert node.result(signal.SIGCONT, signal.SIGTERM, signal.SIGTERM) is None
    assert node.printed == "begun\nsaved\n"
    assert node.process.returncode == 130


def test_slurm_sends_its_signals_to_every_process_of_a_job(tmp_path):
    job = does(RUN.replace('print("begun"', 'print("begun", os.getpid()'), tmp_path)
    node = Node(job, tmp_path)
    run = int(node.printed.split()[1])
    for number in signal.SIGTERM, signal.SIGUSR2, signal.SIGUSR1:
        os.kill(run, number)
    assert node.result(signal.SIGTERM) is None
    assert node.printed.endswith("saved\n")


def test_the_sweep_stops_a_job_for_good(tmp_path):
    node = Node(does(RUN, tmp_path), tmp_path)
    assert node.result(signal.SIGUSR1, signal.SIGTERM) == (130, "interrupted: what was done is kept")
    assert node.printed.endswith("saved\n")


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({"SLURM_JOB_ID": "7"}, "requeue 7"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}, "requeue 7_2"),
        ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}, "requeue 7"),
    ],
)
def test_before_its_time_is_up_a_job_has_itself_requeued(tmp_path, environment, asked):
    fake = FakeSlurm(tmp_path / "slurm")
    fake.says("scontrol", "")
    node = Node(does(RUN, tmp_path), tmp_path, PATH=fake.path, **environment)
    assert node.result(signal.SIGUSR2) is None
    assert node.printed.endswith("saved\n")
    assert fake.noted("told") == [asked]


@pytest.mark.parametrize(("restarts", "willing"), [("2", True), ("0", False)])
def test_a_job_out_of_time_that_is_not_started_again_has_failed(tmp_path, restarts, willing):
    fake = FakeSlurm(tmp_path / "slurm")
    if willing:
        fake.says("scontrol", "")
    node = Node(does(RUN, tmp_path), tmp_path, PATH=fake.path, SLURM_JOB_ID="7", SLURM_RESTART_COUNT=restarts)
    expected = "out of time: raise launcher.minutes (now 30) or launcher.requeue"
    assert node.result(signal.SIGUSR2) == (1, expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_run_that_has_just_finished_when_it_is_told_is_done(tmp_path, number):
    source = RUN.replace("os._exit(130)", "os._exit(0)")
    assert Node(does(source, tmp_path), tmp_path).result(number) == (0, "")


def test_libraries_get_the_threads_of_the_job(tmp_path):
    job = does("import os; print(os.environ['OMP_NUM_THREADS'], flush=True); os._exit(0)", tmp_path)
    (tmp_path / "task").write_bytes(pickle.dumps(Task(job, cpus=3, minutes=30, again=0, since=0)))
    command = [sys.executable, "-c", NODE, str(tmp_path / "task"), str(tmp_path / "result")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    assert job.log.read_text() == "3\n"


def test_with_force_a_run_begins_afresh_once(tmp_path):
    job = dataclasses.replace(does("", tmp_path), payload=pickle.dumps({"config": {"force": True, "rounds": 9}}))
    task = Task(job, cpus=1, minutes=30, again=0, since=time.time() - 60)
    assert pickle.loads(task.payload())["config"] == {"force": True, "rounds": 9}
    job.directory.mkdir(parents=True)
    (job.directory / "checkpoint.pt").touch()
    assert pickle.loads(task.payload())["config"] == {"force": False, "rounds": 9}
    os.utime(job.directory / "checkpoint.pt", (time.time() - 3600,) * 2)  # of an earlier sweep, to be begun afresh
    assert pickle.loads(task.payload())["config"]["force"]
