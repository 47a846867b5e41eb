"""Jobs in processes of their own: each ends alone, has what it was given, and is not left behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ol2r_cli.launcher.job import Job, Outcome, run_payload
from ol2r_cli.launcher.processes import Processes
from ol2r_cli.results.directory import RunDirectory

ROOT = Path(__file__).parents[2]


class Code:
    """Python that runs when it is unpickled, which `run_payload` does first."""

    def __init__(self, text: str):
        self.text = text

    def __reduce__(self) -> tuple:
        return exec, (self.text,)


def job(folder: Path, text: str, number: int = 0) -> Job:
    log = folder / "logs" / f"{number}.log"
    return Job(number, f"job {number}", "ol2r run", pickle.dumps(Code(text)), folder / f"run-{number}", log)


def processes(**settings: object) -> Processes:
    every = {"jobs": 2, "threads": 1, "gpus": [], "per_gpu": 1, "timeout": None, "retries": 0, "fail_fast": False}
    return Processes(**(every | settings))  # type: ignore[arg-type]


@pytest.fixture
def launched():
    """Makes launchers that are closed at the end, whatever happens."""
    made: list[Processes] = []

    def make(**settings: object) -> Processes:
        made.append(processes(**settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def outcomes(launcher: Processes, count: int) -> dict[int, Outcome]:
    """The outcomes of the next so many jobs that end."""
    found: dict[int, Outcome] = {}
    until = time.monotonic() + 120
    while len(found) < count:
        assert time.monotonic() < until
        found |= {job.number: outcome for job, outcome in launcher.ended(1.0)}
    return found


def seen(path: Path, what: Callable[[str], object] = bool) -> str:
    """The content of a file, once it is as expected."""
    until = time.monotonic() + 60
    while not (path.is_file() and what(path.read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


def test_each_ends_alone_with_a_reason(tmp_path: Path, launched):
    texts = [
        "import os; os._exit(0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "print('before'); raise MemoryError('no room for 3 GB')",
        "import os; os.write(2, b'ol2r run: rounds must be more\\n'); os._exit(2)",
        "import os; os._exit(7)",
    ]
    launcher = launched(jobs=6)
    launcher.submit([job(tmp_path, text, number) for number, text in enumerate(texts)])
    assert launcher.room() == 0
    found = outcomes(launcher, 6)
    assert launcher.room() == 6
    assert [found[number].code for number in range(6)] == [0, -9, -11, 1, 2, 7]
    assert found[0].reason == ""
    assert found[1].reason.startswith("killed (signal 9): ")
    assert found[2].reason == "killed (signal 11, SIGSEGV)"
    assert found[3].reason == "MemoryError: no room for 3 GB"
    assert found[4].reason == "rounds must be more"
    assert "exit code 7" in found[5].reason
    assert (tmp_path / "logs" / "3.log").read_text().count("before\n") == 1


def test_the_reason_is_what_the_run_noted(tmp_path: Path, launched):
    RunDirectory(tmp_path / "run-0").write_json("run.json", {"status": "failed", "error": "RuntimeError: a slip"})
    launcher = launched()
    launcher.submit([job(tmp_path, "import os; os.write(1, b'the traceback is in log.txt'); os._exit(1)")])
    assert outcomes(launcher, 1)[0].reason == "RuntimeError: a slip"


def test_gpus_threads_and_environment(tmp_path: Path, launched, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OL2R_HERE", "yes")
    text = (
        "import os, torch, time\n"
        "told = [os.environ.get(n, '') for n in ('CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS', 'OL2R_HERE')]\n"
        "os.write(1, ' '.join([*told, str(torch.get_num_threads())]).encode())\n"
        "time.sleep(60)"
    )
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    launcher = launched(jobs="auto", gpus=[3, 5], threads=2)
    assert launcher.room() == 2
    jobs = [job(tmp_path, text, number) for number in range(2)]
    launcher.submit(jobs)
    assert {seen(one.log) for one in jobs} == {"3 2 yes 2", "5 2 yes 2"}
    pid, *gpu = launcher.place(jobs[0]).removeprefix("pid ").split(" gpu ")
    assert os.getpgid(int(pid)) == int(pid), "Ctrl-C on the terminal must not reach it beside the sweep's own request"
    assert gpu == ["3"]


@pytest.mark.parametrize(
    ("settings", "room"),
    [
        ({"jobs": 3}, 3),
        ({"jobs": "auto", "threads": len(os.sched_getaffinity(0))}, 1),
        ({"jobs": "auto", "threads": 1}, len(os.sched_getaffinity(0))),
        ({"jobs": "auto", "gpus": [0, 1, 2], "per_gpu": 2}, 6),
        ({"jobs": 2, "gpus": [0, 1, 2]}, 2),
    ],
)
def test_how_many_at_a_time(settings: dict, room: int):
    assert processes(**settings).room() == room


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"jobs": 0}, "launcher.jobs must be auto or 1 and more, got 0"),
        ({"jobs": "many"}, "launcher.jobs must be auto or 1 and more, got 'many'"),
        ({"threads": 0}, "launcher.threads must be 1 or more, got 0"),
        ({"per_gpu": 0}, "launcher.per_gpu must be 1 or more, got 0"),
        ({"retries": -1}, "launcher.retries must be 0 or more, got -1"),
        ({"timeout": 0}, "launcher.timeout must be null or minutes above 0, got 0"),
        ({"gpus": "all"}, "launcher.gpus must be auto or a list of numbers"),
        (
            {"jobs": 5, "gpus": [0, 1]},
            "launcher.jobs must be at most 2 with these GPUs, got 5: type launcher.per_gpu",
        ),
    ],
)
def test_bad_settings(settings: dict, told: str):
    with pytest.raises(ValueError) as error:
        processes(**settings)
    assert str(error.value).startswith(told)


def test_a_job_whose_time_is_up_is_asked_then_killed(tmp_path: Path, launched, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ol2r_cli.launcher.processes.GRACE", 0.5)
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    launcher = launched(timeout=1 / 60)
    launcher.submit([job(tmp_path, "import time; time.sleep(60)"), job(tmp_path, stubborn, 1)])
    found = outcomes(launcher, 2)
    assert (found[0].code, found[1].code) in [(-signal.SIGTERM, -signal.SIGKILL), (-signal.SIGTERM, -signal.SIGTERM)]
    assert found[0].reason.startswith("out of time after 0.0166667 minutes (launcher.timeout)")


def test_stopping_and_closing(tmp_path: Path, launched):
    text = "import os, signal, time\n{}\nos.write(1, b'there'); time.sleep(60)"
    launcher = launched()
    jobs = [
        job(tmp_path, text.format("")),
        job(tmp_path, text.format("signal.signal(signal.SIGTERM, signal.SIG_IGN)"), 1),
    ]
    launcher.submit(jobs)
    for one in jobs:
        seen(one.log)
    launcher.stop()
    assert outcomes(launcher, 1) == {0: Outcome(-15, "killed (signal 15, SIGTERM)")}
    pid = int(launcher.place(jobs[1]).removeprefix("pid "))
    launcher.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_jobs_end_with_the_process_that_started_them(tmp_path: Path):
    text = "import os, time; os.write(1, str(os.getpid()).encode()); time.sleep(60)"
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.launcher.test_processes import job, processes\n"
        "launcher = processes()\n"
        f"launcher.submit([job(Path(sys.argv[1]), {text!r})])\n"
        "time.sleep(60)"
    )
    (tmp_path / "script.py").write_text(script)  # without the guard that multiprocessing asks for
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    parent = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    try:
        pid = int(seen(tmp_path / "logs" / "0.log"))
    finally:
        parent.kill()
    parent.communicate()
    until = time.monotonic() + 30
    while _alive(pid):
        assert time.monotonic() < until, "left behind"
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_the_payload_never_raises(capfd: pytest.CaptureFixture[str]):
    assert run_payload(b"nonsense") == 1
    assert "UnpicklingError" in capfd.readouterr().err
    assert run_payload(pickle.dumps(Code("raise KeyboardInterrupt"))) == 130
    assert run_payload(pickle.dumps(Code("import sys; sys.exit(0)"))) == 1
    assert multiprocessing.active_children() == []
