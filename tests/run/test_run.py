"""A run as it is read: its state, and that a file which was removed or changed is noticed before a number is used."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.launcher.job import manifest_bytes
from ol2r_cli.report import load
from ol2r_cli.run import run as run_module
from ol2r_cli.run.recomputed import TrainedRanker
from ol2r_cli.run.run import BLOCKS, EVALUATION, TRACE, DamagedFile, Run, find_run, find_runs, named_runs
from ol2r_cli.run.store import RunDirectory
from tests.manifests import accept_changes, manifest
from tests.run.damage import DAMAGES

ID = "0123456789"
RESULTS = ["trace.parquet", "evaluation.parquet", "summary.json", "ranker.pt", "config.yaml"]
ROUNDS = 60


def make(root: Path, status: str, round: int = 1, **more: object) -> Path:
    directory = RunDirectory(root / "synthetic" / f"pdgd-perfect-{ID}")
    directory.write_json("run.json", manifest(status, round, **more))
    return directory.path


def found(path: Path) -> Run:
    run = Run.read(path)
    assert run is not None
    return run


def command(folder: Path) -> list[str]:
    words = ["experiment=smoke", f"rounds={ROUNDS}", "evaluate_every=10", "save_interactions=true"]
    return [*words, "block_rounds=[1,20]", f"output_dir={folder}"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with all tables."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(command(folder)) == 0
    (path,) = find_runs(folder)
    return path


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, which the same command finds below `tmp_path`."""
    return Path(shutil.copytree(whole, tmp_path / whole.parent.name / whole.name))


def results(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULTS[:3]}


def test_the_state_follows_from_the_status_and_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for status in "finished", "interrupted", "failed":
        assert found(make(tmp_path, status)).state == status
    path = make(tmp_path, "running", 20, rounds_per_second=4.0)
    assert (found(path).state, found(path).remaining) == ("killed", None)
    with RunDirectory(path):
        assert (found(path).state, found(path).remaining) == ("running", 20.0)
        shutil.copytree(path, tmp_path / "copy")
        assert found(tmp_path / "copy").state == "killed"
        path.rename(tmp_path / "moved")
        assert found(tmp_path / "moved").state == "running"
    (tmp_path / "empty").mkdir()
    assert Run.read(tmp_path / "empty") is Run.read(tmp_path / "nowhere") is None

    make(tmp_path, "running", host="node7")
    assert found(path).state == "running", "a process of another machine runs while it renews the manifest"
    for seconds in -600, 600:  # of the clock of another machine
        os.utime(path / "run.json", (time.time() + seconds,) * 2)
        assert found(path).state == "killed"

    make(tmp_path, "running")
    monkeypatch.setattr(run_module, "is_held", lambda _: make(tmp_path, "finished", 100) is None)
    assert found(path).state == "finished", "it ended while it was examined"


def test_a_manifest_that_lacks_a_field_is_unreadable(tmp_path: Path):
    wrong: list[tuple[dict[str, object], str]] = [
        (manifest("finished", files=None), "files"),
        (manifest("failed", progress={"round": "x", "rounds": 5}), "progress"),
        (manifest("finished", choices={"ranker": "pdgd"}), "choices"),
    ]
    for status in "finished", "interrupted":
        content = manifest(status)
        for name in "id", "command", "choices", "seeds", "progress", "results_version":
            wrong += [({key: content[key] for key in content if key != name}, name), (content | {name: 1.5}, name)]
    for content, name in wrong:
        RunDirectory(tmp_path).write_json("run.json", content)
        run = found(tmp_path)
        assert (run.state, run.manifest, run.round) == ("unreadable", {}, 0), content
        assert run.error == f"run.json has no valid {name}", content
    RunDirectory(tmp_path).write_json("run.json", manifest("paused"))
    assert found(tmp_path).error == "its status is paused"
    for text in "{", "[1]":
        (tmp_path / "run.json").write_text(text)
        assert found(tmp_path).state == "unreadable"


def test_texts_of_others_are_shown_and_end_no_command(copy: Path, capsys: pytest.CaptureFixture[str]):
    content = json.loads((copy / "run.json").read_text())
    RunDirectory(copy).write_json("run.json", content | {"note": "\x1b[31mred"})
    accept_changes(copy)
    assert main(command(copy.parents[1])) == 0
    assert "\\x1b[31mred" in capsys.readouterr().out
    RunDirectory(copy).write_json("run.json", content | {"startup_seconds": "x"})
    accept_changes(copy)
    assert main(["-m", "--dry-run", *command(copy.parents[1]), "seed=1,2"]) == 0, "its start-up is no number"
    RunDirectory(copy).write_json("run.json", content | {"files": {"a\0b": {"bytes": 1, "sha256": ""}}})
    assert found(copy).state == "damaged"
    (other := copy.parent / "other").mkdir()
    (other / "run.json").mkdir()
    assert manifest_bytes(other) is None


