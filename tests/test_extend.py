"""A longer run goes on from a shorter one with a checkpoint, and equals an undisturbed run to the last bit."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from omegaconf import OmegaConf

from ol2r_cli.config.composer import Composer
from ol2r_cli.contracts.role_laws import more_rounds
from ol2r_cli.contracts.small_world import SMALL
from ol2r_cli.run import checkpoint
from ol2r_cli.run.run_state import find_runs, read_state
from ol2r_cli.run.runner import Runner, run_experiment
from tests import choices
from tests.choices import simulation
from tests.moments import at_round

LONG = 60  # rounds
KEPT = "keep_checkpoint=true"
SETTINGS = [
    "dataset.queries={train: 15, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "click=navigational",
    "replicas=2",
    "evaluate_every=4",
]
RECORDS = ["block_rounds=[10,20]", "save_interactions=true", "trace_regret=true"]
DEPENDENT = [("ranker=toprank", "ranker.delta=null"), ("ranker=pairrank", "exploration.alpha=theory")]
VARIANTS = [
    ("ranker=toprank", "ranker.delta=0.1"),
    ("ranker=pairrank", "ranker.solver=lbfgs_restart"),
    ("ranker=ips_regression", "ranker/model=mlp"),
    ("ranker=pdgd", "evaluate_rounds=log"),
]


@cache
def composer() -> Composer:
    return Composer()


def run(folder: Path, rounds: int, *overrides: str) -> int:
    words = [*SETTINGS, *overrides, f"rounds={rounds}", f"output_dir={folder}"]
    composition = composer()(words)
    return run_experiment(composition.config, composition.choices, words)


def run_of(folder: Path, rounds: int) -> Path:
    """The directory of the run with this number of rounds below a folder."""
    (path,) = (path for path in find_runs(folder) if read_state(path).rounds == rounds)
    return path


def contents(run: Path) -> dict[str, bytes]:
    """The results of a run."""
    return {path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".parquet", ".pt")} | {
        "summary.json": (run / "summary.json").read_bytes()
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The results of the long run that extends no other run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run(folder, LONG, *RECORDS) == 0
    return contents(run_of(folder, LONG))


@pytest.mark.slow
def test_a_state_goes_on_in_a_simulation_of_more_rounds_with_other_settings():
    """tests/test_contracts.py holds every combination of choices to this law."""
    for overrides in VARIANTS:
        assert choices.held(overrides, [more_rounds]).passed == (more_rounds.name,), overrides


def test_roles_that_depend_on_the_number_of_rounds_decide_otherwise(monkeypatch):
    """Hence their runs must not be extended: with more rounds to come, less is certain from the first round on."""
    errors, widths = [], []
    for rounds in 10, 1000:
        with monkeypatch.context() as patch:
            patch.setattr(choices, "ROUNDS", rounds)
            toprank, pairrank = map(simulation, DEPENDENT)
            assert toprank.ranker.depends_on_rounds == DEPENDENT[0][1]
            assert pairrank.exploration.depends_on_rounds == DEPENDENT[1][1]
            errors.append(toprank.ranker.error)
            widths.append(pairrank.exploration._alpha(slice(None)).min())
    assert errors == [1 / 10, 1 / 1000]
    assert widths[0] < widths[1]


def check_extended_run(overrides: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of 9 rounds that is extended to 24 has the files of a run of 24 rounds."""
    config = choices.composed(overrides)
    small = [f"{name}={value}" for name, value in SMALL.items() if OmegaConf.select(config, name) is not None]
    fixed = ["ranker.delta=0.1"] if overrides == ("ranker=toprank",) else []
    words = [*overrides, *small, *fixed, f"cache_dir={folder}/cache"]
    assert run(folder / "both", 9, KEPT, *words) == 0
    assert run(folder / "both", 24, *words) == 0
    assert f"goes on from the run of 9 rounds in {run_of(folder / 'both', 9)}\n" in capsys.readouterr().err
    assert run(folder / "one", 24, *words) == 0
    assert contents(run_of(folder / "both", 24)) == contents(run_of(folder / "one", 24)), overrides


