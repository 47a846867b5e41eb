"""A run is finished only with all its files: what is removed or replaced is noticed before a number is reported."""

from __future__ import annotations

import json
import random
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from ol2r_cli.run.integrity import DamagedTable, damage, file_records, missing_rows, read_table, write_table

from ol2r_cli.commands.run import main
from ol2r_cli.config.composer import compose
from ol2r_cli.report import load
from ol2r_cli.run import LOCK
from ol2r_cli.run import runner as runner_module
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run, find_runs, read_manifest
from ol2r_cli.run.runner import Runner
from ol2r_cli.run.store import DirectoryLost, RunDirectory
from ol2r_cli.run.tables import BLOCKS, EVALUATION, INTERACTIONS, TRACE, Table

RESULTS = ["trace.parquet", "evaluation.parquet", "summary.json", "ranker.pt", "config.yaml"]
ROUNDS = 200


def command(folder: Path, *words: str) -> list[str]:
    return ["experiment=smoke", f"rounds={ROUNDS}", "evaluate_every=50", f"output_dir={folder}", *words]


def finished(folder: Path, *words: str) -> Path:
    """The directory of a run that has just finished."""
    assert main(command(folder, *words)) == 0
    (path,) = find_runs(folder)
    return path


def interrupted(folder: Path, *words: str) -> Path:
    """The directory of a run that was stopped in the middle, with a checkpoint."""
    composition = compose(command(folder, *words))
    experiment = Experiment(composition.config, composition.choices)
    with experiment.directory:
        assert Runner(experiment, "ol2r run", lambda round, ndcg: round == 100).run() == 130
    return experiment.directory.path


def results(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULTS[:3]}


def test_the_manifest_of_a_finished_run_names_its_files(tmp_path: Path):
    path = finished(tmp_path)
    manifest = read_manifest(path)
    assert manifest is not None
    assert list(manifest["files"]) == RESULTS
    assert manifest["files"] == file_records(RunDirectory(path))
    assert not damage(path, manifest)
    assert not damage(path, {"status": "finished"}), "of an earlier version"
    (path / "summary.json").unlink()
    assert damage(path, {"status": "finished"}) == "summary.json is missing"


def test_a_table_with_a_flipped_bit_is_never_read(tmp_path: Path):
    """polars itself reads most of them, with other numbers."""
    rows = TRACE.frame({"seed": np.repeat([1, 2], 50), "round": np.tile(np.arange(50), 2), "clicks": np.arange(100.0)})
    with open(tmp_path / "trace.parquet", "wb+") as file:
        write_table(file, rows, "0123456789")
    assert read_table(tmp_path / "trace.parquet").equals(rows)
    assert read_table(tmp_path / "trace.parquet", ["clicks", "none"]).equals(rows.select("clicks"))
    content, draw = (tmp_path / "trace.parquet").read_bytes(), random.Random(1)
    for _ in range(200):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        (tmp_path / "trace.parquet").write_bytes(changed)
        with suppress(DamagedTable):
            assert read_table(tmp_path / "trace.parquet").equals(rows), "where the bit is in the seal"


def test_a_table_of_another_run_is_not_that_of_this_one(tmp_path: Path):
    rows = TRACE.frame({"seed": np.array([1]), "round": np.array([1])})
    with open(tmp_path / "trace.parquet", "wb+") as file:
        write_table(file, rows, "0123456789")
    assert read_table(tmp_path / "trace.parquet", run="0123456789").equals(rows)
    with pytest.raises(DamagedTable, match="is of the run 0123456789"):
        read_table(tmp_path / "trace.parquet", run="9876543210")


def test_a_table_of_version_01_has_no_seal(tmp_path: Path):
    rows = TRACE.frame({"seed": np.array([1]), "round": np.array([1])})
    rows.write_parquet(tmp_path / "trace.parquet")
    assert read_table(tmp_path / "trace.parquet", run="0123456789").equals(rows)


@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "run.json"])
def test_a_changed_digit_of_a_finished_run_is_noticed(tmp_path: Path, name: str):
    path = finished(tmp_path)
    content = (path / name).read_text()
    (path / name).write_text(re.sub("[3-8]", "9", content, count=1))
    state = Run.read(path)
    assert state is not None
    assert state.state == "damaged"
    assert str(state.error).startswith(name)


@pytest.mark.parametrize("name", RESULTS)
def test_a_run_with_a_changed_bit_is_run_again(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]):
    path = finished(tmp_path)
    before, content = results(path), bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    capsys.readouterr()
    assert main(command(tmp_path)) == 0
    assert capsys.readouterr().err == f"starts afresh: {name} has another content than when the run finished\n"
    assert results(path) == before


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("change", ["removed", "truncated", "emptied"])
def test_a_finished_run_without_one_of_its_files_is_damaged(
    tmp_path: Path, name: str, change: str, capsys: pytest.CaptureFixture[str]
):
    path = finished(tmp_path)
    before, file = results(path), path / name
    if change == "removed":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] if change == "truncated" else b"")
    state = Run.read(path)
    assert state is not None
    assert (state.state, str(state.error).startswith(name)) == ("damaged", True)
    with pytest.raises(ValueError, match="no finished runs"), pytest.warns(UserWarning, match=f"damaged: .*{name}"):
        load(tmp_path)
    capsys.readouterr()
    assert main(command(tmp_path)) == 0, "it is run again"
    assert capsys.readouterr().err.startswith(f"starts afresh: {name} ")
    assert results(path) == before


