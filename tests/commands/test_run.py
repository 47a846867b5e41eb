"""`ol2r run`: which runs an argument list starts, and what `--cfg` and `--help` print."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from ol2r_cli.commands.run import main
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.run.run import Run, find_runs
from tests import cases
from tests.finished import printed
from tests.worlds import TINY

SMOKE = ["experiment=smoke", "rounds=3", "evaluate_every=3"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(capsys, *words: str) -> list[str]:
    """The names of the runs that `ol2r run` would start."""
    table = printed(capsys, "run", "--dry-run", *words).partition("\n\n")[0]
    return [" ".join(line.split()[1:-1]) for line in table.splitlines()]


def test_the_command_of_a_run_means_the_same_later(here):
    """It has the whole names of choices, also when others are added, and its folders, but not those of the launcher."""
    words, own = [*TINY, "rounds=2", "exploration.alpha=${ranker.l2}"], ["--config-dir", str(here)]
    assert main([*words, "click=inf", "launcher.jobs=2", *own]) == 0
    run = Run.read_finished(next(find_runs("outputs")))
    assert shlex.split(run.command) == ["ol2r", "run", *words, "click=informational", *own]
    assert run.settings["exploration"]["alpha"] == run.settings["ranker"]["l2"]
    assert run.manifest["choices"].items() >= {"click": "informational", "exploration": "confidence"}.items()
    assert "experiment" not in run.manifest["choices"], "none was chosen"


def test_a_grid_is_swept_and_one_of_its_jobs_can_be_run_alone(here, capsys):
    jobs = planned(capsys, "-m", "experiment=grid_dbgd", "seed=0,1")
    values = Catalogue().choices["experiment"]["grid_dbgd"].content["hydra"]["sweeper"]["params"]
    rates = values["ranker.learning_rate"].split(",")
    assert jobs == [f"ranker.learning_rate={rate} seed={seed}" for rate in rates for seed in (0, 1)]
    (alone,) = planned(capsys, "experiment=grid_dbgd", *jobs[0].split())
    assert alone == f"experiment=grid_dbgd {jobs[0]}"


SWEEPS = """
positions=5 -m seed=0,1 | seed=0 | seed=1
--multirun seed=range(0,2) --config-dir own | seed=0 | seed=1
-m click=per,nav | click=perfect | click=navigational
-m --paired seed,replicas seed=1,2 replicas=5,6 | seed=1 replicas=5 | seed=2 replicas=6
-m --paired=seed,replicas seed=1,2 replicas=5,6 | seed=1 replicas=5 | seed=2 replicas=6
"""


@pytest.mark.parametrize(("typed", "first", "second"), cases.lines(SWEEPS))
def test_the_jobs_of_a_sweep(typed, first, second, here, capsys):
    (here / "own").mkdir()
    assert planned(capsys, *SMOKE, *typed.split()) == [first, second]


@pytest.mark.parametrize("words", [["seed=1", "positions=5", "seed=2", "positions=5"], ["-m", "seed=1", "seed=2"]])
def test_a_value_that_is_replaced_is_told(here, capsys, words):
    """As Hydra has it, the last one decides."""
    assert main([*SMOKE, *words]) == 0
    assert capsys.readouterr().err.startswith("ol2r run: seed=1 has no effect: seed=2 stands behind it\n")
    assert Run.read_finished(next(find_runs("outputs"))).settings["seed"] == 2


def test_the_configuration_is_shown(capsys):
    words = ["ranker.l2=.5", "exploration.alpha=${ranker.l2}"]
    config = yaml.safe_load(printed(capsys, "run", "rounds=7", "--cfg", "job", "seed=3", *words))
    assert (config["rounds"], config["seed"], config["exploration"]["alpha"]) == (7, 3, "${ranker.l2}")
    assert next(iter(config)) != "hydra"
    shown = printed(capsys, "run", "--cfg", "job", "--resolve", "-p", "exploration", *words)
    assert shown.startswith("# @package exploration\n")
    assert yaml.safe_load(shown)["alpha"] == 0.5
    assert list(yaml.safe_load(printed(capsys, "run", "--cfg", "hydra"))) == ["hydra"]
    assert "pdgd.PDGD" in printed(capsys, "run", "-m", "--cfg", "job", "ranker=pdgd,dbgd")
    assert main(["--cfg", "job", "-p", "nothing"]) == 2
    assert "--package must be a part of the configuration" in capsys.readouterr().err


def test_a_run_as_json_then_in_a_sweep_then_quietly(here, capsys, monkeypatch):
    monkeypatch.setattr("ol2r_cli.run.runner.Progress.plain_every", -1)
    smoke = ["run", "experiment=smoke"]
    run = json.loads(printed(capsys, *smoke, "note=it's 1, a=b", "--json"))
    assert (run["status"], run["note"], run["seeds"]) == ("finished", "it's 1, a=b", [0])
    assert run["metrics"] == json.loads(Path(run["path"], "summary.json").read_bytes())["metrics"]
    assert json.loads(printed(capsys, *smoke, "--json")) == run, "the note is not part of the id, and stays"
    assert json.loads(printed(capsys, *smoke, "-m", "seed=0,0", "rounds=60", "--json")) == [run, run]
    capsys.readouterr()
    for words in ["seed=1"], ["seed=1"], ["-m", "seed=1,0"]:
        assert main([*smoke[1:], *words, "--quiet"]) == 0
        assert capsys.readouterr() == ("", "")
    assert main(["--json", "--quiet"]) == 2
    assert "--quiet/-q: not allowed with argument --json\n" in capsys.readouterr().err
