"""`ol2r search` as typed: what it prints, continues after signals and kills, and refuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest
from optuna.trial import TrialState

from ol2r_cli import cli
from ol2r_cli.plugins.search import searcher, space
from ol2r_cli.plugins.search.searcher import TrialOutcome, run_trial
from ol2r_cli.plugins.search.study import Study, study_folder
from ol2r_cli.run.run import Run, find_runs
from tests.launch import Launched
from tests.plugins.search.spaces import COMPOSER, TINY, study

RANGES = ["ranker.l2=log(1e-4,10)", "exploration.alpha=float(0,1)"]
TRIALS = 8


@pytest.fixture(autouse=True)
def _compose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces share a composer, so that Hydra composes each set of choices once."""
    monkeypatch.setattr(space, "Composer", lambda words: COMPOSER)


def command(folder: Path, *more: str) -> list[str]:
    return ["search", *RANGES, *TINY, f"output_dir={folder}", "--name", "one", "--trials", str(TRIALS), *more]


def reopened(folder: Path) -> Study:
    """The study of `command`."""
    return study(folder / ".search" / "one", *RANGES, *TINY)


def trials(folder: Path) -> list[tuple]:
    """The parameters, the state and the values of each trial."""
    studied = reopened(folder).trials()
    return [(trial.params, trial.state, trial.value, trial.intermediate_values) for trial in studied]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    """The folder of a search that nothing interrupted."""
    folder = tmp_path_factory.mktemp("undisturbed")
    searching = Launched(command(folder), folder / "log")
    assert searching.wait() == 0, searching.errors
    return folder


def test_trials_of_a_search_are_printed_and_are_ordinary_runs(undisturbed):
    """A search prints its trials and what to type next, and trials are ordinary runs.

    `status` finds them, and a pruned one goes on by the command in its manifest.
    """
    lines = (undisturbed / "log" / "output").read_text().splitlines()
    assert lines[0] == f"search in {undisturbed}/.search/one"
    of_trials = lines[1 : 1 + TRIALS]
    assert [int(line.split()[1].split("/")[0]) for line in of_trials] == list(range(1, TRIALS + 1))
    finished = [trial for trial in reopened(undisturbed).trials() if trial.state == TrialState.COMPLETE]
    best = max(finished, key=lambda trial: trial.value)
    assert of_trials[-1].endswith(f"best {best.value:.4f}")
    assert f"{TRIALS} trials ({len(finished)} finished, {TRIALS - len(finished)} pruned)" in lines
    summary = json.loads((Path(best.user_attrs["path"]) / "summary.json").read_text())["metrics"]
    assert best.value == summary["validation_ndcg_10"]["mean"]
    assert f"  test NDCG@10       {summary['test_ndcg_10']['mean']:.4f}" in lines
    assert f"  run                {best.user_attrs['path']}" in lines
    (line,) = (line for line in lines if line.startswith("  fresh seeds"))
    words = shlex.split(line)[2:]
    assert words[:2] == ["ol2r", "run"]
    assert words[-4:] == [*reopened(undisturbed).space.overrides(best.params), "seed=100", "replicas=10"]
    states = [Run.read(path) for path in find_runs(undisturbed)]
    assert len(states) == TRIALS
    assert sum(state.state == "finished" for state in states) == len(finished)
    stopped = next(state for state in states if state.state == "interrupted")
    assert stopped.round in (10, 20, 30)
    assert cli.main(shlex.split(stopped.command)[1:]) == 0
    assert Run.read(stopped.path).state == "finished"


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_a_stopped_search_continues_to_the_same_trials(tmp_path, undisturbed, number):
    first = Launched(command(tmp_path), tmp_path / "log")
    first.until(
        lambda: len(list(tmp_path.glob("search/synthetic/*/checkpoint.pt"))) and len(list(find_runs(tmp_path))) > 2
    )
    first.send(number)
    assert first.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 130), first.errors
    begun = len(reopened(tmp_path).trials())
    assert 2 < begun < TRIALS
    if number == signal.SIGINT:
        assert first.errors == "ol2r search: interrupted: the same command goes on from there\n"
    again = Launched(command(tmp_path), tmp_path / "log")
    assert again.wait() == 0, again.errors
    assert trials(tmp_path) == trials(undisturbed)


def test_a_finished_search_waits_for_more_trials(tmp_path, capsys, monkeypatch):
    """A finished search does nothing until more trials are asked for."""
    printed = []
    for number in 2, 2, 3:
        assert cli.main(command(tmp_path, "--trials", str(number))) == 0
        printed.append(capsys.readouterr().out)
    first, again, more = printed
    assert "\ntrial" not in again
    assert again.splitlines()[1:] == first.splitlines()[3:]
    assert re.findall(r"^trial (\S+)", more, re.MULTILINE) == ["3/3"]
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(command(tmp_path)) == 2
    assert capsys.readouterr().err == "ol2r search: search needs Optuna: type pip install 'ol2r[search]'\n"


