"""Running the trials of a study, each an ordinary run, in one process or in several."""

from __future__ import annotations

import io
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple, TextIO

import torch
from optuna.trial import Trial

import ol2r_cli
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import as_typed, split_search_path
from ol2r_cli.plugins.search.study import ActiveTrial, Study
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, stop_signals
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run
from ol2r_cli.run.runner import Runner, ValidationCallback, validation_curve
from ol2r_cli.run.store import RunningElsewhere
from ol2r_cli.text.formatting import duration, error_line, one_line, shortened, wrapped

_POLL_INTERVAL = 0.1  # seconds between checks of the workers
_PAUSE = 2.0  # seconds between attempts at a run that another process is running
_NEW_LINE = "\r\033[K"  # the cursor at the beginning of an emptied line


class TrialOutcome(NamedTuple):
    """What came of a trial's run: exit code, directory, reason of a failure, and whether it was finished before."""

    code: int
    path: Path
    reason: str = ""
    finished_before: bool = False


def run_trial(
    composer: Composer,
    overrides: Sequence[str],
    callback: ValidationCallback | None = None,
    stop: Sequence[int] = (),
) -> TrialOutcome:
    """Run `ol2r run OVERRIDES` without its output, to the end or until `callback` (see `Runner`) stops it.

    A run that another process is running is waited for. KeyboardInterrupt when a signal fills `stop` before the first
    round; ValueError for a bad configuration.
    """
    words = [*split_search_path(overrides)[0], *composer.options]
    with torch.inference_mode(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        while True:
            composition = composer(overrides)
            experiment = Experiment(composition.settings, composition.choices)
            path = experiment.directory.path
            if experiment.finished():
                return TrialOutcome(DONE, path, finished_before=True)
            runner = Runner(experiment, f"ol2r run {shlex.join(words)}", callback)
            try:
                with experiment.directory:
                    if stop:
                        raise KeyboardInterrupt
                    code = runner.run()
            except RunningElsewhere:
                if stop:
                    raise KeyboardInterrupt from None
                time.sleep(_PAUSE)
                continue
            run = Run.read(path) if code == FAILED else None
            return TrialOutcome(code, path, (run and run.error) or "")


class TrialLine:
    """The line of the terminal that shows a trial while it runs; nothing is shown without a terminal."""

    def __init__(self, terminal: TextIO | None, active: ActiveTrial, max_trials: int):
        self.terminal, self.active, self.max_trials = terminal, active, max_trials

    def show(self, progress: str = "") -> None:
        """Show the settings of the trial and its progress."""
        number = f"trial {self.active.number}/{self.max_trials}  "
        room = shutil.get_terminal_size().columns - 1 - len(number) - len(progress)
        (settings,) = shortened([" ".join(self.active.drawn)], room)
        self._replace(f"{number}{settings}{progress}")

    def clear(self) -> None:
        """Leave an empty line."""
        self._replace("")

    def _replace(self, text: str) -> None:
        if self.terminal is not None:
            print(f"{_NEW_LINE}{text}", end="", file=self.terminal, flush=True)


class TrialObserver:
    """Is called at every evaluation of a trial's run: shows it, and says whether the run stops.

    pruned_at: the round at which the trial was pruned; None while it was not.
    """

    def __init__(self, study: Study, trial: Trial, line: TrialLine, stop: Sequence[int]):
        self.study, self.trial, self.line, self.stop = study, trial, line, stop
        self.pruned_at: int | None = None

    def __call__(self, round: int, ndcg: Mapping[str, float]) -> bool:
        """Return whether the run stops, because the trial is pruned or because of a signal."""
        self.line.show(f"  round {round} {ndcg['validation']:.4f}")
        if self.study.plan["prune"] and self.pruned_at is None:
            self.study.report(self.trial, [(round, ndcg["validation"])])
            if self.trial.should_prune():  # it is below the median of the finished trials at this round
                self.pruned_at = round
        return self.pruned_at is not None or bool(self.stop)


class Searcher:
    """Runs trials of `study` until `max_trials` have begun; no trial begins after the moment `until`.

    Prints a line on stdout when a trial ends and, on a terminal, updates one on stderr during a trial. until: by
    `time.monotonic`, in seconds. parent: the id of the process that started this worker; None when this process is no
    worker.
    """

    def __init__(self, study: Study, max_trials: int, until: float = math.inf, parent: int | None = None):
        self.study, self.max_trials, self.until, self.parent = study, max_trials, until, parent
        self.terminal = sys.stderr if sys.stderr.isatty() and parent is None else None  # a run redirects stderr

    def run(self) -> bool:
        """Run trials; False when a signal stopped the search, True when there is nothing more to do."""
        with stop_signals() as stop:
            while time.monotonic() < self.until and self.parent in (None, os.getppid()):  # a worker follows its parent
                with self.study.next(self.max_trials) as active:
                    if active is None:
                        return True
                    if not self._run_trial(active, stop):
                        return False
                if stop:
                    return False
        return True

    def _run_trial(self, active: ActiveTrial, stop: Sequence[int]) -> bool:
        """Run a trial to its end; False when a signal stopped it, and the next process continues it."""
        began = time.monotonic()
        line = TrialLine(self.terminal, active, self.max_trials)
        observer = TrialObserver(self.study, active.trial, line, stop)
        line.show()
        outcome = self._outcome(active, observer, stop)
        if observer.pruned_at is not None:
            self.study.end(active.trial, pruned=True)
            text = f"pruned at round {observer.pruned_at}"
        elif outcome.code == INTERRUPTED:
            self.study.interrupt(active.trial)
            return False
        else:
            text = self._store(active.trial, outcome)
        line.clear()
        self._print_trial(active, text, time.monotonic() - began)
        return True

    def _outcome(self, active: ActiveTrial, observer: TrialObserver, stop: Sequence[int]) -> TrialOutcome:
        """Run a trial; an error is its outcome, because it must not end the search."""
        study = self.study
        fixed = [word for word in study.space.fixed if not word.startswith("output_dir=")]
        overrides = [*fixed, *active.drawn, f"output_dir={as_typed(study.runs, 'output_dir')}"]
        callback = observer if study.plan["prune"] or self.terminal else None
        try:
            return run_trial(study.space.composer, overrides, callback, stop)
        except KeyboardInterrupt:  # before the first round, or by a second Ctrl-C
            return TrialOutcome(INTERRUPTED, study.folder)
        except Exception as error:
            reason = one_line(error) if isinstance(error, ValueError) else error_line(error)
            return TrialOutcome(FAILED, study.folder, reason)

    def _store(self, trial: Trial, outcome: TrialOutcome) -> str:
        """Store the value of a trial in the study, or that it has failed; return which."""
        metric = self.study.plan["metric"]
        finished = Run.read_finished(outcome.path) if outcome.code == DONE else None
        value = finished.summary.get(metric, {}).get("mean") if finished is not None else None
        if finished is None or value is None:
            reason = outcome.reason or f"its summary has no {metric}"
            self.study.end(trial, reason=reason)
            return f"failed: {reason}"
        if outcome.finished_before and self.study.plan["prune"]:
            self.study.report(trial, validation_curve(finished))
        self.study.end(trial, value, path=str(outcome.path))
        return f"{value:.4f} (done before)" if outcome.finished_before else f"{value:.4f}"

    def _print_trial(self, active: ActiveTrial, text: str, seconds: float) -> None:
        number = f"{active.number:>{len(str(self.max_trials))}}/{self.max_trials}"
        line = f"trial {number}  {text}  {' '.join(active.drawn)}  {duration(seconds)}"
        best = self.study.best()
        if best is not None:
            line += f"  best {best.value:.4f}"
        print(wrapped(line, 4), flush=True)


def run_workers(arguments: Sequence[str], count: int) -> bool:
    """Run `ol2r search ARGUMENTS` in `count` worker processes until all have ended; False when a signal stopped them.

    The first signal is sent on to them; a second one kills them. The trial of a worker that was killed is continued by
    another worker, or else by whoever runs the study next.
    """
    command = [sys.executable, "-P", "-m", "ol2r_cli", "search", *arguments, "--worker"]
    package = str(Path(ol2r_cli.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {**os.environ, "PYTHONPATH": path}
    with stop_signals() as stop:
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
        return not stop
