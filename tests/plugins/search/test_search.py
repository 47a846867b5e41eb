"""`ol2r search` as typed: what it prints, continues after signals and kills, and refuses."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shlex
import signal
import sys
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from ol2r_cli import cli
from ol2r_cli.plugins.search.result import with_fresh_seeds
from ol2r_cli.plugins.search.searcher import Searcher
from ol2r_cli.plugins.search.space import Space, check_space
from ol2r_cli.plugins.search.study import Study, search_plan, study_folder
from ol2r_cli.run.run import Run, find_runs
from tests.launch import Launched
from tests.plugins.search.in_process import own_launcher
from tests.plugins.search.spaces import TINY

RANGES = ["ranker.l2=log(1e-4,10)", "exploration.alpha=float(0,1)"]
TRIALS = 8
RESULTS = ("trace.parquet", "evaluation.parquet", "ranker.pt")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory) -> list[str]:
    """Words of a launcher that starts no process."""
    return own_launcher(tmp_path_factory.mktemp("own"))


def command(folder: Path, *more: str) -> list[str]:
    return ["search", *RANGES, *TINY, f"output_dir={folder}", "--name", "one", "--trials", str(TRIALS), *more]


def trials(folder: Path) -> list[tuple]:
    """The parameters, the state and the value of each trial of `command`, as Optuna reads them."""
    journal = JournalStorage(JournalFileBackend(str(folder / ".search" / "one" / "journal.log")))
    found = optuna.load_study(study_name="search", storage=journal).trials
    return [(trial.params, trial.state, trial.value) for trial in found]


def events(launcher: list[str]) -> list[str]:
    """What the launcher has noted since the last call."""
    file = Path(launcher[-1]) / "events"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, launcher) -> Path:
    """The folder of a search that nothing interrupted, and in it `output` with what it printed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(command(folder, *launcher)) == 0
    (folder / "output").write_text(printed.getvalue())
    return folder


def test_trials_of_a_search_are_printed_and_are_ordinary_runs(tmp_path, undisturbed, launcher):
    """A search prints its trials and what to type next, and each trial is the run of the command in its manifest."""
    lines = (undisturbed / "output").read_text().splitlines()
    assert lines[0] == f"search in {undisturbed}/.search/one"
    of_trials = lines[1 : 1 + TRIALS]
    assert [int(line.split()[1].split("/")[0]) for line in of_trials] == list(range(1, TRIALS + 1))
    values = [value for _, _, value in trials(undisturbed)]
    best = max(values)
    assert of_trials[-1].endswith(f"best {best:.4f}")
    assert f"{TRIALS} trials ({TRIALS} finished)" in lines
    (path,) = (Path(line.split()[1]) for line in lines if line.startswith("  run "))
    summary = json.loads((path / "summary.json").read_text())["metrics"]
    assert best == summary["validation_ndcg_10"]["mean"]
    assert f"  test NDCG@10       {summary['test_ndcg_10']['mean']:.4f}" in lines
    (line,) = (line for line in lines if line.startswith("  fresh seeds"))
    words = shlex.split(line)[2:]
    assert words[:2] == ["ol2r", "run"]
    settings = shlex.split(next(line for line in lines if line.startswith("  settings")))[1:]
    assert words[-4:] == [*settings, "seed=100", "replicas=10"]
    assert not [word for word in words if "launcher" in word]
    assert {Run.read(found).state for found in find_runs(undisturbed)} == {"finished"}
    assert len(list(find_runs(undisturbed))) == TRIALS
    typed = shlex.split(Run.read(path).command)
    assert typed[-3:] == [f"output_dir={undisturbed}/search", *launcher[1:]]
    assert typed.count("--config-dir") == 1
    assert cli.main([*typed[1:], f"output_dir={tmp_path}", "--quiet"]) == 0
    again = next(find_runs(tmp_path))
    assert again.name == path.name
    assert [(again / name).read_bytes() for name in RESULTS] == [(path / name).read_bytes() for name in RESULTS]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_a_stopped_search_continues_to_the_same_trials(tmp_path, undisturbed, launcher, number):
    """Also by another launcher: where it is killed, the first one plays trials in processes of their own."""
    words = launcher if number == signal.SIGINT else launcher[1:]
    first = Launched(command(tmp_path, *words), tmp_path / "log")
    first.until(
        lambda: len(list(tmp_path.glob("search/synthetic/*/checkpoint.pt"))) and len(list(find_runs(tmp_path))) > 2
    )
    first.send(number)
    assert first.wait() == (-signal.SIGKILL if number == signal.SIGKILL else 130), first.errors
    begun = len(trials(tmp_path))
    assert 2 < begun < TRIALS
    if number == signal.SIGINT:
        assert "1 running jobs keep what they have done" in first.errors
        assert first.errors.endswith("\nol2r search: interrupted: the same command goes on from there\n")
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("search/*/*/summary.json")}
    assert cli.main(command(tmp_path, *launcher)) == 0
    assert trials(tmp_path) == trials(undisturbed)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "none is played twice"


