"""The state of a run on disk, from its manifest and its lock."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from ol2r_cli.run.run import Run, find_run, find_runs, named_runs
from ol2r_cli.run.store import RunDirectory
from tests.manifests import manifest

ID = "0123456789"


def make(root: Path, status: str, round: int = 1) -> Path:
    directory = RunDirectory(root / "synthetic" / f"pdgd-perfect-{ID}")
    directory.write_json("run.json", manifest(status, round))
    return directory.path


def test_the_state_follows_from_the_status_and_the_lock(tmp_path):
    for status in "finished", "interrupted", "failed":
        assert Run.read(make(tmp_path, status)).state == status
    path = make(tmp_path, "running", 20)
    assert (Run.read(path).state, Run.read(path).remaining) == ("killed", None)
    RunDirectory(path).write_json("run.json", RunDirectory(path).read_json("run.json") | {"rounds_per_second": 4.0})
    with RunDirectory(path):
        assert (Run.read(path).state, Run.read(path).remaining) == ("running", 20.0)
    state = Run.read(make(tmp_path, "paused"))
    assert (state.state, state.error) == ("unreadable", "its status is paused")
    (path / "run.json").write_text("{")
    state = Run.read(path)
    assert (state.state, state.manifest, state.round) == ("unreadable", {}, 0)
    assert "run.json must be JSON" in state.error


def test_a_copy_of_a_running_directory_is_not_running(tmp_path):
    path = make(tmp_path / "runs", "running")
    with RunDirectory(path):
        shutil.copytree(path, tmp_path / "copy")
        assert (Run.read(path).state, Run.read(tmp_path / "copy").state) == ("running", "killed")
        with RunDirectory(tmp_path / "copy"):
            assert Run.read(path).state == "running"
        path.rename(tmp_path / "moved")
        assert Run.read(tmp_path / "moved").state == "running"


def test_a_process_of_another_machine_runs_while_it_renews_the_manifest(tmp_path):
    path = make(tmp_path, "running")
    RunDirectory(path).write_json("run.json", manifest("running", host="node7"))
    assert Run.read(path).state == "running"
    for seconds in -600, 600:  # of the clock of another machine
        os.utime(path / "run.json", (time.time() + seconds,) * 2)
        assert Run.read(path).state == "killed"


@pytest.mark.parametrize("name", ["id", "command", "choices", "seeds", "progress", "results_version"])
@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_a_manifest_that_lacks_a_field_is_unreadable(tmp_path, name, status):
    content = manifest(status)
    for bad in ({key: value for key, value in content.items() if key != name}, content | {name: 1.5}):
        RunDirectory(tmp_path).write_json("run.json", bad)
        state = Run.read(tmp_path)
        assert (state.state, state.manifest, state.error) == ("unreadable", {}, f"run.json has no valid {name}")
    RunDirectory(tmp_path).write_json("run.json", content | {"progress": {"round": "x", "rounds": 5}})
    assert Run.read(tmp_path).error == "run.json has no valid progress"


def test_a_run_that_ends_while_it_is_examined_is_not_called_killed(tmp_path, monkeypatch):
    path = make(tmp_path, "running")

    def end(self: RunDirectory) -> bool:
        make(tmp_path, "finished", 100)
        return False

    monkeypatch.setattr(RunDirectory, "is_running", end)
    assert Run.read(path).state == "finished"


def test_a_folder_without_runs_has_none(tmp_path):
    assert Run.read(tmp_path) is None
    assert list(find_runs(tmp_path / "nowhere")) == []


def test_a_run_is_found_by_its_path_and_by_its_id(tmp_path):
    path = make(tmp_path, "finished")
    assert list(find_runs(tmp_path)) == list(find_runs(path)) == [path]
    assert find_run(str(path)) == find_run(ID, tmp_path) == find_run(f"{tmp_path}/{ID}") == path
    assert named_runs(str(tmp_path)) == named_runs(f"{tmp_path}/{ID}") == [path]
    with pytest.raises(ValueError, match=r"below outputs, got f{10}, .*, or type FOLDER/f{10} if it is in another"):
        find_run("ffffffffff")
    for name, missing in ("ffffffffff", "which is neither"), (str(tmp_path), "in which there is no run"):
        with pytest.raises(ValueError, match=f"RUN must be the directory of a run or an id .*, {missing}"):
            find_run(name, tmp_path)
