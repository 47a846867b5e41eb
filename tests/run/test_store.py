"""A run directory as it is written: one writer at a time, atomic files, and `run.json`."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy
import polars as pl
import pytest
import torch

from ol2r_cli import __version__
from ol2r_cli.files import as_json, is_held
from ol2r_cli.run import CHECKPOINT, FILES, LOCK
from ol2r_cli.run import store as module
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import RENEWED, find_runs, sha256
from ol2r_cli.run.store import (
    DirectoryLost,
    Manifest,
    RunDirectory,
    RunningElsewhere,
    create_root,
    peak_memory_gb,
    restore_checkpoint,
    save_checkpoint,
)
from ol2r_cli.run.versions import checkout
from tests.manifests import manifest as written
from tests.manifests import on_disk


def test_a_second_writer_is_refused(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    expected = rf"another process \(pid {os.getpid()} on .+\) is running this in .*run.*see `ol2r status .*run`"
    with directory:
        for second in directory, RunDirectory(directory.path):
            with pytest.raises(RunningElsewhere, match=expected):
                second.__enter__()
            assert is_held(directory / LOCK), "the attempt must not release the lock"


def test_who_asks_whether_it_is_running_prevents_no_writer(tmp_path):
    directory, ended = RunDirectory(tmp_path / "run"), threading.Event()

    def ask():
        while not ended.is_set():
            is_held(directory / LOCK)

    (asking := threading.Thread(target=ask)).start()
    try:
        for _ in range(200):
            with directory:
                directory.write_text("log.txt", "")
    finally:
        ended.set()
        asking.join()


def test_entering_and_leaving_create_and_remove_the_directory(tmp_path):
    directory = RunDirectory(tmp_path / "data" / "run")
    assert not is_held(directory / LOCK)
    assert not directory.path.parent.exists()
    with directory:
        assert os.listdir(directory.path) == [LOCK]
    assert not directory.path.exists()


def test_entering_removes_what_a_killed_process_left(tmp_path):
    for name in ("log.txt", ".trace.parquet.0123456789abcdef.partial", ".notes"):
        (tmp_path / name).touch()
    with RunDirectory(tmp_path):
        assert sorted(os.listdir(tmp_path)) == [LOCK, ".notes", "log.txt"]
    assert sorted(os.listdir(tmp_path)) == [".notes", "log.txt"]


def test_clearing_removes_the_files_of_a_run_alone(tmp_path):
    mine = [".notes", "figure.pdf", "my.part00001.parquet", "trace.part1.parquet"]
    for name in (*FILES, "trace.part00001.parquet", "interactions.part00012.parquet", *mine):
        (tmp_path / name).touch()
    RunDirectory(tmp_path).clear()
    assert sorted(os.listdir(tmp_path)) == mine


def test_a_process_that_lost_its_directory_writes_nothing(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    with directory:
        directory.write_json("run.json", {})
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(DirectoryLost, match="was removed, or another process has taken it over"):
            directory.write_json("run.json", {})
        assert not (tmp_path / "run").exists()
        with RunDirectory(tmp_path / "run") as another:
            for act in lambda: directory.write_json("run.json", {"of": "the first"}), directory.clear:
                with pytest.raises(DirectoryLost):
                    act()
            another.write_json("run.json", {"of": "the second"})
            directory.__exit__()
            assert (tmp_path / "run" / LOCK).exists(), "the lock of the other process stays"
    assert on_disk(tmp_path / "run") == {"of": "the second"}


def test_a_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old")
    directory = RunDirectory(tmp_path)

    def stopped(partial: Path, target: Path):
        assert partial.stat().st_size > 0
        assert (tmp_path / "file").read_text() == "old"
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(OSError, match="power cut"):
        directory.write_text("file", "new")
    assert (os.listdir(tmp_path), (tmp_path / "file").read_text(), directory.files) == (["file"], "old", {})


def test_a_file_is_recorded_with_its_size_and_hash(tmp_path):
    directory, frame = RunDirectory(tmp_path), pl.DataFrame({"seed": [1, 2], "ndcg": [0.5, None]})
    directory.write_bytes("bytes", b"\x00\xff")
    directory.write_text("text", "NDCG ± 0.1\n")
    directory.write_parquet("table", frame)
    directory.write_torch("tensor", torch.ones(1))
    assert (tmp_path / "bytes").read_bytes() == b"\x00\xff"
    assert (tmp_path / "text").read_text(encoding="utf-8") == "NDCG ± 0.1\n"
    assert pl.read_parquet(tmp_path / "table").equals(frame)
    assert torch.load(tmp_path / "tensor", weights_only=True) == torch.ones(1)
    assert directory.files == {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256(file)} for file in tmp_path.iterdir()
    }


def test_json_is_strict_and_has_a_line_per_entry(tmp_path):
    content = {"metrics": {f"metric_{i}": {"mean": i / 7, "sd": None, "n": 1} for i in range(3)}, "seeds": [1, 2]}
    text = as_json(content)
    assert json.loads(text) == content
    entries = ["{", '"metrics"', '"metric_0"', '"metric_1"', '"metric_2"', "},", '"seeds"', "}"]
    assert [line.strip().split(":")[0] for line in text.splitlines()] == entries
    with pytest.raises(ValueError, match="not JSON compliant"):
        RunDirectory(tmp_path).write_json("summary.json", {"mean": float("nan")})
    assert os.listdir(tmp_path) == []


def test_git_does_not_see_a_created_folder_of_runs(tmp_path):
    """As in the caches of pytest and ruff. What exists is left as it is."""
    new, old = tmp_path / "new", tmp_path / "old"
    with RunDirectory(new / "data" / "run", new) as directory:
        directory.write_json("run.json", {})
    assert (new / ".gitignore").read_text() == "*\n"
    assert list(find_runs(new)) == [directory.path]
    (new / ".gitignore").write_text("mine\n")
    old.mkdir()
    for folder in (new, old):
        create_root(folder)
    assert ((new / ".gitignore").read_text(), os.listdir(old)) == ("mine\n", [])


CHOICES = {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect"}
ABOUT: dict[str, Any] = {"id": "0123456789", "choices": CHOICES, "fingerprint": "abc", "seeds": [1, 2], "rounds": 100}
ABOUT |= {"device": "cpu", "threads": 1, "command": "ol2r run ranker=pdgd"}
KEYS = (
    "status id command typed note choices dataset code inputs start seeds exposure columns progress started ended "
    "seconds cpu_seconds peak_memory_gb startup_seconds ran sittings rounds_per_second error files versions git device "
    "threads host pid results_version"
)


class Clock:
    """A clock that the test moves by hand: `clock.now += seconds`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def read(self) -> tuple[float, float]:
        return self.now, self.now / 2


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "clock", clock)
    return clock


