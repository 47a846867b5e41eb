"""What is wrong with a command line is told in one line that says what to type, and nothing is written."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ol2r_cli.catalogue import Catalogue
from ol2r_cli.compose import compose
from ol2r_cli.run import main

# OmegaConf annotates its DictConfig in a way that the checker of annotations calls old-fashioned.
pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

RANKERS = "ranker must be one of "
WITHOUT_MODEL = "ranker=pairrank has no model: "
MISTAKES = {
    # names
    "rankr=x": ["no setting or group 'rankr'", "did you mean ranker?"],
    "ronds=3": ["no setting or group 'ronds'", "did you mean rounds?"],
    "+ronds=3": ["no setting or group 'ronds'", "did you mean rounds?"],
    "qwxyz=3": ["no setting or group 'qwxyz'", "`ol2r list`"],
    "ranker=pairnk": [RANKERS, "oracle", "got 'pairnk'", "did you mean ranker=pairrank?"],
    "ranker=": [RANKERS, "got ''"],
    "ranker.l3=1": ["ranker=pairrank has no setting 'l3'", "it has l2, "],
    "click=nav click.clik=1": ["click=navigational has no setting 'clik'", "did you mean click.click?"],
    "ranker=oracle ranker.l2=1": ["ranker=oracle has no setting 'l2'", "it has none"],
    "dataset.queries.tran=3": ["no setting 'queries.tran'", "did you mean dataset.queries.train?"],
    "+ranker.foo=1": ["PairwiseRanker has no setting 'foo'", "it has l2, "],
    "+fairness.foo=1": ["NoFairness has no setting 'foo'", "it has none"],
    "+ranker=oracle": ["type ranker=oracle", "without +"],
    "+rounds=3": ["type rounds=3", "without +"],
    "~rounds": ["rounds is missing", "leave out ~rounds"],
    "~ranker": ["ranker is missing", "leave out ~ranker"],
    "~ranker.l2": ["ranker.l2 is missing", "type ranker.l2=VALUE"],
    "~rnker": ["no setting or group 'rnker'", "did you mean ranker?"],
    "~rounds rounds=3": ["rounds cannot be left out: type no ~rounds"],
    # a ranker's model
    "ranker/model=mlp": [WITHOUT_MODEL, "type ranker=olranknet, or choose one of dbgd, ", "sgd_ranknet\n"],
    "ranker.model.width=16": [WITHOUT_MODEL],
    "~ranker/model": [WITHOUT_MODEL],
    "ranker=pepairrank ranker/model=mlp": ["ranker=pepairrank has no model: type ranker=p2neurrank, or choose"],
    "ranker=oracle ranker/model=mlp": ["ranker=oracle has no model: choose one of dbgd, "],
    "+ranker/model=mlp": ["PairwiseRanker has no setting 'model'"],
    "ranker=pdgd ranker/modl=mlp": ["no setting or group 'ranker/modl'", "did you mean ranker/model?"],
    "ranker=pdgd ranker/model=mpl": ["ranker/model must be one of linear, mlp", "did you mean ranker/model=mlp?"],
    "ranker=pdgd ranker.modl.width=16": ["no setting 'modl.width'", "did you mean ranker.model.width?"],
    "ranker=pdgd ranker.model.width=16": ["ranker/model=linear has no setting 'width': ranker/model=mlp has it"],
    "ranker=pdgd ranker/model=mlp ranker.model.widht=16": [
        "ranker/model=mlp has no setting 'widht'",
        "did you mean ranker.model.width?",
    ],
    "ranker=pdgd ranker.model=mlp": ["ranker.model must be chosen: type ", "or ranker/model=mlp, got 'mlp'"],
    "ranker=pdgd ~ranker/model": ["ranker.model must be chosen: type ", "got none"],
    "ranker=pdgd +ranker/model=mlp": ["type ranker/model=mlp", "without +"],
    "ranker=pdgd ranker/model=mlp ranker.model.width=x": ["ranker.model.width must be a whole number, got 'x'"],
    "ranker=pdgd ranker/model=mlp ranker.model.width=0": ["ranker.model.width must be 1 or more, got 0"],
    "ranker=pdgd ranker/model=mlp ~ranker.model.width": ["ranker.model.width is missing: MLP needs it"],
    "ranker=pdgd ranker/model=mlp +ranker.model.foo=1": ["MLP has no setting 'foo'", "it has width, "],
    "ranker=pdgd ranker.model._target_=nowhere.X": ["ranker.model._target_ must be a class that can be imported"],
    "ranker=pdgd ranker/model=linear,mlp": ["ranker/model=linear,mlp is several runs: add -m"],
    # values
    "rounds=abc": ["rounds must be a whole number from 1 up, got 'abc'"],
    "rounds=0": ["rounds must be a whole number from 1 up, got 0"],
    "rounds=": ["rounds must be a whole number from 1 up, got ''"],
    "seed=null": ["seed must be a whole number from 0 up, got None"],
    "ranker.l2=-1": ["ranker.l2 must be above 0, got -1"],
    "ranker.l2=abc": ["ranker.l2 must be a number, got 'abc'"],
    "ranker.l2=": ["ranker.l2 must be a number, got ''"],
    "ranker.l2=true": ["ranker.l2 must be a number, got True"],
    "exploration.shuffle=x": ["exploration.shuffle must be ", "'conservative'", "got 'x'"],
    "exploration.transitive=no": ["exploration.transitive must be true or false, got 'no'"],
    "click.click=[1,2]": ["click.click must be 5 probabilities, one per grade, got [1, 2]"],
    "click.click=[a,b]": ["click.click must be null or a list", "a number", "got ['a', 'b']"],
    "dataset.queries=5": ["dataset.queries must be settings", "got 5"],
    "exploration.alpha=${nope}": ["exploration.alpha cannot be resolved", "'nope'"],
    "ranker._target_=nowhere.X": ["ranker._target_ must be a class that can be imported, got nowhere.X"],
    # the grammar of the command line
    "--bogus": ["there is no option --bogus", "`ol2r run --help`"],
    "--multrun": ["there is no option --multrun", "did you mean --multirun?"],
    "--cfg jbo": ["--cfg must be one of job, hydra, all", "got jbo"],
    "ranker.l2=[1": ["ranker.l2=[1", "as many closing as opening brackets"],
    "-m seed=range(0,3": ["seed=range(0,3", "as many closing as opening brackets"],
    "rounds=3 ranker.l2=[1": ["ol2r run: ranker.l2=[1 must"],
    "rounds": ["'rounds' must be SETTING=VALUE or GROUP=CHOICE"],
    "rounds==3": ["rounds==3 cannot be read"],
    "dataset.path=~/MQ2008": ["write $HOME instead of ~, type dataset.path=$HOME/MQ2008\n"],
    "output_dir=~": ["type output_dir=$HOME\n"],
    "-m dataset.path=~/a,~/b": ["type dataset.path=$HOME/a,$HOME/b\n"],
    "output_dir=a~b": ["output_dir=a~b cannot be read", "type 'output_dir=\"a~b\"'\n"],
    "output_dir=~somebody": ["type 'output_dir=\"~somebody\"'\n"],
    "output_dir=a&b": ["type 'output_dir=\"a&b\"'\n"],
    "seed=range(0,3)": ["seed=range(0,3) is several runs: add -m"],
    "seed=1,2": ["seed=1,2 is several runs: add -m\n"],
    "click=nav,per": ["click=navigational,perfect is several runs: add -m"],
    "evaluate_on=test,validation": ["add -m, or type evaluate_on=[test,validation] for a list"],
    "experiment=grid_pairrank": ["a grid", "differ in ranker.l2, exploration.alpha: add -m\n"],
    "experiment=grid_pairrank ranker.l2=1": ["experiment=grid_pairrank is a grid", "in exploration.alpha: add -m\n"],
    # data, device and folders
    "dataset=letor": ["dataset.path=FOLDER", "dataset=synthetic"],
    "dataset.path=/nowhere dataset=mq2008": ["dataset.path must be a folder", "looked for: /nowhere"],
    "--config-dir /nowhere": ["/nowhere", "not found"],
    "output_dir=/dev/null rounds=1": ["output_dir (/dev/null)", "must be folders that can be used"],
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In an empty folder; Hydra's changes to logging are undone."""
    monkeypatch.chdir(tmp_path)
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:], logging.root.level = handlers, level


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_writes_nothing(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ol2r run: ")
    assert captured.err.count("\n") == 1, captured.err
    for words in MISTAKES[line]:
        assert words in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_a_sweep_stops_it_before_its_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["-m", "ranker=pairrank,pairnk"]) == 2
    captured = capsys.readouterr()
    assert "did you mean ranker=pairrank?" in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["device=cuda"]) == 2
    assert "use device=cpu" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_same_words_from_the_library():
    with pytest.raises(ValueError, match=r"^ranker must be one of .* did you mean ranker=pairrank\?$"):
        compose(["ranker=pairnk"])


