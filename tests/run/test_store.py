"""A run directory as it is written: one writer at a time, atomic files, and `run.json`."""

from __future__ import annotations

import contextlib
import json
import os
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
from ol2r_cli.run.run import RENEWED, find_runs, read_manifest, sha256
from ol2r_cli.run.store import (
    DirectoryLost,
    Manifest,
    RunDirectory,
    RunningElsewhere,
    create_root,
    restore_checkpoint,
    save_checkpoint,
)
from ol2r_cli.run.versions import checkout


def test_a_second_writer_is_refused(tmp_path: Path):
    """A second writer is refused, and asking whether it is running does not prevent one."""
    directory, ended = RunDirectory(tmp_path / "run"), threading.Event()
    expected = rf"another process \(pid {os.getpid()} on .+\) is running this in .*run.*see `ol2r status .*run`"
    with directory:
        for second in directory, RunDirectory(directory.path):
            with pytest.raises(RunningElsewhere, match=expected):
                second.__enter__()
            assert is_held(directory / LOCK), "the attempt must not release the lock"

    def ask() -> None:
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


def test_what_entering_leaving_and_clearing_create_and_remove(tmp_path: Path):
    directory = RunDirectory(tmp_path / "data" / "run")
    assert not is_held(directory / LOCK)
    assert not directory.path.parent.exists()
    with directory:
        assert os.listdir(directory.path) == [LOCK]
    assert not directory.path.exists()
    with directory:
        directory.write_text("log.txt", "done")
        (directory / ".trace.parquet.0123456789abcdef.partial").write_bytes(b"half")
        (directory / ".notes").write_text("mine")
    with directory:
        assert sorted(os.listdir(directory.path)) == [LOCK, ".notes", "log.txt"]
    assert sorted(os.listdir(directory.path)) == [".notes", "log.txt"]
    mine = ["figure.pdf", "my.part00001.parquet", "trace.part1.parquet"]
    for name in (*FILES, "trace.part00001.parquet", "interactions.part00012.parquet", *mine):
        (directory / name).touch()
    directory.clear()
    assert sorted(os.listdir(directory.path)) == [".notes", *mine]


def test_a_process_that_lost_its_directory_writes_nothing(tmp_path: Path):
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
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == {"of": "the second"}


def test_a_file_is_replaced_in_one_step_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("old")
    directory = RunDirectory(tmp_path)
    frame = pl.DataFrame({"seed": [1, 2], "ndcg": [0.5, None]})
    contents = {"bytes": b"\x00\xff", "text": "NDCG ± 0.1\n", "parquet": frame, "torch": {"new": torch.ones(1)}}

    def stopped(partial: Path, target: Path) -> None:
        assert partial.stat().st_size > 0
        assert (tmp_path / "file").read_text() == "old"
        raise OSError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopped)
        with pytest.raises(OSError, match="power cut"):
            directory.write_text("file", "new")
    assert (os.listdir(tmp_path), (tmp_path / "file").read_text(), directory.files) == (["file"], "old", {})
    for kind, content in contents.items():
        getattr(directory, f"write_{kind}")(kind, content)
        file = tmp_path / kind
        assert directory.files[kind] == {"bytes": file.stat().st_size, "sha256": sha256(file)}, kind
    assert (tmp_path / "text").read_text(encoding="utf-8") == contents["text"]
    assert pl.read_parquet(tmp_path / "parquet").equals(frame)
    assert torch.load(tmp_path / "torch", weights_only=True) == contents["torch"]


def test_json_is_strict_and_has_a_line_per_entry(tmp_path: Path):
    content = {"metrics": {f"metric_{i}": {"mean": i / 7, "sd": None, "n": 1} for i in range(3)}, "seeds": [1, 2]}
    text = as_json(content)
    assert json.loads(text) == content
    entries = ["{", '"metrics"', '"metric_0"', '"metric_1"', '"metric_2"', "},", '"seeds"', "}"]
    assert [line.strip().split(":")[0] for line in text.splitlines()] == entries
    with pytest.raises(ValueError, match="not JSON compliant"):
        RunDirectory(tmp_path).write_json("summary.json", {"mean": float("nan")})
    assert os.listdir(tmp_path) == []


