"""A study: same trials for the same seed, also after kills and interruptions, by one or several processes."""

from __future__ import annotations

import math
import multiprocessing
import signal
from pathlib import Path

import pytest
from optuna.trial import TrialState

from ol2r_cli.plugins.search.study import ATTEMPTS, RANDOM_TRIALS, UNPRUNED_TRIALS, ActiveTrial, Study
from tests.plugins.search.spaces import study

PROCESSES = multiprocessing.get_context("fork")  # a process that can be killed in the middle of a trial


def value(words: list[str]) -> float:
    """An objective with its best value, 0, at l2 = 0.3 and alpha = 0.7."""
    l2, alpha = (float(word.partition("=")[2]) for word in words)
    return -(math.log10(l2 / 0.3) ** 2 / 4 + 2 * (alpha - 0.7) ** 2)


def finish_trials(study: Study, max_trials: int) -> list[list[str]]:
    """Finish trials until there are no more; the overrides of each."""
    drawn = []
    while True:
        with study.next(max_trials) as active:
            if active is None:
                return drawn
            drawn.append(active.drawn)
            study.end(active.trial, value(active.drawn), path="run")


def kill_trial(folder: Path, *words: str) -> None:
    """Begin a trial in another process and kill this process."""

    def begin() -> None:
        with study(folder, *words).next(100):
            begun.set()
            signal.pause()

    begun = PROCESSES.Event()
    process = PROCESSES.Process(target=begin)
    process.start()
    assert begun.wait(30)
    process.kill()
    process.join()


def test_the_same_seed_draws_the_same_trials_after_stops(tmp_path):
    """The same seed draws the same trials, however often a study is stopped.

    Also after a kill in the middle of a trial, which is continued, or of a line, which is removed.
    """
    undisturbed = finish_trials(study(tmp_path / "a"), 12)
    assert len(undisturbed) == 12 > RANDOM_TRIALS
    assert finish_trials(study(tmp_path / "c", seed=1), 2) != undisturbed[:2]
    before = finish_trials(study(tmp_path / "b"), 5) + finish_trials(study(tmp_path / "b"), 10)
    kill_trial(tmp_path / "b")
    with open(tmp_path / "b" / "journal.log", "ab") as file:
        file.write(b'{"op_code":4,"worker')
    assert before + finish_trials(study(tmp_path / "b"), 12) == undisturbed
    assert [trial.state for trial in study(tmp_path / "b").trials()] == 12 * [TrialState.COMPLETE]


def test_a_trial_is_given_up_after_kills(tmp_path):
    """A trial is given up after kills, and one of a living process is left alone.

    An interruption does not count as a kill.
    """
    for _ in range(ATTEMPTS):
        kill_trial(tmp_path / "killed")
    finish_trials(study(tmp_path / "killed"), 2)
    first, second = study(tmp_path / "killed").trials()
    assert (first.state, second.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert first.user_attrs["reason"] == f"its process was killed {ATTEMPTS} times"
    for _ in range(ATTEMPTS + 1):
        with (search := study(tmp_path)).next(3) as active:
            search.interrupt(active.trial)
    assert active.number == 1
    one, other = study(tmp_path), study(tmp_path)
    with one.next(3) as first, other.next(3) as second:
        assert (first.number, second.number) == (1, 2)
        assert first.drawn != second.drawn
    with one.next(3) as again:
        assert again.number == 1, "neither was finished, and no process works on them"


def test_each_of_few_combinations_is_tried_once(tmp_path):
    drawn = finish_trials(study(tmp_path, "ranker.l2=1,2,3", "exploration.alpha=int(1,3)"), 100)
    assert len(drawn) == 9
    assert len({tuple(words) for words in drawn}) == 9
    assert finish_trials(study(tmp_path, "ranker.l2=1,2,3", "exploration.alpha=int(1,3)"), 100) == []


def test_another_search_is_refused_under_the_same_name(tmp_path):
    study(tmp_path)
    with pytest.raises(ValueError, match=r"^--name must be new for another search: .* has other ranges$"):
        study(tmp_path, "ranker.l2=1,2")
    with pytest.raises(ValueError, match=r"has other prune, seed$"):
        study(tmp_path, seed=3, prune=False)


def test_trials_below_the_median_are_pruned(tmp_path):
    """Trials below the median are pruned after a quarter of the rounds.

    Medians of 1 .. 5 are 3; nothing is compared before five trials have finished, nor before round 10 of 40.
    """
    search = study(tmp_path)

    def pruned(active: ActiveTrial, round: int, value: float) -> bool:
        search.report(active.trial, [(round, value)])
        return active.trial.should_prune()

    for last in range(1, UNPRUNED_TRIALS + 1):
        with search.next(20) as active:
            assert not pruned(active, 5, last)
            assert not pruned(active, 20, last)
            search.end(active.trial, last)
    with search.next(20) as active:
        assert not pruned(active, 5, -9.0)
        assert not pruned(active, 20, 3.5)
        search.end(active.trial, 4.0)
    with search.next(20) as active:
        assert pruned(active, 20, 2.5)
        search.end(active.trial, pruned=True)
    assert search.trials()[-1].state == TrialState.PRUNED


def test_the_best_trial_is_the_first_of_equal_ones(tmp_path):
    """The best trial is the first of equal ones, and the smallest when minimised."""
    for direction, best in ("maximize", 3), ("minimize", 1):
        search = study(tmp_path / direction, direction=direction)
        with search.next(20) as active:
            search.end(active.trial, reason="no such luck")
        assert search.best() is None, "a failed trial has no value"
        assert search.trials()[0].user_attrs["reason"] == "no such luck"
        for reached in (1.0, 3.0, 5.0, 5.0, 1.0):
            with search.next(20) as active:
                search.end(active.trial, reached)
        assert search.best().number == best
