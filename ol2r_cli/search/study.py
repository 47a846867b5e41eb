"""A study: an Optuna study in a folder that several processes work on, and that continues after any interruption.

Optuna stores the trials, draws the settings and decides which trials to prune. `Study.next` takes the place of
`optuna.Study.optimize`, which cannot continue the trial of a killed process under its number with a journal, and whose
draws depend on the generators of the process and not only on the seed and the earlier trials. `Searcher` runs the
trials, each an ordinary run, in one process or in several.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

import ol2r_cli
from ol2r_cli.columns import main_cutoff
from ol2r_cli.config.composer import Composer
from ol2r_cli.config.overrides import as_typed, split_search_path
from ol2r_cli.files import Lock, is_held, no_link
from ol2r_cli.formatting import duration, error_line, one_line, shortened, wrapped
from ol2r_cli.metrics.intervals import LEVEL, with_interval
from ol2r_cli.program import as_called
from ol2r_cli.run import DONE, FAILED, INTERRUPTED, stop_signals
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.identity import NOT_HASHED, own_code
from ol2r_cli.run.run import Run
from ol2r_cli.run.runner import Runner, ValidationCallback, validation_curve
from ol2r_cli.run.store import RunningElsewhere, create_root
from ol2r_cli.search.space import Direction, Space

FOLDER = ".search"  # below output_dir
RUNS = "search"  # the folder of output_dir in which the runs of all studies are
ATTEMPTS = 3  # a trial whose process was killed so often has failed
RANDOM_TRIALS = 8  # drawn at random before Optuna's model of the earlier trials draws
UNPRUNED_TRIALS = 5  # run to their end before any trial is pruned
_TURN = ".turn"  # the lock of the process that chooses the next trial
EARLIEST = 0.25  # share of the rounds before which no trial is pruned: early on, curves cross

FRESH_REPLICAS = 10  # of the run that is proposed at the end
_IMPORTANCE_TRIALS = 8  # with fewer different values, importances are left out
_INDENT = 21  # columns before what is said about the best trial
_POLL_INTERVAL = 0.1  # seconds between checks of the workers
_PAUSE = 2.0  # seconds between attempts at a run that another process is running

optuna.logging.set_verbosity(optuna.logging.WARNING)


def search_plan(space: Space, metric: str, prune: bool, seed: int) -> dict[str, Any]:
    """All that decides which trials a study has; folders and other settings without effect on results are left out.

    The hashes of the user's own code for all choices are part of it.
    """
    settings = [word for word in space.fixed if word.partition("=")[0] not in NOT_HASHED | {"measures"}]
    ranges = sorted(map(repr, space.ranges))
    plan = {"settings": sorted(settings), "ranges": ranges, "metric": metric, "prune": prune, "seed": seed}
    composed = (space.composer([*space.fixed, *choices]).settings for choices in space.choices())
    code = sorted({hash for each in composed for hash in own_code(each).values()})
    return plan | ({"code": code} if code else {})


def study_folder(output_dir: str, name: str | None, plan: Mapping[str, Any]) -> Path:
    """The folder of a study; ValueError for a name that cannot be the name of a folder.

    Without a name it has ten hex digits, the same for any code, so that a search notices that its code has changed.
    """
    if name is None:
        words = {key: value for key, value in plan.items() if key != "code"}
        name = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:10]
    if not name or "/" in name or name.startswith("."):
        raise ValueError(f"--name must be the name of a folder, without / and not beginning with a dot, got {name!r}")
    return Path(os.path.expanduser(output_dir)) / FOLDER / name


class _JournalLock(JournalFileOpenLock):
    """The lock of a journal file, released when its process is killed; Optuna's own lock then remains for 30 s.

    Acquiring it removes the incomplete line that a killed writer left, which Optuna cannot read.
    """

    def __init__(self, journal: Path):
        super().__init__(str(journal))
        self._journal = journal
        self._held = ExitStack()

    def acquire(self) -> bool:
        self._held.enter_context(Lock(self._journal.with_name(".journal.lock")))
        with open(self._journal, "rb+", opener=no_link) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            if file.read(1) not in (b"", b"\n"):
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        return True

    def release(self) -> None:
        self._held.close()


class ActiveTrial(NamedTuple):
    """A trial that this process works on: its number in the search, from 1, and the overrides that were drawn."""

    number: int
    drawn: list[str]
    trial: Trial


class Study:
    """Opens the study in `folder`, or creates it; ValueError when the study there has another `plan`.

    direction: of the metric. rounds: of the run of each trial.

    The settings of a trial are a function of the plan's `seed`, the number of the trial and the trials before it. The
    process that works on a trial holds a lock; a trial without a process is continued by the process that asks next.
    """

    def __init__(self, folder: Path, space: Space, plan: Mapping[str, Any], direction: Direction, rounds: int):
        self.folder, self.space, self.plan = folder, space, dict(plan)
        self.runs = folder.parents[1] / RUNS
        create_root(folder.parents[1])
        folder.mkdir(parents=True, exist_ok=True)
        journal = folder / "journal.log"
        with Lock(folder / _TURN):
            self.optuna_study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(journal), lock_obj=_JournalLock(journal))),
                study_name="search",
                direction=direction,
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(UNPRUNED_TRIALS, n_warmup_steps=int(EARLIEST * rounds)),
            )
            existing = self.optuna_study.user_attrs.get("plan", self.plan)
            differs = [name for name in self.plan if name != "code" and existing.get(name) != self.plan[name]]
            if differs:
                raise ValueError(
                    f"--name must be new for another search: the one in {folder} has other {', '.join(differs)}"
                )
            if existing != self.plan:
                what = f"--name must be new for changed code: the trials in {folder} are of another version of it"
                raise ValueError(f"{what}; or put it back to continue them, or remove the folder")
            self.optuna_study.set_user_attr("plan", self.plan)

    @contextmanager
    def next(self, max_trials: int) -> Iterator[ActiveTrial | None]:
        """The next trial, which this process holds inside the `with` block.

        None when `max_trials` have begun or all combinations of settings were tried.
        """
        with ExitStack() as held:
            active = None
            with Lock(self.folder / _TURN):  # the choice takes several operations on the journal
                number = self._next_number(max_trials)
                if number is not None:
                    held.enter_context(Lock(self._lock(number)))
                    trial = self._optuna_trial(number)
                    trial.set_user_attr("attempts", trial.user_attrs.get("attempts", 0) + 1)
                    position = [other.number for other in self.trials()].index(number) + 1
                    # the draws are stored in the first attempt
                    active = ActiveTrial(position, self.space.draw(trial), trial)
            yield active

    def _next_number(self, max_trials: int) -> int | None:
        """The first trial whose process is gone, or a new one, whose settings are drawn."""
        for number in [trial.number for trial in self.trials(TrialState.RUNNING)]:
            if not is_held(self._lock(number)):
                abandoned = self._optuna_trial(number)
                if abandoned.user_attrs.get("attempts", 0) < ATTEMPTS:
                    return number
                self.end(abandoned, reason=f"its process was killed {ATTEMPTS} times")
        tried = {tuple(self.space.overrides(trial.params)) for trial in self.trials()}
        combinations = self.space.combinations()
        if len(self.trials()) >= max_trials or (combinations and len(tried) >= len(combinations)):
            return None
        trial = self._optuna_trial()
        if combinations and tuple(self.space.draw(trial)) in tried:  # none is drawn twice where all can be listed
            self.end(trial, repeats=True)  # the sampler does not learn from failed trials
            untried = [values for values in combinations if tuple(self.space.overrides(values)) not in tried]
            self.optuna_study.enqueue_trial(untried[self._random(trial.number) % len(untried)])
            trial = self._optuna_trial()
        return trial.number

    def _lock(self, number: int) -> Path:
        return self.folder / f"trial-{number}.lock"

    def _optuna_trial(self, number: int | None = None) -> Trial:
        """A new trial, or the trial with this number; a new sampler makes the draw independent of earlier draws."""
        trials = self.optuna_study.get_trials(deepcopy=False)
        seed = self._random(len(trials) if number is None else number)
        self.optuna_study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS)
        return self.optuna_study.ask() if number is None else Trial(self.optuna_study, trials[number]._trial_id)

    def _random(self, number: int) -> int:
        """32 random bits that depend on the seed of the plan and the number of a trial."""
        return int.from_bytes(hashlib.sha256(f"{self.plan['seed']}/{number}".encode()).digest()[:4], "big")

    def report(self, trial: Trial, curve: Iterable[tuple[int, float]]) -> None:
        """Store the values after some rounds, rounded; values that a continued trial reports again are ignored.

        Six digits remain, so that a value read from a file in single precision equals the value as computed.
        """
        reported = self.optuna_study.get_trials(deepcopy=False)[trial.number].intermediate_values
        for round_number, value in curve:
            if round_number not in reported:
                trial.report(round(value, 6), round_number)

    def end(self, trial: Trial, value: float | None = None, pruned: bool = False, **attributes: Any) -> None:
        """End a trial with its value, or as pruned or failed, and store attributes of it: `path` or `reason`."""
        for name, attribute in attributes.items():
            trial.set_user_attr(name, attribute)
        without = TrialState.PRUNED if pruned else TrialState.FAIL
        self.optuna_study.tell(trial, value, TrialState.COMPLETE if value is not None else without)

    def interrupt(self, trial: Trial) -> None:
        """Leave a trial to the next process. Its process was not killed, so that the attempt does not count."""
        trial.set_user_attr("attempts", trial.user_attrs["attempts"] - 1)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states, or all, in the order in which they began."""
        trials = self.optuna_study.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in trials if "repeats" not in trial.user_attrs]

    def best(self) -> FrozenTrial | None:
        """The finished trial with the best value, the first of equal ones; None when no trial has a value."""
        return self.optuna_study.best_trial if self.trials(TrialState.COMPLETE) else None


