"""Shows the progress of a run on stderr: a live display on a terminal, a line every 30 seconds elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from torch import Tensor

from ol2r_cli.columns import main_cutoff, ndcg_columns
from ol2r_cli.formatting import duration
from ol2r_cli.run.directory import LOGGER

_log = logging.getLogger(LOGGER)


class Progress:
    """Progress of a run from round `first` to round `rounds`: a context manager around its rounds.

    `update` is called every round. It is cheap, because measures are read only when they are shown.
    """

    plain_every, live_every = 30.0, 0.25  # seconds

    def __init__(self, title: str, rounds: int, first: int, quiet: bool = False):
        self.title, self.rounds, self.first, self.done, self.quiet = title, rounds, first, first, quiet
        self.measures: Mapping[str, Tensor] = {}
        self.ndcg: dict[str, float] = {}
        self.bar: Any = None

    def __enter__(self) -> Progress:
        self.start = self.shown = time.monotonic()
        if sys.stderr.isatty() and not self.quiet:
            self.bar, self.row = _bar(self.title, self.rounds, self.done)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.bar is not None:
            self._show()
            self.bar.stop()

    def update(self, round: int) -> None:
        """Round `round` is done."""
        self.done = round
        if self.quiet:
            return
        if time.monotonic() - self.shown > (self.plain_every if self.bar is None else self.live_every):
            self._show()

    def measured(self, measures: Mapping[str, Tensor]) -> None:
        """Keep the latest measures [R, B] for the display."""
        self.measures = measures

    def evaluated(self, round: int, ndcg: Mapping[str, float]) -> None:
        """Keep offline NDCG by name, such as `test NDCG@10`, evaluated up to `round`, for the display, and log it."""
        self.ndcg.update(ndcg)
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in ndcg.items())
        _log.info("round %d: %s", round, numbers)

    def _show(self) -> None:
        self.shown = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.row, completed=self.done, facts=self._facts())
            return
        speed = (self.done - self.first) / max(self.shown - self.start, 1e-9)
        left = duration((self.rounds - self.done) / max(speed, 1e-9))
        print(
            f"{self.title}  round {self.done}/{self.rounds}  {speed:.0f} rounds/s  {left} left  {self._facts()}",
            file=sys.stderr,
            flush=True,
        )

    def _facts(self) -> str:
        """The latest metrics, averaged over replicas."""
        facts, online = {}, ndcg_columns(main_cutoff(self.measures))[0]
        if online.name in self.measures:
            facts[online.heading] = float(self.measures[online.name].nanmean())
        facts |= {name: value for name, value in self.ndcg.items() if name.startswith("test ")}
        if "unfairness" in self.measures:
            facts["unfairness"] = float(self.measures["unfairness"][-1].mean())
        return "  ".join(f"{name} {value:.3f}" for name, value in facts.items())


def _bar(title: str, rounds: int, done: int) -> tuple[Any, Any]:
    """A rich progress display of one run on stderr, and the number of its row."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.finished_speed or task.speed or 0:,.0f} rounds/s")

    display = Display(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Speed(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[facts]}"),
        console=Console(stderr=True),
    )
    display.start()
    return display, display.add_task(title, total=rounds, completed=done, facts="")
