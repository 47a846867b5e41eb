"""The loop of a sweep over any launcher: submits jobs, collects their outcomes, retries, and stops."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress

from ol2r_cli.launcher.job import Job, Launcher, Outcome
from ol2r_cli.run.exit_status import BAD_CONFIGURATION, DONE, INTERRUPTED, stop_signals
from ol2r_cli.sweep.status_display import StatusDisplay
from ol2r_cli.sweep.sweep_job import Ending, JobState, SweepJob

_WAIT = 0.25  # seconds that one poll waits for a job to end


class Scheduler:
    """The jobs of a sweep that wait, and those that the launcher has, with the time at which they were submitted."""

    def __init__(self, sweep_jobs: Sequence[SweepJob], launcher: Launcher, display: StatusDisplay):
        self.sweep_jobs, self.launcher, self.display = sweep_jobs, launcher, display
        # Runs of other processes come last, because they may be finished by then.
        in_order = sorted(sweep_jobs, key=lambda sweep_job: sweep_job.state()[0] == JobState.RUNNING)
        self.waiting = deque((sweep_job, sweep_job.job()) for sweep_job in in_order)
        self.running: dict[int, tuple[SweepJob, Job, float]] = {}
        self.retries: Counter[int] = Counter()
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
                        self._end(job, outcome)
                    self.display.show(self.running, len(self.waiting), self.launcher)
            except KeyboardInterrupt:  # a second request to stop
                for sweep_job, _, _ in self.running.values():
                    sweep_job.ending, sweep_job.reason = Ending.STOPPED, "killed by a second request to stop"
                self._leave_waiting()
            finally:
                self.launcher.close()
                self._remove_empty_log_folders()
        return bool(stop)

    def _submit(self) -> None:
        """Submit as many jobs as there are free slots, in one call: a cluster takes them as one array."""
        batch: list[tuple[SweepJob, Job]] = []
        while self.waiting and len(batch) < self.launcher.free_slots():
            sweep_job, job = self.waiting.popleft()
            if self.retries[sweep_job.number] or not self._is_elsewhere(sweep_job):
                batch.append((sweep_job, job))
        for sweep_job, job in batch:
            if not self.retries[sweep_job.number]:
                job.log.unlink(missing_ok=True)  # of an earlier sweep
            self.running[job.number] = sweep_job, job, time.monotonic()
        if batch:
            self.launcher.submit([job for _, job in batch])

    def _is_elsewhere(self, sweep_job: SweepJob) -> bool:
        """Whether another process has finished or started this run since the sweep was planned."""
        state, _ = sweep_job.state()
        if state == JobState.FINISHED:
            sweep_job.ending = Ending.SKIPPED
        elif state == JobState.RUNNING:
            sweep_job.ending = Ending.ELSEWHERE
        else:
            return False
        self.display.ended(sweep_job)
        return True

    def _ending_elsewhere(self, sweep_job: SweepJob) -> Ending | None:
        """The ending of a run that another process started first; None for a job with a bad configuration."""
        run = sweep_job.run_state()
        if run is not None and run.state == JobState.RUNNING:
            return Ending.ELSEWHERE
        return Ending.SKIPPED if sweep_job.state()[0] == JobState.FINISHED else None

    def _end(self, job: Job, outcome: Outcome) -> None:
        sweep_job, job, submitted = self.running.pop(job.number)
        sweep_job.seconds += time.monotonic() - submitted
        sweep_job.reason = outcome.reason
        if outcome.code == DONE:
            sweep_job.ending = Ending.DONE
            job.log.unlink(missing_ok=True)
        elif self.stopping and outcome.code in (INTERRUPTED, -signal.SIGTERM):
            sweep_job.ending = Ending.STOPPED
            sweep_job.reason = "what was done is kept" if outcome.code == INTERRUPTED else "before its first round"
        elif outcome.code == BAD_CONFIGURATION and (ending := self._ending_elsewhere(sweep_job)):
            sweep_job.ending, sweep_job.reason = ending, ""
        elif self._may_retry(sweep_job, outcome):
            self._retry(sweep_job, job)
            return
        else:
            sweep_job.ending = Ending.FAILED
        self.display.ended(sweep_job)
        if sweep_job.ending == Ending.FAILED and self.launcher.fail_fast and not self.stopping:
            self._stop("one has failed, and launcher.fail_fast=true")

    def _may_retry(self, sweep_job: SweepJob, outcome: Outcome) -> bool:
        if self.stopping or outcome.code == BAD_CONFIGURATION:
            return False
        return self.retries[sweep_job.number] < self.launcher.retries

    def _retry(self, sweep_job: SweepJob, job: Job) -> None:
        self.retries[sweep_job.number] += 1
        self.waiting.append((sweep_job, sweep_job.retry(job)))
        count = f"{self.retries[sweep_job.number]} of {self.launcher.retries}"
        self.display.say(f"{sweep_job.name}: {sweep_job.reason}; again ({count})")

    def _stop(self, why: str) -> None:
        """Leave the jobs that wait, and ask those that run to write a checkpoint."""
        self.stopping = True
        if self.running:
            self.display.say(f"stopping: {len(self.running)} running jobs keep what they have done; {why}")
        self._leave_waiting()
        self.launcher.stop()

    def _leave_waiting(self) -> None:
        for sweep_job, _ in self.waiting:
            sweep_job.ending = sweep_job.ending or Ending.LEFT
        self.waiting.clear()

    def _remove_empty_log_folders(self) -> None:
        for folder in {sweep_job.log.parent for sweep_job in self.sweep_jobs if sweep_job.log is not None}:
            with suppress(OSError):  # not empty
                folder.rmdir()
                folder.parent.rmdir()
