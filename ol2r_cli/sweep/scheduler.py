"""The loop of a sweep over any launcher: submits jobs, collects their outcomes, retries, stops, and shows the progress.

The progress is read from the files that the runs write.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import mean
from typing import Any, TextIO

from ol2r_cli.launcher.job import Launcher, Outcome
from ol2r_cli.plugins import launching
from ol2r_cli.run import BAD_CONFIGURATION, DONE, INTERRUPTED, stop_signals
from ol2r_cli.sweep.plan import Ending, SweepJob, can_share
from ol2r_cli.text.formatting import duration, plural, shortened
from ol2r_cli.text.program import as_called

_GAP = 2  # blanks between columns
_END = 4096  # bytes at the end of log.txt that contain the last evaluation

Running = Mapping[int, SweepJob]  # the jobs that the launcher has, by number


class Scheduler:
    """Jobs that wait, by number those that the launcher has, and those whose run another process is playing.

    The latter are waited for, when nothing else is left: two equal sweeps share their runs, and both end with all. What
    another process leaves unfinished is run.

    `jobs` are taken when the launcher has a free slot, all that there are then: one that follows from the results of
    others yields None where nothing can be said before another one has ended. `ended` receives each job that has ended,
    and shows it; None: `display` does.
    """

    wait = 0.25  # seconds that one poll waits for a job to end
    look = 1.0  # seconds between two looks at the runs of other processes, when nothing else is left

    def __init__(
        self,
        jobs: Iterable[SweepJob | None],
        launcher: Launcher,
        display: StatusDisplay,
        ended: Callable[[SweepJob], object] | None = None,
    ):
        self.jobs, self.launcher, self.display = iter(jobs), launcher, display
        self.ended = ended or display.ended
        self.taken: list[SweepJob] = []  # of `jobs`
        self.waiting: deque[SweepJob] = deque()
        self.running: dict[int, SweepJob] = {}
        self.elsewhere: list[SweepJob] = []
        self.looked = time.monotonic()  # when it was looked at these
        self.told = False  # that the sweep waits for them
        self.stopping = False
        self.workers = max(1, launcher.free_slots())

    def run(self) -> bool:
        """Run all jobs; returns whether the user asked to stop. Every job has an ending afterwards."""
        with stop_signals() as stop, self.display:
            try:
                self._take()
                while self.waiting or self.running or self.elsewhere:
                    if stop and not self.stopping:
                        self._stop("a second Ctrl-C kills them")
                    self._requeue_elsewhere()
                    self._submit()
                    # Where no job runs there may be no free slot: the process of a batch ends later than its last job.
                    if self.running or not self.launcher.free_slots():
                        for job, outcome in self.launcher.poll(self.wait):
                            self._end(self.running.pop(job.number), outcome)
                    elif self.elsewhere and not self.waiting:
                        self._wait_elsewhere()
                    self.display.show(self.running, len(self.waiting) + len(self.elsewhere), self.launcher)
                    if not stop and not self.stopping:
                        self._take()
            except KeyboardInterrupt:  # a second request to stop
                for sweep_job in self.running.values():
                    sweep_job.ending, sweep_job.reason = Ending.STOPPED, "killed by a second request to stop"
                self._leave_waiting()
            finally:
                self.launcher.close()
                for folder in {sweep_job.log.parent for sweep_job in self.taken}:
                    with suppress(OSError):  # not empty, or not there
                        folder.rmdir()
                        folder.parent.rmdir()
        return bool(stop)

    def _take(self) -> None:
        """Take the jobs that there are now; the runs of other processes come last, as they may be finished by then."""
        # Where no job runs there may be no free slot: the process of a batch ends later than its last job.
        if self.launcher.free_slots() > 0 or not self.running:
            new = list(iter(lambda: next(self.jobs, None), None))
            self.taken += new
            self.waiting += sorted(new, key=lambda sweep_job: sweep_job.state()[0] == "running")

    def _submit(self) -> None:
        """Submit as many batches as there are free slots; jobs alone in one call: a cluster takes them as one array."""
        batches: list[list[SweepJob]] = []
        while self.waiting and len(batches) < self.launcher.free_slots():
            sweep_job = self.waiting.popleft()
            if self._is_ready(sweep_job):
                batches.append([sweep_job, *self._companions(sweep_job)])
        for batch in batches:
            for sweep_job in batch:
                self.running[sweep_job.number] = sweep_job
                sweep_job.attempts, sweep_job.submitted = sweep_job.attempts + 1, time.monotonic()
                sweep_job.batch = len(batch)
        alone = [batch[0].job for batch in batches if len(batch) == 1]
        if alone:
            self.launcher.submit(alone)
        for batch in batches:
            if len(batch) > 1:
                self.launcher.submit_batch([sweep_job.job for sweep_job in batch])  # type: ignore[attr-defined]

    def _is_ready(self, sweep_job: SweepJob) -> bool:
        """Return whether a job can be submitted: another process may have taken its run since the sweep was planned."""
        if not sweep_job.attempts:
            if self._is_taken(sweep_job):
                return False
            sweep_job.log.unlink(missing_ok=True)  # of an earlier sweep
        return True

    def _companions(self, first: SweepJob) -> list[SweepJob]:
        """Take the jobs that are played together with a job from those that wait."""
        size = self._batch_size(first)
        if size == 1:
            return []
        companions: list[SweepJob] = []
        for sweep_job in [waiting for waiting in self.waiting if can_share(first, waiting)]:
            if len(companions) == size - 1:
                break
            self.waiting.remove(sweep_job)
            if self._is_ready(sweep_job):
                companions.append(sweep_job)
        return companions

    def _batch_size(self, first: SweepJob) -> int:
        """Return how many jobs the batch of a job may have, with which every worker still has work."""
        most, batches = getattr(self.launcher, "batch", 1), launching()
        if batches is None:
            return 1
        waiting = 1 + len(self.waiting)
        if most == "auto" and first.shares_gpu:
            return batches.size_on_gpu(waiting, self.workers, first.settings["replicas"])
        if most == "auto":
            return 1 if first.needs_gpu else batches.size(waiting, self.workers, self._seconds_alone(first.workload))
        return min(int(most), -(-waiting // self.workers))

    def _seconds_alone(self, workload: str) -> float | None:
        """Return how long jobs of a workload take that are done, each for itself; None if none is."""
        done = [job.seconds / job.batch for job in self.taken if job.ending == Ending.DONE and job.workload == workload]
        return mean(done) if done else None

    def _is_taken(self, sweep_job: SweepJob) -> bool:
        """Return whether another process has finished the run of a job, or is running it.

        The job is ended, or put to those that run elsewhere.
        """
        state = sweep_job.state()[0]
        if state == "finished":
            sweep_job.ending, sweep_job.reason = Ending.SKIPPED, ""
            self.ended(sweep_job)
        elif state == "running":
            sweep_job.ending, sweep_job.attempts = None, 0
            self.elsewhere.append(sweep_job)
        return state in ("finished", "running")

    def _requeue_elsewhere(self) -> None:
        """Look again, now and then, at the runs of other processes, where no other job is left: put them back to those
        that wait. `_submit` ends those that are finished, and plays those that nobody runs any more."""
        is_due = time.monotonic() - self.looked >= self.look
        if is_due and not self.waiting and not self.running:
            self.looked = time.monotonic()
            self.waiting += self.elsewhere
            self.elsewhere = []

    def _wait_elsewhere(self) -> None:
        """Wait a moment for the runs of other processes."""
        if not self.told:
            runs = plural(len(self.elsewhere), "run")
            what = f"waiting for {runs} of another process (see `{status_command(self.elsewhere)}`)"
            self.display.say(as_called(f"{what}; Ctrl-C ends the waiting"))
            self.told = True
        time.sleep(self.wait)

    def _end(self, sweep_job: SweepJob, outcome: Outcome) -> None:
        """Note how a job has ended; it may wait once more, or its run may be one of another process."""
        sweep_job.seconds += time.monotonic() - sweep_job.submitted
        sweep_job.reason = outcome.reason
        again = self._again(sweep_job, outcome)
        if again:
            self.waiting.append(sweep_job)
            self.display.say(f"{sweep_job.name}: {sweep_job.reason}; {again}")
            return
        if outcome.code == BAD_CONFIGURATION and self._is_taken(sweep_job):  # another process was first
            if self.stopping:
                self._leave_waiting()
            return
        if outcome.code == DONE:
            sweep_job.ending = Ending.DONE
            sweep_job.log.unlink(missing_ok=True)
        elif self.stopping and outcome.code in (INTERRUPTED, -signal.SIGTERM):
            sweep_job.ending = Ending.STOPPED
            sweep_job.reason = "what was done is kept" if outcome.code == INTERRUPTED else "before its first round"
        else:
            sweep_job.ending = Ending.FAILED
        self.ended(sweep_job)
        if sweep_job.ending == Ending.FAILED and self.launcher.fail_fast and not self.stopping:
            self._stop("one has failed, and launcher.fail_fast=true")

    def _again(self, sweep_job: SweepJob, outcome: Outcome) -> str:
        """Return how a job is run again; empty where it is not. One that was in a batch is then alone."""
        if self.stopping or outcome.code == DONE:
            return ""
        if outcome.again_alone:
            sweep_job.alone = True
            sweep_job.attempts -= 1
            advice = " (device=cpu would use all cores)" if sweep_job.shares_gpu else ""
            return f"again alone, as it was in a batch of jobs{advice}"
        if outcome.code != BAD_CONFIGURATION and sweep_job.attempts <= self.launcher.retries:
            return f"again ({sweep_job.attempts} of {self.launcher.retries})"
        return ""

    def _stop(self, why: str) -> None:
        """Leave the jobs that wait, and ask those that run to write a checkpoint."""
        self.stopping = True
        if self.running:
            playing = len(being_played(self.running, self.launcher))
            self.display.say(f"stopping: {playing} running jobs keep what they have done; {why}")
        self._leave_waiting()
        self.launcher.stop()

    def _leave_waiting(self) -> None:
        for sweep_job in self.waiting:
            sweep_job.ending = sweep_job.ending or Ending.LEFT
        self.waiting.clear()
        for sweep_job in self.elsewhere:
            sweep_job.ending = Ending.ELSEWHERE
        self.elsewhere.clear()


def being_played(running: Running, launcher: Launcher) -> dict[int, SweepJob]:
    """Return those jobs of a launcher that play: others may still be in its queue."""
    waits = getattr(launcher, "waits", None)
    return {number: job for number, job in running.items() if waits is None or not waits(job.job)}


def status_command(sweep_jobs: Sequence[SweepJob]) -> str:
    """Return what to type to see the runs of jobs, of which there is at least one."""
    return shlex.join(["ol2r", "status", str(sweep_jobs[0].settings["output_dir"])])


class StatusDisplay:
    """Context manager around a sweep of these jobs; `terminal` is where they are shown, None for silence.

    `expected` is how many there will be, if they are not known from the start. `split` is that whose NDCG is shown.
    """

    plain_every, live_every = 30.0, 1.0  # seconds

    def __init__(self, sweep_jobs: Sequence[SweepJob], terminal: TextIO | None, expected: int = 0, split: str = "test"):
        self.sweep_jobs, self.terminal, self.expected, self.split = sweep_jobs, terminal, expected, split
        self.live: Any = None
        self.start = self.shown = time.monotonic()

    def __enter__(self) -> StatusDisplay:
        self.start = self.shown = time.monotonic()
        if self.terminal is not None and self.terminal.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self.terminal)
            self.live = Live(console=console, refresh_per_second=4, transient=True, redirect_stdout=False)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def say(self, line: str) -> None:
        """Show a line that stays."""
        if self.live is not None:
            self.live.console.print(line, markup=False, highlight=False)
        elif self.terminal is not None:
            print(line, file=self.terminal, flush=True)

    def ended(self, sweep_job: SweepJob) -> None:
        """Show that a job has ended. A live display shows only jobs that have not succeeded."""
        how = f"done in {duration(sweep_job.seconds)}" if sweep_job.ending == Ending.DONE else str(sweep_job.ending)
        if sweep_job.ending in (Ending.FAILED, Ending.STOPPED) and sweep_job.reason:
            how += f": {sweep_job.reason}"
        if self.live is None or not sweep_job.succeeded:
            count = sum(bool(other.ending) for other in self.sweep_jobs)
            self.say(f"[{count}/{self.total}] {sweep_job.name}: {how}")

    @property
    def total(self) -> int:
        """Return the number of jobs, those included that are expected."""
        return max(self.expected, len(self.sweep_jobs))

    def show(self, running: Running, waiting: int, launcher: Launcher) -> None:
        """Show the progress, unless it was shown a moment ago. Called after every poll of the launcher."""
        if time.monotonic() - self.shown < (self.plain_every if self.live is None else self.live_every):
            return
        self.shown = time.monotonic()
        counts = Counter(sweep_job.ending for sweep_job in self.sweep_jobs)
        endings = (Ending.DONE, Ending.SKIPPED, Ending.FAILED, Ending.BAD)
        states = [f"{counts[ending]} {ending}" for ending in endings if counts[ending]]
        playing = being_played(running, launcher)
        queued = {number: sweep_job for number, sweep_job in running.items() if number not in playing}
        for sweep_job in queued.values():  # its time begins when it is played
            sweep_job.submitted = self.shown
        states.append(f"{len(playing)} running")
        if waiting + len(queued):
            states.append(f"{waiting + len(queued)} waiting")
        left = self.left(playing)
        clock = f"{duration(time.monotonic() - self.start)} so far"
        if left:
            clock += f", about {duration(left)} left"
        totals = f"{', '.join(states)} of {self.total}; {clock}"
        if self.live is None:
            self.say(totals)
        else:
            console = self.live.console
            shown = playing | queued
            self.live.update(table(shown, launcher, totals, console.height - 5, console.width, self.split))

    def left(self, running: Running) -> float | None:
        """Return seconds left; None while that is unknown for a job.

        A round of a job is taken to last as long as the mean round of those of its workload that are done, or have a
        speed. The jobs of a batch share the time of their process. Jobs that are expected are
        taken to last as long as the others on average.
        """
        ran = {number: time.monotonic() - sweep_job.submitted for number, sweep_job in running.items()}
        times = self._seconds_of_a_round(running, ran)
        left, wholes = 0.0, list[float]()
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending in (None, Ending.DONE):
                if not times[sweep_job.workload]:
                    return None
                wholes.append(mean(times[sweep_job.workload]) * sweep_job.rounds)
                if sweep_job.ending is None:
                    left += max(0.0, wholes[-1] - ran.get(sweep_job.number, 0.0) / sweep_job.batch)
        if wholes:
            left += (self.total - len(self.sweep_jobs)) * mean(wholes)
        processes = sum(1 / sweep_job.batch for sweep_job in running.values())
        return left / max(1.0, processes)

    def _seconds_of_a_round(self, running: Running, ran: Mapping[int, float]) -> Mapping[str, list[float]]:
        """Return by workload the seconds of a round, of each job that is done or has a speed.

        `ran` has the seconds for which those run that are running.
        """
        times: dict[str, list[float]] = defaultdict(list)
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending == Ending.DONE:
                times[sweep_job.workload].append(sweep_job.seconds / sweep_job.rounds / sweep_job.batch)
        for number, sweep_job in running.items():
            run = sweep_job.run_state()
            if run is not None and run.remaining is not None:
                times[sweep_job.workload].append((ran[number] + run.remaining) / sweep_job.rounds / sweep_job.batch)
        return times


def table(running: Running, launcher: Launcher, totals: str, height: int, width: int, split: str = "test") -> Any:
    """Return a table with a line for each running job, as far as the terminal has room.

    Names are the only column that is narrowed.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    headings = ("where", "round", "rounds/s", "left", f"{split} NDCG")
    shown = list(running.values())[: max(1, height)]
    rows = [[launcher.location(sweep_job.job), *_progress(sweep_job, split)] for sweep_job in shown]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("job", no_wrap=True, overflow="ellipsis", ratio=1)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    taken = [max(map(len, column)) + _GAP for column in zip(headings, *rows, strict=True)]
    names = shortened([sweep_job.name for sweep_job in shown], width - sum(taken))
    for name, cells in zip(names, rows, strict=True):
        table.add_row(Text(name), *map(Text, cells))
    hidden = len(running) - len(shown)
    lines = [Text(f"and {hidden} more", style="dim")] if hidden else []
    return Group(table, *lines, Text(totals, style="bold"))


def _progress(sweep_job: SweepJob, split: str) -> list[str]:
    """Return round, speed, time left and the last NDCG on a split of a running job, as its files have them."""
    run = sweep_job.run_state()
    if run is None or run.state not in ("running", "finished"):  # it is as it was before it was resumed
        return [f"0/{sweep_job.rounds}", "", "", ""]
    speed, remaining = run.manifest.get("rounds_per_second"), run.remaining
    evaluated = list[bytes]()
    with suppress(OSError), open(run.path / "log.txt", "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
        evaluated = re.findall(rb"%b NDCG@\d+ ([\d.]+)" % split.encode(), file.read())
    return [
        f"{run.round}/{sweep_job.rounds}",
        f"{speed:,.0f}" if speed else "",
        duration(remaining) if remaining is not None else "",
        f"{float(evaluated[-1]):.4f}" if evaluated else "",
    ]
