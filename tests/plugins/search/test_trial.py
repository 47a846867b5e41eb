"""A trial is the run of `ol2r run`, with or without a callback, stopped or continued; what a search prints of it."""

from __future__ import annotations

import re
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from ol2r_cli import cli
from ol2r_cli.config.composer import Composer
from ol2r_cli.plugins.search import searcher
from ol2r_cli.plugins.search.result import with_fresh_seeds
from ol2r_cli.plugins.search.searcher import Searcher
from ol2r_cli.run import INTERRUPTED
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.run.runner import validation_curve
from ol2r_cli.run.store import RunDirectory
from tests.plugins.search.spaces import TINY, run_trial, study

RESULTS = ("trace.parquet", "evaluation.parquet", "ranker.pt")


def overrides(folder: Path) -> list[str]:
    return [*TINY, "replicas=2", f"output_dir={folder}"]


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The run of `ol2r run`, without a callback."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.main(["run", *overrides(folder)]) == 0
    return next(find_runs(folder))


def test_a_trial_with_a_callback_equals_the_run_of_ol2r_run(tmp_path, undisturbed, capsys):
    received: list[tuple[int, float]] = []
    outcome = run_trial(overrides(tmp_path), lambda round, ndcg: received.append((round, ndcg["validation"])))
    assert (outcome.code, outcome.finished_before, outcome.path.name) == (0, False, undisturbed.name)
    assert contents(outcome.path) == contents(undisturbed)
    assert [round for round, _ in received] == [10, 20, 30], "not of the untrained ranker, and not of the last round"
    for value, known in zip(received, validation_curve(Run.read(undisturbed)), strict=False):
        assert value == pytest.approx(known, abs=1e-6)
    assert capsys.readouterr() == ("", "")
    before = (undisturbed / "run.json").stat().st_mtime_ns
    outcome = run_trial(overrides(undisturbed.parents[1]))
    assert (outcome.code, outcome.finished_before, outcome.path) == (0, True, undisturbed), "it is not run again"
    assert (undisturbed / "run.json").stat().st_mtime_ns == before


def test_the_callback_receives_the_earlier_rounds_first(tmp_path, undisturbed):
    """The callback of a continued run receives the earlier rounds first."""
    stopped = run_trial(overrides(tmp_path), lambda round, ndcg: round == 20)
    state = Run.read(stopped.path)
    assert (stopped.code, state.state, state.round) == (INTERRUPTED, "interrupted", 20)
    received: list[tuple[int, float]] = []
    again = run_trial(
        overrides(tmp_path), lambda round, ndcg: received.append((round, ndcg["validation"])) or round == 10
    )
    assert (again.code, Run.read(stopped.path).round) == (INTERRUPTED, 20), "no round is simulated before it stops"
    assert [round for round, _ in received] == [10]
    received.clear()
    assert run_trial(overrides(tmp_path), lambda round, ndcg: received.append((round, ndcg["validation"]))).code == 0
    assert [round for round, _ in received] == [10, 20, 30]
    assert [value for _, value in received] == pytest.approx(
        [value for _, value in validation_curve(Run.read(undisturbed))[:3]], abs=1e-6
    )
    assert contents(stopped.path) == contents(undisturbed)
    often = [*overrides(tmp_path), "evaluate_every=3"]  # after 12 evaluations ten are on disk, and two wait
    run_trial(often, lambda round, ndcg: round == 36)
    received.clear()
    assert run_trial(often, lambda round, ndcg: received.append((round, 0.0))).code == 0
    assert [round for round, _ in received] == list(range(3, 40, 3)), "also those that wait in the checkpoint"


def test_what_ends_a_trial_before_its_first_round(tmp_path):
    with pytest.raises(ValueError, match=r"^ranker.l2 must be above 0"):
        run_trial([*overrides(tmp_path), "ranker.l2=-1"])
    with pytest.raises(ValueError, match=r"^there is no setting or group 'rouns'"):
        run_trial([*TINY, "+rouns=3"])
    with pytest.raises(KeyboardInterrupt):
        run_trial(overrides(tmp_path), stop=[15])
    assert not list(find_runs(tmp_path)), "nothing is left behind"
    received: list[int] = []
    finished = run_trial([*overrides(tmp_path), "evaluate_on=[test]"], lambda round, ndcg: received.append(round))
    assert (finished.code, received) == (0, []), "without validation the callback is not called"
    (finished.path / "run.json").unlink()
    with RunDirectory(finished.path), pytest.raises(KeyboardInterrupt):  # while it waits for another process
        run_trial([*overrides(tmp_path), "evaluate_on=[test]"], stop=[15])


