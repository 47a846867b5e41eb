"""Jobs in processes: each ends by itself with a reason, has its settings, and ends with the sweep."""

from __future__ import annotations

import dataclasses
import os
import pickle
import re
import signal
import subprocess
import sys
from multiprocessing import forkserver
from pathlib import Path

import pytest
import yaml

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.launcher.job import Outcome, payload, run_payload
from ol2r_cli.launcher.processes import Processes
from ol2r_cli.plugins import run_kinds
from ol2r_cli.run import runner
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Plan
from tests import cases
from tests.launcher.jobs import does, outcomes, payload_of, until
from tests.manifests import manifest
from tests.program import ROOT, python


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


def seen(path: Path) -> str:
    """The content of a file as soon as there is any."""
    return until(lambda: path.is_file() and path.read_text())


ENDS = [  # the source of a job, its code, and the beginning of the reason
    ("import os; os._exit(0)", 0, ""),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "killed (signal 9): "),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11, "killed (signal 11, SIGSEGV)"),
    ("print('before'); raise MemoryError('no room for 3 GB')", 1, "MemoryError: no room for 3 GB"),
    ("import os; os.write(2, b'ol2r run: rounds must be more\\n'); os._exit(2)", 2, "rounds must be more"),
    ("import os; os._exit(7)", 7, "ended with exit code 7"),
    ("import os; os.write(1, b'the traceback is in log.txt'); os._exit(1)", 1, "RuntimeError: of its manifest"),
]


def test_each_job_ends_by_itself_with_a_reason(tmp_path, launched):
    """Also where the program has started the fork server before, whose output is buffered."""
    forkserver.ensure_running()
    failed = manifest("failed", error="RuntimeError: of its manifest")
    RunDirectory(tmp_path / "runs" / "6").write_json("run.json", failed)
    launcher = launched(jobs=7)
    launcher.submit([does(source, tmp_path, number) for number, (source, *_) in enumerate(ENDS)])
    assert launcher.free_slots() == 0
    ended = outcomes(launcher, 7)
    assert launcher.free_slots() == 7
    reasons = {number: (code, reason) for number, (_, code, reason) in enumerate(ENDS)}
    assert {n: (ended[n].code, ended[n].reason[: len(reason)]) for n, (_, reason) in reasons.items()} == reasons
    assert ended[0].reason == ""
    assert (tmp_path / ".sweep" / "one" / "3.log").read_text().count("before\n") == 1


def test_a_job_has_its_gpu_its_threads_and_the_environment(tmp_path, launched, monkeypatch):
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


CORES = len(os.sched_getaffinity(0))


SLOTS = f"""
{{jobs: 3}} | 3
{{jobs: auto, threads: {CORES}}} | 1
{{jobs: auto, threads: 1}} | {CORES}
{{jobs: auto, gpus: [0, 1, 2], per_gpu: 2}} | 6
{{jobs: 2, gpus: [0, 1, 2]}} | 2
"""


@pytest.mark.parametrize(("settings", "slots"), cases.lines(SLOTS))
def test_settings_give_the_number_of_slots(settings, slots):
    assert processes(**yaml.safe_load(settings)).free_slots() == int(slots)


BAD = """
{jobs: many} | jobs must be auto or 1 or more, got 'many'
{timeout: 0} | timeout must be null or above 0, got 0
{gpus: [-1]} | gpus must be auto or a list
{jobs: 5, gpus: [0, 1]} | launcher.jobs must be at most 2 with these GPUs, got 5: type launcher.per_gpu
{timeout: 1, batch: 3} | launcher.batch must be 1 with launcher.timeout, got 3
{fresh: true, batch: 3} | launcher.batch must be 1 with launcher.fresh=true, got 3
"""


@pytest.mark.parametrize(("settings", "message"), cases.lines(BAD))
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        processes(**yaml.safe_load(settings))


SLEEPS = "import os, signal, time\n{}\nos.write(1, b'there'); time.sleep(60)"
STUBBORN = SLEEPS.format("signal.signal(signal.SIGTERM, signal.SIG_IGN)")


@pytest.fixture
def _impatient(monkeypatch):
    """A job has half a second between being asked to stop and being killed."""
    monkeypatch.setattr("ol2r_cli.launcher.processes.GRACE", 0.5)