def test_a_finished_search_waits_for_more_trials(tmp_path, capsys, monkeypatch, launcher):
    """A finished search does nothing until more trials are asked for."""
    printed = []
    for number in 2, 2, 3:
        assert cli.main(command(tmp_path, "--trials", str(number), *launcher)) == 0
        printed.append(capsys.readouterr().out)
    first, again, more = printed
    assert "\ntrial" not in again
    assert again.splitlines()[1:] == first.splitlines()[3:]
    assert re.findall(r"^trial (\S+)", more, re.MULTILINE) == ["3/3"]
    (tmp_path / ".search" / "one" / "journal.log").unlink()
    assert cli.main(command(tmp_path, "--trials", "1", *launcher)) == 0
    assert "(done before)" in capsys.readouterr().out, "a run of another study is not played again"
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(command(tmp_path)) == 2
    assert capsys.readouterr().err == "ol2r search: search needs Optuna: type pip install 'ol2r[search]'\n"


def test_failed_trials_do_not_end_the_search(tmp_path, capsys, launcher):
    """Trials that fail, or that are no experiment, do not end the search, which ends with 1 without any value."""
    together = ["ranker.window=null,9", "ranker.discount=1.0,0.9", *TINY, f"output_dir={tmp_path}", *launcher]
    assert cli.main(["search", *together, "--trials", "9", "launcher.fails=[0]"]) == 0
    printed = capsys.readouterr().out
    assert "trial 1/9  failed: ZeroDivisionError: none" in printed
    assert re.search(r"^trial \d/9  failed: ranker.discount must be 1 with ranker.window=9, got 0.9  ", printed, re.M)
    assert "4 trials (2 finished, 2 failed)" in printed
    assert cli.main(command(tmp_path / "other", "--trials", "2", *launcher, "launcher.fails=[0,1]")) == 1
    assert "2 trials (2 failed): none has a value" in capsys.readouterr().out


def test_a_run_without_the_metric_is_a_failed_trial(tmp_path, capsys, launcher):
    ranges = Space([*RANGES, *TINY, *launcher])
    plan = search_plan(ranges, "validation_ndcg_7", 0)
    with Study(tmp_path / ".search" / "one", ranges, plan, "maximize") as search:
        checked = check_space(ranges, "validation_ndcg_10", [*ranges.launcher, "launcher.jobs=1"])
        assert Searcher(search, 1, 1, math.inf).run(checked)
    assert "trial 1/1  failed: its summary has no validation_ndcg_7  ranker.l2=" in capsys.readouterr().out


def test_no_trial_begins_after_the_time_that_was_given(tmp_path, capsys, launcher):
    """Such a search is at its end, as one with all of its trials."""
    assert cli.main(command(tmp_path, "--minutes", "1e-9", *launcher)) == 1
    assert "0 trials: none has a value" in capsys.readouterr().out


def test_trials_at_a_time_fill_the_processes_of_a_launcher(tmp_path, capsys, launcher):
    """Unless these are said: then trials wait for one, or are played together in a batch."""
    events(launcher)
    for number, (words, expected) in enumerate(
        {
            ("--jobs", "3"): ["3 slots, 3 for each GPU", "0", "1", "2"],
            ("launcher.jobs=2",): ["2 slots, 2 for each GPU", "0", "1"],
            ("--jobs", "3", "launcher.jobs=1", "launcher.batch=3"): ["1 slots, 3 for each GPU", "0 1 2"],
            (): ["1 slots, 1 for each GPU", "0"],
        }.items()
    ):
        assert cli.main(command(tmp_path / str(number), "--trials", "3", *launcher, *words)) == 0
        found = events(launcher)
        assert found[: len(expected)] == expected
        assert " ".join(found[1:]) == "0 1 2", "each is submitted once"
        assert not list((tmp_path / str(number)).rglob(".sweep")), "the folder of logs is removed"
    assert "3 trials (3 finished)" in capsys.readouterr().out


def test_processes_play_the_same_trials(tmp_path, undisturbed):
    """Those of the launcher that a search has by default."""
    assert cli.main(command(tmp_path, "--trials", "2")) == 0
    assert trials(tmp_path) == trials(undisturbed)[:2]


def test_what_is_said_of_the_best_trial_is_wrapped(tmp_path, capsys, monkeypatch, on_terminal, launcher):
    """A terminal has lines of its width, and shows trials above the table of those that are played."""
    on_terminal(50)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert cli.main(command(tmp_path, "--trials", "1", *launcher)) == 0
    printed = capsys.readouterr()
    assert re.search(r"trial 1/1  0\.\d{4}  ranker\.l2=", printed.err)
    assert "trial 1/1" not in printed.out
    first, second = re.search(r"^( +settings +)ranker\.l2=.*\n( +)exploration\.alpha=", printed.out, re.M).groups()
    assert len(first) == len(second)


def test_the_proposed_run_has_seeds_that_no_trial_had():
    for fixed, first in ([], 100), (["seed=7", "replicas=3"], 100), (["seed=95", "replicas=10"], 200):
        words = with_fresh_seeds(["rounds=9", *fixed], ["ranker.l2=2"])
        assert words == ["rounds=9", "ranker.l2=2", f"seed={first}", "replicas=10"]


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
            "ranker.l2=1,2 --jobs 0": "--jobs must be 1 or more, got 0",
            "ranker.l2=1,2 launcher.jobs=0": "launcher.jobs must be ",
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
