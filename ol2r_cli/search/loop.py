"""One process searching: take a trial, see its run to an end, tell Optuna; until there are enough."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping
from functools import partial

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.search.study import Held, Study
from ol2r_cli.search.told import Told
from ol2r_cli.search.trial import FAILED, INTERRUPTED, Played, metrics, play
from ol2r_cli.signals import stop_signals
from ol2r_cli.watched import validation_curve


class Loop:
    """Works on the trials of `study` until `most` have begun; no trial begins after the moment `until`.

    parent: the process that started this one and that does the talking.
    """

    def __init__(self, study: Study, most: int, until: float = math.inf, parent: int | None = None):
        self.study, self.most, self.until, self.parent = study, most, until, parent
        self.metric, self.prunes = study.plan["metric"], study.plan["prune"]
        self.told = Told(study, most, live=sys.stderr.isatty() and parent is None)

    def run(self) -> bool:
        """True when all that could be done was done, False when it was interrupted."""
        with stop_signals() as self.stop:
            while time.monotonic() < self.until and self._wanted():
                with self.study.next(self.most) as held:
                    if held is None:
                        return True
                    if not self._work(held):
                        return False
                if self.stop:
                    return False
        return True

    def _wanted(self) -> bool:
        """Whether the process that started this one, if one did, is still there."""
        return self.parent in (None, os.getppid())

    def _work(self, held: Held) -> bool:
        """See one trial through; False when the process was asked to stop, and the trial waits for the next."""
        self.told.begins(held)
        bad: list[int] = []
        watch = partial(self._watch, held, bad) if self.prunes or self.told.live else None
        try:
            played = play([*self.study.space.fixed, *held.drawn], watch, self.stop)
        except KeyboardInterrupt:  # before the run began, or a second Ctrl-C
            self.study.interrupt(held)
            return False
        except Exception as error:  # whatever is wrong with one trial must not end the search
            played = Played(FAILED, self.study.folder, one_line(error))
        if played.code == INTERRUPTED and not bad:
            self.study.interrupt(held)
            return False
        self.told.ended(held, self._outcome(held, played, bad))
        return True

    def _watch(self, held: Held, bad: list[int], round: int, ndcg: Mapping[str, float]) -> bool:
        """Told of every evaluation; whether to stop the run, which is then pruned or interrupted."""
        value = ndcg["validation"]
        self.told.reached(held, round, value)
        if self.prunes and not bad and self.study.bad(held, round, value):
            bad.append(round)
        return bool(bad or self.stop)

    def _outcome(self, held: Held, played: Played, bad: list[int]) -> str:
        """Tell Optuna how the trial ended; the same in a few words."""
        if played.code == INTERRUPTED:
            self.study.prune(held)
            return f"pruned at round {bad[0]}"
        found = {} if played.code else metrics(played.path).get(self.metric, {})
        if "mean" not in found:
            reason = played.reason or f"its summary has no {self.metric}"
            self.study.fail(held, reason)
            return f"failed: {reason}"
        if played.before and self.prunes:
            self.study.note(held, validation_curve(RunDirectory(played.path)))
        self.study.finish(held, found["mean"], played.path)
        return f"{found['mean']:.4f}{' (done before)' if played.before else ''}"


def one_line(error: Exception) -> str:
    """An error without its line breaks; its kind as well, but for those whose text is made for people."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
