"""The study of a search on disk: Optuna's trials, shared by the processes that search and outliving any of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.search.journal import journal, turn
from ol2r_cli.search.objective import Direction
from ol2r_cli.search.space import Space

ATTEMPTS = 3  # a trial whose process was killed so often is given up
RANDOM = 8  # trials drawn at random before Optuna's model of the earlier ones draws
UNPRUNED = 5  # trials that run to their end before any is pruned
EARLIEST = 0.25  # share of the rounds before which no trial is pruned: early on, curves cross

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Held:
    """A trial that this process works on: its place in the search, from 1, and the overrides that were drawn."""

    place: int
    drawn: list[str]
    trial: Trial


class Study:
    """Opened in `folder`, or begun there; `plan` says what is searched, and a study of another plan is a ValueError.

    direction: maximize or minimize. rounds: of every trial's run.

    What is drawn is a function of the plan's `seed`, the number of the trial and the trials before it. A trial is held
    by the process that works on it; one whose process is gone is taken up again, by whoever asks next.
    """

    def __init__(self, folder: Path, space: Space, plan: Mapping[str, Any], direction: Direction, rounds: int):
        self.folder, self.space, self.plan = folder, space, dict(plan)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "journal.log"
        with turn(folder / ".turn"):
            self.study = optuna.create_study(
                storage=journal(self.path),
                study_name="search",
                direction=direction,
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(UNPRUNED, n_warmup_steps=int(EARLIEST * rounds)),
            )
            before = self.study.user_attrs.get("plan", self.plan)
            if before != self.plan:
                differs = [name for name in self.plan if before.get(name) != self.plan[name]]
                raise ValueError(
                    f"--name must be new for another search: the one in {folder} has other {', '.join(differs)}"
                )
            self.study.set_user_attr("plan", self.plan)

    @contextmanager
    def next(self, most: int) -> Iterator[Held | None]:
        """The next trial, held until the block is left; None when `most` have begun, or all there are were tried."""
        with turn(self.folder / ".turn"):
            number = self._orphan()
            number = self._ask(most) if number is None else number
            if number is None:
                held = directory = None
            else:
                directory = self._hold(number).__enter__()
                held = self._taken(number)
        try:
            yield held
        finally:
            if directory is not None:
                directory.__exit__()

    def _hold(self, number: int) -> RunDirectory:
        """A folder whose lock says that somebody works on the trial."""
        return RunDirectory(self.folder / f"trial-{number}")

    def _orphan(self) -> int | None:
        """The first trial whose process is gone; those that have killed their process too often are given up."""
        for trial in self.study.get_trials(states=(TrialState.RUNNING,)):
            if self._hold(trial.number).is_running():
                continue
            if trial.user_attrs.get("attempts", 0) < ATTEMPTS:
                return trial.number
            self._fail(trial.number, f"its process was killed {ATTEMPTS} times")
        return None

    def deserted(self) -> bool:
        """Whether a trial has begun and no process works on it."""
        running = self.study.get_trials(states=(TrialState.RUNNING,))
        return not all(self._hold(trial.number).is_running() for trial in running)

    def _ask(self, most: int) -> int | None:
        tried = {tuple(self.words(trial)) for trial in self.trials()}
        cells = self.space.cells()
        if len(self.trials()) >= most or (cells and len(tried) >= len(cells)):
            return None
        trial = self._optuna_trial()
        if cells and tuple(self.space.draw(trial)) in tried:
            trial.set_user_attr("repeats", True)
            self.study.tell(trial, state=TrialState.FAIL)  # which the sampler does not learn from
            untried = [cell for cell in cells if tuple(self.space.typed(cell)) not in tried]
            self.study.enqueue_trial(untried[self._chance(trial.number) % len(untried)])
            trial = self._optuna_trial()
        return trial.number

    def _taken(self, number: int) -> Held:
        trial = self._optuna_trial(number)
        trial.set_user_attr("attempts", trial.user_attrs.get("attempts", 0) + 1)
        place = [other.number for other in self.trials()].index(number) + 1
        return Held(place, self.space.draw(trial), trial)

    def _optuna_trial(self, number: int | None = None) -> Trial:
        """A new trial, or the one of this number; what is drawn depends on no generator's past."""
        trials = self.study.get_trials(deepcopy=False)
        seed = self._chance(len(trials) if number is None else number)
        self.study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM)
        return self.study.ask() if number is None else Trial(self.study, trials[number]._trial_id)

    def _chance(self, number: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.plan['seed']}/{number}".encode()).digest()[:4], "big")

    def bad(self, held: Held, round: int, value: float) -> bool:
        """Note a value along the way; whether it is below the median of the finished trials at this round."""
        value = round_off(value)
        if round not in self.study.get_trials(deepcopy=False)[held.trial.number].intermediate_values:
            held.trial.report(value, round)
        return bool(held.trial.should_prune())

    def note(self, held: Held, curve: Iterable[tuple[int, float]]) -> None:
        """Note the values along the way of a run that was finished before, so that others are compared with it."""
        for round, value in curve:
            held.trial.report(round_off(value), round)

    def finish(self, held: Held, value: float, path: Path) -> None:
        held.trial.set_user_attr("path", str(path))
        self.study.tell(held.trial, value)

    def prune(self, held: Held) -> None:
        self.study.tell(held.trial, state=TrialState.PRUNED)

    def fail(self, held: Held, reason: str) -> None:
        self._fail(held.trial.number, reason)

    def _fail(self, number: int, reason: str) -> None:
        self._optuna_trial(number).set_user_attr("reason", reason)
        self.study.tell(number, state=TrialState.FAIL)

    def interrupt(self, held: Held) -> None:
        """Leave a trial to whoever asks next; its process was not killed, which would count against it."""
        held.trial.set_user_attr("attempts", held.trial.user_attrs["attempts"] - 1)

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The trials in these states, or all, in the order in which they began."""
        trials = self.study.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in trials if "repeats" not in trial.user_attrs]

    def words(self, trial: FrozenTrial) -> list[str]:
        """What was drawn, as overrides."""
        return self.space.typed(trial.params)

    def best(self) -> FrozenTrial | None:
        """The finished trial with the best value; of equals the first."""
        finished = self.trials(TrialState.COMPLETE)
        sign = 1 if self.study.direction == optuna.study.StudyDirection.MAXIMIZE else -1
        return max(finished, key=lambda trial: sign * (trial.value or 0.0), default=None)


def round_off(value: float) -> float:
    """To six digits: what a file holds in single precision and what was just computed count as the same."""
    return round(value, 6)
