"""The loop over a launcher, with one that does nothing but end jobs as it is told."""

from __future__ import annotations

import io
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ol2r_cli.launcher.job import Job, Outcome
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.sweep.board import Board
from ol2r_cli.sweep.cell import DONE, ELSEWHERE, FAILED, LEFT, SKIPPED, STOPPED, Cell
from ol2r_cli.sweep.drive import Drive


class Scripted:
    """Ends the jobs it has with the codes of `script`, by number, one after the other; `room_for` at a time."""

    def __init__(self, script: dict[int, list[int]], room_for: int = 2, retries: int = 0, fail_fast: bool = False):
        self.script, self.room_for, self.retries, self.fail_fast = script, room_for, retries, fail_fast
        self.jobs: list[Job] = []
        self.events: list[str] = []
        self.most = 0
        self.on_wait: Callable[[], None] = lambda: None

    def room(self) -> int:
        return self.room_for - len(self.jobs)

    def submit(self, jobs: Sequence[Job]) -> None:
        self.jobs += jobs
        self.most = max(self.most, len(self.jobs))
        self.events += [f"start {job.number}" for job in jobs]

    def ended(self, wait: float) -> list[tuple[Job, Outcome]]:
        self.on_wait()
        if not self.jobs:
            return []
        job = self.jobs.pop(0)
        codes = self.script.get(job.number, [0])
        code = codes.pop(0) if codes else 0
        return [(job, Outcome(code, "" if code == 0 else f"reason {code}"))]

    def place(self, job: Job) -> str:
        return "here"

    def stop(self) -> None:
        self.events.append("stop")
        for job in self.jobs:
            self.script[job.number] = [130]

    def close(self) -> None:
        self.events.append("close")


def cells(folder: Path, count: int, **settings: object) -> list[Cell]:
    every = {"force": False, "output_dir": str(folder), "rounds": 10, "device": {"name": "cpu"}, **settings}
    folders = [folder / "synthetic" / f"run-{number}" for number in range(count)]
    words = [f"seed={number}" for number in range(count)]
    return [
        Cell(number, (word,), word, settings=every, directory=place)
        for number, (word, place) in enumerate(zip(words, folders, strict=True))
    ]


def drive(planned: list[Cell], launcher: Scripted) -> tuple[bool, str]:
    terminal = io.StringIO()
    stopped = Drive(planned, launcher, Board(planned, terminal)).run()
    assert launcher.events[-1] == "close"
    return stopped, terminal.getvalue()


def test_every_job_is_done_with_no_more_at_a_time_than_there_is_room_for(tmp_path: Path):
    planned, launcher = cells(tmp_path, 5), Scripted({})
    stopped, told = drive(planned, launcher)
    assert not stopped
    assert [cell.ending for cell in planned] == [DONE] * 5
    assert launcher.most == 2
    assert launcher.events[:5] == [f"start {number}" for number in range(5)]
    assert told.splitlines()[0].startswith("[1/5] seed=0: done in ")


def test_what_fails_fails_alone(tmp_path: Path):
    planned = cells(tmp_path, 4)
    drive(planned, Scripted({0: [-9], 1: [1], 2: [2]}))
    assert [(cell.ending, cell.reason) for cell in planned] == [
        (FAILED, "reason -9"),
        (FAILED, "reason 1"),
        (FAILED, "reason 2"),
        (DONE, ""),
    ]


def test_what_failed_is_tried_again_but_not_what_is_badly_configured(tmp_path: Path):
    planned = cells(tmp_path, 3, force=True)
    launcher = Scripted({0: [1, -9], 1: [2], 2: [1, 1, 1]}, retries=2)
    payloads: list[tuple[int, bool]] = []
    submit = launcher.submit
    RunDirectory(planned[0].directory).write_json("run.json", {"status": "finished"})

    def begin(jobs: Sequence[Job]) -> None:
        """Job 0 begins, in place of the run that was there; job 2 dies before it does."""
        payloads.extend((job.number, pickle.loads(job.payload)["config"]["force"]) for job in jobs)
        for job in jobs:
            if job.number == 0:
                RunDirectory(job.directory).write_json("run.json", {"status": "failed"})
        submit(jobs)

    launcher.submit = begin  # type: ignore[method-assign]
    drive(planned, launcher)
    assert [cell.ending for cell in planned] == [DONE, FAILED, FAILED]
    told = {number: [force for job, force in payloads if job == number] for number in range(3)}
    assert told[0] == [True, False, False], (
        "force=true is for the attempt that begins: others go on from its checkpoint"
    )
    assert (told[1], told[2]) == ([True], [True, True, True])


