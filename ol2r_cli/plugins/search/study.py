"""A study: an Optuna study in a folder that several processes work on, and that continues after any interruption.

Optuna stores the trials, draws the settings and decides which trials to prune. `Study.next` takes the place of
`optuna.Study.optimize`, after which an interrupted trial has failed and that of a killed process runs for ever (a
journal has no heartbeat), and whose sampler begins anew in each process, so that a continued search would draw the
trials again that it has. `searcher` runs the trials, each an ordinary run, in one process or in several.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from ol2r_cli.files import Lock, is_held, no_link
from ol2r_cli.plugins.search.space import Direction, Space
from ol2r_cli.run.identity import NOT_HASHED
from ol2r_cli.run.own_code import own_code
from ol2r_cli.run.store import create_root

FOLDER = ".search"  # below output_dir
RUNS = "search"  # the folder of output_dir in which the runs of all studies are
ATTEMPTS = 3  # a trial whose process was killed so often has failed
RANDOM_TRIALS = 8  # drawn at random before Optuna's model of the earlier trials draws
UNPRUNED_TRIALS = 5  # run to their end before any trial is pruned
_TURN = ".turn"  # the lock of the process that chooses the next trial
EARLIEST = 0.25  # share of the rounds before which no trial is pruned: early on, curves cross

optuna.logging.set_verbosity(optuna.logging.WARNING)


def search_plan(space: Space, metric: str, prune: bool, seed: int) -> dict[str, Any]:
    """Return all that decides which trials a study has, without folders and other settings without effect on results.

    The hashes of the user's own code for all choices are part of it.
    """
    settings = [word for word in space.fixed if word.partition("=")[0] not in NOT_HASHED | {"measures"}]
    ranges = sorted(map(repr, space.ranges))
    plan = {"settings": sorted(settings), "ranges": ranges, "metric": metric, "prune": prune, "seed": seed}
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
            self._check_plan(self.optuna_study.user_attrs.get("plan", self.plan))
            self.optuna_study.set_user_attr("plan", self.plan)

    def _check_plan(self, existing: Mapping[str, Any]) -> None:
        """Raise ValueError unless the plan of the study in the folder is that of this search."""
        differs = [name for name in {**existing, **self.plan} if existing.get(name) != self.plan.get(name)]
        if differs:
            raise ValueError(
                f"--name must be new for another search: the one in {self.folder} has other {', '.join(differs)}"
            )

    @contextmanager
    def next(self, max_trials: int) -> Iterator[ActiveTrial | None]:
        """Yield the next trial, which this process holds inside the `with` block.

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
        """Return the first trial whose process is gone, or a new one, whose settings are drawn."""
        abandoned = self._abandoned_number()
        if abandoned is not None:
            return abandoned
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

    def _abandoned_number(self) -> int | None:
        """Return the first trial whose process is gone; one whose processes were killed too often fails."""
        for trial in self.trials(TrialState.RUNNING):
            if is_held(self._lock(trial.number)):
                continue
            if trial.user_attrs.get("attempts", 0) < ATTEMPTS:
                return trial.number
            self.end(self._optuna_trial(trial.number), reason=f"its process was killed {ATTEMPTS} times")
        return None

    def _lock(self, number: int) -> Path:
        return self.folder / f"trial-{number}.lock"

    def _optuna_trial(self, number: int | None = None) -> Trial:
        """Return a new trial, or that with this number; a new sampler makes the draw independent of earlier draws."""
        trials = self.optuna_study.get_trials(deepcopy=False)
        seed = self._random(len(trials) if number is None else number)
        self.optuna_study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS)
        return self.optuna_study.ask() if number is None else Trial(self.optuna_study, trials[number]._trial_id)

    def _random(self, number: int) -> int:
        """Return 32 random bits that depend on the seed of the plan and the number of a trial."""
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
        """Return the trials in these states, or all, in the order in which they began."""
        trials = self.optuna_study.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in trials if "repeats" not in trial.user_attrs]

    def best(self) -> FrozenTrial | None:
        """Return the finished trial with the best value, the first of equal ones; None when no trial has a value."""
        return self.optuna_study.best_trial if self.trials(TrialState.COMPLETE) else None
