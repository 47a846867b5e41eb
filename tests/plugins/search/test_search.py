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
from tests.finished import printed, refused
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


def said(folder: Path, name: str) -> str:
    """What the search has said under a name."""
    (line,) = re.findall(rf"^  {name} +(.*)$", (folder / "output").read_text(), re.MULTILINE)
    return line


def test_trials_of_a_search_are_printed(undisturbed):
    first, *lines = (undisturbed / "output").read_text().splitlines()
    assert first == f"search in {undisturbed}/.search/one"
    assert [int(line.split()[1].split("/")[0]) for line in lines[:TRIALS]] == list(range(1, TRIALS + 1))
    best = max(value for _, _, value in trials(undisturbed))
    assert lines[TRIALS - 1].endswith(f"best {best:.4f}")
    assert f"{TRIALS} trials ({TRIALS} finished)" in lines
    summary = json.loads(Path(said(undisturbed, "run"), "summary.json").read_text())["metrics"]
    assert best == summary["validation_ndcg_10"]["mean"]
    assert said(undisturbed, "test NDCG@10") == f"{summary['test_ndcg_10']['mean']:.4f}"


def test_the_best_trial_is_proposed_with_fresh_seeds(undisturbed):
    words = shlex.split(said(undisturbed, "fresh seeds"))
    assert words[:2] == ["ol2r", "run"]
    assert words[-4:] == [*shlex.split(said(undisturbed, "settings")), "seed=100", "replicas=10"]
    assert not [word for word in words if "launcher" in word]


def test_a_trial_is_the_run_of_the_command_in_its_manifest(tmp_path, undisturbed, launcher):
    assert [Run.read(found).state for found in find_runs(undisturbed)] == ["finished"] * TRIALS
    path = Path(said(undisturbed, "run"))
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
    first.until(lambda: [*tmp_path.glob("search/synthetic/*/checkpoint.pt")] and len([*find_runs(tmp_path)]) > 2)
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


def test_a_finished_search_waits_for_more_trials(tmp_path, capsys, launcher):
    first, again, more = [
        printed(capsys, *command(tmp_path, "--trials", number, *launcher)) for number in ("2", "2", "3")
    ]
    assert "\ntrial" not in again
    assert again.splitlines()[1:] == first.splitlines()[3:]
    assert re.findall(r"^trial (\S+)", more, re.MULTILINE) == ["3/3"]
    (tmp_path / ".search" / "one" / "journal.log").unlink()
    out = printed(capsys, *command(tmp_path, "--trials", "1", *launcher))
    assert "(done before)" in out, "a run of another study is not played again"


def test_without_optuna_it_says_what_to_type(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert refused(capsys, *command(tmp_path)) == "search needs Optuna: type pip install 'ol2r[search]'"


def test_failed_trials_do_not_end_the_search(tmp_path, capsys, launcher):
    """Those whose run fails, and those that are no experiment."""
    together = ["ranker.window=null,9", "ranker.discount=1.0,0.9", *TINY, f"output_dir={tmp_path}", *launcher]
    out = printed(capsys, "search", *together, "--trials", "9", "launcher.fails=[0]")
    assert "trial 1/9  failed: ZeroDivisionError: none" in out
    assert re.search(r"^trial \d/9  failed: ranker.discount must be 1 with ranker.window=9, got 0.9  ", out, re.M)
    assert "4 trials (2 finished, 2 failed)" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trials", "2", "launcher.fails=[0,1]"], "2 trials (2 failed): none has a value"),
        (["--minutes", "1e-9"], "0 trials: none has a value"),  # no trial begins after the time that was given
    ],
)
def test_a_search_without_any_value_ends_with_1(tmp_path, capsys, launcher, words, told):
    assert told in printed(capsys, *command(tmp_path, *launcher, *words), code=1)


