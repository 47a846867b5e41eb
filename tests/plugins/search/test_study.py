"""A study: same trials for the same seed, also after kills and interruptions."""

from __future__ import annotations

import math

import pytest
from optuna.trial import TrialState

from ol2r_cli.plugins.search import study as studies
from ol2r_cli.plugins.search.study import RANDOM_TRIALS, Study
from tests.plugins.search.spaces import study

FEW = "ranker.l2=1,2,3", "exploration.alpha=int(1,2)"  # six combinations


def value(words: list[str]) -> float:
    """An objective with its best value, 0, at l2 = 0.3 and alpha = 0.7."""
    l2, alpha = (float(word.partition("=")[2]) for word in words)
    return -(math.log10(l2 / 0.3) ** 2 / 4 + 2 * (alpha - 0.7) ** 2)


def finish_trials(search: Study, max_trials: int) -> list[list[str]]:
    """Finish trials until there are no more; the overrides of each."""
    drawn = []
    with search:
        while (active := search.ask(max_trials)) is not None:
            drawn.append(active.drawn)
            search.tell(active.trial, value(active.drawn), path="run")
    return drawn


def trials(search: Study) -> list[tuple]:
    with search:
        return [(trial.state, trial.params, trial.value) for trial in search.trials()]


def test_the_same_seed_draws_the_same_trials_after_stops(tmp_path):
    undisturbed = finish_trials(study(tmp_path / "a"), 12)
    assert len(undisturbed) == 12 > RANDOM_TRIALS
    assert finish_trials(study(tmp_path / "c", seed=1), 2) != undisturbed[:2]
    assert finish_trials(study(tmp_path / "b"), 5) + finish_trials(study(tmp_path / "b"), 10) == undisturbed[:10]
    for _ in range(4):
        with study(tmp_path / "b") as search:
            assert search.ask(12).drawn == undisturbed[10], "nobody has told how it ended"
    assert finish_trials(study(tmp_path / "b"), 12) == undisturbed[10:]


@pytest.mark.parametrize(("words", "count"), [((), 4), (FEW, 6)], ids=["numbers", "combinations"])
def test_a_kill_between_any_two_writes_changes_no_trial(tmp_path, monkeypatch, words, count):
    """Nor does one within a line. A journal that ends after each of its lines is what a kill leaves.

    Of the last trials some are drawn by the model of the earlier ones, and of few combinations some are drawn twice.
    """
    monkeypatch.setattr(studies, "RANDOM_TRIALS", 2)
    finish_trials(study(tmp_path / "whole", *words), count)
    undisturbed = trials(study(tmp_path / "whole", *words))
    with study(tmp_path / "whole", *words) as search:
        repeats = len(search.optuna_study.trials) - count
    assert (repeats > 0) == bool(words)
    lines = (tmp_path / "whole" / "journal.log").read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines)):
        folder = tmp_path / str(kept)
        folder.mkdir()
        (folder / "journal.log").write_bytes(b"".join(lines[:kept]) + lines[kept][:7])
        finish_trials(study(folder, *words), count)
        assert trials(study(folder, *words)) == undisturbed, lines[kept - 1]


def test_trials_at_a_time_differ(tmp_path):
    """A trial that has begun is not given again, before its process has ended."""
    with study(tmp_path) as search:
        first, second = search.ask(2), search.ask(2)
        assert (first.number, second.number, search.ask(2)) == (1, 2, None)
        assert first.drawn != second.drawn
        search.tell(second.trial, 1.0)
    with study(tmp_path) as search:
        assert search.ask(3).drawn == first.drawn
        assert search.ask(3).number == 3


def test_each_of_few_combinations_is_tried_once(tmp_path):
    drawn = finish_trials(study(tmp_path, *FEW), 100)
    assert len(drawn) == 6
    assert len({tuple(words) for words in drawn}) == 6
    assert finish_trials(study(tmp_path, *FEW), 100) == []


def test_another_search_is_refused_under_the_same_name(tmp_path):
    """So is one that another process has not ended."""
    with study(tmp_path), pytest.raises(ValueError, match=r"^another process \(pid \d+ on .*--jobs plays several"):
        study(tmp_path).__enter__()
    with pytest.raises(ValueError, match=r"^--name must be new for another search: .* has other ranges$"):
        study(tmp_path, "ranker.l2=1,2").__enter__()
    with pytest.raises(ValueError, match=r"has other seed$"):
        study(tmp_path, seed=3).__enter__()


def test_a_study_of_an_earlier_version_goes_on(tmp_path):
    """Its plan said whether trials were pruned, and a pruned trial stays one."""
    with study(tmp_path) as search:
        pruned, begun = search.ask(3), search.ask(3)
        search.optuna_study.tell(pruned.trial, state=TrialState.PRUNED)
        search.optuna_study.set_user_attr("plan", {**search.plan, "prune": True})
        begun.trial.set_user_attr("attempts", 2)
    assert finish_trials(study(tmp_path), 3)[0] == begun.drawn
    assert [state for state, *_ in trials(study(tmp_path))] == [TrialState.PRUNED, *2 * [TrialState.COMPLETE]]


@pytest.mark.parametrize(("direction", "best"), [("maximize", 3), ("minimize", 1)])
def test_the_best_trial_is_the_first_of_equal_ones(tmp_path, direction, best):
    with study(tmp_path, direction=direction) as search:
        search.tell(search.ask(20).trial, reason="no such luck")
        assert search.best() is None, "a failed trial has no value"
        assert search.trials()[0].user_attrs["reason"] == "no such luck"
        for reached in (1.0, 3.0, 5.0, 5.0, 1.0):
            search.tell(search.ask(20).trial, reached)
        assert search.best().number == best