def test_fail_fast_leaves_the_rest(tmp_path: Path):
    planned = cells(tmp_path, 5)
    launcher = Scripted({0: [1]}, fail_fast=True)
    stopped, told = drive(planned, launcher)
    assert not stopped, "nobody asked: the exit code is that of a failure"
    assert [cell.ending for cell in planned] == [FAILED, STOPPED, LEFT, LEFT, LEFT]
    assert "launcher.fail_fast=true" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_request_stops_cleanly(tmp_path: Path, number: int):
    planned, launcher = cells(tmp_path, 5), Scripted({}, retries=3)
    launcher.on_wait = lambda: os.kill(os.getpid(), number) if "stop" not in launcher.events else None
    stopped, told = drive(planned, launcher)
    assert stopped
    assert [cell.ending for cell in planned] == [DONE, STOPPED, LEFT, LEFT, LEFT], "the first ended before it was asked"
    assert "1 running jobs keep what they have done; a second Ctrl-C kills them" in told


def test_a_second_request_does_not_wait(tmp_path: Path):
    planned, launcher = cells(tmp_path, 3), Scripted({})

    def twice() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    launcher.on_wait = twice
    stopped, _ = drive(planned, launcher)
    assert stopped
    assert [cell.ending for cell in planned] == [STOPPED, STOPPED, LEFT]
    assert "stop" not in launcher.events, "there was no time for it"


def test_runs_of_other_processes_are_left_to_them(tmp_path: Path):
    planned = cells(tmp_path, 3)
    for cell, status in (planned[0], "running"), (planned[1], "finished"):
        RunDirectory(cell.directory).write_json("run.json", {"status": status})
    launcher = Scripted({})
    with RunDirectory(planned[0].directory):
        drive(planned, launcher)
    assert [cell.ending for cell in planned] == [ELSEWHERE, SKIPPED, DONE]
    assert launcher.events == ["start 2", "close"]


def test_a_run_that_another_process_began_a_moment_before_has_not_failed(tmp_path: Path):
    planned = cells(tmp_path, 3)
    launcher = Scripted({0: [2], 1: [2], 2: [2]})
    with RunDirectory(planned[0].directory):

        def others() -> None:
            RunDirectory(planned[0].directory).write_json("run.json", {"status": "running"})
            RunDirectory(planned[1].directory).write_json("run.json", {"status": "finished"})

        launcher.on_wait = others
        drive(planned, launcher)
    assert [cell.ending for cell in planned] == [ELSEWHERE, SKIPPED, FAILED]


def test_what_another_process_is_doing_comes_last_and_may_be_done_by_then(tmp_path: Path):
    planned, launcher = cells(tmp_path, 3), Scripted({}, room_for=1)
    directory = RunDirectory(planned[0].directory)
    directory.write_json("run.json", {"status": "running"})
    launcher.on_wait = lambda: directory.write_json("run.json", {"status": "finished"})
    with directory:
        drive(planned, launcher)
    assert [cell.ending for cell in planned] == [SKIPPED, DONE, DONE]


def test_logs_of_jobs_that_went_well_are_taken_away(tmp_path: Path):
    planned, launcher = cells(tmp_path, 2), Scripted({1: [1]})
    submit = launcher.submit

    def printing(jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            job.log.write_text("words")
        submit(jobs)

    launcher.submit = printing  # type: ignore[method-assign]
    drive(planned, launcher)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.log")] == [".sweep/synthetic/run-1.log"]
    launcher.script = {}
    drive(cells(tmp_path, 2)[1:], launcher)
    assert not (tmp_path / ".sweep").exists(), "nothing is left of it"