def test_the_command_is_kept_as_it_was_typed(monkeypatch: pytest.MonkeyPatch):
    seen: list[object] = []
    monkeypatch.setattr("ol2r_cli.experiment.run_experiment", lambda *given: seen.extend(given) or 0)
    typed = ["ranker=pairrank", "exploration.alpha=${ranker.l2}", "click=nav"]
    assert main(typed) == 0
    config, choices, overrides = seen
    assert overrides == [*typed[:2], "click=navigational"]
    assert config.exploration.alpha == config.ranker.l2
    assert (choices["click"], choices["exploration"]) == ("navigational", "confidence")
    assert "experiment" not in choices, "none was chosen"


def seen_runs(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[list[str]]:
    """The overrides of each run that `ol2r run ARGUMENTS` would start; those of a sweep in this process."""
    seen: list[list[str]] = []
    monkeypatch.setattr("ol2r_cli.experiment.run_experiment", lambda *given: seen.append(given[2]) or 0)
    assert main([*arguments, *(["hydra/launcher=basic"] if {"-m", "--multirun"} & set(arguments) else [])]) == 0
    return seen


def test_a_grid_is_swept_and_one_of_its_cells_can_be_run_alone(monkeypatch: pytest.MonkeyPatch):
    cells = seen_runs(monkeypatch, "-m", "experiment=grid_dbgd")
    values = Catalogue().choices["experiment"]["grid_dbgd"].content["hydra"]["sweeper"]["params"]
    assert {word for cell in cells for word in cell if word.startswith("ranker.")} == {
        f"ranker.learning_rate={value}" for value in values["ranker.learning_rate"].split(",")
    }
    assert seen_runs(monkeypatch, *cells[0]) == [cells[0]]


def test_a_sweep_over_grids_would_leave_them_unused(capsys: pytest.CaptureFixture[str]):
    assert main(["-m", "experiment=grid_dbgd,grid_mgd"]) == 2
    assert capsys.readouterr().err.count("learning_rate: sweep one grid at a time (#") == 2


@pytest.mark.parametrize("option", ["-m", "--multirun"])
def test_options_may_stand_among_the_overrides(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "own").mkdir()
    typed = ["rounds=20", option, "seed=0,1", "--config-dir", "own", "positions=5"]
    assert seen_runs(monkeypatch, *typed) == [["rounds=20", f"seed={seed}", "positions=5"] for seed in (0, 1)]


@pytest.mark.parametrize("typed", ["rounds=7 --cfg job seed=3", "rounds=7 --info config seed=3"])
def test_overrides_on_both_sides_of_an_option(typed: str, capsys: pytest.CaptureFixture[str]):
    assert main(typed.split()) == 0
    out = capsys.readouterr().out
    assert "\nseed: 3\n" in out
    assert "\nrounds: 7\n" in out


def test_a_mistake_in_the_program_shows_where(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object) -> int:
        raise RuntimeError("a slip")

    monkeypatch.setattr("ol2r_cli.experiment.run_experiment", fails)
    assert main([]) == 1
    err = capsys.readouterr().err
    assert "in fails" in err
    assert "RuntimeError: a slip" in err


def test_unknown_choices_of_own_folders_are_offered_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    own = tmp_path / "own" / "ranker"
    own.mkdir(parents=True)
    (own / "elsewhere.yaml").write_text("_target_: ol2r_cli.ranker.oracle.OracleRanker\n")
    assert main(["--config-dir", str(tmp_path / "own"), "ranker=elsewher"]) == 2
    assert "did you mean ranker=elsewhere?" in capsys.readouterr().err