def test_git_does_not_see_a_created_folder_of_runs(tmp_path: Path):
    """Git does not see what is in a folder of runs that was created.

    As in the caches of pytest and ruff. What exists is left as it is.
    """
    with RunDirectory(tmp_path / "new" / "data" / "run", tmp_path / "new") as directory:
        directory.write_json("run.json", {})
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
    assert list(find_runs(tmp_path / "new")) == [directory.path]
    (tmp_path / "new" / ".gitignore").write_text("mine\n")
    (tmp_path / "old").mkdir()
    for name in ("new", "old"):
        create_root(tmp_path / name)
    assert (tmp_path / "new" / ".gitignore").read_text() == "mine\n"
    assert list((tmp_path / "old").iterdir()) == []


ABOUT: dict[str, Any] = {
    "id": "0123456789",
    "choices": {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect"},
    "fingerprint": "abc",
    "seeds": [1, 2],
    "rounds": 100,
    "device": "cpu",
    "threads": 1,
    "command": "ol2r run ranker=pdgd",
}
KEYS = (
    "status id command typed note choices dataset code start seeds exposure columns progress started ended seconds "
    "cpu_seconds peak_memory_gb startup_seconds ran sittings rounds_per_second error files versions git device "
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
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "clock", clock)
    return clock


def on_disk(path: Path) -> dict[str, Any]:
    content = read_manifest(path)
    assert content is not None
    return content


def test_the_manifest_of_a_finished_run(tmp_path: Path, clock: Clock):
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
    assert content["peak_memory_gb"] == pytest.approx(module.peak_memory_gb(), rel=0.5)
    assert (content["versions"]["ol2r"], content["versions"]["numpy"]) == (__version__, numpy.__version__)
    started, ended = (datetime.fromisoformat(content[key]) for key in ("started", "ended"))
    assert started.utcoffset() == ended.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - ended < timedelta(minutes=1)


def test_the_status_follows_from_the_round_and_the_exception(tmp_path: Path):
    endings = [
        (30, None, "interrupted", None),
        (30, SystemExit(143), "interrupted", None),
        (30, ValueError("rounds must be\n  1 or more"), "failed", "ValueError: rounds must be 1 or more"),
        (100, OSError("disk full"), "failed", "OSError: disk full"),  # after the last round
        (100, KeyboardInterrupt(), "interrupted", None),
    ]
    for round, error, status, line in endings:
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


def test_seconds_and_memory_are_those_of_all_processes(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    """Seconds and memory are those of all processes, and the speed is that of the last."""
    monkeypatch.setattr(module, "peak_memory_gb", lambda: 3.0)
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(50)
    clock.now += 10_000  # the night between
    monkeypatch.setattr(module, "peak_memory_gb", lambda: 2.0)
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=40) as second:
        assert (on_disk(tmp_path)["progress"]["round"], on_disk(tmp_path)["ended"]) == (40, None)
        clock.now += 10
        second.progress(100)
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=100):
        clock.now += 1
    content = on_disk(tmp_path)
    assert (content["seconds"], content["cpu_seconds"], content["sittings"]) == (61.0, 30.5, 3)
    assert (content["rounds_per_second"], content["peak_memory_gb"]) == (6.0, 3.0), "the last one played no round"
    assert content["started"] == first.content["started"]


