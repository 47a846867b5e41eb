"""Runs the trials of a study, in this process or in several worker processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import ol2r_cli
from ol2r_cli.config.overrides import as_typed
from ol2r_cli.formatting import error_line, one_line
from ol2r_cli.run.exit_status import FAILED, INTERRUPTED, stop_signals
from ol2r_cli.run.run import Run
from ol2r_cli.run.runner import validation_curve
from ol2r_cli.search.search_output import SearchProgress
from ol2r_cli.search.study import ATTEMPTS, ActiveTrial, Study
from ol2r_cli.search.trial import TrialOutcome, read_metrics, run_trial

_POLL_INTERVAL = 0.1  # seconds between checks of the workers


class Searcher:
    """Runs trials of `study` until `max_trials` have begun; no trial begins after the moment `until`.

    until: by `time.monotonic`, in seconds. parent: the id of the process that started this worker; None when this
    process is no worker.
    """

    def __init__(self, study: Study, max_trials: int, until: float = math.inf, parent: int | None = None):
        self.study, self.max_trials, self.until, self.parent = study, max_trials, until, parent
        self.metric, self.prunes = study.plan["metric"], study.plan["prune"]
        self.progress = SearchProgress(study, max_trials, live=sys.stderr.isatty() and parent is None)

    def run(self) -> bool:
        """Run trials; False when a signal stopped the search, True when there is nothing more to do."""
        with stop_signals() as self.stop:
            while time.monotonic() < self.until and self.parent in (None, os.getppid()):  # a worker follows its parent
                with self.study.next(self.max_trials) as active:
                    if active is None:
                        return True
                    if not self._run_trial(active):
                        return False
                if self.stop:
                    return False
        return True

    def _run_trial(self, active: ActiveTrial) -> bool:
        """Run a trial to its end; False when a signal stopped it, and the next process continues it."""
        self.progress.begin(active)
        pruned_at: list[int] = []
        callback = partial(self._evaluated, active, pruned_at) if self.prunes or self.progress.live else None
        fixed = [word for word in self.study.space.fixed if not word.startswith("output_dir=")]
        overrides = [*fixed, *active.drawn, f"output_dir={as_typed(self.study.runs, 'output_dir')}"]
        try:
            outcome = run_trial(self.study.space.composer, overrides, callback, self.stop)
        except KeyboardInterrupt:  # before the first round, or by a second Ctrl-C
            self.study.interrupt(active)
            return False
        except Exception as error:  # an error in one trial must not end the search
            outcome = TrialOutcome(FAILED, self.study.folder, _reason(error))
        if outcome.code == INTERRUPTED and not pruned_at:
            self.study.interrupt(active)
            return False
        self.progress.end(active, self._record(active, outcome, pruned_at))
        return True

    def _evaluated(self, active: ActiveTrial, pruned_at: list[int], round: int, ndcg: Mapping[str, float]) -> bool:
        """Callback of every evaluation; whether the run stops, because it is pruned or because of a signal."""
        value = ndcg["validation"]
        self.progress.evaluated(active, round, value)
        if self.prunes and not pruned_at and self.study.should_prune(active, round, value):
            pruned_at.append(round)
        return bool(pruned_at or self.stop)

    def _record(self, active: ActiveTrial, outcome: TrialOutcome, pruned_at: Sequence[int]) -> str:
        """Record in the study how a trial ended; the same in a few words."""
        if outcome.code == INTERRUPTED:
            self.study.prune(active)
            return f"pruned at round {pruned_at[0]}"
        metric = {} if outcome.code else read_metrics(outcome.path).get(self.metric, {})
        if "mean" not in metric:
            reason = outcome.reason or f"its summary has no {self.metric}"
            self.study.fail(active.trial.number, reason)
            return f"failed: {reason}"
        if outcome.finished_before and self.prunes:
            self.study.report(active, validation_curve(Run.read_finished(outcome.path)))
        self.study.finish(active, metric["mean"], outcome.path)
        return f"{metric['mean']:.4f}{' (done before)' if outcome.finished_before else ''}"


def _reason(error: Exception) -> str:
    """An error in one line, without its type if it is a ValueError: those have a message for the user."""
    return one_line(error) if isinstance(error, ValueError) else error_line(error)


def run_workers(study: Study, arguments: Sequence[str], count: int) -> bool:
    """Run `ol2r search ARGUMENTS` in `count` worker processes; False when a signal stopped them.

    The trial of a worker that was killed is continued by another worker, or by a new one when none is left.
    """
    with stop_signals() as stop:
        _run_until_end(arguments, count, stop)
        for _ in range(ATTEMPTS):
            if stop or not study.has_abandoned_trials():
                break
            _run_until_end(arguments, 1, stop)
    return not stop


def _run_until_end(arguments: Sequence[str], count: int, stop: list[int]) -> None:
    """Start workers and wait until all have ended. The first signal is sent on to them; a second one kills them."""
    command = [sys.executable, "-P", "-m", "ol2r_cli", "search", *arguments, "--worker"]
    package = str(Path(ol2r_cli.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    # In their own session, so that a Ctrl-C reaches them through this process only, and only once.
    workers = [subprocess.Popen(command, env=environment, start_new_session=True) for _ in range(count)]
    try:
        signalled = False
        while any(worker.poll() is None for worker in workers):
            if stop and not signalled:
                signalled = True
                for worker in workers:
                    worker.send_signal(signal.SIGTERM)
            time.sleep(_POLL_INTERVAL)
    finally:
        for worker in workers:
            worker.kill()  # without effect on a worker that has ended
            worker.wait()
