"""Shows the progress of a sweep, which it reads from the files that the runs write: a live table, or lines."""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import mean
from typing import Any, TextIO

from ol2r_cli.formatting import duration
from ol2r_cli.launcher.job import Launcher
from ol2r_cli.sweep.plan import Ending, SweepJob

_END = 4096  # bytes at the end of log.txt that contain the last evaluation
Running = Mapping[int, SweepJob]  # the jobs that the launcher has, by number


class StatusDisplay:
    """Context manager around a sweep of these jobs; `terminal` is where they are shown, None for silence."""

    plain_every, live_every = 30.0, 1.0  # seconds

    def __init__(self, sweep_jobs: Sequence[SweepJob], terminal: TextIO | None):
        self.sweep_jobs, self.terminal = sweep_jobs, terminal
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
        if time.monotonic() - self.shown < (self.plain_every if self.live is None else self.live_every):
            return
        self.shown = time.monotonic()
        counts = Counter(sweep_job.ending for sweep_job in self.sweep_jobs)
        endings = (Ending.DONE, Ending.SKIPPED, Ending.FAILED, Ending.BAD)
        parts = [f"{counts[ending]} {ending}" for ending in endings if counts[ending]]
        parts += [f"{len(running)} running"] + ([f"{waiting} waiting"] if waiting else [])
        left = self.left(running)
        clock = f"{duration(time.monotonic() - self.start)} so far" + (f", about {duration(left)} left" if left else "")
        totals = f"{', '.join(parts)} of {len(self.sweep_jobs)}; {clock}"
        if self.live is None:
            self.say(totals)
        else:
            self.live.update(table(running, launcher, totals, self.live.console.height - 5))

    def left(self, running: Running) -> float | None:
        """Seconds left; None while that is unknown for a job.

        A round takes as long as the mean of those of the jobs of its kind that are done or have a speed.
        """
        times, left = defaultdict(list), 0.0
        ran = {number: time.monotonic() - sweep_job.submitted for number, sweep_job in running.items()}
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending == Ending.DONE:
                times[sweep_job.kind].append(sweep_job.seconds / sweep_job.settings["rounds"])
        for number, sweep_job in running.items():
            if (run := sweep_job.run_state()) is not None and run.remaining is not None:
                times[sweep_job.kind].append((ran[number] + run.remaining) / sweep_job.settings["rounds"])
        for sweep_job in self.sweep_jobs:
            if sweep_job.ending is None:
                if not (known := times[sweep_job.kind]):
                    return None
                left += max(0.0, mean(known) * sweep_job.settings["rounds"] - ran.get(sweep_job.number, 0.0))
        return left / max(1, len(running))


def table(running: Running, launcher: Launcher, totals: str, height: int) -> Any:
    """A table with a line for each running job, as far as the terminal has room."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("job", ratio=1)  # the only column that may be narrowed: of a name the beginning is enough
    for heading in ("where", "round", "rounds/s", "left", "test NDCG"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = list(running.values())[: max(1, height)]
    for sweep_job in shown:
        run = sweep_job.run_state()
        name = Text(sweep_job.name, no_wrap=True, overflow="ellipsis")
        cells = [f"0/{sweep_job.settings['rounds']}", "", "", ""]
        if run is not None and run.state in ("running", "finished"):  # else it is as it was before it was resumed
            speed, remaining, ndcg = run.manifest.get("rounds_per_second"), run.remaining, list[bytes]()
            with suppress(OSError), open(run.path / "log.txt", "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _END))
                ndcg = re.findall(rb"test NDCG@\d+ ([\d.]+)", file.read())
            cells = [
                f"{run.round}/{sweep_job.settings['rounds']}",
                f"{speed:,.0f}" if speed else "",
                duration(remaining) if remaining is not None else "",
                f"{float(ndcg[-1]):.4f}" if ndcg else "",
            ]
        table.add_row(name, Text(launcher.location(sweep_job.job)), *cells)
    hidden = len(running) - len(shown)
    lines = [Text(f"and {hidden} more", style="dim")] if hidden else []
    return Group(table, *lines, Text(totals, style="bold"))