def test_progress_is_written_every_two_seconds(tmp_path: Path, clock: Clock):
    """Progress is written every two seconds, with a speed from five on."""
    (tmp_path / "run.json").write_text('{"seconds": 12')  # a damaged manifest does not prevent the run
    with Manifest(RunDirectory(tmp_path), **ABOUT, began=clock.now - 3) as manifest:
        assert manifest.content["sittings"] == 1
        moments = (1, 1.0, 0, None), (2, 0.5, 0, None), (3, 0.5, 3, None), (4, 1.9, 3, None), (30, 2.1, 30, 5.0)
        for round, moment, written, speed in moments:
            clock.now += moment
            manifest.progress(round)
            content = on_disk(tmp_path)
            assert (content["progress"]["round"], content["rounds_per_second"]) == (written, speed)
    assert on_disk(tmp_path)["startup_seconds"] == 3.0, "start-up is counted apart"
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        clock.now += 0.5
        manifest.progress(100)
    assert on_disk(tmp_path)["rounds_per_second"] == 200, "at its end a short run has one, too"


def test_progress_takes_a_twentieth_of_the_time_at_most(tmp_path: Path, clock: Clock, monkeypatch):
    """A write of .01 s leaves two seconds to a run alone; each of fifty runs of a process waits 20 x 50 x .01 s;
    none so long that others take it for killed."""
    write, writes = RunDirectory.write_json, list[float]()

    def slow(directory: RunDirectory, name: str, content: Any) -> None:
        clock.now += 0.01
        writes.append(clock.now)
        write(directory, name, content)

    monkeypatch.setattr(RunDirectory, "write_json", slow)
    for runs, waits in (1, 2.0), (50, 10.0), (1000, RENEWED / 4):
        with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
            manifest.runs, written = runs, len(writes)
            for round, moment in (1, waits - 0.05), (2, 0.1):
                clock.now += moment
                manifest.progress(round)
            assert on_disk(tmp_path)["progress"]["round"] == 2, runs
            assert len(writes) == written + 1
            assert writes[-1] > writes[-2] + waits


def test_the_commit_of_a_checkout_and_its_dirty_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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


def test_a_checkpoint_comes_back_and_foreign_ones_are_refused(tmp_path: Path, monkeypatch):
    """A checkpoint comes back, and that of another run or version is refused."""
    directory = RunDirectory(tmp_path)
    assert restore_checkpoint(directory, "this") is None
    state = {"round": 7, "best": None, "speed": 0.1, "name": "pdgd", "queue": [(100, torch.ones(2).double())]}
    save_checkpoint(directory, {"simulation": state}, "this")
    found = restore_checkpoint(directory, "this")
    assert found is not None
    assert repr(found["simulation"]) == repr(state)
    with pytest.raises(ValueError, match=r"checkpoint\.pt must be of fingerprint that, got this: type force=true"):
        restore_checkpoint(directory, "that")
    now = module.RESULTS_VERSION
    monkeypatch.setattr(module, "RESULTS_VERSION", now + 1)
    with pytest.raises(ValueError, match=f"of results_version {now + 1}, got {now}: type force=true to start afresh"):
        restore_checkpoint(directory, "this")
    assert (directory / CHECKPOINT).exists()


def test_a_damaged_checkpoint_is_reported_and_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    directory, theta = RunDirectory(tmp_path), torch.full((1000,), 1.5, dtype=torch.float64)
    save_checkpoint(directory, {"theta": theta}, "run")
    whole = (directory / CHECKPOINT).read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(theta[:9].numpy().tobytes()) + 800] ^= 1
    damaged = {
        "text": b"not a checkpoint",
        "all but the end": whole[:-1],
        "beginning overwritten": b"\x00" * 64 + whole[64:],
        "a flipped bit of a tensor": bytes(flipped),
    }
    for content in [1, 2], {"state": {}}, torch.load(directory / CHECKPOINT) | {"files": {"trace.parquet": 3}}:
        torch.save(content, directory / CHECKPOINT)
        damaged[f"{content}"] = (directory / CHECKPOINT).read_bytes()
    for how, content in damaged.items():
        (directory / CHECKPOINT).write_bytes(content)
        assert restore_checkpoint(directory, "run") is None, how
        errors = capsys.readouterr().err
        assert errors.startswith(f"starts afresh: {directory / CHECKPOINT} cannot be read ("), how
        assert errors.count("\n") == 1
        assert not (directory / CHECKPOINT).exists()