def test_the_manifest_of_a_finished_run(tmp_path, clock):
    directory = RunDirectory(tmp_path)
    assert list(Manifest(directory, **ABOUT).content) == KEYS.split(), "the keys are public"
    with Manifest(directory, **ABOUT) as manifest:
        assert on_disk(tmp_path)["status"] == "running"
        for name in "summary.json", "log.txt", "trace.parquet":
            directory.write_text(name, name)
        clock.now += 40
        manifest.progress(100)
    content = on_disk(tmp_path)
    assert content == manifest.content
    expected = {
        "status": "finished",
        "progress": {"round": 100, "rounds": 100},
        "seconds": 40.0,
        "rounds_per_second": 2.5,
        "sittings": 1,
        "cpu_seconds": 20.0,
        "dataset": {"name": "synthetic", "fingerprint": "abc"},
        "seeds": [1, 2],
        "command": "ol2r run ranker=pdgd",
        "error": None,
        "pid": os.getpid(),
        "results_version": RESULTS_VERSION,
    }
    assert {name: content[name] for name in expected} == expected
    assert list(content["files"]) == ["trace.parquet", "summary.json"]
    assert content["peak_memory_gb"] == pytest.approx(peak_memory_gb(), rel=0.5)
    assert (content["versions"]["ol2r"], content["versions"]["numpy"]) == (__version__, numpy.__version__)
    started, ended = (datetime.fromisoformat(content[key]) for key in ("started", "ended"))
    assert started.utcoffset() == ended.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - ended < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("round", "error", "status", "line"),
    [
        (30, None, "interrupted", None),
        (30, SystemExit(143), "interrupted", None),
        (30, ValueError("rounds must be\n  1 or more"), "failed", "ValueError: rounds must be 1 or more"),
        (100, OSError("disk full"), "failed", "OSError: disk full"),  # after the last round
        (100, KeyboardInterrupt(), "interrupted", None),
    ],
    ids=repr,
)
def test_the_status_follows_from_the_round_and_the_exception(tmp_path, round, error, status, line):
    with (
        contextlib.nullcontext() if error is None else pytest.raises(type(error)),
        Manifest(RunDirectory(tmp_path), **ABOUT) as manifest,
    ):
        manifest.progress(round)
        if error is not None:
            raise error
    content = on_disk(tmp_path)
    assert (content["status"], content["error"], content["progress"]["round"]) == (status, line, round)
    assert content["ended"] is not None