def test_interactions_may_be_removed_afterwards(tmp_path: Path):
    path = finished(tmp_path, "save_interactions=true")
    manifest = read_manifest(path)
    assert manifest is not None
    assert "interactions.parquet" in manifest["files"]
    (path / "interactions.parquet").unlink()
    assert not damage(path, manifest)
    (path / "interactions.parquet").write_bytes(b"")
    assert damage(path, manifest).startswith("interactions.parquet has 0 bytes")


# What a run with these settings writes besides its trace, which must not get lost between two of its processes.
ALL_TABLES = ["save_interactions=true", "block_rounds=[1,20]"]


@pytest.mark.parametrize("table", [TRACE, EVALUATION, BLOCKS, INTERACTIONS], ids=lambda table: table.file)
@pytest.mark.parametrize("change", ["removed", "shortened", "replaced"])
def test_a_run_whose_tables_are_not_those_of_its_checkpoint_starts_afresh(
    tmp_path: Path, change: str, table: Table, capsys: pytest.CaptureFixture[str]
):
    undisturbed = results(finished(tmp_path / "whole", *ALL_TABLES))
    path = interrupted(tmp_path / "runs", *ALL_TABLES)
    if change == "removed":
        (path / table.file).unlink()
    elif change == "shortened":
        rows = table.read(RunDirectory(path))
        table.write(RunDirectory(path), rows.head(len(rows) - 1))
    else:
        (path / table.file).write_text("words")
    capsys.readouterr()
    assert main(command(tmp_path / "runs", *ALL_TABLES)) == 0
    assert capsys.readouterr().err.startswith(
        f"starts afresh: {table.file} cannot be read (" if change == "replaced" else f"starts afresh: {table.file} has "
    )
    assert results(path) == undisturbed


def test_a_checkpoint_of_another_layout_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = interrupted(tmp_path)
    content = torch.load(path / "checkpoint.pt", weights_only=True)
    del content["state"]["simulation"]["ranker.history.count"]
    torch.save(content, path / "checkpoint.pt")
    capsys.readouterr()
    assert main(command(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "does not fit this version of ol2r or of a role" in error
    assert "ranker.history.count" in error
    assert error.endswith("type force=true to start afresh\n")
    assert main(command(tmp_path, "force=true")) == 0


def test_a_resumed_run_is_that_of_an_undisturbed_one(tmp_path: Path):
    undisturbed = results(finished(tmp_path / "whole"))
    path = interrupted(tmp_path / "runs")
    assert main(command(tmp_path / "runs")) == 0
    assert results(path) == undisturbed


def test_a_run_does_not_finish_with_fewer_rows_than_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    evaluate = Runner._evaluate

    def removing(running: Runner) -> dict[str, float]:
        (running.directory / TRACE.file).unlink(missing_ok=True)
        return evaluate(running)

    monkeypatch.setattr(Runner, "_evaluate", removing)
    monkeypatch.setattr(runner_module, "QUEUE", 2)
    assert main(command(tmp_path, "checkpoint_rounds=30")) == 1
    (path,) = find_runs(tmp_path)
    state = Run.read(path)
    assert state is not None
    assert state.state == "failed"
    assert re.search(r"trace.parquet has 0 rows, and \d+ were written", str(state.error))
    assert not (path / "summary.json").exists()


def test_rows_are_counted(tmp_path: Path):
    path = finished(tmp_path, "replicas=2")
    directory = RunDirectory(path)
    assert not missing_rows(directory, {TRACE.file: 2 * ROUNDS, "interactions.parquet": 0})
    assert missing_rows(directory, {TRACE.file: 600}) == "trace.parquet has 400 rows, and 600 were written"
    assert missing_rows(RunDirectory(tmp_path / "nowhere"), {TRACE.file: 5}).startswith("trace.parquet has 0 rows")
    (path / TRACE.file).write_bytes(b"PAR1 nonsense")
    assert missing_rows(directory, {TRACE.file: 400}).startswith("trace.parquet cannot be read (")


def test_a_process_that_lost_its_directory_writes_nothing(tmp_path: Path):
    directory = RunDirectory(tmp_path / "run")
    with directory:
        directory.write_json("run.json", {})
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(DirectoryLost, match="was removed, or another process has taken it over"):
            directory.write_json("run.json", {})
        assert not (tmp_path / "run").exists()
        with RunDirectory(tmp_path / "run") as another:
            with pytest.raises(DirectoryLost):
                directory.write_json("run.json", {"of": "the first"})
            another.write_json("run.json", {"of": "the second"})
            directory.__exit__()
            assert (tmp_path / "run" / LOCK).exists(), "the lock of the other process stays"
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == {"of": "the second"}
