"""A longer run goes on from a shorter one that kept its checkpoint, and equals an undisturbed one to the last bit."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli import cli
from ol2r_cli.results import extension
from ol2r_cli.results.survey import find_runs, read_state
from ol2r_cli.sitting import Sitting
from tests import choices
from tests.choices import ROUNDS, play, seen, simulation
from tests.moments import at_round

LONG = 60  # rounds
KEPT = "keep_checkpoint=true"
BRIEF = 5  # rounds before the extension, of the simulations
COMMAND = [
    "run",
    "dataset.queries={train: 15, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "click=navigational",
    "replicas=2",
    "evaluate_every=4",
]
RECORDS = ["block_rounds=[10,20]", "save_interactions=true", "trace_regret=true"]
FORESEEING = [("ranker=toprank", "ranker.delta=null"), ("ranker=pairrank", "exploration.alpha=theory")]


def by_name(value):
    return ",".join(value) if isinstance(value, tuple) else None


def run(folder: Path, rounds: int, *overrides: str) -> int:
    return cli.main([*COMMAND, *overrides, f"rounds={rounds}", f"output_dir={folder}"])


def of(folder: Path, rounds: int) -> Path:
    """The run of so many rounds below a folder."""
    (found,) = (path for path in find_runs(folder) if read_state(path).rounds == rounds)
    return found


def contents(run: Path) -> dict[str, bytes]:
    """All that a run has found."""
    return {path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".parquet", ".pt")} | {
        "summary.json": (run / "summary.json").read_bytes()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The results of the long run by itself."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(folder, LONG, *RECORDS) == 0
    return contents(of(folder, LONG))


def same_history(found: torch.nn.Module, expected: torch.nn.Module) -> None:
    """All buffers but the places that take what is not used."""
    spare = {
        f"{name}.{buffer}".removeprefix(".")
        for name, module in expected.named_modules()
        for buffer in getattr(module, "by_round", ())
    }
    for name, value in expected.state_dict().items():
        if isinstance(value, torch.Tensor):
            own = found.state_dict()[name]
            here, there = (own[:, :-1], value[:, :-1]) if name in spare else (own, value)
            torch.testing.assert_close(here, there, rtol=0, atol=0, equal_nan=True, msg=name)


def lengthened(overrides, monkeypatch, brief: int = BRIEF):
    """A simulation that has taken over the state of one that was set up for fewer rounds, and played them."""
    with monkeypatch.context() as patch, torch.inference_mode():
        patch.setattr(choices, "ROUNDS", brief)
        short = simulation(overrides)
        assert len(play(short)) == brief
        short.measurement.measures()
    longer = simulation(overrides)
    longer.load_state_dict(short.state_dict())
    return longer


@pytest.mark.parametrize(
    "overrides",
    [
        *choices.combinations(),
        ("ranker=toprank", "ranker.delta=0.1"),
        ("ranker=pairrank", "ranker.solver=lbfgs_restart"),
        ("ranker=ips_regression", "ranker/model=mlp"),
    ],
    ids=by_name,
)
def test_a_state_goes_on_in_a_simulation_of_more_rounds(overrides, monkeypatch):
    through = simulation(overrides)
    if any(role.foresees for role in (through.ranker, through.exploration, through.fairness, through.click)):
        assert overrides[0] == "ranker=toprank", "only TopRank does as it comes"
        return
    with torch.inference_mode():
        play(through, BRIEF)
        through.measurement.measures()
        expected = play(through)
        longer = lengthened(overrides, monkeypatch)
        assert seen(play(longer)) == seen(expected)
        assert len(expected) == ROUNDS - BRIEF
        same_history(longer, through)


def test_what_foresees_the_number_of_rounds_decides_otherwise(monkeypatch):
    """Hence it may not be extended: with more rounds to come, less is certain from the first one on."""
    errors, widths = [], []
    for rounds in 10, 1000:
        with monkeypatch.context() as patch:
            patch.setattr(choices, "ROUNDS", rounds)
            toprank, pairrank = map(simulation, FORESEEING)
            assert (toprank.ranker.foresees, pairrank.exploration.foresees) == (FORESEEING[0][1], FORESEEING[1][1])
            errors.append(toprank.ranker.error)
            widths.append(pairrank.exploration._alpha(slice(None)).min())
    assert errors == [1 / 10, 1 / 1000]
    assert widths[0] < widths[1]


@pytest.mark.parametrize("overrides", choices.rankers(), ids=by_name)
def test_an_extended_run_equals_an_undisturbed_one(overrides, tmp_path, capsys):
    config = choices.composed(overrides)
    small = [f"{name}={value}" for name, value in choices.SMALL.items() if OmegaConf.select(config, name) is not None]
    fixed = ["ranker.delta=0.1"] if overrides == ("ranker=toprank",) else []
    words = [*overrides, *small, *fixed, f"cache_dir={tmp_path}/cache"]
    assert run(tmp_path / "both", 9, KEPT, *words) == 0
    assert run(tmp_path / "both", 24, *words) == 0
    assert f"goes on from the run of 9 rounds in {of(tmp_path / 'both', 9)}\n" in capsys.readouterr().err
    assert run(tmp_path / "one", 24, *words) == 0
    assert contents(of(tmp_path / "both", 24)) == contents(of(tmp_path / "one", 24))


@pytest.mark.parametrize("fewer", [(1,), (25,), (37,), (40,), (41,), (25, 41, 56)], ids=str)
def test_wherever_it_goes_on_there_is_no_seam(fewer, tmp_path, undisturbed):
    """With 37 the last round was the tenth to be evaluated, and with 40 the tenth that any run evaluates."""
    for rounds in fewer:
        assert run(tmp_path, rounds, KEPT, *(word.replace("[10,20]", "[]") for word in RECORDS)) == 0
    assert run(tmp_path, LONG, *(word.replace("[10,20]", "[]") for word in RECORDS)) == 0
    found = contents(of(tmp_path, LONG))
    assert found == {name: value for name, value in undisturbed.items() if name != "blocks.parquet"}


@pytest.mark.parametrize("brief", [25, 37, 40])
def test_snapshots_are_scored_in_the_company_of_an_undisturbed_run(brief, tmp_path, monkeypatch):
    """By tens, since the last digit of a matrix product can depend on how many are multiplied."""
    assert run(tmp_path, brief, KEPT) == 0
    together, evaluate = [], Sitting._evaluate

    def noted(self: Sitting) -> dict[str, float]:
        together.append(list(self.queue))
        return evaluate(self)

    monkeypatch.setattr(Sitting, "_evaluate", noted)
    assert run(tmp_path, LONG) == 0
    tens = [list(range(4, 41, 4)), list(range(44, 61, 4))]
    assert together == (tens if brief < 40 else tens[1:])


def test_the_shorter_run_stays_as_it_was_and_the_longer_names_it(tmp_path, undisturbed):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    short = of(tmp_path, 25)
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in short.iterdir()}
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in short.iterdir()} == before
    longer = of(tmp_path, LONG)
    assert contents(longer) == undisturbed
    told, manifest = json.loads((short / "run.json").read_text()), json.loads((longer / "run.json").read_text())
    assert manifest["extended_from"] == {"id": told["id"], "round": 25}
    assert (manifest["started"], manifest["sittings"]) == (told["started"], 2)
    assert manifest["seconds"] > told["seconds"]
    assert told["extended_from"] is None
    assert pl.read_parquet(short / "evaluation.parquet")["round"].max() == 25
    assert 25 not in pl.read_parquet(longer / "evaluation.parquet")["round"]


def test_an_interrupted_extension_is_resumed(tmp_path, undisturbed, monkeypatch, capsys):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    with monkeypatch.context() as patch:
        at_round(patch, 30, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert run(tmp_path, LONG, *RECORDS) == 130
    assert read_state(of(tmp_path, LONG)).round == 30
    capsys.readouterr()
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert "goes on from" not in capsys.readouterr().err
    manifest = read_state(of(tmp_path, LONG)).manifest
    assert (manifest["sittings"], manifest["extended_from"]["round"]) == (3, 25)
    assert contents(of(tmp_path, LONG)) == undisturbed


@pytest.mark.parametrize("step", ["copyfile", "save"])
def test_a_kill_while_files_are_copied_costs_nothing(step, tmp_path, undisturbed, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    with monkeypatch.context() as patch:
        patch.setattr(extension.shutil if step == "copyfile" else extension.checkpoint, step, kill)
        with pytest.raises(Killed):
            run(tmp_path, LONG, *RECORDS)
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert contents(of(tmp_path, LONG)) == undisturbed
    assert read_state(of(tmp_path, LONG)).manifest["extended_from"]["round"] == 25


def afresh(folder: Path, *overrides: str) -> dict:
    """The manifest of a long run that went on from nothing."""
    assert run(folder, LONG, *overrides) == 0
    manifest = read_state(of(folder, LONG)).manifest
    assert (manifest["extended_from"], manifest["sittings"]) == (None, 1)
    return manifest


def test_without_its_interactions_it_starts_afresh(tmp_path, capsys):
    assert run(tmp_path, 25, "keep_checkpoint=true", "save_interactions=true") == 0
    short = of(tmp_path, 25)
    (short / "interactions.parquet").unlink()
    capsys.readouterr()
    assert run(tmp_path, LONG, "save_interactions=true") == 0
    assert (
        f"starts afresh: the run of 25 rounds in {short} has no interactions.parquet any more"
        in capsys.readouterr().err
    )


def test_without_a_checkpoint_it_starts_afresh_and_says_what_to_type(tmp_path, undisturbed, capsys):
    assert run(tmp_path, 25, *RECORDS) == 0
    afresh(tmp_path, *RECORDS)
    line = f"starts afresh: the run of 25 rounds in {of(tmp_path, 25)} has no checkpoint: type keep_checkpoint=true"
    assert capsys.readouterr().err == f"{line} with a run that may be extended later\n"
    assert contents(of(tmp_path, LONG)) == undisturbed


@pytest.mark.parametrize("overrides", FORESEEING, ids=by_name)
def test_what_depends_on_the_number_of_rounds_starts_afresh(overrides, tmp_path, capsys):
    assert run(tmp_path, 25, KEPT, *overrides) == 0
    afresh(tmp_path, *overrides)
    assert f"cannot be extended, since {overrides[1]} depends on the number of rounds\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("versions", {"ol2r": "0.0.9"}, "was made with ol2r 0.0.9, and this is"),
        ("device", "cuda (NVIDIA H200)", "was made on cuda (NVIDIA H200), and this is cpu"),
    ],
)
def test_other_software_or_another_device_starts_afresh(name, value, line, tmp_path, capsys):
    assert run(tmp_path, 25, KEPT) == 0
    manifest = of(tmp_path, 25) / "run.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {name: value if isinstance(value, str) else content[name] | value}))
    afresh(tmp_path)
    assert line in capsys.readouterr().err


def test_a_damaged_checkpoint_starts_afresh(tmp_path, undisturbed, capsys):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    os.truncate(of(tmp_path, 25) / "checkpoint.pt", 1000)
    afresh(tmp_path, *RECORDS)
    assert "is damaged, or replaced at the moment\n" in capsys.readouterr().err
    assert contents(of(tmp_path, LONG)) == undisturbed


def test_what_is_replaced_meanwhile_is_left_alone(tmp_path, undisturbed, monkeypatch, capsys):
    """force=true in another process: the tables might be of one sitting and the checkpoint of the other."""
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    short, copy = of(tmp_path, 25), extension.shutil.copyfile

    def disturbed(source: Path, target: Path) -> None:
        copy(source, target)
        content = json.loads((short / "run.json").read_text())
        (short / "run.json").write_text(json.dumps(content | {"status": "running"}))

    monkeypatch.setattr(extension.shutil, "copyfile", disturbed)
    afresh(tmp_path, *RECORDS)
    assert "replaced at the moment" in capsys.readouterr().err
    assert contents(of(tmp_path, LONG)) == undisturbed


@pytest.mark.parametrize("overrides", [("force=true",), ("seed=7",), ("evaluate_every=5",), ("ranker.l2=0.5",)])
def test_another_run_or_force_goes_on_from_nothing_and_says_nothing(overrides, tmp_path, capsys):
    assert run(tmp_path, 25, KEPT) == 0
    capsys.readouterr()
    afresh(tmp_path, *overrides)
    assert capsys.readouterr().err == ""


def test_a_longer_run_is_no_start_for_a_shorter_one(tmp_path):
    assert run(tmp_path, LONG, KEPT) == 0
    assert run(tmp_path, 25) == 0
    assert read_state(of(tmp_path, 25)).manifest["extended_from"] is None
