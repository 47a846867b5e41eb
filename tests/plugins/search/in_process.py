"""A launcher of tests, `launcher=in_process`, which plays jobs in this process, without another one's start."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from ol2r_cli.launcher.job import Job, Outcome, reason, run_payload
from ol2r_cli.run import INTERRUPTED

CHOICE = """
# Jobs are played in the process of the search.
_target_: tests.plugins.search.in_process.InProcess
jobs: auto
per_gpu: 1
batch: 1
fails: []
events: {events}
retries: 0
fail_fast: false
"""


class InProcess:
    """Plays jobs in this process, one when it is asked which have ended; those numbered in `fails` fail before.

    `events` is a file, with a line for each batch that it receives. It has `jobs` slots for batches.
    """

    def __init__(
        self,
        jobs: int | str,
        per_gpu: int,
        batch: int,
        fails: Sequence[int],
        events: str,
        retries: int,
        fail_fast: bool,
    ):
        self.slots, self.batch, self.fails, self.events = int(jobs), batch, fails, Path(events)
        self.retries, self.fail_fast = retries, fail_fast
        self.batches: list[list[Job]] = []
        self.interrupted: list[tuple[Job, Outcome]] = []
        self._note(f"{jobs} slots, {per_gpu} for each GPU")

    def _note(self, event: str) -> None:
        with open(self.events, "a") as file:
            file.write(f"{event}\n")

    def free_slots(self) -> int:
        return self.slots - len(self.batches)

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.submit_batch([job])

    def submit_batch(self, jobs: Sequence[Job]) -> None:
        self._note(" ".join(str(job.number) for job in jobs))
        self.batches.append(list(jobs))

    def poll(self, wait: float) -> list[tuple[Job, Outcome]]:
        if self.interrupted:
            return [self.interrupted.pop()]
        job = self.batches[0].pop(0)
        if not self.batches[0]:
            self.batches.pop(0)
        if job.number in self.fails:
            return [(job, Outcome(1, "ZeroDivisionError: none"))]
        folder = os.getcwd()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = run_payload(job.payload_now())
        os.chdir(folder)
        ended = job, Outcome(code, reason(job, code))
        if code != INTERRUPTED:
            return [ended]
        self.interrupted.append(ended)  # the signal was for the search, too
        os.kill(os.getpid(), signal.SIGINT)
        return []

    def location(self, job: Job) -> str:
        return "here"

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.batches.clear()


def own_launcher(folder: Path) -> list[str]:
    """The words of this launcher, whose events are in the file `folder`/events."""
    (folder / "launcher").mkdir(parents=True)
    (folder / "launcher" / "in_process.yaml").write_text(CHOICE.format(events=folder / "events").lstrip())
    return ["launcher=in_process", "--config-dir", str(folder)]