def test_seconds_are_those_of_all_processes(tmp_path, clock):
    """The speed is that of the last one which played."""
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(50)
    clock.now += 10_000  # the night between
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=40) as second:
        assert (on_disk(tmp_path)["progress"]["round"], on_disk(tmp_path)["ended"]) == (40, None)
        clock.now += 10
        second.progress(100)
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=100):
        clock.now += 1
    expected = {"seconds": 61.0, "cpu_seconds": 30.5, "sittings": 3, "rounds_per_second": 6.0}
    assert on_disk(tmp_path).items() >= (expected | {"started": first.content["started"]}).items()


@pytest.mark.parametrize("earlier", [0.001, 3000.0])
def test_memory_is_the_most_of_all_processes(tmp_path, earlier):
    (tmp_path / "run.json").write_text(json.dumps(written("interrupted", peak_memory_gb=earlier)))
    with Manifest(RunDirectory(tmp_path), **ABOUT):
        pass
    assert on_disk(tmp_path)["peak_memory_gb"] == pytest.approx(max(earlier, peak_memory_gb()), rel=0.5)


def test_progress_is_written_every_two_seconds(tmp_path, clock):
    """With a speed from five on."""
    (tmp_path / "run.json").write_text('{"seconds": 12')  # a damaged manifest does not prevent the run
    with Manifest(RunDirectory(tmp_path), **ABOUT, began=clock.now - 3) as manifest:
        assert manifest.content["sittings"] == 1
        written = []
        for round, moment in (1, 1.0), (2, 0.5), (3, 0.5), (4, 1.9), (30, 2.1):
            clock.now += moment
            manifest.progress(round)
            content = on_disk(tmp_path)
            written.append((content["progress"]["round"], content["rounds_per_second"]))
        assert written == [(0, None), (0, None), (3, None), (3, None), (30, 5.0)]
    assert on_disk(tmp_path)["startup_seconds"] == 3.0, "start-up is counted apart"


