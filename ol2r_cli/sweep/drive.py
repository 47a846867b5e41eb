"""The one loop over any launcher: submits jobs where there is room, hears of their ends, tries again, stops."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress

from ol2r_cli.launcher.job import Job, Launcher, Outcome
from ol2r_cli.signals import stop_signals
from ol2r_cli.sweep.board import Board
from ol2r_cli.sweep.cell import DONE, ELSEWHERE, FAILED, FINISHED, LEFT, RUNNING, SKIPPED, STOPPED, Cell

TICK = 0.25  # seconds between two looks
_BAD, _INTERRUPTED, _TERMINATED = 2, 130, -15  # codes that have a meaning here
SECOND = "killed by a second request to stop"


class Drive:
    """Jobs on their way: those that wait, and those that a launcher has, with the time at which they went there."""

    def __init__(self, cells: Sequence[Cell], launcher: Launcher, board: Board):
        self.cells, self.launcher, self.board = cells, launcher, board
        cells = sorted(cells, key=lambda cell: cell.state()[0] == RUNNING)  # another process may be done with it soon
        self.waiting = deque((cell, cell.job()) for cell in cells)
        self.running: dict[int, tuple[Cell, Job, float]] = {}
        self.attempts: Counter[int] = Counter()
        self.stopping = False

    def run(self) -> bool:
        """Until nothing waits or runs; returns whether somebody asked to stop. Every cell has its ending by then."""
        with stop_signals() as stop, self.board:
            try:
                while self.waiting or self.running:
                    if stop and not self.stopping:
                        self._stop("a second Ctrl-C kills them")
                    self._submit()
                    for job, outcome in self.launcher.ended(TICK) if self.running else ():
                        self._end(job, outcome)
                    self.board.show(self.running, len(self.waiting), self.launcher)
            except KeyboardInterrupt:  # asked a second time
                for cell, _, _ in self.running.values():
                    cell.ending, cell.reason = STOPPED, SECOND
                self._leave()
            finally:
                self.launcher.close()
                self._tidy()
        return bool(stop)

    def _submit(self) -> None:
        """As many as there is room for, at once: a cluster takes them as one array."""
        batch: list[tuple[Cell, Job]] = []
        while self.waiting and len(batch) < self.launcher.room():
            cell, job = self.waiting.popleft()
            if self.attempts[cell.number] or not self._elsewhere(cell):
                batch.append((cell, job))
        for cell, job in batch:
            if not self.attempts[cell.number]:
                with suppress(FileNotFoundError):  # of an earlier sweep
                    job.log.unlink()
            self.running[job.number] = cell, job, time.monotonic()
        if batch:
            self.launcher.submit([job for _, job in batch])

    def _elsewhere(self, cell: Cell) -> bool:
        """Whether another process has done, or is doing, this run since the sweep was planned."""
        state, _ = cell.state()
        if state == FINISHED:
            cell.ending = SKIPPED
        elif state == RUNNING:
            cell.ending = ELSEWHERE
        else:
            return False
        self.board.ended(cell)
        return True

    def _faster(self, cell: Cell) -> str:
        """The ending of a run that another process began a moment before; empty for one that is bad in itself."""
        found = cell.found()
        if found is not None and found.state == RUNNING:
            return ELSEWHERE
        return SKIPPED if cell.state()[0] == FINISHED else ""

    def _end(self, job: Job, outcome: Outcome) -> None:
        cell, job, began = self.running.pop(job.number)
        cell.seconds += time.monotonic() - began
        cell.reason = outcome.reason
        if outcome.code == 0:
            cell.ending = DONE
            job.log.unlink(missing_ok=True)
        elif self.stopping and outcome.code in (_INTERRUPTED, _TERMINATED):
            cell.ending = STOPPED
            cell.reason = "what was done is kept" if outcome.code == _INTERRUPTED else "before its first round"
        elif not self.stopping and outcome.code != _BAD and self.attempts[cell.number] < self.launcher.retries:
            self.attempts[cell.number] += 1
            self.waiting.append((cell, cell.again(job)))
            self.board.say(
                f"{cell.name}: {cell.reason}; again ({self.attempts[cell.number]} of {self.launcher.retries})"
            )
            return
        elif outcome.code == _BAD and (elsewhere := self._faster(cell)):
            cell.ending, cell.reason = elsewhere, ""
        else:
            cell.ending = FAILED
        self.board.ended(cell)
        if cell.ending == FAILED and self.launcher.fail_fast and not self.stopping:
            self._stop("one has failed, and launcher.fail_fast=true")

    def _stop(self, why: str) -> None:
        """What waits is left; what runs is asked to keep what it has."""
        self.stopping = True
        if self.running:
            self.board.say(f"stopping: {len(self.running)} running jobs keep what they have done; {why}")
        self._leave()
        self.launcher.stop()

    def _tidy(self) -> None:
        """Folders that were there for logs alone, of jobs that went well."""
        for folder in {cell.log.parent for cell in self.cells if cell.log is not None}:
            with suppress(OSError):
                folder.rmdir()
                folder.parent.rmdir()

    def _leave(self) -> None:
        for cell, _ in self.waiting:
            cell.ending = cell.ending or LEFT
        self.waiting.clear()