def test_a_run_without_the_metric_is_a_failed_trial(tmp_path, capsys, launcher):
    ranges = Space([*RANGES, *TINY, *launcher])
    plan = search_plan(ranges, "validation_ndcg_7", 0)
    with Study(tmp_path / ".search" / "one", ranges, plan, "maximize") as search:
        checked = check_space(ranges, "validation_ndcg_10", [*ranges.launcher, "launcher.jobs=1"])
        assert Searcher(search, 1, 1, math.inf).run(checked)
    assert "trial 1/1  failed: its summary has no validation_ndcg_7  ranker.l2=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--jobs 3", ["3 slots, 3 for each GPU", "0", "1", "2"]),
        ("launcher.jobs=2", ["2 slots, 2 for each GPU", "0", "1", "2"]),
        ("--jobs 3 launcher.jobs=1 launcher.batch=3", ["1 slots, 3 for each GPU", "0 1 2"]),
        ("", ["1 slots, 1 for each GPU", "0", "1", "2"]),
    ],
)
def test_trials_at_a_time_fill_the_processes_of_a_launcher(tmp_path, capsys, launcher, words, expected):
    """Unless these are said: then trials wait for one, or are played together in a batch."""
    events(launcher)
    out = printed(capsys, *command(tmp_path, "--trials", "3", *launcher, *words.split()))
    found = events(launcher)
    assert found[:2] == expected[:2]
    assert " ".join(found[1:]) == "0 1 2", "each is submitted once"
    assert not list(tmp_path.rglob(".sweep")), "the folder of logs is removed"
    assert "3 trials (3 finished)" in out


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


@pytest.mark.parametrize(
    ("fixed", "used", "first"), [([], 1, 100), (["seed=7", "replicas=3"], 10, 100), (["experiment=fresh"], 105, 200)]
)
def test_the_proposed_run_has_seeds_that_no_trial_had(fixed, used, first):
    words = with_fresh_seeds(["rounds=9", *fixed], ["ranker.l2=2"], used)
    kept = [word for word in fixed if word.startswith("experiment")]
    assert words == ["rounds=9", *kept, "ranker.l2=2", f"seed={first}", "replicas=10"]


def test_seeds_of_a_preset_are_known_and_a_minimum_is_told(launcher, tmp_path, capsys, monkeypatch):
    """The best of several trials has too little regret by chance, not too much."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine/experiment").mkdir(parents=True)
    preset = "# @package _global_\n# Other seeds.\nseed: 100\nreplicas: 2\nmeasures: [ndcg, regret]\n"
    (tmp_path / "mine/experiment/other.yaml").write_text(preset)
    words = [*TINY, *launcher, "experiment=other", "ranker.l2=log(1e-2,1)", "--trials", "2", "--config-dir", "mine"]
    assert cli.main(["search", *words, "--metric", "regret"]) == 0
    out = capsys.readouterr().out
    assert "the best of 2: with fresh seeds expect more" in out
    assert " seed=200 replicas=10" in out


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "a search needs a range: type SETTING=RANGE, such as 'ranker.l2=log(1e-4,10)'"),
        ("--trials 0", "--trials must be 1 or more, got 0"),
        ("--minutes 0", "--minutes must be above 0, got 0.0"),
        ("--metric test_ndcg_10", "--metric must not look at the test split, got test_ndcg_10"),
        ("--metric speed", "--metric must be one of validation_ndcg_1,"),
        ("--metric ndcg", "--metric ndcg: did you mean validation_ndcg_1, validation_ndcg_3, "),
        ("--metric validation_ndcg", "--metric validation_ndcg: did you mean validation_ndcg_"),
        ("--jobs 0", "--jobs must be 1 or more, got 0"),
        ("launcher.jobs=0", "launcher.jobs must be "),
        ("--trails 3", "there is no option --trails: did you mean --trials?"),
        ("--name a/b", "--name must be the name of a folder"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(tmp_path, capsys, typed, message):
    ranges = ["ranker.l2=1,2"] if typed else []
    words = ["search", *TINY, *ranges, f"output_dir={tmp_path / 'out'}", *typed.split()]
    assert refused(capsys, *words).startswith(message)
    assert not (tmp_path / "out").exists()


def test_a_name_of_a_study_is_that_of_a_folder():
    assert study_folder("out", 255 * "a", {}).name == 255 * "a"


@pytest.mark.parametrize("name", [256 * "a", 128 * "ä", "", "a/b", ".a"], ids=range(5))
def test_a_name_that_no_folder_can_have_is_refused(name):
    with pytest.raises(ValueError, match=r"^--name must "):
        study_folder("out", name, {})
