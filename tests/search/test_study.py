from __future__ import annotations

import math
import multiprocessing
import signal
from pathlib import Path

import pytest
from optuna.trial import TrialState

from ol2r_cli.search.study import ATTEMPTS, RANDOM, UNPRUNED, Study
from tests.search.spaces import study

PROCESSES = multiprocessing.get_context("fork")  # a process that can be killed in the middle of a trial


def value(words: list[str]) -> float:
    """An objective with its best value, 0, at l2 = 0.3 and alpha = 0.7."""
    l2, alpha = (float(word.partition("=")[2]) for word in words)
    return -(math.log10(l2 / 0.3) ** 2 / 4 + 2 * (alpha - 0.7) ** 2)


def play(study: Study, most: int) -> list[list[str]]:
    """Finish trials until there are no more; what was drawn."""
    drawn = []
    while True:
        with study.next(most) as held:
            if held is None:
                return drawn
            drawn.append(held.drawn)
            study.finish(held, value(held.drawn), Path("run"))


def killed(folder: Path, *words: str) -> None:
    """Begin a trial in another process, which is killed then."""

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


def test_the_same_seed_draws_the_same(tmp_path):
    first = play(study(tmp_path / "a"), 12)
    assert len(first) == 12 > RANDOM
    assert play(study(tmp_path / "b"), 12) == first
    assert play(study(tmp_path / "c", seed=1), 12) != first


def test_a_study_goes_on_as_if_it_had_not_stopped(tmp_path):
    undisturbed = play(study(tmp_path / "a"), 12)
    assert play(study(tmp_path / "b"), 5) + play(study(tmp_path / "b"), 12) == undisturbed


def test_a_killed_trial_is_taken_up_again_and_leaves_no_seam(tmp_path):
    undisturbed = play(study(tmp_path / "a"), 12)
    before = play(study(tmp_path / "b"), 10)
    killed(tmp_path / "b")
    assert before + play(study(tmp_path / "b"), 12) == undisturbed
    assert [trial.state for trial in study(tmp_path / "b").trials()] == 12 * [TrialState.COMPLETE]


def test_a_trial_that_kills_its_process_again_and_again_is_given_up(tmp_path):
    for _ in range(ATTEMPTS):
        killed(tmp_path)
    play(study(tmp_path), 3)
    states = [trial.state for trial in study(tmp_path).trials()]
    assert states == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert study(tmp_path).trials()[0].user_attrs["reason"] == f"its process was killed {ATTEMPTS} times"


def test_an_interrupted_trial_is_not_counted_as_killed(tmp_path):
    for _ in range(ATTEMPTS + 1):
        with (here := study(tmp_path)).next(3) as held:
            here.interrupt(held)
    assert held.place == 1
    play(study(tmp_path), 1)
    assert [trial.state for trial in study(tmp_path).trials()] == [TrialState.COMPLETE]


def test_a_trial_that_is_being_worked_on_is_left_alone(tmp_path):
    one, other = study(tmp_path), study(tmp_path)
    with one.next(3) as first, other.next(3) as second:
        assert (first.place, second.place) == (1, 2)
        assert first.drawn != second.drawn
        assert not one.deserted()
    assert one.deserted(), "neither was finished, and nobody works on them"


def test_a_line_that_a_killed_process_left_unfinished_is_cut_off(tmp_path):
    first = play(study(tmp_path / "a"), 4)
    play(study(tmp_path / "b"), 2)
    with open(tmp_path / "b" / "journal.log", "ab") as file:
        file.write(b'{"op_code":4,"worker')
    assert play(study(tmp_path / "b"), 4) == first[2:]
    assert len(study(tmp_path / "b").trials()) == 4


def test_of_few_combinations_each_is_tried_once(tmp_path):
    drawn = play(study(tmp_path, "ranker.l2=1,2,3", "exploration.alpha=int(1,3)"), 100)
    assert len(drawn) == 9
    assert len({tuple(words) for words in drawn}) == 9
    assert play(study(tmp_path, "ranker.l2=1,2,3", "exploration.alpha=int(1,3)"), 100) == []


def test_the_model_does_better_than_chance(tmp_path):
    """Of 40 trials, those that Optuna's model draws are nearer to the best than the random ones before."""
    first = last = 0.0
    for seed in range(3):
        values = [value(words) for words in play(study(tmp_path / str(seed), seed=seed), 40)]
        first, last = first + sum(values[:RANDOM]), last + sum(values[-RANDOM:])
    assert last > 0.5 * first, "both are below 0"


def test_another_search_is_refused_under_the_same_name(tmp_path):
    study(tmp_path)
    with pytest.raises(ValueError, match=r"^--name must be new for another search: .* has other ranges$"):
        study(tmp_path, "ranker.l2=1,2")
    with pytest.raises(ValueError, match=r"has other prune, seed$"):
        study(tmp_path, seed=3, prune=False)


def test_trials_below_the_median_are_pruned_after_a_quarter_of_the_rounds(tmp_path):
    """Medians of 1 .. 5 are 3; nothing is compared before five trials have finished, nor before round 10 of 40."""
    here = study(tmp_path)
    for last in range(1, UNPRUNED + 1):
        with here.next(20) as held:
            assert not here.bad(held, 5, last)
            assert not here.bad(held, 20, last)
            here.finish(held, last, Path("run"))
    with here.next(20) as held:
        assert not here.bad(held, 5, -9.0)
        assert not here.bad(held, 20, 3.5)
        here.finish(held, 4.0, Path("run"))
    with here.next(20) as held:
        assert here.bad(held, 20, 2.5)
        here.prune(held)
    assert here.trials()[-1].state == TrialState.PRUNED


def test_the_best_is_the_first_of_equals_and_the_smallest_where_less_is_better(tmp_path):
    for direction, best in ("maximize", 2), ("minimize", 0):
        here = study(tmp_path / direction, direction=direction)
        for reached in (1.0, 3.0, 5.0, 5.0, 1.0):
            with here.next(20) as held:
                here.finish(held, reached, Path("run"))
        assert here.best().number == best


def test_what_fails_has_a_reason_and_no_value(tmp_path):
    here = study(tmp_path)
    with here.next(20) as held:
        here.fail(held, "no such luck")
    assert here.best() is None
    assert here.trials()[0].user_attrs["reason"] == "no such luck"
