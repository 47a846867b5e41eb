"""A study: an Optuna study in a folder, which one process asks for trials and tells their results, and which continues
after any interruption.

Optuna stores the trials and draws the settings. `Study.ask` takes the place of `optuna.Study.ask`, whose sampler begins
anew in each process, so that a continued search would draw the trials again that it has, and which never returns the
trials again whose process has ended. `searcher` plays the trials, each an ordinary run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from ol2r_cli.config.overrides import as_typed
from ol2r_cli.files import Lock, LockHeld, no_link
from ol2r_cli.plugins.search.space import Direction, Space
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.own_code import own_code
from ol2r_cli.run.store import create_root

FOLDER = ".search"  # below output_dir
RUNS = "search"  # the folder of output_dir in which the runs of all studies are
RANDOM_TRIALS = 8  # drawn at random before Optuna's model of the earlier trials draws

optuna.logging.set_verbosity(optuna.logging.WARNING)


def search_plan(space: Space, metric: str, seed: int) -> dict[str, Any]:
    """Return all that decides which trials a study has, without folders and other settings without effect on results.

    The hashes of the user's own code for all choices are part of it.
    """
    settings = [word for word in space.fixed if word.partition("=")[0] not in NOT_HASHED | {"measures"}]
    ranges = sorted(map(repr, space.ranges))
    plan = {"settings": sorted(settings), "ranges": ranges, "metric": metric, "seed": seed}
    code: set[str] = set()
    for choices in space.choices():
        code.update(own_code(space.composer([*space.fixed, *choices]).settings).values())
    return plan | {"code": sorted(code)} if code else plan


_LONGEST = 255  # bytes of the name of a folder


def study_folder(output_dir: str, name: str | None, plan: Mapping[str, Any]) -> Path:
    """Return the folder of a study; ValueError for a name that cannot be the name of a folder.

    Without a name it has ten hex digits, the same for any code, so that a search notices that its code has changed.
    """
    if name is None:
        words = {key: value for key, value in plan.items() if key != "code"}
        name = hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:10]
    if not name or "/" in name or name.startswith("."):
        raise ValueError(f"--name must be the name of a folder, without / and not beginning with a dot, got {name!r}")
    if len(os.fsencode(name)) > _LONGEST:
        raise ValueError(
            f"--name must have at most {_LONGEST} bytes, as the name of a folder, got {len(os.fsencode(name))}"
        )
    return Path(os.path.expanduser(output_dir)) / FOLDER / name


class ActiveTrial(NamedTuple):
    """A trial that is played: its number in the search, from 1, and the overrides that were drawn."""

    number: int
    drawn: list[str]
    trial: Trial


class Study:
    """Opens the study in `folder`, or creates it, for a `with` block; ValueError when the study there has another
    `plan`, and where another process has it open.

    direction: of the metric. output_dir: the override of its trials that says where their runs are.

    The settings of a trial are a function of the plan's `seed`, the number of the trial and the trials before it.
    """

    def __init__(self, folder: Path, space: Space, plan: Mapping[str, Any], direction: Direction):
        self.folder, self.space, self.plan, self.direction = folder, space, dict(plan), direction
        self.output_dir = f"output_dir={as_typed(folder.parents[1] / RUNS, 'output_dir')}"
        self._active: set[int] = set()  # numbers of the trials that this process plays

    def __enter__(self) -> Study:
        create_root(self.folder.parents[1])
        lock = Lock(self.folder / ".lock", wait=False)
        try:
            self._lock = lock.__enter__()
        except LockHeld as error:
            how = "wait for it, or stop it; --jobs plays several trials at a time"
            raise ValueError(f"another process ({error}) is searching in {self.folder}: {how}") from None
        try:
            self._open(self.folder / "journal.log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()

    def _open(self, journal: Path) -> None:
        with open(journal, "ab+", opener=no_link) as file:  # without the incomplete line that a killed process left
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        # This process has the lock of the study. That of Optuna would outlast a killed process, for 30 s.
        unlocked: Any = SimpleNamespace(acquire=lambda: True, release=lambda: None)
        self.optuna_study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(journal), lock_obj=unlocked)),
            study_name="search",
            direction=self.direction,
            load_if_exists=True,
        )
        existing = dict(self.optuna_study.user_attrs.get("plan", self.plan))
        existing.pop("prune", None)  # of earlier versions
        differs = [name for name in {**existing, **self.plan} if existing.get(name) != self.plan.get(name)]
        if differs:
            raise ValueError(
                f"--name must be new for another search: the one in {self.folder} has other {', '.join(differs)}"
            )
        self.optuna_study.set_user_attr("plan", self.plan)

    def ask(self, max_trials: int) -> ActiveTrial | None:
        """Return a trial that a process has left, or a new one, whose settings are drawn.

        None when `max_trials` have begun or all combinations of settings were tried.
        """
        combinations = self.space.combinations()
        while True:
            trial = self._left()
            before = [other for other in self.trials() if trial is None or other.number < trial.number]
            tried = {tuple(self.space.overrides(other.params)) for other in before}
            if trial is None:
                if len(before) >= max_trials or (combinations and len(tried) >= len(combinations)):
                    return None
                trial = self._optuna_trial()
            drawn = self.space.draw(trial)
            if not combinations or tuple(drawn) not in tried:
                self._active.add(trial.number)
                return ActiveTrial(len(before) + 1, drawn, trial)
            # None is drawn twice where all can be listed. What takes its place is stored first, in case of a kill.
            if not self.optuna_study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
                untried = [values for values in combinations if tuple(self.space.overrides(values)) not in tried]
                self.optuna_study.enqueue_trial(untried[self._random(trial.number) % len(untried)])
            self.tell(trial, repeats=True)  # the sampler does not learn from failed trials

    def _left(self) -> Trial | None:
        """Return the first trial that has begun and that nobody plays; None where there is none."""
        for left in self.optuna_study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            if left.number not in self._active:
                trial = self._optuna_trial(left.number)
                for name, distribution in left.distributions.items():  # the draw may have been cut short: it goes on
                    if name not in trial.relative_params and not distribution.single():
                        self.optuna_study.sampler.sample_independent(self.optuna_study, left, name, distribution)
                return trial
        return None

    def _optuna_trial(self, number: int | None = None) -> Trial:
        """Return a new trial, or that with this number; a new sampler makes the draw independent of earlier draws."""
        trials = self.optuna_study.get_trials(deepcopy=False)
        seed = self._random(len(trials) if number is None else number)
        self.optuna_study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS)
        return self.optuna_study.ask() if number is None else Trial(self.optuna_study, trials[number]._trial_id)

    def _random(self, number: int) -> int:
        """Return 32 random bits that depend on the seed of the plan and the number of a trial."""
        return int.from_bytes(hashlib.sha256(f"{self.plan['seed']}/{number}".encode()).digest()[:4], "big")

    def tell(self, trial: Trial, value: float | None = None, **attributes: Any) -> None:
        """End a trial with its value, or as failed, and store attributes of it: `path` or `reason`."""
        for name, attribute in attributes.items():
            trial.set_user_attr(name, attribute)
        self.optuna_study.tell(trial, value, TrialState.FAIL if value is None else TrialState.COMPLETE)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials in these states, or all that have begun, in the order in which they did."""
        trials = self.optuna_study.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in trials if trial.state != TrialState.WAITING and "repeats" not in trial.user_attrs]

    def best(self) -> FrozenTrial | None:
        """Return the finished trial with the best value, the first of equal ones; None when no trial has a value."""
        return self.optuna_study.best_trial if self.trials(TrialState.COMPLETE) else None