def test_a_short_run_has_a_speed_at_its_end(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        clock.now += 0.5
        manifest.progress(100)
    assert on_disk(tmp_path)["rounds_per_second"] == 200


class Slow(RunDirectory):
    """A directory in which writing the manifest takes .01 s."""

    def __init__(self, path: Path, clock: Clock):
        super().__init__(path)
        self.clock, self.writes = clock, list[float]()

    def write_json(self, name: str, content: Any):
        self.clock.now += 0.01
        self.writes.append(self.clock.now)
        super().write_json(name, content)


@pytest.mark.parametrize(("runs", "waits"), [(1, 2.0), (50, 10.0), (1000, RENEWED / 4)])
def test_progress_takes_a_twentieth_of_the_time_at_most(tmp_path, clock, runs, waits):
    """A write of .01 s leaves two seconds to a run alone; each of fifty runs of a process waits 20 x 50 x .01 s;
    none so long that others take it for killed."""
    directory = Slow(tmp_path, clock)
    with Manifest(directory, **ABOUT) as manifest:
        manifest.runs = runs
        for round, moment in (1, waits - 0.05), (2, 0.1):
            clock.now += moment
            manifest.progress(round)
        assert on_disk(tmp_path)["progress"]["round"] == 2
        before, last = directory.writes
        assert last > before + waits


def test_the_commit_of_a_checkout_and_its_dirty_flag(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        author = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *author, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert checkout(tmp_path) is None
    git("init", "--quiet")
    assert checkout(tmp_path) is None, "no commit yet"
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "--quiet", "-m", "one")
    git("tag", "-a", "v1", "-m", "a tag must not replace the commit")
    commit = git("rev-parse", "HEAD")
    with monkeypatch.context() as during:  # as in a git hook of another repository
        during.setenv("GIT_DIR", str(tmp_path / "another" / ".git"))
        assert checkout(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("two")
    assert checkout(tmp_path) == {"commit": commit, "dirty": True}
    (tmp_path / "below").mkdir()
    assert checkout(tmp_path / "below") is None, "a package that is installed inside another repository"


def test_a_checkpoint_comes_back(tmp_path):
    directory = RunDirectory(tmp_path)
    assert restore_checkpoint(directory, "this") is None
    state = {"round": 7, "best": None, "speed": 0.1, "name": "pdgd", "queue": [(100, torch.ones(2).double())]}
    save_checkpoint(directory, {"simulation": state}, "this")
    found = restore_checkpoint(directory, "this")
    assert repr(found) == repr({"simulation": state})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"fingerprint": "that"}, "fingerprint this, got that"),
        ({"results_version": 0}, f"results_version {RESULTS_VERSION}, got 0"),
    ],
)
def test_a_checkpoint_of_another_run_or_version_is_refused(tmp_path, change, told):
    directory, file = RunDirectory(tmp_path), tmp_path / CHECKPOINT
    save_checkpoint(directory, {}, "this")
    torch.save(torch.load(file) | change, file)
    with pytest.raises(ValueError, match=rf"checkpoint\.pt must be of {told}: type force=true to start afresh"):
        restore_checkpoint(directory, "this")
    assert file.exists()


def with_flipped_bit(whole: bytes) -> bytes:
    """A checkpoint of which a tensor of 1.5 has another number."""
    content = bytearray(whole)
    content[whole.index(torch.full((9,), 1.5, dtype=torch.float64).numpy().tobytes()) + 800] ^= 1
    return bytes(content)


def saved(content: Any) -> bytes:
    """The bytes of a checkpoint with another content."""
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "damaged",
    [
        lambda whole: b"not a checkpoint",
        lambda whole: whole[:-1],
        lambda whole: b"\x00" * 64 + whole[64:],
        with_flipped_bit,
        lambda whole: saved([1, 2]),
        lambda whole: saved({"state": {}}),
        lambda whole: saved(torch.load(io.BytesIO(whole)) | {"files": {"trace.parquet": 3}}),
    ],
    ids=["text", "no end", "no beginning", "a flipped bit of a tensor", "a list", "no version", "no records"],
)
def test_a_damaged_checkpoint_is_reported_and_not_used(tmp_path, capsys, damaged):
    directory, file = RunDirectory(tmp_path), tmp_path / CHECKPOINT
    save_checkpoint(directory, {"theta": torch.full((1000,), 1.5, dtype=torch.float64)}, "run")
    file.write_bytes(damaged(file.read_bytes()))
    assert restore_checkpoint(directory, "run") is None
    assert re.fullmatch(rf"starts afresh: {file} cannot be read \(.*\n", capsys.readouterr().err)
    assert not file.exists()
