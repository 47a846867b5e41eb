"""What a run shows while it goes: a live display on a terminal, a plain line every 30 seconds elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ol2r_cli.results.log import LOGGER
from ol2r_cli.results.manifest import duration

if TYPE_CHECKING:
    from ol2r_cli.experiment import Experiment

_log = logging.getLogger(LOGGER)


class Progress:
    """Context manager; `update` is called every round and is cheap: numbers are read only when something is shown."""

    plain_every, live_every = 30.0, 0.25  # seconds

    def __init__(self, experiment: Experiment, done: int):
        choices = experiment.choices
        self.title = f"{choices['ranker']} · {choices['click']} · {choices['dataset']}"
        self.rounds, self.done, self.start_round = experiment.settings["rounds"], done, done
        self.measures: Mapping[str, Tensor] = {}
        self.ndcg: dict[str, float] = {}
        self.bar: Any = None

    def __enter__(self) -> Progress:
        self.start = self.shown = time.monotonic()
        if sys.stderr.isatty():
            self.bar, self.row = _bar(self.title, self.rounds, self.done)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.bar is not None:
            self._show()
            self.bar.stop()

    def update(self, round: int) -> None:
        """A round is done."""
        self.done = round
        if time.monotonic() - self.shown > (self.plain_every if self.bar is None else self.live_every):
            self._show()

    def measured(self, measures: Mapping[str, Tensor]) -> None:
        """The latest measures [R B]."""
        self.measures = measures

    def evaluated(self, round: int, ndcg: Mapping[str, float]) -> None:
        """Offline NDCG@10 by split is known up to this round."""
        self.ndcg.update(ndcg)
        numbers = ", ".join(f"{split} NDCG@10 {value:.4f}" for split, value in ndcg.items())
        _log.info("round %d: %s", round, numbers)

    def _show(self) -> None:
        self.shown = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.row, completed=self.done, facts=self._facts())
            return
        speed = (self.done - self.start_round) / max(self.shown - self.start, 1e-9)
        left = duration((self.rounds - self.done) / max(speed, 1e-9))
        print(
            f"{self.title}  round {self.done}/{self.rounds}  {speed:.0f} rounds/s  {left} left  {self._facts()}",
            file=sys.stderr,
            flush=True,
        )

    def _facts(self) -> str:
        """The numbers a person watches, averaged over replicas."""
        facts = {}
        if "online_ndcg" in self.measures:
            facts["online NDCG"] = float(self.measures["online_ndcg"].nanmean())
        facts |= {f"{split} NDCG@10": value for split, value in self.ndcg.items() if split == "test"}
        if "unfairness" in self.measures:
            facts["unfairness"] = float(self.measures["unfairness"][-1].mean())
        return "  ".join(f"{name} {value:.3f}" for name, value in facts.items())


def _bar(title: str, rounds: int, done: int) -> tuple[Any, Any]:
    """A rich progress display of one run on stderr, and its row."""
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
