"""Run directories: one writer at a time, atomic files, and JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli.run import FILES
from ol2r_cli.run.run import find_runs
from ol2r_cli.run.store import RunDirectory, RunningElsewhere, as_json, create_root

HOLDER = """
import sys, time
from ol2r_cli.run.store import RunDirectory
with RunDirectory(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def held(tmp_path):
    """A run directory held by another process, and that process."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as holder:
        assert holder.stdout.readline() == "held\n"
        yield RunDirectory(tmp_path / "run"), holder
        holder.kill()


def test_a_second_process_is_refused_with_the_pid_of_the_first(held):
    directory, holder = held
    assert directory.is_running()
    with pytest.raises(RunningElsewhere, match=rf"another process \(pid {holder.pid} on .+\) is running this in .*run"):
        directory.__enter__()
    assert directory.is_running(), "the attempt must not release the lock"


def test_a_killed_process_releases_the_lock(held):
    directory, holder = held
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not directory.is_running()
    with directory:
        assert directory.is_running()


def test_one_process_cannot_lock_a_directory_twice(tmp_path):
    with RunDirectory(tmp_path / "run"), pytest.raises(RunningElsewhere):
        RunDirectory(tmp_path / "run").__enter__()


def test_is_running_in_another_process_does_not_prevent_a_run(tmp_path):
    asking = """
import sys
from ol2r_cli.run.store import RunDirectory
print("asking", flush=True)
while True:
    RunDirectory(sys.argv[1]).is_running()
"""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").touch()
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", asking, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as other:
        assert other.stdout.readline() == "asking\n"
        for _ in range(50):
            with RunDirectory(tmp_path / "run") as directory:
                directory.write_text("log.txt", "")
        other.kill()


def test_an_empty_directory_is_created_on_entry_and_removed_at_the_end(tmp_path):
    directory = RunDirectory(tmp_path / "data" / "run")
    assert not directory.is_running()
    assert not directory.path.parent.exists()
    with directory:
        assert os.listdir(directory.path) == [".lock"]
    assert not directory.path.exists()


def test_leaving_keeps_files_and_removes_the_lock_file(tmp_path):
    with RunDirectory(tmp_path / "run") as directory:
        directory.write_text("log.txt", "done")
    assert os.listdir(directory.path) == ["log.txt"]


def test_entry_removes_temporary_files_and_nothing_else(tmp_path):
    (tmp_path / ".trace.parquet.0123456789abcdef.partial").write_bytes(b"half")
    (tmp_path / ".notes").write_text("mine")
    with RunDirectory(tmp_path):
        assert sorted(os.listdir(tmp_path)) == [".lock", ".notes"]


def test_a_failed_write_leaves_the_old_content_and_no_temporary(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.write_text("log.txt", "old")

    def half_written() -> None:
        with directory.replacing("log.txt") as file:
            file.write(b"half of the n")
            assert (tmp_path / "log.txt").read_text() == "old"
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        half_written()
    assert os.listdir(tmp_path) == ["log.txt"]
    assert (tmp_path / "log.txt").read_text() == "old"


def test_no_kind_of_content_is_visible_before_the_file_is_renamed(tmp_path, monkeypatch):
    contents = {
        "bytes": b"new",
        "text": "new",
        "json": {"new": 1},
        "parquet": pl.DataFrame({"new": [1]}),
        "torch": {"new": torch.ones(1)},
    }
    (tmp_path / "file").write_text("old")

    def stopped(partial: Path, target: Path) -> None:
        assert partial.stat().st_size > 0
        assert (tmp_path / "file").read_text() == "old"
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", stopped)
    for kind, content in contents.items():
        with pytest.raises(OSError, match="power cut"):
            getattr(RunDirectory(tmp_path), f"write_{kind}")("file", content)
        assert (tmp_path / "file").read_text() == "old"


def test_every_kind_of_content_comes_back(tmp_path):
    directory = RunDirectory(tmp_path)
    frame = pl.DataFrame({"seed": [1, 2], "ndcg": [0.5, None]})
    directory.write_bytes("raw", b"\x00\xff")
    directory.write_text("log.txt", "NDCG ± 0.1\n")
    directory.write_json("run.json", {"status": "running", "seeds": [1, 2]})
    directory.write_parquet("trace.parquet", frame)
    directory.write_torch("ranker.pt", {"weights": torch.arange(3)})
    assert (tmp_path / "raw").read_bytes() == b"\x00\xff"
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "NDCG ± 0.1\n"
    assert directory.read_json("run.json") == {"status": "running", "seeds": [1, 2]}
    assert pl.read_parquet(tmp_path / "trace.parquet").equals(frame)
    assert torch.load(tmp_path / "ranker.pt", weights_only=True)["weights"].tolist() == [0, 1, 2]


def test_json_is_strict_and_has_a_line_per_entry(tmp_path):
    content = {"metrics": {f"metric_{i}": {"mean": i / 7, "sd": None, "n": 1} for i in range(3)}, "seeds": [1, 2]}
    text = as_json(content)
    assert json.loads(text) == content
    entries = ["{", '"metrics"', '"metric_0"', '"metric_1"', '"metric_2"', "},", '"seeds"', "}"]
    assert [line.strip().split(":")[0] for line in text.splitlines()] == entries
    with pytest.raises(ValueError, match="not JSON compliant"):
        RunDirectory(tmp_path).write_json("summary.json", {"mean": float("nan")})
    assert os.listdir(tmp_path) == []


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "run.json").write_text('{"status": ')
    with pytest.raises(ValueError, match=r"run\.json must be JSON, got"):
        RunDirectory(tmp_path).read_json("run.json")
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(ValueError, match="must be a JSON object, got list"):
        RunDirectory(tmp_path).read_json("run.json")


def test_clear_removes_the_files_of_the_run_and_no_others(tmp_path):
    for name in (*FILES, "figure.pdf"):
        (tmp_path / name).touch()
    RunDirectory(tmp_path).clear()
    assert os.listdir(tmp_path) == ["figure.pdf"]


def test_git_does_not_see_what_is_in_a_folder_of_runs_that_was_created(tmp_path):
    """As in the caches of pytest and ruff. What exists is left as it is."""
    with RunDirectory(tmp_path / "new" / "data" / "run", tmp_path / "new") as directory:
        directory.write_json("run.json", {})
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
    assert list(find_runs(tmp_path / "new")) == [directory.path]
    (tmp_path / "new" / ".gitignore").write_text("mine\n")
    (tmp_path / "old").mkdir()
    for name in ("new", "old"):
        create_root(tmp_path / name)
        with RunDirectory(tmp_path / name / "data" / "other", tmp_path / name):
            pass
    assert (tmp_path / "new" / ".gitignore").read_text() == "mine\n"
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["data"]