def test_an_extended_run_equals_an_undisturbed_one(tmp_path, capsys):
    """A ranker with blocks and a history, and one with a network."""
    for ranker in "toprank", "olranknet":
        check_extended_run((f"ranker={ranker}",), tmp_path / ranker, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", choices.rankers(), ids=",".join)
def test_an_extended_run_of_any_ranker_equals_an_undisturbed_one(tmp_path, capsys, overrides):
    choices.skip_without_package(overrides)
    check_extended_run(overrides, tmp_path, capsys)


SLOW = pytest.mark.slow


def without_seal(content: bytes) -> bytes:
    """A table without the id of its run, which block_rounds is part of, and hence without its checksum."""
    return re.sub(rb"ol2r run \S* crc32 .{8}", b"", content)


@pytest.mark.parametrize(
    "fewer",
    [
        (25, 41, 56),
        (37,),  # the last round is the tenth that is evaluated
        (40,),  # the tenth evaluation of every run
        *(pytest.param((rounds,), marks=SLOW) for rounds in (1, 25, 41)),
    ],
    ids=str,
)
def test_a_run_can_be_extended_from_any_round(fewer, tmp_path, undisturbed, monkeypatch):
    """The longer run evaluates the same snapshots together as an undisturbed one, ten at a time, because the last digit
    of a matrix product can depend on its size."""
    words = [word.replace("[10,20]", "[]") for word in RECORDS]
    for rounds in fewer:
        assert run(tmp_path, rounds, KEPT, *words) == 0
    together, evaluate = [], Runner._evaluate

    def recording(self: Runner) -> dict[str, float]:
        together.append(list(self.queue))
        return evaluate(self)

    monkeypatch.setattr(Runner, "_evaluate", recording)
    assert run(tmp_path, LONG, *words) == 0
    expected = {name: without_seal(value) for name, value in undisturbed.items() if name != "blocks.parquet"}
    assert {name: without_seal(value) for name, value in contents(run_of(tmp_path, LONG)).items()} == expected
    tens = [list(range(4, 41, 4)), list(range(44, 61, 4))]
    assert together == (tens if fewer[-1] < 40 else tens[1:])


def test_the_shorter_run_is_unchanged_and_the_longer_run_names_it(tmp_path, undisturbed):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    short = run_of(tmp_path, 25)
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in short.iterdir()}
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert {path.name: (path.read_bytes(), path.stat().st_ino) for path in short.iterdir()} == before
    longer = run_of(tmp_path, LONG)
    assert contents(longer) == undisturbed
    shorter, manifest = json.loads((short / "run.json").read_text()), json.loads((longer / "run.json").read_text())
    assert manifest["extended_from"] == {"id": shorter["id"], "round": 25}
    assert (manifest["started"], manifest["sittings"]) == (shorter["started"], 2)
    assert manifest["seconds"] > shorter["seconds"]
    assert shorter["extended_from"] is None
    assert pl.read_parquet(short / "evaluation.parquet")["round"].max() == 25
    assert 25 not in pl.read_parquet(longer / "evaluation.parquet")["round"]


def test_an_interrupted_extension_is_resumed(tmp_path, undisturbed, monkeypatch, capsys):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    with monkeypatch.context() as patch:
        at_round(patch, 30, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert run(tmp_path, LONG, *RECORDS) == 130
    assert read_state(run_of(tmp_path, LONG)).round == 30
    capsys.readouterr()
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert "goes on from" not in capsys.readouterr().err
    manifest = read_state(run_of(tmp_path, LONG)).manifest
    assert (manifest["sittings"], manifest["extended_from"]["round"]) == (3, 25)
    assert contents(run_of(tmp_path, LONG)) == undisturbed


@pytest.mark.parametrize("step", ["copyfile", pytest.param("save", marks=SLOW)])
def test_a_kill_while_files_are_copied_does_no_harm(step, tmp_path, undisturbed, monkeypatch):
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.shutil if step == "copyfile" else checkpoint, step, kill)
        with pytest.raises(Killed):
            run(tmp_path, LONG, *RECORDS)
    assert run(tmp_path, LONG, *RECORDS) == 0
    assert contents(run_of(tmp_path, LONG)) == undisturbed
    assert read_state(run_of(tmp_path, LONG)).manifest["extended_from"]["round"] == 25


def run_from_nothing(folder: Path, rounds: int, *overrides: str) -> None:
    """Run with more rounds; the run must not extend a shorter one."""
    assert run(folder, rounds, *overrides) == 0
    manifest = read_state(run_of(folder, rounds)).manifest
    assert (manifest["extended_from"], manifest["sittings"]) == (None, 1)