def test_failed_trials_do_not_end_the_search(tmp_path, capsys, monkeypatch):
    """Trials that fail do not end the search, which ends with 1 without any value."""
    count, failed = iter(range(10)), TrialOutcome(1, tmp_path, "ZeroDivisionError: none")

    def sometimes(*words):
        number = next(count)
        if number == 0:
            raise RuntimeError("no\nsuch luck")
        return failed if number == 1 else run_trial(*words)

    monkeypatch.setattr(searcher, "run_trial", sometimes)
    assert cli.main(command(tmp_path, "--trials", "3")) == 0
    printed = capsys.readouterr().out
    assert "trial 1/3  failed: RuntimeError: no such luck" in printed
    assert "trial 2/3  failed: ZeroDivisionError: none" in printed
    assert "3 trials (1 finished, 2 failed)" in printed
    monkeypatch.setattr(searcher, "run_trial", lambda *_: failed)
    assert cli.main(command(tmp_path / "other", "--trials", "2")) == 1
    assert "2 trials (2 failed): none has a value" in capsys.readouterr().out


def test_a_run_without_the_metric_is_a_failed_trial(tmp_path, capsys, monkeypatch):
    def on_test_queries(composer, overrides, *more):
        return run_trial(composer, [*overrides, "evaluate_on=[test]"], *more)

    monkeypatch.setattr(searcher, "run_trial", on_test_queries)
    assert cli.main(command(tmp_path, "--trials", "1")) == 1
    printed = capsys.readouterr().out
    assert "trial 1/1  failed: its summary has no validation_ndcg_10" in printed
    assert "1 trials (1 failed): none has a value" in printed


def test_what_is_said_of_the_best_trial_is_wrapped(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(command(tmp_path, "--trials", "1")) == 0
    first, second = re.search(
        r"^( +settings +)ranker\.l2=.*\n( +)exploration\.alpha=", capsys.readouterr().out, re.M
    ).groups()
    assert len(first) == len(second)


@pytest.mark.slow
def test_several_processes_share_the_work_and_one_may_be_killed(tmp_path):
    if not Path("/proc/self/task").exists():
        pytest.skip("finds the workers in /proc")
    searching = Launched(command(tmp_path, "--jobs", "2"), tmp_path / "log")
    children = Path(f"/proc/{searching.pid}/task/{searching.pid}/children")
    searching.until(lambda: len(list(find_runs(tmp_path))) > 1)
    os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    assert searching.wait() == 0, searching.errors
    found = reopened(tmp_path).trials()
    assert len(found) == TRIALS
    assert all(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in found)
    assert f"{TRIALS} trials" in searching.output


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        *{
            "": "a search needs a range: type SETTING=RANGE, such as 'ranker.l2=log(1e-4,10)'",
            "ranker.l2=1,2 --trials 0": "--trials must be 1 or more, got 0",
            "ranker.l2=1,2 --minutes 0": "--minutes must be above 0, got 0.0",
            "ranker.l2=1,2 --metric test_ndcg_10": "--metric must not look at the test split, got test_ndcg_10",
            "ranker.l2=1,2 --metric speed": "--metric must be one of validation_ndcg_1,",
            "ranker.l2=1,2 --metric ndcg": "--metric ndcg: did you mean validation_ndcg_1, validation_ndcg_3, ",
            "ranker.l2=1,2 --metric validation_ndcg": "--metric validation_ndcg: did you mean validation_ndcg_",
            "ranker.l2=1,2 --metric online_ndcg --prune": "--prune goes with --metric validation_ndcg_10",
            "ranker.l2=1,2 --trails 3": "there is no option --trails: did you mean --trials?",
            "ranker.l2=1,2 --name a/b": "--name must be the name of a folder",
            "ranker.l2=1,-2": "ranker.l2 must be above 0, got -2",
        }.items()
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(tmp_path, capsys, typed, message):
    assert cli.main(["search", *TINY, f"output_dir={tmp_path / 'out'}", *typed.split()]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"ol2r search: {message}")
    assert printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_name_of_a_study_is_that_of_a_folder():
    assert study_folder("out", 255 * "a", {}).name == 255 * "a"
    for name in 256 * "a", 128 * "ä", "", "a/b", ".a":
        with pytest.raises(ValueError, match=r"^--name must "):
            study_folder("out", name, {})
