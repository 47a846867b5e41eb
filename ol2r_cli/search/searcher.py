"""Runs the trials of a study, in this process or in several worker processes, and prints them and the best settings."""

from __future__ import annotations

import io
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import optuna
import torch
from optuna.trial import TrialState

import ol2r_cli
from ol2r_cli.columns import main_cutoff
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import as_typed, split_search_path
from ol2r_cli.formatting import duration, error_line, one_line
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, stop_signals
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run
from ol2r_cli.run.runner import Runner, ValidationCallback, validation_curve
from ol2r_cli.run.store import RunningElsewhere
from ol2r_cli.search.study import ActiveTrial, Study

FRESH_REPLICAS = 10  # of the run that is proposed at the end
_IMPORTANCE_TRIALS = 8  # with fewer different values, importances are left out
_WIDTH = 100  # characters of the line about the trial in progress
_POLL_INTERVAL = 0.1  # seconds between checks of the workers
_PAUSE = 2.0  # seconds between attempts at a run that another process is running


@dataclass(frozen=True)
class TrialOutcome:
    """The end of a trial's run: exit code, directory, reason of a failure, and whether it was finished before."""

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
            experiment = Experiment(composition.config, composition.choices)
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


class Searcher:
    """Runs trials of `study` until `max_trials` have begun; no trial begins after the moment `until`.

    Prints a line on stdout when a trial ends and, on a terminal, updates one on stderr during a trial. until: by
    `time.monotonic`, in seconds. parent: the id of the process that started this worker; None when this process is no
    worker.
    """

    def __init__(self, study: Study, max_trials: int, until: float = math.inf, parent: int | None = None):
        self.study, self.max_trials, self.until, self.parent = study, max_trials, until, parent
        self.metric, self.prunes = study.plan["metric"], study.plan["prune"]
        self.terminal = sys.stderr if sys.stderr.isatty() and parent is None else None  # a run redirects stderr

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
        study, trial, began = self.study, active.trial, time.monotonic()
        line, pruned_at = f"trial {active.number}/{self.max_trials}  {' '.join(active.drawn)}", list[int]()

        def evaluated(round: int, ndcg: Mapping[str, float]) -> bool:
            """Called at every evaluation; whether the run stops, because it is pruned or because of a signal."""
            self._show(f"{line}  round {round} {ndcg['validation']:.4f}")
            if self.prunes and not pruned_at:
                study.report(trial, [(round, ndcg["validation"])])
                if trial.should_prune():  # it is below the median of the finished trials at this round
                    pruned_at.append(round)
            return bool(pruned_at or self.stop)

        self._show(line)
        fixed = [word for word in study.space.fixed if not word.startswith("output_dir=")]
        overrides = [*fixed, *active.drawn, f"output_dir={as_typed(study.runs, 'output_dir')}"]
        callback = evaluated if self.prunes or self.terminal else None
        try:
            outcome = run_trial(study.space.composer, overrides, callback, self.stop)
        except KeyboardInterrupt:  # before the first round, or by a second Ctrl-C
            outcome = TrialOutcome(INTERRUPTED, study.folder)
        except Exception as error:  # an error in one trial must not end the search
            reason = one_line(error) if isinstance(error, ValueError) else error_line(error)
            outcome = TrialOutcome(FAILED, study.folder, reason)
        if outcome.code == INTERRUPTED and not pruned_at:
            study.interrupt(trial)
            return False
        finished = Run.read_finished(outcome.path) if outcome.code == DONE else None
        metric = finished.summary.get(self.metric, {}) if finished is not None else {}
        if outcome.code == INTERRUPTED:
            study.end(trial, pruned=True)
            text = f"pruned at round {pruned_at[0]}"
        elif finished is None or "mean" not in metric:
            reason = outcome.reason or f"its summary has no {self.metric}"
            study.end(trial, reason=reason)
            text = f"failed: {reason}"
        else:
            if outcome.finished_before and self.prunes:
                study.report(trial, validation_curve(finished))
            study.end(trial, metric["mean"], path=str(outcome.path))
            text = f"{metric['mean']:.4f}{' (done before)' if outcome.finished_before else ''}"
        self._show("")
        best = study.best()
        best_so_far = f"  best {best.value:.4f}" if best is not None else ""
        number = f"{active.number:>{len(str(self.max_trials))}}/{self.max_trials}"
        seconds = duration(time.monotonic() - began)
        print(f"trial {number}  {text}  {' '.join(active.drawn)}  {seconds}{best_so_far}", flush=True)
        return True

    def _show(self, line: str) -> None:
        if self.terminal is not None:
            print(f"\r\033[K{line[:_WIDTH]}", end="", file=self.terminal, flush=True)


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


def render_result(study: Study, metric: str) -> str:
    """The best settings, their test NDCG (shown here for the first time), and the command for fresh seeds."""
    names = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    counts = ", ".join(f"{n} {name}" for state, name in names.items() if (n := len(study.trials(state))))
    head = f"{len(study.trials())} trials" + (f" ({counts})" if counts else "")
    best = study.best()
    if best is None:
        return f"{head}: none has a value"
    settings, path = study.overrides(best), Path(best.user_attrs["path"])
    finished = study.trials(TrialState.COMPLETE)
    lines = {
        "settings": shlex.join(settings),
        metric: f"{best.value:.4f}, the best of {len(finished)}: with fresh seeds expect less",
    }
    cutoff = main_cutoff(metrics := Run.read_finished(path).summary)
    if (ndcg := metrics.get(f"test_ndcg_{cutoff}")) is not None:
        spread = "" if ndcg["sd"] is None else f" ± {ndcg['sd']:.4f} (standard deviation over {ndcg['n']} seeds)"
        lines[f"test NDCG@{cutoff}"] = f"{ndcg['mean']:.4f}{spread}"
    if len(study.space.ranges) > 1 and len({trial.value for trial in finished}) >= _IMPORTANCE_TRIALS:
        # the share of the variance between trials that each setting explains (PED-ANOVA)
        shares = optuna.importance.get_param_importances(study.optuna_study)
        lines["importance"] = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    lines["run"] = str(path)
    lines["fresh seeds"] = f"ol2r run {shlex.join(with_fresh_seeds(study.space.fixed, settings))}"
    return "\n".join([head, *(f"  {name:<18} {line}" for name, line in lines.items())])


def with_fresh_seeds(fixed: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The overrides of a run of these settings with ten seeds that no trial had."""
    values = dict(word.partition("=")[::2] for word in fixed)
    used = int(values.get("seed", 0)) + int(values.get("replicas", 1))
    others = [word for word in fixed if word.partition("=")[0] not in ("seed", "replicas")]
    return [*others, *settings, f"seed={-(-used // 100) * 100}", f"replicas={FRESH_REPLICAS}"]
