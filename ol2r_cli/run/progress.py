"""The progress of a run on stderr: a live line on a terminal, one every 30 s elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, Timer
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from torch import Tensor

from ol2r_cli.columns import main_cutoff, ndcg_columns
from ol2r_cli.loops import clock
from ol2r_cli.run.store import LOGGER, SETTLED
from ol2r_cli.text.formatting import duration

_log = logging.getLogger(LOGGER)


@contextmanager
def start_shown(shown: bool) -> Iterator[None]:
    """Say on stderr, once, that loops are compiled where that takes longer than a second before rounds are shown."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(Progress.compiling_after) and not Progress.began:
            if clock.compiling:
                print("compiling loops, once in this environment", file=sys.stderr, flush=True)
                return

    Progress.began = False
    if shown:
        Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class Progress:
    """Progress of a run from round `first` to `rounds`, on stderr: a live line on a terminal, one every 30 s elsewhere.

    A context manager around the rounds. `update` is called every round. It is cheap, because `measures`, the latest
    ones [R, B], are read only when they are shown. `title` is last in the line, because a narrow terminal cuts it.
    `unfairness` is whether that is shown.
    """

    plain_every, live_every = 30.0, 0.25  # seconds
    compiling_after = 1.0  # seconds until a plain display says that loops are being compiled, in which no round ends
    began = False  # whether rounds are shown

    def __init__(self, title: str, rounds: int, first: int, unfairness: bool = True, quiet: bool = False):
        self.title, self.rounds, self.first, self.done = title, rounds, first, first
        self.unfairness, self.quiet = unfairness, quiet
        self.measures: Mapping[str, Tensor] = {}
        self.ndcg: dict[str, float] = {}
        self.facts: list[str] = []
        self.live: Any = None
        self.timer = Timer(self.compiling_after, self._show_compiling)

    def __enter__(self) -> Progress:
        Progress.began = True
        self.start, self.shown = clock.read()[0], time.monotonic()
        if sys.stderr.isatty() and not self.quiet:
            self.live = Live(
                console=Console(stderr=True),
                get_renderable=lambda: Text(self.line(), no_wrap=True, overflow="ellipsis"),
            )
            self.live.start()
        elif not self.quiet:
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        if self.live is not None:
            self._show()
            self.live.stop()

    def update(self, round: int) -> None:
        """Note that round `round` is done."""
        self.done = round
        every = self.plain_every if self.live is None else self.live_every
        if not self.quiet and time.monotonic() - self.shown > every:
            self._show()

    def evaluated(self, round: int, ndcg: Mapping[str, float]) -> None:
        """Keep offline NDCG by name, such as `test NDCG@10`, evaluated up to `round`, for the display, and log it."""
        self.ndcg.update(ndcg)
        _log.info("round %d: %s", round, ", ".join(f"{name} {value:.4f}" for name, value in ndcg.items()))

    def line(self) -> str:
        """Return the round, the speed, the time left unless too few rounds have been played, metrics, and the title."""
        seconds, played = clock.read()[0] - self.start, self.done - self.first
        parts = [f"round {self.done}/{self.rounds}"]
        if clock.compiling:
            parts.append("compiling loops, once in this environment")
        elif played and seconds > 0:
            parts.append(f"{played / seconds:,.0f} rounds/s")
            if seconds >= SETTLED and self.done < self.rounds:
                parts.append(f"{duration((self.rounds - self.done) * seconds / played)} left")
        return "  ".join([*parts, *self.facts, self.title])

    def _show_compiling(self) -> None:
        if clock.compiling:
            print(self.line(), file=sys.stderr, flush=True)

    def _show(self) -> None:
        """Show the line with the latest metrics, averaged over replicas."""
        self.shown = time.monotonic()
        facts, online = {}, ndcg_columns(main_cutoff(self.measures))[0]
        if online.name in self.measures:
            facts[online.heading] = float(self.measures[online.name].nanmean())
        facts |= {name: value for name, value in self.ndcg.items() if name.startswith("test ")}
        if self.unfairness and "unfairness" in self.measures:
            facts["unfairness"] = float(self.measures["unfairness"][-1].mean())
        self.facts = [f"{name} {value:.3f}" for name, value in facts.items()]
        if self.live is None:
            print(self.line(), file=sys.stderr, flush=True)
