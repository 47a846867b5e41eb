"""Jobs in processes: each ends by itself with a reason, has its settings, and ends with the sweep."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver
from pathlib import Path

import pytest

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.launcher.job import Outcome, payload, run_payload
from ol2r_cli.launcher.processes import Processes
from ol2r_cli.plugins import run_kinds
from ol2r_cli.run import runner
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Plan
from tests.launcher.jobs import does, payload_of
from tests.manifests import manifest

ROOT = Path(__file__).parents[2]


def processes(**settings: object) -> Processes:
    every = {"jobs": 2, "threads": 1, "gpus": [], "per_gpu": 1, "timeout": None, "retries": 0, "fail_fast": False}
    every |= {"batch": "auto", "fresh": False}
    return build({"_target_": "ol2r_cli.launcher.processes.Processes", **every, **settings})


@pytest.fixture
def launched():
    """A function that makes launchers, which are closed at the end of the test."""
    launchers: list[Processes] = []

    def make(**settings: object) -> Processes:
        launchers.append(processes(**settings))
        return launchers[-1]

    yield make
    for launcher in launchers:
        launcher.close()


def outcomes(launcher: Processes, count: int) -> dict[int, Outcome]:
    """The outcomes of the next `count` jobs that end, by number."""
    outcomes: dict[int, Outcome] = {}
    until = time.monotonic() + 120
    while len(outcomes) < count:
        assert time.monotonic() < until
        outcomes |= {job.number: outcome for job, outcome in launcher.poll(1.0)}
    return outcomes


def seen(path: Path, what: Callable[[str], object] = bool) -> str:
    """The content of a file as soon as it is as expected."""
    until = time.monotonic() + 60
    while not (path.is_file() and what(path.read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


def test_each_job_ends_by_itself_with_a_reason(tmp_path: Path, launched):
    """Also where the program has started the fork server before, whose output is buffered."""
    forkserver.ensure_running()
    texts = [
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "print('before'); raise MemoryError('no room for 3 GB')",
        "import os; os.write(2, b'ol2r run: rounds must be more\\n'); os._exit(2)",
        "import os; os._exit(7)",
        "import os; os.write(1, b'the traceback is in log.txt'); os._exit(1)",
    ]
    failed = manifest("failed", error="RuntimeError: a slip")
    RunDirectory(tmp_path / "runs" / "6").write_json("run.json", failed)
    launcher = launched(jobs=7)
    launcher.submit([does(text, tmp_path, number) for number, text in enumerate(texts)])
    assert launcher.free_slots() == 0
    ended = outcomes(launcher, 7)
    assert launcher.free_slots() == 7
    assert [ended[number].code for number in range(7)] == [0, -9, -11, 1, 2, 7, 1]
    assert ended[0].reason == ""
    assert ended[1].reason.startswith("killed (signal 9): ")
    assert ended[2].reason == "killed (signal 11, SIGSEGV)"
    assert ended[3].reason == "MemoryError: no room for 3 GB"
    assert ended[4].reason == "rounds must be more"
    assert "exit code 7" in ended[5].reason
    assert ended[6].reason == "RuntimeError: a slip", "that of the manifest"
    assert (tmp_path / ".sweep" / "one" / "3.log").read_text().count("before\n") == 1


def test_a_job_has_its_gpu_its_threads_and_the_environment(tmp_path: Path, launched, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OL2R_HERE", "yes")
    text = (
        "import os, torch, time\n"
        "names = 'CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS', 'OL2R_HERE', 'PYTHONPATH'\n"
        "values = [os.environ.get(name, '-') for name in names]\n"
        "os.write(1, ' '.join([*values, str(torch.get_num_threads())]).encode())\n"
        "time.sleep(60)"
    )
    for name in ("OMP_NUM_THREADS", "PYTHONPATH"):  # the server of the processes has both
        monkeypatch.delenv(name, raising=False)
    launcher = launched(jobs="auto", gpus=[3, 5], threads=2)
    assert launcher.free_slots() == 2
    jobs = [does(text, tmp_path, number) for number in range(2)]
    launcher.submit(jobs)
    assert {seen(job.log) for job in jobs} == {"3 2 yes - 2", "5 2 yes - 2"}
    pid, *gpu = launcher.location(jobs[0]).removeprefix("pid ").split(" gpu ")
    assert os.getpgid(int(pid)) == int(pid), "Ctrl-C on the terminal must reach the sweep only"
    assert gpu == ["3"]


def test_settings_give_the_number_of_slots_or_are_refused():
    cores = len(os.sched_getaffinity(0))
    for settings, slots in [
        ({"jobs": 3}, 3),
        ({"jobs": "auto", "threads": cores}, 1),
        ({"jobs": "auto", "threads": 1}, cores),
        ({"jobs": "auto", "gpus": [0, 1, 2], "per_gpu": 2}, 6),
        ({"jobs": 2, "gpus": [0, 1, 2]}, 2),
    ]:
        assert processes(**settings).free_slots() == slots, settings
    for settings, message in [
        ({"jobs": "many"}, "jobs must be auto or 1 or more, got 'many'"),
        ({"timeout": 0}, "timeout must be null or above 0, got 0"),
        ({"gpus": [-1]}, "gpus must be auto or a list"),
        ({"jobs": 5, "gpus": [0, 1]}, "launcher.jobs must be at most 2 with these GPUs, got 5: type launcher.per_gpu"),
    ]:
        with pytest.raises(ValueError) as error:
            processes(**settings)
        assert str(error.value).startswith(message)


def test_jobs_are_asked_to_stop_and_then_killed(tmp_path, launched, monkeypatch):
    """A job out of time or of a stopped sweep is asked to stop and then killed."""
    monkeypatch.setattr("ol2r_cli.launcher.processes.GRACE", 0.5)
    text = "import os, signal, time\n{}\nos.write(1, b'there'); time.sleep(60)"
    stubborn = text.format("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    launcher = launched(timeout=1 / 60)
    launcher.submit([does(text.format(""), tmp_path), does(stubborn, tmp_path, 1)])
    ended = outcomes(launcher, 2)
    assert (ended[0].code, ended[1].code) in [(-signal.SIGTERM, -signal.SIGKILL), (-signal.SIGTERM, -signal.SIGTERM)]
    assert ended[0].reason.startswith("out of time after 0.0166667 minutes (launcher.timeout)")
    launcher = launched()
    jobs = [does(text.format(""), tmp_path / "stopped"), does(stubborn, tmp_path / "stopped", 1)]
    launcher.submit(jobs)
    for job in jobs:
        seen(job.log)
    launcher.stop()
    assert outcomes(launcher, 1) == {0: Outcome(-15, "killed (signal 15, SIGTERM)")}
    pid = int(launcher.location(jobs[1]).removeprefix("pid "))
    launcher.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_jobs_end_with_the_process_that_started_them(tmp_path: Path):
    text = "import os, time; os.write(1, str(os.getpid()).encode()); time.sleep(60)"
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.launcher.jobs import does\n"
        "from tests.launcher.test_processes import processes\n"
        "launcher = processes()\n"
        f"launcher.submit([does({text!r}, Path(sys.argv[1]))])\n"
        "time.sleep(60)"
    )
    (tmp_path / "script.py").write_text(script)  # without the guard that multiprocessing asks for
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    parent = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    try:
        pid = int(seen(tmp_path / ".sweep" / "one" / "0.log"))
    finally:
        parent.kill()
    parent.communicate()
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < until, "the job goes on without the sweep"
        time.sleep(0.01)


@pytest.mark.slow
def test_jobs_import_nothing_of_the_working_directory(tmp_path: Path):
    """Jobs and workers of a search import nothing of the working directory."""
    hit = tmp_path / "hit"
    for name in ("random.py", "torch.py", "optuna.py", "ol2r_cli.py"):
        (tmp_path / name).write_text(f"open({str(hit)!r}, 'a').write(__name__)\nraise RuntimeError('foreign')\n")
    small = ["rounds=5", "dataset.queries={train: 5, validation: 2, test: 2}", "dataset.documents=5", "output_dir=runs"]
    search = [*small, "ranker.l2=log(1,10)", "--trials", "1", "--jobs", "2"]
    script = (
        "import sys; sys.path.pop(0); from ol2r_cli.cli import main\n"  # as the command does
        f"sys.exit(main(['run', '-m', *{small}, 'seed=1,2']) or main(['search', *{search}]))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert not hit.exists(), hit.read_text()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", run_kinds())
def test_a_payload_is_run_as_its_kind(kind, monkeypatch, search_path):
    received: list[object] = []
    monkeypatch.setattr(runner, "run_experiment", lambda *words, **more: received.extend([*words, more]) or 7)
    assert run_payload(payload({"rounds": 9}, {"ranker": "pdgd"}, ["rounds=9"], "0123456789", kind)) == 7
    *words, more = received
    assert words == [{"rounds": 9}, {"ranker": "pdgd"}, ["rounds=9"]]
    assert (more["kind"].name, more["id"]) == (kind, "0123456789")


def test_a_payload_never_raises_and_resumes_a_run(tmp_path, capfd):
    """A payload never raises, and resumes a run that has begun, also with force."""
    assert run_payload(b"nonsense") == 1
    assert "UnpicklingError" in capfd.readouterr().err
    assert run_payload(payload_of("raise KeyboardInterrupt")) == 130
    assert run_payload(payload_of("import sys; sys.exit(0)")) == 1
    run = RunDirectory(tmp_path / "runs" / "0")
    run.write_json("run.json", manifest("finished"))  # of an earlier run
    job = dataclasses.replace(does("", tmp_path), payload=pickle.dumps({"config": {"force": True, "rounds": 9}}))
    assert pickle.loads(job.payload_now())["config"] == {"force": True, "rounds": 9}
    run.write_json("run.json", manifest("running"))
    assert pickle.loads(job.payload_now())["config"] == {"force": False, "rounds": 9}


def test_jobs_of_a_batch_end_one_by_one(tmp_path: Path, launched):
    """Jobs of a batch end one by one, and those of a killed one are to be alone.

    Each in its own log; one process has one slot until it ends.
    """
    words = ["experiment=smoke", "device=cpu", f"output_dir={tmp_path / 'runs'}"]
    plans = [[*words, "ranker=pdgd"], [*words, "ranker=pdgd", "ranker.learning_rate=1e300"]]
    planned = Plan(plans, Composer()).sweep_jobs
    launcher = launched(jobs=1, batch=4)
    launcher.submit_batch([sweep_job.job for sweep_job in planned])
    assert launcher.free_slots() == 0
    assert len({launcher.location(sweep_job.job) for sweep_job in planned}) == 1
    ended = outcomes(launcher, 2)
    assert [(ended[number].code, ended[number].again_alone) for number in range(2)] == [(0, False), (1, False)]
    assert "ranker.learning_rate must be smaller" in ended[1].reason
    assert planned[0].log.read_text() == ""
    assert "ranker.learning_rate must be smaller" in planned[1].log.read_text()
    until = time.monotonic() + 60
    while not launcher.free_slots():
        assert launcher.poll(0.1) == []
        assert time.monotonic() < until
    kills = [does(text, tmp_path, number) for number, text in enumerate(["import os; os.kill(os.getpid(), 9)", ""])]
    launcher.submit_batch(kills)
    ended = outcomes(launcher, 2)
    assert {(outcome.code, outcome.again_alone) for outcome in ended.values()} == {(-9, True)}
    assert launcher.free_slots() == 1


def test_a_time_limit_and_fresh_processes_are_of_single_jobs():
    assert (processes().batch, processes(batch=3).batch) == ("auto", 3)
    for single in {"timeout": 1}, {"fresh": True}:
        assert processes(**single).batch == processes(**single, batch=1).batch == 1
        with pytest.raises(ValueError, match=r"launcher.batch must be 1 with launcher\.\w+(=true)?, got 3"):
            processes(**single, batch=3)
