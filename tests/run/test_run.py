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
from tests.finished import printed
from tests.manifests import accept_changes, change, manifest
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
    assert run is not None, "there is no run"
    return run


def command(folder: Path) -> list[str]:
    words = ["experiment=smoke", f"rounds={ROUNDS}", "evaluate_every=10", "save_interactions=true"]
    return [*words, "block_rounds=[1,20]", f"output_dir={folder}"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run with all tables."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(command(folder)) == 0
    (path,) = find_runs(folder)
    return path


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    """A copy of it, which the same command finds below `tmp_path`."""
    return Path(shutil.copytree(whole, tmp_path / whole.parent.name / whole.name))


def results(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULTS[:3]}


def test_a_running_run_is_killed_without_its_lock(tmp_path):
    path = make(tmp_path, "running", 20, rounds_per_second=4.0)
    assert (found(path).state, found(path).remaining) == ("killed", None)
    with RunDirectory(path):
        assert (found(path).state, found(path).remaining) == ("running", 20.0)
        shutil.copytree(path, tmp_path / "copy")
        assert found(tmp_path / "copy").state == "killed"
        path.rename(tmp_path / "moved")
        assert found(tmp_path / "moved").state == "running"


def test_a_run_elsewhere_runs_while_it_renews_its_manifest(tmp_path):
    path, states = make(tmp_path, "running", host="node7"), []
    for seconds in 0, -600, 600:  # of the clock of another machine
        os.utime(path / "run.json", (time.time() + seconds,) * 2)
        states.append(found(path).state)
    assert states == ["running", "killed", "killed"]


def test_a_run_may_end_while_it_is_examined(tmp_path, monkeypatch):
    path = make(tmp_path, "running")
    monkeypatch.setattr(run_module, "is_held", lambda _: make(tmp_path, "finished", 100) is None)
    assert found(path).state == "finished"


def test_a_folder_without_a_manifest_is_no_run(tmp_path):
    assert Run.read(tmp_path) is Run.read(tmp_path / "nowhere") is None


NEEDED = ("id", "command", "choices", "seeds", "progress", "results_version")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (manifest("finished", files=None), "files"),
        (manifest("failed", progress={"round": "x", "rounds": 5}), "progress"),
        (manifest("finished", choices={"ranker": "pdgd"}), "choices"),
        *((manifest(status, **{name: 1.5}), name) for status in ("finished", "interrupted") for name in NEEDED),
        *(({key: value for key, value in manifest("finished").items() if key != name}, name) for name in NEEDED),
    ],
)
def test_a_manifest_that_lacks_a_field_or_has_a_wrong_one(tmp_path, content, name):
    RunDirectory(tmp_path).write_json("run.json", content)
    run = found(tmp_path)
    assert (run.state, run.manifest, run.round, run.error) == ("unreadable", {}, 0, f"run.json has no valid {name}")


@pytest.mark.parametrize(
    ("text", "error"),
    [(json.dumps(manifest("paused")), "its status is paused"), ("{", "must be JSON"), ("[1]", "")],
)
def test_another_text_is_no_manifest(tmp_path, text, error):
    (tmp_path / "run.json").write_text(text)
    assert (found(tmp_path).state, error in found(tmp_path).error) == ("unreadable", True)


def rewrite(path: Path, **changes: object):
    """Change what run.json says, as whoever does so on purpose."""
    change(path, **changes)
    accept_changes(path)


def test_a_note_of_others_is_shown_without_control_characters(copy, capsys):
    rewrite(copy, note="\x1b[31mred")
    assert "\\x1b[31mred" in printed(capsys, "run", *command(copy.parents[1]))


def test_a_startup_that_is_no_number_ends_no_plan(copy):
    rewrite(copy, startup_seconds="x")
    assert main(["-m", "--dry-run", *command(copy.parents[1]), "seed=1,2"]) == 0


def test_a_name_that_no_file_can_have_is_damage(copy):
    change(copy, files={"a\0b": {"bytes": 1, "sha256": ""}}, checksum="")
    assert found(copy).state == "damaged"


def test_a_manifest_that_is_a_folder_has_no_bytes(tmp_path):
    (tmp_path / "run.json").mkdir()
    assert manifest_bytes(tmp_path) is None


def test_a_run_is_found_by_its_path_and_by_its_id(tmp_path):
    path = make(tmp_path, "finished")
    assert list(find_runs(tmp_path)) == list(find_runs(path)) == [path]
    assert list(find_runs(tmp_path / "nowhere")) == []
    assert find_run(str(path)) == find_run(ID, tmp_path) == find_run(f"{tmp_path}/{ID}") == path
    assert named_runs(str(tmp_path)) == named_runs(f"{tmp_path}/{ID}") == [path]


