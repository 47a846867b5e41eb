"""Shows the progress of a sweep, which it reads from the files that the runs write: a live table, or lines."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from ol2r_cli.formatting import duration
from ol2r_cli.launcher.job import Job, Launcher
from ol2r_cli.run.run import Run, read_manifest
from ol2r_cli.sweep.sweep_job import Ending, SweepJob

_END = 4096  # bytes at the end of log.txt that contain the last evaluation


def read_progress(directory: Path) -> Run:
    """The progress of the run in a directory, which may not have begun: round 0 until it runs."""
    manifest: Mapping[str, Any] = {}
    with suppress(ValueError, OSError):
        manifest = read_manifest(directory) or {}
    begun = manifest.get("status") in ("running", "finished")  # otherwise it is from before it was resumed
    return Run(directory, manifest if begun else {})


def _last_ndcg(log: Path) -> float | None:
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _END))
        values = re.findall(rb"test NDCG@\d+ ([\d.]+)", file.read())
        return float(values[-1]) if values else None
    return None


Running = Mapping[int, tuple[SweepJob, Job, float]]  # by number: the job, what the launcher has, when it was submitted


@runtime_checkable
class Terminal(Protocol):
    """Where a sweep shows its progress: standard error, or an object with the same methods."""

    def write(self, text: str, /) -> object:
        """Show text."""

    def flush(self) -> object:
        """Show the text now."""

    def isatty(self) -> bool:
        """Whether lines that are shown can be replaced."""


class StatusDisplay:
    """Context manager around a sweep of these jobs; `terminal` None for silence."""

    plain_every, live_every = 30.0, 1.0  # seconds

    def __init__(self, sweep_jobs: Sequence[SweepJob], terminal: Terminal | None):
        self.sweep_jobs, self.terminal = sweep_jobs, terminal
        self.live: Any = None
        self.start = self.shown = time.monotonic()

    def __enter__(self) -> StatusDisplay:
        self.start = self.shown = time.monotonic()
        if self.terminal is not None and self.terminal.isatty():
            from rich.console import Console
            from rich.live import Live

            screen: Any = self.terminal
            console = Console(file=screen)
            self.live = Live(console=console, refresh_per_second=4, transient=True, redirect_stdout=False)
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def say(self, line: str) -> None:
        """Show a line that stays."""
        if self.live is not None:
            self.live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif self.terminal is not None:
            print(line, file=self.terminal, flush=True)

    def ended(self, sweep_job: SweepJob) -> None:
        """Show that a job has ended. A live display shows only jobs that have not succeeded."""
        how = f"done in {duration(sweep_job.seconds)}" if sweep_job.ending == Ending.DONE else str(sweep_job.ending)
        if sweep_job.ending in (Ending.FAILED, Ending.STOPPED) and sweep_job.reason:
            how += f": {sweep_job.reason}"
        if self.live is None or not sweep_job.succeeded:
            count = sum(bool(other.ending) for other in self.sweep_jobs)
            self.say(f"[{count}/{len(self.sweep_jobs)}] {sweep_job.name}: {how}")

    def show(self, running: Running, waiting: int, launcher: Launcher) -> None:
        """Show the progress, unless it was shown a moment ago. Called after every poll of the launcher."""
        every = self.plain_every if self.live is None else self.live_every
        if time.monotonic() - self.shown < every:
            return
        self.shown = time.monotonic()
        totals = self._totals(running, waiting)
        if self.live is None:
            self.say(totals)
        else:
            self.live.update(_table(running, launcher, totals, self.live.console.height - 5))

    def _totals(self, running: Running, waiting: int) -> str:
        counts = Counter(sweep_job.ending for sweep_job in self.sweep_jobs)
        shown = (Ending.DONE, Ending.SKIPPED, Ending.FAILED, Ending.BAD)
        parts = [f"{counts[ending]} {ending}" for ending in shown if counts[ending]]
        parts += [f"{len(running)} running"] + ([f"{waiting} waiting"] if waiting else [])
        left = self._left(running)
        clock = f"{duration(time.monotonic() - self.start)} so far" + (f", about {duration(left)} left" if left else "")
        return f"{', '.join(parts)} of {len(self.sweep_jobs)}; {clock}"

    def _left(self, running: Running) -> float | None:
        """Seconds left; None while that is unknown for a job.

        A round takes as long as the mean of those of the jobs of its kind that are done or have a speed.
        """
        times, left = defaultdict(list), 0.0
        ran = {number: time.monotonic() - submitted for number, (_, _, submitted) in running.items()}
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending == Ending.DONE:
                times[sweep_job.kind].append(sweep_job.seconds / sweep_job.settings["rounds"])
        for number, (sweep_job, job, _) in running.items():
            if (remaining := read_progress(job.directory).remaining) is not None:
                times[sweep_job.kind].append((ran[number] + remaining) / sweep_job.settings["rounds"])
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending is None:
                if not (known := times[sweep_job.kind]):
                    return None
                left += max(0.0, mean(known) * sweep_job.settings["rounds"] - ran.get(sweep_job.number, 0.0))
        return left / max(1, len(running))


def _table(running: Running, launcher: Launcher, totals: str, height: int) -> Any:
    """A table with a line for each running job, as far as the terminal has room."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("job", ratio=1)  # the only column that may be narrowed: of a name the beginning is enough
    for heading in ("where", "round", "rounds/s", "left", "test NDCG"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = list(running.values())[: max(1, height)]
    for sweep_job, job, _ in shown:
        progress = read_progress(job.directory)
        speed, ndcg = progress.manifest.get("rounds_per_second"), _last_ndcg(job.directory / "log.txt")
        table.add_row(
            Text(sweep_job.name, no_wrap=True, overflow="ellipsis"),
            Text(launcher.location(job)),
            f"{progress.round}/{sweep_job.settings['rounds']}",
            f"{speed:,.0f}" if speed else "",
            duration(progress.remaining) if progress.remaining is not None else "",
            f"{ndcg:.4f}" if ndcg is not None else "",
        )
    hidden = len(running) - len(shown)
    lines = [Text(f"and {hidden} more", style="dim")] if hidden else []
    return Group(table, *lines, Text(totals, style="bold"))