def test_a_run_is_found_by_its_path_and_by_its_id(tmp_path: Path):
    path = make(tmp_path, "finished")
    assert list(find_runs(tmp_path)) == list(find_runs(path)) == [path]
    assert list(find_runs(tmp_path / "nowhere")) == []
    assert find_run(str(path)) == find_run(ID, tmp_path) == find_run(f"{tmp_path}/{ID}") == path
    assert named_runs(str(tmp_path)) == named_runs(f"{tmp_path}/{ID}") == [path]
    with pytest.raises(ValueError, match=r"below outputs, got f{10}, which is neither: see `ol2r status`"):
        find_run("ffffffffff")
    for name, missing in ("ffffffffff", "which is neither"), (str(tmp_path), "in which there is no run"):
        with pytest.raises(ValueError, match=f"RUN must be the directory of a run or an id .*, {missing}"):
            find_run(name, tmp_path)


def test_only_a_finished_run_is_read_as_one(tmp_path: Path):
    for status, what in [
        ("interrupted", "which is interrupted: type ol2r run"),
        ("running", "which is killed: type ol2r run"),
        ("paused", "its status is paused"),
    ]:
        with pytest.raises(ValueError, match=f"RUN must be a finished run, got .*{what}"):
            Run.read_finished(make(tmp_path, status))
    path = make(tmp_path, "finished", files={"ranker.pt": {"bytes": 1, "sha256": ""}})
    with pytest.raises(ValueError, match=r"is damaged \(ranker\.pt is missing\): type ol2r run"):
        Run.read_finished(path)


def test_a_finished_run_records_its_files(whole: Path):
    run = Run.read(whole, thorough=True)
    assert run is not None
    assert (run.state, run.id, run.round, run.rounds) == ("finished", whole.name[-10:], ROUNDS, ROUNDS)
    assert list(run.files) == [*RESULTS[:2], "blocks.parquet", "interactions.parquet", *RESULTS[2:]]
    for table, rows in (TRACE, run.trace), (EVALUATION, run.evaluation), (BLOCKS, run.blocks):
        assert run.table(table, ["round"]).equals(rows.select("round")), table.file
        assert len(rows) > 0, table.file
    assert run.interactions["round"].max() == ROUNDS
    assert run.summary["online_ndcg"]["mean"] == run.per_seed["online_ndcg"].mean()
    assert run.settings["ranker"]["l2"] == run.flat_settings["ranker.l2"]
    assert TrainedRanker(run).seeds == run.seeds == [0]


CHANGES = [(name, "changed by a bit") for name in RESULTS] + [(RESULTS[0], how) for how in list(DAMAGES)[:3]]


@pytest.mark.parametrize(("name", "how"), CHANGES)
def test_a_run_whose_files_have_changed_is_damaged_and_run_again(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, how: str
):
    """A run whose files are not as they were written is damaged and run again."""
    before = results(copy)
    DAMAGES[how](copy / name)
    run = Run.read(copy, thorough=True)
    assert run is not None
    assert (run.state, str(run.error).startswith(name)) == ("damaged", True)
    if how == "changed by a bit":
        with pytest.raises(DamagedFile, match=f"{name} has another content than when it was written"):
            run.table(TRACE) if name == TRACE.file else run.content(name)
    else:
        with pytest.raises(ValueError, match=f"no finished .*damaged: .*{name}"):
            load(tmp_path)
    if name == "ranker.pt" or how == "truncated":
        capsys.readouterr()
        assert main(command(tmp_path)) == 0
        assert capsys.readouterr().err == f"starts afresh: {run.error}\n"
        assert results(copy) == before


def test_a_changed_digit_is_noticed_at_every_look(copy: Path):
    for name in "summary.json", "config.yaml", "run.json":
        content = (copy / name).read_text()
        (copy / name).write_text(re.sub("[3-8]", "9", content, count=1))
        assert (found(copy).state, str(found(copy).error).split()[0]) == ("damaged", name)
        (copy / name).write_text(content)
    assert found(copy).state == "finished"
    (copy / "trace.parquet").write_bytes(b"PAR1 nonsense")
    accept_changes(copy)
    with pytest.raises(DamagedFile, match=r"trace\.parquet cannot be read \("):
        _ = found(copy).trace


def test_interactions_may_be_removed_afterwards(copy: Path):
    (copy / "interactions.parquet").unlink()
    assert found(copy).state == "finished"
    assert found(copy).interactions.is_empty()
    (copy / "interactions.parquet").write_bytes(b"")
    assert str(found(copy).error).startswith("interactions.parquet has 0 bytes")


def test_settings_that_cannot_be_read_name_the_command(tmp_path: Path):
    path = make(tmp_path, "failed")
    for content in "a: &x [1]\nb: *x\n", "- 1\n", "a: [1", "{" * 200_000, None:
        (path / "config.yaml").unlink(missing_ok=True)
        if content:
            (path / "config.yaml").write_text(content)
        for name in "settings", "flat_settings":
            with pytest.raises(DamagedFile, match=r"config\.yaml is damaged \(.*\): type ol2r run force=true"):
                getattr(found(path), name)


def test_names_of_files_in_a_manifest_of_others_lead_nowhere(tmp_path: Path):
    path = make(tmp_path, "finished")
    (secret := tmp_path / "trace.part00001.parquet").write_bytes(b"")
    record = {"bytes": 0, "sha256": run_module.sha256(secret)}
    files = {f"trace.part00001.parquet/../../../{secret.name}": record}
    assert Run(path, manifest("finished", files=files), "finished").parts(TRACE) == []