@pytest.mark.parametrize(
    ("name", "missing"),
    [("ffffffffff", "below .*, got f{10}, which is neither: see `ol2r status"), ("", "in which there is no run")],
)
def test_a_name_of_no_run_says_where_runs_are(tmp_path, name, missing):
    make(tmp_path, "finished")
    with pytest.raises(ValueError, match=f"RUN must be the directory of a run or an id .*{missing}"):
        find_run(name or str(tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("status", "more", "what"),
    [
        ("interrupted", {}, r"RUN must be a finished run, got .*which is interrupted: type ol2r run"),
        ("running", {}, r"RUN must be a finished run, got .*which is killed: type ol2r run"),
        ("paused", {}, r"RUN must be a finished run, got .*its status is paused"),
        (
            "finished",
            {"files": {"ranker.pt": {"bytes": 1, "sha256": ""}}},
            r"is damaged \(ranker\.pt is missing\)",
        ),
    ],
)
def test_only_a_finished_run_is_read_as_one(tmp_path, status, more, what):
    with pytest.raises(ValueError, match=what):
        Run.read_finished(make(tmp_path, status, **more))


def test_a_finished_run_records_its_files(whole):
    run = Run.read(whole, thorough=True)
    assert (run.state, run.id, run.round, run.rounds) == ("finished", whole.name[-10:], ROUNDS, ROUNDS)
    assert list(run.files) == [*RESULTS[:2], "blocks.parquet", "interactions.parquet", *RESULTS[2:]]
    assert run.interactions["round"].max() == ROUNDS
    assert run.summary["online_ndcg"]["mean"] == run.per_seed["online_ndcg"].mean()
    assert run.settings["ranker"]["l2"] == run.flat_settings["ranker.l2"]
    assert TrainedRanker(run).seeds == run.seeds == [0]


@pytest.mark.parametrize(("table", "name"), [(TRACE, "trace"), (EVALUATION, "evaluation"), (BLOCKS, "blocks")])
def test_a_column_of_a_table_is_read_alone(whole, table, name):
    run = found(whole)
    rows = getattr(run, name)
    assert run.table(table, ["round"]).equals(rows.select("round"))
    assert len(rows) > 0


CHANGES = [(name, "changed by a bit") for name in RESULTS] + [(RESULTS[0], how) for how in list(DAMAGES)[:3]]


@pytest.mark.parametrize(("name", "how"), CHANGES)
def test_a_run_whose_files_have_changed_is_damaged_and_run_again(copy, tmp_path, capsys, name, how):
    before = results(copy)
    DAMAGES[how](copy / name)
    run = Run.read(copy, thorough=True)
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


@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "run.json"])
def test_a_changed_digit_is_noticed_at_every_look(copy, name):
    content = (copy / name).read_text()
    (copy / name).write_text(re.sub("[3-8]", "9", content, count=1))
    assert (found(copy).state, str(found(copy).error).split()[0]) == ("damaged", name)


def test_a_table_that_cannot_be_read_is_damage(copy):
    (copy / "trace.parquet").write_bytes(b"PAR1 nonsense")
    accept_changes(copy)
    with pytest.raises(DamagedFile, match=r"trace\.parquet cannot be read \("):
        _ = found(copy).trace


def test_interactions_may_be_removed_afterwards(copy):
    (copy / "interactions.parquet").unlink()
    assert found(copy).state == "finished"
    assert found(copy).interactions.is_empty()
    (copy / "interactions.parquet").write_bytes(b"")
    assert str(found(copy).error).startswith("interactions.parquet has 0 bytes")


@pytest.mark.parametrize("name", ["settings", "flat_settings"])
@pytest.mark.parametrize(
    "content",
    ["a: &x [1]\nb: *x\n", "- 1\n", "a: [1", "{" * 200_000, None],
    ids=["alias", "list", "cut", "deep", "none"],
)
def test_settings_that_cannot_be_read_name_the_command(tmp_path, content, name):
    path = make(tmp_path, "failed")
    if content:
        (path / "config.yaml").write_text(content)
    with pytest.raises(DamagedFile, match=r"config\.yaml is damaged \(.*\): type ol2r run force=true"):
        getattr(found(path), name)


def test_names_of_files_in_a_manifest_of_others_lead_nowhere(tmp_path):
    path = make(tmp_path, "finished")
    (secret := tmp_path / "trace.part00001.parquet").write_bytes(b"")
    record = {"bytes": 0, "sha256": run_module.sha256(secret)}
    files = {f"trace.part00001.parquet/../../../{secret.name}": record}
    assert Run(path, manifest("finished", files=files), "finished").parts(TRACE) == []
