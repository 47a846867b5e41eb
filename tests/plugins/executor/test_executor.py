"""Jobs by executors of other libraries: each ends with its code, also without its worker, and a stop reaches all."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from multiprocessing import get_context, spawn
from pathlib import Path
from typing import Any

import pytest

from ol2r_cli.config.instantiate import build
from ol2r_cli.launcher.job import Job, Outcome, without_program
from ol2r_cli.plugins.executor import executor_task
from ol2r_cli.plugins.executor.executor import Executor
from ol2r_cli.run.store import RunDirectory
from tests.launcher.jobs import does, outcomes, until
from tests.manifests import manifest

ROOT = Path(__file__).parents[3]
# Like a run: asked to stop, it writes a checkpoint. It waits for a file.
RUN = """
import os, sys, time
try:
    print("begun", os.getpid(), flush=True)
    while not os.path.exists({go!r}):
        time.sleep(0.02)
    print("done", flush=True)
    os._exit(0)
except KeyboardInterrupt:
    print("saved", flush=True)
    os._exit(130)
"""
SAVED = Outcome(130, "interrupted: what was done is kept")
THREADS = {"_target_": "concurrent.futures.ThreadPoolExecutor", "max_workers": 2}
DASK = "ol2r_cli.plugins.executor.dask_executor.dask_executor"
PROCESSES = {"_target_": "tests.plugins.executor.test_executor.pool_of_two"}


def pool_of_two() -> concurrent.futures.Executor:
    """A pool of two processes, both of which have started: it does not watch one that starts while it waits."""
    pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    pids: set[int] = set()
    while len(pids) < 2:
        pids |= set(pool.map(_pid, range(2)))
    return pool


class NotCancelled(concurrent.futures.Future):
    """A future of Parsl, which has no way to cancel."""

    def cancel(self) -> bool:
        raise NotImplementedError


class WithoutCancel(concurrent.futures.ThreadPoolExecutor):
    """Threads whose jobs cannot be cancelled."""

    def submit(self, function, /, *arguments):
        future, ended = super().submit(function, *arguments), NotCancelled()
        future.add_done_callback(lambda done: ended.set_result(done.result()))
        return ended


class Lost(concurrent.futures.ThreadPoolExecutor):
    """Threads of which each ends before its job."""

    def submit(self, function, /, *arguments):
        def end() -> None:
            raise concurrent.futures.BrokenExecutor("a worker has ended")

        return super().submit(end)


def _pid(_: int) -> int:
    time.sleep(0.1)
    return os.getpid()


@pytest.fixture
def launched(tmp_path, monkeypatch) -> Iterator[Callable[..., Executor]]:
    """A function that makes launchers, which are closed at the end of the test."""
    monkeypatch.setattr(executor_task, "_LOOK", 0.05)
    launchers: list[Executor] = []

    def make(executor: dict[str, Any], **settings: Any) -> Executor:
        every = {"queued": None, "threads": 3, "folder": str(tmp_path / "seen"), "retries": 0, "fail_fast": False}
        target = {"_target_": "ol2r_cli.plugins.executor.executor.Executor"}
        launchers.append(build({**target, **every, "executor": executor, **settings}, "launcher"))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()


def begun(job: Job) -> int:
    """The process of a job, as soon as it has begun."""
    return int(until(lambda: job.log.is_file() and re.findall(r"begun (\d+)\n", job.log.read_text()))[-1])


def until_saved(job: Job) -> None:
    """Wait until a job has written its checkpoint."""
    until(lambda: "saved" in job.log.read_text())


def waits(folder: Path, number: int = 0) -> Job:
    """A job that waits for the file `go` in the folder."""
    return does(RUN.format(go=str(folder / "go")), folder, number)


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("import os; os._exit(0)", 0, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "killed (signal 9)"),
        ("raise MemoryError('no room for 3 GB')", 1, "MemoryError: no room for 3 GB"),
    ],
)
def test_each_job_ends_with_its_code_and_reason(tmp_path, launched, text, code, reason):
    launcher = launched(THREADS)
    launcher.submit([does(text, tmp_path)])
    ended = outcomes(launcher, 1)[0]
    assert (ended.code, ended.reason[: len(reason) or None]) == (code, reason)


def test_a_job_has_its_threads_and_says_where_it_runs(tmp_path, launched):
    launcher = launched(THREADS)
    job = does("import os; print('begun', os.environ['OMP_NUM_THREADS'], flush=True); os._exit(0)", tmp_path)
    launcher.submit([job])
    assert outcomes(launcher, 1) == {0: Outcome(0)}
    assert begun(job) == 3
    assert launcher.location(job).endswith(f" pid {os.getpid()}"), "the worker is a thread of this process"


def test_queued_is_how_many_jobs_the_executor_has(tmp_path, launched):
    launcher = launched(THREADS, queued=3)
    launcher.submit([waits(tmp_path, number) for number in range(3)])
    assert launcher.free_slots() == 0
    (tmp_path / "go").touch()
    outcomes(launcher, 3)
    assert launcher.free_slots() == 3
    assert launched(THREADS).free_slots() > 1_000_000


def test_a_stop_reaches_what_runs_and_cancels_what_waits(tmp_path, launched):
    launcher = launched(THREADS)
    jobs = [waits(tmp_path, number) for number in range(5)]
    launcher.submit(jobs)
    for job in jobs[:2]:
        begun(job)
    launcher.stop()
    assert outcomes(launcher, 5) == dict.fromkeys(range(5), SAVED)
    assert [job.log.exists() for job in jobs] == [True, True, False, False, False]
    assert all("saved" in job.log.read_text() for job in jobs[:2])


def test_what_cannot_be_cancelled_is_stopped_all_the_same(tmp_path, launched):
    """Such a job ends when it starts."""
    launcher = launched({"_target_": f"{__name__}.WithoutCancel", "max_workers": 1})
    jobs = [waits(tmp_path, number) for number in range(2)]
    launcher.submit(jobs)
    begun(jobs[0])
    launcher.stop()
    assert outcomes(launcher, 2) == {0: SAVED, 1: SAVED}


def test_jobs_end_when_the_launcher_is_closed(tmp_path, launched):
    launcher = launched(PROCESSES)
    job = waits(tmp_path)
    launcher.submit([job])
    begun(job)
    launcher.close()
    until_saved(job)
    assert not (tmp_path / "seen").exists()


def test_jobs_of_a_lost_worker_are_saved_and_run_again(tmp_path, launched):
    """A pool of processes ends with a worker that is killed; the next job gets another pool."""
    launcher = launched(PROCESSES)
    jobs = [waits(tmp_path, number) for number in range(2)]
    launcher.submit(jobs)
    for job in jobs:
        begun(job)
    worker = int(launcher.location(jobs[0]).rpartition(" ")[2])
    os.kill(worker, signal.SIGKILL)
    lost = outcomes(launcher, 2)
    assert {outcome.code for outcome in lost.values()} == {1}
    assert all(outcome.reason.startswith("its worker was lost: BrokenProcessPool") for outcome in lost.values())
    for job in jobs:
        until_saved(job)
    (tmp_path / "go").touch()
    launcher.submit(jobs)
    assert outcomes(launcher, 2) == {0: Outcome(0), 1: Outcome(0)}
    assert [re.findall("saved|done", job.log.read_text()) for job in jobs] == [["saved", "done"]] * 2


def test_dask_calls_again_where_a_worker_is_lost(tmp_path, launched):
    pytest.importorskip("distributed")
    launcher = launched({"_target_": DASK, "address": None, "cluster": None, "workers": 2})
    jobs = [waits(tmp_path, number) for number in range(3)]
    launcher.submit(jobs)
    begun(jobs[0])
    os.kill(int(launcher.location(jobs[0]).rpartition(" ")[2]), signal.SIGKILL)
    until_saved(jobs[0])
    (tmp_path / "go").touch()
    assert outcomes(launcher, 3) == dict.fromkeys(range(3), Outcome(0))
    assert re.findall("saved|done", jobs[0].log.read_text()) == ["saved", "done"]


def test_dask_takes_an_address_or_a_cluster():
    pytest.importorskip("distributed")
    from ol2r_cli.plugins.executor.dask_executor import dask_executor

    with pytest.raises(ValueError, match=r"^launcher\.executor needs an address or a cluster, got both$"):
        dask_executor("tcp://127.0.0.1:1", object(), None)


@pytest.mark.parametrize(("executor", "target"), [({}, "None"), ({"_target_": "nowhere.Executor"}, "nowhere")])
def test_an_executor_that_cannot_be_imported_is_refused(executor, target, launched):
    must = "launcher.executor._target_ must be a class or function that can be imported"
    with pytest.raises(ValueError, match=f"^{must}, got {target}"):
        launched(executor)


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ("dask_jobqueue.PBSCluster", "launcher.executor.cluster is dask_jobqueue.PBSCluster, which needs qsub: type"),
        ("dask_jobqueue.SGECluster", "which needs qsub: type the command on a login node"),
        ("dask_jobqueue.LSFCluster", "which needs bsub"),
        ("dask_jobqueue.SLURMCluster", "which needs sbatch"),
        ("dask_jobqueue.HTCondorCluster", "which needs condor_submit"),
        ("parsl.providers.PBSProProvider", "which needs qsub"),
        ("parsl.providers.SlurmProvider", "which needs sbatch"),
        (
            "dask_jobqueue.Nowhere",
            "launcher.executor.cluster._target_ must be a class or function that can be imported",
        ),
    ],
)
def test_what_can_never_begin_is_said_beforehand(cluster, reason, launched, tmp_path, monkeypatch):
    pytest.importorskip(cluster.partition(".")[0])
    pytest.importorskip("distributed")
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = launched({"_target_": DASK, "cluster": {"_target_": cluster}})
    assert reason in launcher.refusal()
    assert "\n" not in launcher.refusal()
    if command := re.search(r"which needs (\w+)", reason):
        (tmp_path / command[1]).touch(0o755)
        assert launcher.refusal() == ""
    assert launched(THREADS).refusal() == ""


@pytest.mark.parametrize("package", ["distributed", "dask_jobqueue", "parsl"])
def test_a_missing_package_says_what_to_install(package, launched, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "ol2r_cli.plugins.executor.dask_executor", raising=False)
    named = {"distributed": DASK}.get(package, f"{package}.Cluster")
    extra = "parsl" if package == "parsl" else "dask"
    with pytest.raises(ValueError, match=rf"type pip install 'ol2r\[{extra}\]'$"):
        raise ValueError(launched({**THREADS, "cluster": [{"_target_": named}]}).refusal())


def test_where_no_scheduler_listens_it_is_said_at_once(launched, tmp_path):
    pytest.importorskip("distributed")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        launcher = launched({"_target_": DASK, "address": address, "cluster": None, "workers": None})
        with pytest.raises(ValueError, match=rf"no scheduler at {address} \(.*\): start `dask scheduler`$"):
            launcher.submit([waits(tmp_path)])


def test_processes_do_not_execute_the_program_of_the_sweep(monkeypatch):
    """A script without `if __name__ == "__main__"` would start its sweep once more in every worker."""
    main = types.ModuleType("__main__")
    main.__file__ = "script.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    before = spawn.get_preparation_data("worker")
    assert "init_main_from_path" in before
    with without_program():
        prepared = spawn.get_preparation_data("worker")
    assert prepared.keys() == before.keys() - {"init_main_from_path"}
    assert spawn.get_preparation_data("worker") == before


@pytest.mark.slow
@pytest.mark.parametrize("words", ["launcher=dask launcher.executor.workers=2", "launcher=parsl", "launcher=executor"])
def test_a_script_without_a_main_guard_is_executed_once(words, tmp_path):
    launchers = [*words.split()]
    if launchers == ["launcher=executor"]:
        launchers.append("launcher.executor={_target_: tests.plugins.executor.test_executor.pool_of_two}")
    (tmp_path / "script.py").write_text(
        "from ol2r_cli import api\n"
        "print('a script', flush=True)\n"
        f"jobs = [['experiment=smoke', 'rounds=3', f'seed={{seed}}'] for seed in range(2)]\n"
        f"print(len(api.sweep(jobs, 'output_dir={tmp_path}/runs', launcher={launchers!r})), 'runs')\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a script\n2 runs\n"


@pytest.mark.parametrize(
    ("more", "cause"),
    [({"max_workers": -1}, "ValueError: max_workers must be"), ({"workers": 3}, "TypeError: ")],
)
def test_an_executor_that_cannot_be_made_says_why(more, cause, tmp_path, launched):
    launcher = launched({"_target_": "concurrent.futures.ThreadPoolExecutor", **more})
    with pytest.raises(ValueError, match=rf"^launcher\.executor must take the jobs, got {cause}[^\n]*$"):
        launcher.submit([waits(tmp_path)])


@pytest.mark.parametrize(("begun", "code"), [(True, 0), (False, 1)])
def test_a_run_is_done_that_has_finished_before_its_worker(begun, code, tmp_path, launched):
    """That of an earlier sweep, which is to be played again, does not count."""
    launcher = launched({"_target_": f"{__name__}.Lost"})
    RunDirectory(tmp_path / "runs" / "0").write_json("run.json", manifest("finished"))
    job = waits(tmp_path)
    launcher.submit([dataclasses.replace(job, before=None) if begun else job])
    assert outcomes(launcher, 1)[0].code == code