def test_a_run_that_might_differ_from_an_undisturbed_one_is_not_extended(tmp_path, capsys):
    """Each reason is printed: other software, another device, a missing table and a missing checkpoint."""
    assert run(tmp_path, 5, KEPT, "save_interactions=true") == 0
    shorter = run_of(tmp_path, 5)
    content = json.loads((shorter / "run.json").read_text())
    for change, missing, reason in [
        ({"versions": content["versions"] | {"ol2r": "0.0.9"}}, "none", "was made with ol2r 0.0.9, and this is"),
        ({"versions": content["versions"] | {"lightgbm": "0.1"}}, "none", "was made with lightgbm 0.1, and this is"),
        ({"device": "cuda (NVIDIA H200)"}, "none", "was made on cuda (NVIDIA H200), and this is cpu"),
        ({}, "interactions.parquet", "has no interactions.parquet any more"),
        ({}, "checkpoint.pt", "has no checkpoint: type keep_checkpoint=true with a run that may be extended later"),
    ]:
        (shorter / "run.json").write_text(json.dumps(content | change))
        (shorter / missing).unlink(missing_ok=True)
        capsys.readouterr()
        run_from_nothing(tmp_path, 8, "save_interactions=true")
        line = f"starts afresh: the run of 5 rounds in {shorter} {reason}"
        assert capsys.readouterr().err.startswith(line)
        shutil.rmtree(run_of(tmp_path, 8))


def test_a_run_that_depends_on_the_number_of_rounds_is_not_extended(tmp_path, capsys):
    for number, overrides in enumerate(DEPENDENT):
        folder = tmp_path / str(number)
        assert run(folder, 5, KEPT, *overrides) == 0
        run_from_nothing(folder, 8, *overrides)
        assert f"cannot be extended, since {overrides[1]} depends on the number of rounds\n" in capsys.readouterr().err


def test_a_run_with_a_damaged_checkpoint_is_not_extended(tmp_path, undisturbed, capsys):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    os.truncate(run_of(tmp_path, 25) / "checkpoint.pt", 1000)
    run_from_nothing(tmp_path, LONG, *RECORDS)
    assert "is damaged, or replaced at the moment\n" in capsys.readouterr().err
    assert contents(run_of(tmp_path, LONG)) == undisturbed


def test_a_run_with_a_damaged_table_is_not_extended(tmp_path, undisturbed, capsys):
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    table = run_of(tmp_path, 25) / "interactions.parquet"
    content = bytearray(table.read_bytes())
    content[100] ^= 1
    table.write_bytes(content)
    run_from_nothing(tmp_path, LONG, *RECORDS)
    assert "is damaged, or replaced at the moment\n" in capsys.readouterr().err
    assert contents(run_of(tmp_path, LONG)) == undisturbed


def test_a_run_that_is_replaced_meanwhile_is_not_extended(tmp_path, undisturbed, monkeypatch, capsys):
    """With force=true in another process, tables and checkpoint might belong to different runs."""
    assert run(tmp_path, 25, KEPT, *RECORDS) == 0
    short, copy = run_of(tmp_path, 25), checkpoint.shutil.copyfile

    def copy_and_replace(source: Path, target: Path) -> None:
        copy(source, target)
        content = json.loads((short / "run.json").read_text())
        (short / "run.json").write_text(json.dumps(content | {"status": "running"}))

    monkeypatch.setattr(checkpoint.shutil, "copyfile", copy_and_replace)
    run_from_nothing(tmp_path, LONG, *RECORDS)
    assert "replaced at the moment" in capsys.readouterr().err
    assert contents(run_of(tmp_path, LONG)) == undisturbed


def test_runs_with_other_settings_or_more_rounds_are_not_extended_and_nothing_is_printed(tmp_path, capsys):
    assert run(tmp_path, 5, KEPT) == 0
    capsys.readouterr()
    for override in "force=true", "seed=7", "evaluate_every=5", "ranker.l2=0.5":
        run_from_nothing(tmp_path, 8, override)
        shutil.rmtree(run_of(tmp_path, 8))
    run_from_nothing(tmp_path, 4)
    assert capsys.readouterr().err == ""
