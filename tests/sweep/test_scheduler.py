"""The scheduler, with a launcher that ends jobs with given codes and runs nothing."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from time import monotonic

import pytest

from ol2r_cli.files import is_held
from ol2r_cli.launcher.job import Job, Outcome
from ol2r_cli.run import LOCK
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.sweep.plan import Ending, SweepJob
from ol2r_cli.sweep.scheduler import Scheduler, StatusDisplay
from tests.manifests import manifest

DONE, SKIPPED, ELSEWHERE, FAILED = Ending.DONE, Ending.SKIPPED, Ending.ELSEWHERE, Ending.FAILED
STOPPED, LEFT = Ending.STOPPED, Ending.LEFT


class Scripted:
    """Ends its jobs one after the other with the codes of `script`, by number; it has `slots` for jobs."""

    def __init__(self, script: dict[int, list[int]], slots: int = 2, retries: int = 0, fail_fast: bool = False):
        self.script, self.slots, self.retries, self.fail_fast = script, slots, retries, fail_fast
        self.jobs: list[Job] = []
        self.events: list[str] = []
        self.most = 0
        self.on_poll: Callable[[], None] = lambda: None

    def free_slots(self) -> int:
        return self.slots - len(self.jobs)

    def submit(self, jobs: Sequence[Job]):
        """Begins jobs, which print."""
        self.jobs += jobs
        self.most = max(self.most, len(self.jobs))
        for job in jobs:
            self.events.append(f"start {job.number}")
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with open(job.log, "a") as file:
                file.write("words ")

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        self.on_poll()
        if not self.jobs:
            return []
        job = self.jobs.pop(0)
        codes = self.script.get(job.number, [0])
        code = codes.pop(0) if codes else 0
        return [(job, Outcome(code, "" if code == 0 else f"reason {code}"))]

    def location(self, job: Job) -> str:
        return "here"

    def stop(self):
        self.events.append("stop")
        for job in self.jobs:
            self.script.setdefault(job.number, [130])

    def close(self):
        self.events.append("close")


def sweep_jobs(folder: Path, count: int, **more: object) -> list[SweepJob]:
    settings = {"force": False, "output_dir": str(folder), "rounds": 10, "device": {"name": "cpu"}, **more}
    runs = folder / "synthetic"
    names = [f"seed={number}" for number in range(count)]
    return [
        SweepJob(number, (name,), name, settings=settings, directory=runs / f"run-{number}")
        for number, name in enumerate(names)
    ]


class Watching(StatusDisplay):
    """Lets something happen whenever a sweep has waited for runs of other processes alone."""

    def __init__(self, planned: list[SweepJob], terminal: io.StringIO, happens: Callable[[], object]):
        super().__init__(planned, terminal)
        self.happens = happens

    def show(self, running, waiting, launcher):
        if waiting and not running:
            self.happens()


def run_all(planned, launcher, while_waiting: Callable[[], object] = bool, look: float = 0.0) -> tuple[bool, str]:
    """Whether the sweep was stopped, and what it printed; it looks after runs of other processes after some seconds."""
    terminal = io.StringIO()
    scheduler = Scheduler(planned, launcher, Watching(planned, terminal, while_waiting))
    scheduler.wait, scheduler.look = 0.0, look
    stopped = scheduler.run()
    assert launcher.events[-1] == "close"
    return stopped, terminal.getvalue()


def endings(planned: list[SweepJob]) -> list[Ending | None]:
    return [sweep_job.ending for sweep_job in planned]


def test_jobs_run_in_slots_and_a_failure_affects_no_other(tmp_path):
    planned, launcher = sweep_jobs(tmp_path, 5), Scripted({1: [-9], 2: [1], 3: [2]})
    stopped, output = run_all(planned, launcher)
    assert not stopped
    ends = [(DONE, ""), (FAILED, "reason -9"), (FAILED, "reason 1"), (FAILED, "reason 2"), (DONE, "")]
    assert [(sweep_job.ending, sweep_job.reason) for sweep_job in planned] == ends
    assert launcher.most == 2
    assert launcher.events[:5] == [f"start {number}" for number in range(5)]
    assert output.splitlines()[0].startswith("[1/5] seed=0: done in ")
    assert all(0 <= sweep_job.seconds < 60 for sweep_job in planned)
    logs = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.log"))
    assert logs == [f".sweep/synthetic/run-{number}.log" for number in (1, 2, 3)], "those of successful jobs go"
    run_all(sweep_jobs(tmp_path, 5)[1:4], Scripted({}))
    assert not (tmp_path / ".sweep").exists(), "the folder is empty and removed"


def test_a_job_can_follow_from_the_ends_of_others(tmp_path):
    """It is asked for when there is a free slot, also after none was left; `ended` is told of each, and shows it."""
    planned, ended, asked = sweep_jobs(tmp_path, 6), list[SweepJob](), list[tuple[int, int]]()
    RunDirectory(planned[2].directory).write_json("run.json", manifest("finished"))

    def jobs() -> Iterator[SweepJob | None]:
        for number, sweep_job in enumerate(planned):
            while len(ended) < number - 1:  # it follows from those before the last one
                yield None
            asked.append((number, len(ended)))
            yield sweep_job

    launcher, terminal = Scripted({1: [1]}, slots=2), io.StringIO()
    assert not Scheduler(jobs(), launcher, StatusDisplay(planned, terminal), ended.append).run()
    assert asked == [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3), (5, 4)]
    assert sorted(job.number for job in ended) == [0, 1, 2, 3, 4, 5]
    assert endings(planned) == [DONE, FAILED, SKIPPED, DONE, DONE, DONE]
    assert terminal.getvalue() == ""


def test_no_job_is_asked_for_after_a_signal(tmp_path):
    planned, ended, launcher = sweep_jobs(tmp_path, 3), list[SweepJob](), Scripted({1: [130]})
    launcher.on_poll = lambda: None if ended else os.kill(os.getpid(), signal.SIGINT)
    jobs = (job if job.number < 2 or ended else None for job in planned)
    assert Scheduler(jobs, launcher, StatusDisplay([], None), ended.append).run()
    assert ended == planned[:2]
    assert endings(planned) == [DONE, STOPPED, None]


def test_failed_jobs_are_retried_unless_their_settings_are_bad(tmp_path):
    planned = sweep_jobs(tmp_path, 3)
    launcher = Scripted({0: [1, -9], 1: [2], 2: [1, 1, 1]}, retries=2)
    planned[2].log.parent.mkdir(parents=True)
    planned[2].log.write_text("of an earlier sweep")
    _, output = run_all(planned, launcher)
    assert endings(planned) == [DONE, FAILED, FAILED]
    assert [launcher.events.count(f"start {number}") for number in range(3)] == [3, 1, 3]
    assert "seed=0: reason 1; again (1 of 2)" in output
    assert "[1/3] seed=1: failed: reason 2" in output, "a job that waits for another attempt has not ended"
    assert planned[2].log.read_text() == "words words words ", "a retry continues the log and a new sweep begins it"


def test_a_failed_job_may_end_the_sweep(tmp_path):
    planned = sweep_jobs(tmp_path, 5)
    stopped, output = run_all(planned, Scripted({0: [1]}, fail_fast=True))
    assert not stopped, "no signal came: the exit code is that of a failure"
    assert endings(planned) == [FAILED, STOPPED, LEFT, LEFT, LEFT]
    assert "launcher.fail_fast=true" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_keeps_what_is_done(tmp_path, number):
    planned, launcher = sweep_jobs(tmp_path, 6), Scripted({2: [-signal.SIGTERM]}, slots=3, retries=3)
    launcher.on_poll = lambda: None if "stop" in launcher.events else os.kill(os.getpid(), number)
    stopped, output = run_all(planned, launcher)
    assert stopped
    assert [(sweep_job.ending, sweep_job.reason) for sweep_job in planned] == [
        (DONE, ""),  # ended before the signal
        (STOPPED, "what was done is kept"),
        (STOPPED, "before its first round"),
        *3 * [(LEFT, "")],
    ]
    assert "2 running jobs keep what they have done; a second Ctrl-C kills them" in output


def test_a_second_signal_kills(tmp_path):
    planned, launcher = sweep_jobs(tmp_path, 3), Scripted({})
    launcher.on_poll = lambda: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]
    assert run_all(planned, launcher)[0]
    assert endings(planned) == [STOPPED, STOPPED, LEFT]
    assert "stop" not in launcher.events, "jobs are not asked to stop"


@pytest.mark.parametrize(("last", "ending"), [("finished", SKIPPED), ("interrupted", DONE), ("killed", DONE)])
def test_runs_of_other_processes_are_waited_for(tmp_path, last, ending):
    """Each is looked at again when nothing else is left, until it is finished or its process has left it."""
    planned = sweep_jobs(tmp_path, 3)
    first, second = (RunDirectory(sweep_job.directory) for sweep_job in planned[:2])
    first.write_json("run.json", manifest("running"))
    second.write_json("run.json", manifest("finished"))
    launcher, looks = Scripted({}), count()

    def look():
        if next(looks) == 3:
            first.__exit__()
            if last != "killed":
                first.write_json("run.json", manifest(last))

    first.__enter__()
    stopped, output = run_all(planned, launcher, look)
    assert not stopped
    assert endings(planned) == [ending, SKIPPED, DONE]
    assert launcher.events == ["start 2", *(["start 0"] if ending == DONE else []), "close"]
    assert output.count(f"waiting for 1 run of another process (see `ol2r status {tmp_path}`); Ctrl-C ends") == 1
    assert next(looks) > 3


def test_a_run_that_another_process_starts_first_is_waited_for(tmp_path):
    """Also one that has its lock, and no manifest yet."""
    planned, launcher = sweep_jobs(tmp_path, 3), Scripted({0: [2], 1: [2], 2: [2]}, slots=3)
    begun = RunDirectory(planned[0].directory)

    def start_elsewhere():
        if not is_held(begun.path / LOCK):
            begun.__enter__()
            RunDirectory(planned[1].directory).write_json("run.json", manifest("finished"))

    def finish_elsewhere():
        begun.write_json("run.json", manifest("finished"))
        begun.__exit__()

    launcher.on_poll = start_elsewhere
    run_all(planned, launcher, finish_elsewhere)
    assert [(job.ending, job.attempts) for job in planned] == [(SKIPPED, 0), (SKIPPED, 1), (FAILED, 1)]


@pytest.mark.parametrize("look", [0.0, 1000.0])
def test_a_signal_ends_the_waiting_for_another_process(tmp_path, look):
    """Whether or not it was about to look at its run again."""
    planned = sweep_jobs(tmp_path, 2)
    with RunDirectory(planned[0].directory):
        stopped, _ = run_all(planned, Scripted({}), lambda: os.kill(os.getpid(), signal.SIGINT), look)
    assert stopped
    assert endings(planned) == [ELSEWHERE, DONE]


def test_a_sweep_that_stops_waits_for_no_other_process(tmp_path):
    """A job that finds the lock of its run taken, after Ctrl-C, neither keeps the sweep waiting nor begins later."""
    planned, launcher = sweep_jobs(tmp_path, 2), Scripted({1: [2]})
    begun = RunDirectory(planned[1].directory)

    def start_elsewhere_and_stop():
        if not is_held(begun.path / LOCK):
            begun.__enter__()
            os.kill(os.getpid(), signal.SIGINT)

    launcher.on_poll = start_elsewhere_and_stop
    stopped, _ = run_all(planned, launcher, begun.__exit__)
    begun.__exit__()
    assert stopped
    assert endings(planned) == [DONE, ELSEWHERE]
    assert launcher.events == ["start 0", "start 1", "stop", "close"]


class Batching(Scripted):
    """Starts batches, each in a process that has a slot until a poll after that of its last end."""

    def __init__(self, batch: int | str, slots: int = 2, lost: Sequence[int] = ()):
        super().__init__({}, slots)
        self.batch, self.lost = batch, set(lost)
        self.processes: list[list[Job]] = []

    def free_slots(self) -> int:
        return self.slots - len(self.processes)

    def submit(self, jobs: Sequence[Job]):
        for job in jobs:
            self.submit_batch([job])

    def submit_batch(self, jobs: Sequence[Job]):
        super().submit(jobs)
        self.processes.append(list(jobs))
        self.events[-len(jobs) :] = [" ".join(str(job.number) for job in jobs)]

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        self.on_poll()
        self.processes = [process for process in self.processes if process]
        if not self.processes:
            return []
        process = self.processes[0]
        killed = [job for job in process if job.number in self.lost]
        if killed:
            self.lost.discard(killed[0].number)
            ended = [(job, Outcome(-9, "killed", again_alone=len(process) > 1)) for job in process]
            process.clear()
            return ended
        return [(process.pop(0), Outcome(0))]


def shareable(folder: Path, count: int) -> list[SweepJob]:
    """Jobs that differ in their seeds alone."""
    planned = sweep_jobs(folder, count)
    for number, sweep_job in enumerate(planned):
        sweep_job.settings = {**sweep_job.settings, "dataset": {}, "seed": number}
    return planned


def test_jobs_that_can_share_are_submitted_in_batches(tmp_path):
    """Four at most, and no more than leaves a part of those that wait to the other worker."""
    planned, launcher = shareable(tmp_path, 11), Batching(4)
    planned[2].choices = {"ranker": "another"}
    run_all(planned, launcher)
    assert endings(planned) == [DONE] * 11
    assert launcher.events == ["2", "0 1 3 4", "5 6 7", "8 9", "10", "close"]


@pytest.mark.parametrize("has_batches", [True, False])
def test_jobs_are_alone_in_batches_of_one_or_without_batches(tmp_path, has_batches):
    launcher = Batching(1)
    if not has_batches:
        del launcher.batch
    run_all(shareable(tmp_path, 4), launcher)
    assert launcher.events == ["0", "1", "2", "3", "close"]


@pytest.mark.parametrize(("seconds", "third"), [(0.5, "2 3"), (1.5, "2 3"), (9.0, "2")])
def test_the_size_of_a_batch_follows_from_the_time_of_jobs(tmp_path, seconds, third):
    """The first jobs are alone; then a batch has as many as three for each worker leave, and as take five seconds."""
    planned, launcher = shareable(tmp_path, 16), Batching("auto")

    def play():
        for job in planned:
            job.submitted -= seconds

    launcher.on_poll = play
    run_all(planned, launcher)
    assert launcher.events[:3] == ["0", "1", third]


@pytest.mark.parametrize(("shares", "events"), [(True, ["0 1 2 3 4"]), (False, ["0", "1", "2", "3", "4"])])
def test_jobs_that_share_a_gpu_are_one_batch_from_the_start(tmp_path, shares, events):
    """With one GPU as many as wait; those that play single rounds on it are alone."""
    planned, launcher = shareable(tmp_path, 5), Batching("auto", slots=1)
    for job in planned:
        job.needs_gpu, job.shares_gpu = True, shares
        job.settings = {**job.settings, "replicas": 1}
    run_all(planned, launcher)
    assert launcher.events == [*events, "close"]


def test_jobs_of_a_killed_batch_are_played_alone(tmp_path):
    """Those that had ended before have ended."""
    planned, launcher = shareable(tmp_path, 6), Batching(3, slots=1, lost=[1])
    _, output = run_all(planned, launcher)
    assert endings(planned) == [DONE] * 6
    assert launcher.events == ["0 1 2", "3 4 5", "0", "1", "2", "close"]
    assert "seed=1: killed; again alone, as it was in a batch of jobs" in output


def test_only_a_job_alone_fails_when_it_is_killed(tmp_path):
    """The kill of a batch is no attempt of a job."""
    planned, launcher = shareable(tmp_path, 3), Batching(3, slots=1)
    launcher.on_poll = lambda: launcher.lost.add(1)
    run_all(planned, launcher)
    assert [(job.ending, job.attempts) for job in planned] == [(DONE, 1), (FAILED, 1), (DONE, 1)]


@pytest.mark.parametrize(("known", "expected", "waiting"), [(6, 0, 2), (4, 9, 5)])
def test_the_time_left_counts_processes_of_batches_once(tmp_path, known, expected, waiting):
    """Two jobs are done, which took 10,000 s each in a batch of two, two run for 4,000 s: each takes 5,000 s."""
    planned = shareable(tmp_path, 6)[:known]
    for job in planned[:2]:
        job.ending, job.seconds, job.batch = DONE, 1e4, 2
    for job in planned[2:4]:
        job.submitted, job.batch = monotonic() - 4e3, 2
    display = StatusDisplay(planned, None, expected)
    left = display.left({job.number: job for job in planned[2:4]})
    assert left == pytest.approx(2 * (5e3 - 2e3) + waiting * 5e3, rel=0.02)