@pytest.mark.usefixtures("_impatient")
def test_a_job_out_of_time_is_asked_to_stop_and_then_killed(tmp_path, launched):
    launcher = launched(timeout=1 / 60)
    launcher.submit([does(SLEEPS.format(""), tmp_path), does(STUBBORN, tmp_path, 1)])
    ended = outcomes(launcher, 2)
    # The second may not have come to ignore the signal.
    assert (ended[0].code, ended[1].code) in [(-signal.SIGTERM, -signal.SIGKILL), (-signal.SIGTERM, -signal.SIGTERM)]
    assert ended[0].reason.startswith("out of time after 0.0166667 minutes (launcher.timeout)")


@pytest.mark.usefixtures("_impatient")
def test_jobs_of_a_stopped_sweep_are_asked_and_then_killed(tmp_path, launched):
    launcher = launched()
    jobs = [does(SLEEPS.format(""), tmp_path), does(STUBBORN, tmp_path, 1)]
    launcher.submit(jobs)
    for job in jobs:
        seen(job.log)
    launcher.stop()
    assert outcomes(launcher, 1) == {0: Outcome(-15, "killed (signal 15, SIGTERM)")}
    pid = int(launcher.location(jobs[1]).removeprefix("pid "))
    launcher.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_jobs_end_with_the_process_that_started_them(tmp_path):
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
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: not stat.exists() or ") Z " in stat.read_text())  # it does not go on without the sweep


@pytest.mark.slow
def test_jobs_import_nothing_of_the_working_directory(tmp_path):
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
    done = python("-c", script, folder=tmp_path)
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


@pytest.mark.parametrize(
    ("payload", "code", "told"),
    [
        (b"nonsense", 1, "UnpicklingError"),
        (payload_of("raise KeyboardInterrupt"), 130, ""),
        (payload_of("import sys; sys.exit(0)"), 1, "SystemExit"),
    ],
    ids=["nonsense", "interrupted", "an exit"],
)
def test_a_payload_never_raises(capfd, payload, code, told):
    assert (run_payload(payload), told in capfd.readouterr().err) == (code, True)


@pytest.mark.parametrize(("status", "force"), [("finished", True), ("running", False)])
def test_a_payload_resumes_a_run_that_its_sweep_has_begun(tmp_path, status, force):
    """Also with force, by which it begins a run anew that was finished before the sweep."""
    run = RunDirectory(tmp_path / "runs" / "0")
    run.write_json("run.json", manifest("finished"))
    job = dataclasses.replace(does("", tmp_path), payload=pickle.dumps({"config": {"force": True, "rounds": 9}}))
    run.write_json("run.json", manifest(status))
    assert pickle.loads(job.payload_now())["config"] == {"force": force, "rounds": 9}


def test_jobs_of_a_batch_end_one_by_one(tmp_path, launched):
    """Each in its own log; one process has one slot until it ends."""
    words = ["experiment=smoke", "device=cpu", f"output_dir={tmp_path / 'runs'}", "ranker=pdgd"]
    good, bad = Plan([words, [*words, "ranker.learning_rate=1e300"]], Composer()).sweep_jobs
    launcher = launched(jobs=1, batch=4)
    launcher.submit_batch([good.job, bad.job])
    assert launcher.free_slots() == 0
    assert launcher.location(good.job) == launcher.location(bad.job)
    ended = outcomes(launcher, 2)
    told = "ranker.learning_rate must be smaller"
    assert [(end.code, end.again_alone, told in end.reason) for _, end in sorted(ended.items())] == [
        (0, False, False),
        (1, False, True),
    ]
    assert (good.log.read_text(), told in bad.log.read_text()) == ("", True)
    until(lambda: launcher.poll(0.1) or launcher.free_slots())
    assert launcher.free_slots() == 1


def test_jobs_of_a_killed_batch_are_to_be_alone(tmp_path, launched):
    launcher = launched(jobs=1, batch=4)
    launcher.submit_batch([does("import os; os.kill(os.getpid(), 9)", tmp_path), does("", tmp_path, 1)])
    ended = outcomes(launcher, 2)
    assert {(outcome.code, outcome.again_alone) for outcome in ended.values()} == {(-9, True)}
    assert launcher.free_slots() == 1


@pytest.mark.parametrize(
    ("settings", "batch"), [({}, "auto"), ({"batch": 3}, 3), ({"timeout": 1}, 1), ({"fresh": True}, 1)], ids=str
)
def test_a_time_limit_and_fresh_processes_are_of_single_jobs(settings, batch):
    assert processes(**settings).batch == batch
