"""The loop of a sweep over any launcher: submits jobs, collects their outcomes, retries, and stops."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from ol2r_cli.launcher.job import Launcher, Outcome
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, INTERRUPTED, stop_signals
from ol2r_cli.sweep.plan import Ending, SweepJob
from ol2r_cli.sweep.status_display import StatusDisplay

_WAIT = 0.25  # seconds that one poll waits for a job to end
_ELSEWHERE = {"finished": Ending.SKIPPED, "running": Ending.ELSEWHERE}  # by what another process did


class Scheduler:
    """The jobs of a sweep that wait, and by number those that the launcher has."""

    def __init__(self, sweep_jobs: Sequence[SweepJob], launcher: Launcher, display: StatusDisplay):
        self.sweep_jobs, self.launcher, self.display = sweep_jobs, launcher, display
        # Runs of other processes come last, because they may be finished by then.
        self.waiting = deque(sorted(sweep_jobs, key=lambda sweep_job: sweep_job.state()[0] == "running"))
        self.running: dict[int, SweepJob] = {}
        self.stopping = False

    def run(self) -> bool:
        """Run all jobs; returns whether the user asked to stop. Every job has an ending afterwards."""
        with stop_signals() as stop, self.display:
            try:
                while self.waiting or self.running:
                    if stop and not self.stopping:
                        self._stop("a second Ctrl-C kills them")
                    self._submit()
                    for job, outcome in self.launcher.poll(_WAIT) if self.running else ():
                        self._end(self.running.pop(job.number), outcome)
                    self.display.show(self.running, len(self.waiting), self.launcher)
            except KeyboardInterrupt:  # a second request to stop
                for sweep_job in self.running.values():
                    sweep_job.ending, sweep_job.reason = Ending.STOPPED, "killed by a second request to stop"
                self._leave_waiting()
            finally:
                self.launcher.close()
                for folder in {sweep_job.log.parent for sweep_job in self.sweep_jobs}:
                    with suppress(OSError):  # not empty, or not there
                        folder.rmdir()
                        folder.parent.rmdir()
        return bool(stop)

    def _submit(self) -> None:
        """Submit as many jobs as there are free slots, in one call: a cluster takes them as one array."""
        batch: list[SweepJob] = []
        while self.waiting and len(batch) < self.launcher.free_slots():
            sweep_job = self.waiting.popleft()
            if not sweep_job.attempts:
                # Another process may have finished or started this run since the sweep was planned.
                sweep_job.ending = _ELSEWHERE.get(sweep_job.state()[0])
                if sweep_job.ending is not None:
                    self.display.ended(sweep_job)
                    continue
                sweep_job.log.unlink(missing_ok=True)  # of an earlier sweep
            batch.append(sweep_job)
        for sweep_job in batch:
            self.running[sweep_job.number] = sweep_job
            sweep_job.attempts, sweep_job.submitted = sweep_job.attempts + 1, time.monotonic()
        if batch:
            self.launcher.submit([sweep_job.job for sweep_job in batch])

    def _end(self, sweep_job: SweepJob, outcome: Outcome) -> None:
        sweep_job.seconds += time.monotonic() - sweep_job.submitted
        sweep_job.ending, sweep_job.reason = Ending.FAILED, outcome.reason
        retries, bad = self.launcher.retries, outcome.code == BAD_CONFIGURATION
        if outcome.code == DONE:
            sweep_job.ending = Ending.DONE
            sweep_job.log.unlink(missing_ok=True)
        elif self.stopping and outcome.code in (INTERRUPTED, -signal.SIGTERM):
            sweep_job.ending = Ending.STOPPED
            sweep_job.reason = "what was done is kept" if outcome.code == INTERRUPTED else "before its first round"
        elif bad and (ending := _ELSEWHERE.get(sweep_job.state()[0])):
            sweep_job.ending, sweep_job.reason = ending, ""  # another process has started the run first
        elif sweep_job.attempts <= retries and not self.stopping and not bad:
            sweep_job.ending = None
            self.waiting.append(sweep_job)
            self.display.say(f"{sweep_job.name}: {sweep_job.reason}; again ({sweep_job.attempts} of {retries})")
            return
        self.display.ended(sweep_job)
        if sweep_job.ending == Ending.FAILED and self.launcher.fail_fast and not self.stopping:
            self._stop("one has failed, and launcher.fail_fast=true")

    def _stop(self, why: str) -> None:
        """Leave the jobs that wait, and ask those that run to write a checkpoint."""
        self.stopping = True
        if self.running:
            self.display.say(f"stopping: {len(self.running)} running jobs keep what they have done; {why}")
        self._leave_waiting()
        self.launcher.stop()

    def _leave_waiting(self) -> None:
        for sweep_job in self.waiting:
            sweep_job.ending = sweep_job.ending or Ending.LEFT
        self.waiting.clear()