class TrialOutcome(NamedTuple):
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
        study, trial, began = self.study, active.trial, time.monotonic()
        metric, prunes = study.plan["metric"], study.plan["prune"]
        pruned_at = list[int]()

        def show(progress: str = "") -> None:
            """Show the settings of the trial and its progress in one line of the terminal."""
            if self.terminal is not None:
                before, room = f"trial {active.number}/{self.max_trials}  ", shutil.get_terminal_size().columns - 1
                (settings,) = shortened([" ".join(active.drawn)], room - len(before) - len(progress))
                print(f"\r\033[K{before}{settings}{progress}", end="", file=self.terminal, flush=True)

        def evaluated(round: int, ndcg: Mapping[str, float]) -> bool:
            """Called at every evaluation; whether the run stops, because it is pruned or because of a signal."""
            show(f"  round {round} {ndcg['validation']:.4f}")
            if prunes and not pruned_at:
                study.report(trial, [(round, ndcg["validation"])])
                if trial.should_prune():  # it is below the median of the finished trials at this round
                    pruned_at.append(round)
            return bool(pruned_at or stop)

        show()
        fixed = [word for word in study.space.fixed if not word.startswith("output_dir=")]
        overrides = [*fixed, *active.drawn, f"output_dir={as_typed(study.runs, 'output_dir')}"]
        callback = evaluated if prunes or self.terminal else None
        try:
            outcome = run_trial(study.space.composer, overrides, callback, stop)
        except KeyboardInterrupt:  # before the first round, or by a second Ctrl-C
            outcome = TrialOutcome(INTERRUPTED, study.folder)
        except Exception as error:  # an error in one trial must not end the search
            reason = one_line(error) if isinstance(error, ValueError) else error_line(error)
            outcome = TrialOutcome(FAILED, study.folder, reason)
        if outcome.code == INTERRUPTED and not pruned_at:
            study.interrupt(trial)
            return False
        finished = Run.read_finished(outcome.path) if outcome.code == DONE else None
        value = finished.summary.get(metric, {}).get("mean") if finished is not None else None
        if pruned_at:
            study.end(trial, pruned=True)
            text = f"pruned at round {pruned_at[0]}"
        elif finished is None or value is None:
            reason = outcome.reason or f"its summary has no {metric}"
            study.end(trial, reason=reason)
            text = f"failed: {reason}"
        else:
            if outcome.finished_before and prunes:
                study.report(trial, validation_curve(finished))
            study.end(trial, value, path=str(outcome.path))
            text = f"{value:.4f}{' (done before)' if outcome.finished_before else ''}"
        if self.terminal is not None:
            print("\r\033[K", end="", file=self.terminal, flush=True)
        best = f"  best {best.value:.4f}" if (best := study.best()) is not None else ""
        number = f"{active.number:>{len(str(self.max_trials))}}/{self.max_trials}"
        seconds = duration(time.monotonic() - began)
        print(wrapped(f"trial {number}  {text}  {' '.join(active.drawn)}  {seconds}{best}", 4), flush=True)
        return True


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
    settings, path = study.space.overrides(best.params), Path(best.user_attrs["path"])
    finished = study.trials(TrialState.COMPLETE)
    lines = {
        "settings": shlex.join(settings),
        metric: f"{best.value:.4f}, the best of {len(finished)}: with fresh seeds expect less",
    }
    cutoff = main_cutoff(metrics := Run.read_finished(path).summary)
    if (ndcg := metrics.get(f"test_ndcg_{cutoff}")) is not None:
        units = "" if ndcg["sd"] is None else f" (half the {LEVEL:.0%} interval over {ndcg['n']} seeds)"
        lines[f"test NDCG@{cutoff}"] = with_interval(ndcg, 4) + units
    if len(study.space.ranges) > 1 and len({trial.value for trial in finished}) >= _IMPORTANCE_TRIALS:
        # the share of the variance between trials that each setting explains (PED-ANOVA)
        shares = optuna.importance.get_param_importances(study.optuna_study)
        lines["importance"] = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    lines["run"] = str(path)
    texts = [head, *(wrapped(f"  {name:<18} {line}", _INDENT) for name, line in lines.items())]
    command = as_called(f"ol2r run {shlex.join(with_fresh_seeds(study.space.fixed, settings))}")
    return "\n".join([*texts, f"  fresh seeds        {command}"])  # in one line, whatever the width, to be copied


def with_fresh_seeds(fixed: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The overrides of a run of these settings with ten seeds that no trial had."""
    values = dict(word.partition("=")[::2] for word in fixed)
    used = int(values.get("seed", 0)) + int(values.get("replicas", 1))
    others = [word for word in fixed if word.partition("=")[0] not in ("seed", "replicas")]
    return [*others, *settings, f"seed={-(-used // 100) * 100}", f"replicas={FRESH_REPLICAS}"]
