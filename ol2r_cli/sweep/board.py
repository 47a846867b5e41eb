"""What a sweep shows while it goes: a live table on a terminal; elsewhere a line now and then, and for each job."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from ol2r_cli.launcher.job import Job, Launcher
from ol2r_cli.results.manifest import duration
from ol2r_cli.sweep.cell import BAD, DONE, FAILED, SKIPPED, STOPPED, Cell
from ol2r_cli.sweep.glimpse import glimpse

Running = Mapping[int, tuple[Cell, Job, float]]


@runtime_checkable
class Terminal(Protocol):
    """Where a sweep shows how it fares: standard error, or anything like it."""

    def write(self, text: str, /) -> object:
        """Text to be seen."""

    def flush(self) -> object:
        """Now."""

    def isatty(self) -> bool:
        """Whether somebody looks at it, so that lines may change."""


class Board:
    """Context manager around a sweep of `total` jobs, of which `skipped` were finished before."""

    plain_every, live_every = 30.0, 1.0  # seconds

    def __init__(self, cells: Sequence[Cell], terminal: Terminal | None):
        self.cells, self.terminal = cells, terminal
        self.live: Any = None
        self.began = self.shown = time.monotonic()

    def __enter__(self) -> Board:
        self.began = self.shown = time.monotonic()
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
        """A line that stays."""
        if self.live is not None:
            self.live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif self.terminal is not None:
            print(line, file=self.terminal, flush=True)

    def ended(self, cell: Cell) -> None:
        """A job will not be started again. On a terminal only what went wrong stays."""
        how = f"done in {duration(cell.seconds)}" if cell.ending == DONE else cell.ending
        if cell.ending in (FAILED, STOPPED) and cell.reason:
            how += f": {cell.reason}"
        if self.live is None or cell.ending not in (DONE, SKIPPED):
            ended = sum(bool(one.ending) for one in self.cells)
            self.say(f"[{ended}/{len(self.cells)}] {cell.name}: {how}")

    def show(self, running: Running, waiting: int, launcher: Launcher) -> None:
        """Called again and again; shows something when it is time to."""
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
        counts = Counter(cell.ending for cell in self.cells)
        parts = [f"{counts[ending]} {ending}" for ending in (DONE, SKIPPED, FAILED, BAD) if counts[ending]]
        parts += [f"{len(running)} running"] + ([f"{waiting} waiting"] if waiting else [])
        left = self._left(running, waiting)
        clock = f"{duration(time.monotonic() - self.began)} so far" + (f", about {duration(left)} left" if left else "")
        return f"{', '.join(parts)} of {len(self.cells)}; {clock}"

    def _left(self, running: Running, waiting: int) -> float | None:
        """Seconds to go, if the others take as long as those that are done; None before one is."""
        took = [cell.seconds for cell in self.cells if cell.ending == DONE]
        if not took:
            return None
        mean, now = sum(took) / len(took), time.monotonic()
        rest = sum(max(0.0, mean - (now - began)) for _, _, began in running.values())
        return (waiting * mean + rest) / max(1, len(running))


def _table(running: Running, launcher: Launcher, totals: str, height: int) -> Any:
    """One line a running job, as many as there is room for."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("job", ratio=1, no_wrap=True, overflow="ellipsis", min_width=16)
    for heading in ("where", "round", "rounds/s", "left", "test NDCG@10"):
        table.add_column(heading, justify="right", no_wrap=True)
    shown = list(running.values())[: max(1, height)]
    for cell, job, _ in shown:
        seen = glimpse(job.directory)
        table.add_row(
            Text(cell.name),
            Text(launcher.place(job)),
            f"{seen.round}/{cell.settings['rounds']}",
            f"{seen.speed:,.0f}" if seen.speed else "",
            duration(seen.left) if seen.left is not None else "",
            f"{seen.ndcg:.4f}" if seen.ndcg is not None else "",
        )
    hidden = len(running) - len(shown)
    lines = [Text(f"and {hidden} more", style="dim")] if hidden else []
    return Group(table, *lines, Text(totals, style="bold"))
