"""`ol2r run`: which runs an argument list starts, and what `--cfg` and `--help` print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ol2r_cli.commands.run import main
from ol2r_cli.config.catalogue import Catalogue


class _Result:
    code = 0


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[list[str]]:
    """The overrides of each run that `ol2r run ARGUMENTS` would start."""
    seen: list[list[str]] = []
    monkeypatch.setattr("ol2r_cli.run.runner.run_experiment", lambda *given, **_: seen.append(given[2]) or 0)
    monkeypatch.setattr("ol2r_cli.commands.run._check_first", lambda *_: None)
    monkeypatch.setattr("ol2r_cli.sweep.sweeper.sweep", lambda jobs, *_, **__: seen.extend(jobs) or _Result())
    monkeypatch.setattr("ol2r_cli.sweep.sweeper.print_summary", lambda _: None)
    assert main([*arguments]) == 0
    return seen


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_run_without_the_settings_of_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = ["--config-dir", str(tmp_path)]
    assert started(monkeypatch, "click=nav", "launcher.jobs=2", *own) == [["click=navigational", *own]]


def test_a_grid_is_swept_and_one_of_its_jobs_can_be_run_alone(monkeypatch: pytest.MonkeyPatch):
    jobs = started(monkeypatch, "-m", "experiment=grid_dbgd", "seed=0,1")
    values = Catalogue().choices["experiment"]["grid_dbgd"].content["hydra"]["sweeper"]["params"]
    rates = values["ranker.learning_rate"].split(",")
    assert jobs == [[f"ranker.learning_rate={r}", "experiment=grid_dbgd", f"seed={s}"] for r in rates for s in (0, 1)]
    assert started(monkeypatch, *jobs[0]) == [jobs[0]]


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        ("rounds=20 -m seed=0,1 positions=5", ["rounds=20 seed=0 positions=5", "rounds=20 seed=1 positions=5"]),
        ("--multirun seed=range(0,2) --config-dir own", ["seed=0", "seed=1"]),
        ("-m click=per,nav", ["click=perfect", "click=navigational"]),
        ("-m ranker=glob(ora*) ranker.l2=1", ["ranker=oracle ranker.l2=1"]),
        ("-m seed=sort(2,1) ~ranker.l2 +a=b", ["seed=1 ~ranker.l2 +a=b", "seed=2 ~ranker.l2 +a=b"]),
        ("-m evaluate_on=[test],[test,validation]", ["evaluate_on=[test]", "evaluate_on=[test,validation]"]),
        ("-m --paired seed,rounds seed=1,2 rounds=5,6", ["seed=1 rounds=5", "seed=2 rounds=6"]),
        ("-m --paired=b,c a=1,2 b=1,2 c=3,4", ["a=1 b=1 c=3", "a=1 b=2 c=4", "a=2 b=1 c=3", "a=2 b=2 c=4"]),
    ],
)
def test_the_jobs_of_a_sweep(arguments: str, jobs: list[str], here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "own").mkdir()
    assert [" ".join(job) for job in started(monkeypatch, *arguments.split())] == jobs


def test_a_value_that_is_replaced_is_told(capsys, monkeypatch: pytest.MonkeyPatch):
    words = ["seed=1", "rounds=5", "seed=2", "rounds=5"]
    assert started(monkeypatch, *words) == [words], "as Hydra has it, the last one decides"
    assert capsys.readouterr().err == "ol2r run: seed=1 has no effect: seed=2 stands behind it\n"
    started(monkeypatch, "-m", "seed=1", "seed=2", "rounds=5,6")
    assert capsys.readouterr().err == "ol2r run: seed=1 has no effect: seed=2 stands behind it\n"


def test_the_command_has_the_whole_names_of_choices(monkeypatch: pytest.MonkeyPatch):
    """So that it means the same when a choice is added."""
    assert started(monkeypatch, "exploration=conf", "click=inf") == [["exploration=confidence", "click=informational"]]


def test_the_configuration_is_shown(capsys: pytest.CaptureFixture[str]):
    assert main(["rounds=7", "--cfg", "job", "seed=3", "ranker.l2=.5", "exploration.alpha=${ranker.l2}"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["rounds"], config["seed"], config["exploration"]["alpha"]) == (7, 3, "${ranker.l2}")
    assert next(iter(config)) != "hydra"
    assert (
        main(["--cfg", "job", "--resolve", "-p", "exploration", "ranker.l2=.5", "exploration.alpha=${ranker.l2}"]) == 0
    )
    shown = capsys.readouterr().out
    assert shown.startswith("# @package exploration\n")
    assert yaml.safe_load(shown)["alpha"] == 0.5
    assert main(["--cfg", "hydra"]) == 0
    assert list(yaml.safe_load(capsys.readouterr().out)) == ["hydra"]
    assert main(["-m", "--cfg", "job", "ranker=pdgd,dbgd"]) == 0
    assert "pdgd.PDGD" in capsys.readouterr().out
    assert main(["--cfg", "job", "-p", "nothing"]) == 2
    assert "--package must be a part of the configuration" in capsys.readouterr().err


def test_a_run_as_json_then_in_a_sweep_then_quietly(here, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ol2r_cli.run.runner.Progress.plain_every", -1)
    assert main(["experiment=smoke", "note=it's 1, a=b", "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert (run["status"], run["note"], run["seeds"]) == ("finished", "it's 1, a=b", [0])
    assert run["metrics"] == json.loads(Path(run["path"], "summary.json").read_bytes())["metrics"]
    assert main(["experiment=smoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == run, "the note is not part of the id, and stays"
    assert main(["-m", "experiment=smoke", "seed=0,0", "rounds=60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [run, run]
    for words in ["experiment=smoke", "seed=1"], ["experiment=smoke", "seed=1"], ["-m", "experiment=smoke", "seed=1,0"]:
        assert main([*words, "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")
    assert main(["--json", "--quiet"]) == 2
    assert "--quiet/-q: not allowed with argument --json\n" in capsys.readouterr().err