@pytest.mark.parametrize("prune", [True, False])
def test_a_bad_trial_is_stopped_only_where_trials_are_pruned(prune):
    reported: list[tuple[int, float]] = []
    study = SimpleNamespace(plan={"prune": prune}, report=lambda _, values: reported.extend(values))
    shown = SimpleNamespace(show=lambda text: None)
    observer = searcher.TrialObserver(study, SimpleNamespace(should_prune=lambda: True), shown, stop=[])
    assert observer(20, {"validation": 0.1}) is prune
    assert (observer.pruned_at, reported) == ((20, [(20, 0.1)]) if prune else (None, []))


def test_the_command_of_a_trial_names_folders_of_choices(tmp_path):
    """The command of a trial names the folders with own choices."""
    (tmp_path / "own" / "click").mkdir(parents=True)
    (tmp_path / "own" / "click" / "mine.yaml").write_text("defaults: [perfect]\n")
    fixed = [*TINY, "click=mine", "rounds=2", f"output_dir={tmp_path / 'out'}", "--config-dir", str(tmp_path / "own")]
    command = Run.read(searcher.run_trial(Composer(fixed), fixed).path).manifest["command"]
    assert command.endswith(f"output_dir={tmp_path / 'out'} --config-dir {tmp_path / 'own'}")
    assert command.count("--config-dir") == 1


def test_the_proposed_run_has_seeds_that_no_trial_had():
    for fixed, first in ([], 100), (["seed=7", "replicas=3"], 100), (["seed=95", "replicas=10"], 200):
        words = with_fresh_seeds(["rounds=9", *fixed], ["ranker.l2=2"])
        assert words == ["rounds=9", "ranker.l2=2", f"seed={first}", "replicas=10"]


def test_a_terminal_shows_the_validation_curve(tmp_path, capsys, monkeypatch):
    """A terminal shows the validation curve and not the output of the run."""
    monkeypatch.setenv("COLUMNS", "36")
    clock = SimpleNamespace(monotonic=count(1000, 7).__next__)  # read before the trial, at its begin and at its end
    monkeypatch.setattr(searcher, "time", clock)
    search = Searcher(study(tmp_path / ".search" / "a", "ranker.l2=1,2", *TINY), 1)
    search.terminal = sys.stderr
    assert search.run()
    shown = capsys.readouterr()
    assert [f"round {round} 0." in shown.err for round in (10, 20, 30, 40)] == [True, True, True, False]
    lines = shown.err.split("\r\033[K")
    assert max(map(len, lines)) < 36, "a longer line would stay when the next one is drawn"
    assert sum(line.startswith(("trial 1/1  l2=1  round ", "trial 1/1  l2=2  round ")) for line in lines) == 3
    assert lines[-1] == "", "the line of a trial is gone before that of its result is printed"
    assert re.fullmatch(r"trial 1/1  (0\.\d{4})  ranker\.l2=[12]  7\.0s  best \1\n", shown.out)
    again = study(tmp_path / ".search" / "b", "ranker.l2=1,2", *TINY)  # the same trial, whose run is finished
    assert Searcher(again, 1).run()
    assert "(done before)" in capsys.readouterr().out
    reported, before = again.trials()[0].intermediate_values, search.study.trials()[0].intermediate_values
    assert before.items() <= reported.items(), "others are compared with it"


def test_no_trial_begins_after_the_time_that_was_given(tmp_path):
    """Such a search is at its end, as one with all of its trials."""
    search = Searcher(study(tmp_path / ".search" / "a", "ranker.l2=1,2", *TINY), 2, until=time.monotonic())
    assert search.run()
    assert search.study.trials() == []
