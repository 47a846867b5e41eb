"""`run.json`: status, progress and times over several processes, and where numbers come from."""

from __future__ import annotations

import contextlib
import os
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from ol2r_cli import __version__
from ol2r_cli.run import manifest as module
from ol2r_cli.run.code import checkout, versions
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.run import read_manifest
from ol2r_cli.run.store import Manifest, RunDirectory, peak_memory_gb

ABOUT = {
    "id": "0123456789",
    "choices": {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect"},
    "fingerprint": "abc",
    "seeds": [1, 2],
    "rounds": 100,
    "device": "cpu",
    "engine": "tensors",
    "threads": 1,
    "command": "ol2r run ranker=pdgd",
}


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves by hand: `clock.now += seconds`."""

    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

        def read(self) -> tuple[float, float]:
            return self.now, self.now / 2

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "clock", clock)
    return clock


def test_a_finished_run(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        assert read_manifest(tmp_path)["status"] == "running"
        clock.now += 40
        manifest.progress(100)
    content = read_manifest(tmp_path)
    assert content == manifest.content
    assert content["status"] == "finished"
    assert content["progress"] == {"round": 100, "rounds": 100}
    assert (content["seconds"], content["rounds_per_second"], content["sittings"]) == (40.0, 2.5, 1)
    assert content["cpu_seconds"] == 20.0
    assert content["peak_memory_gb"] == pytest.approx(peak_memory_gb(), rel=0.5)
    assert content["dataset"] == {"name": "synthetic", "fingerprint": "abc"}
    assert (content["seeds"], content["command"], content["error"]) == ([1, 2], "ol2r run ranker=pdgd", None)
    assert (content["pid"], content["results_version"]) == (os.getpid(), RESULTS_VERSION)
    started, ended = (datetime.fromisoformat(content[key]) for key in ("started", "ended"))
    assert started.utcoffset() == ended.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - ended < timedelta(minutes=1)


def test_the_keys_are_public():
    keys = (
        "status id command note choices dataset code seeds exposure columns progress started ended seconds cpu_seconds "
        "peak_memory_gb startup_seconds ran sittings rounds_per_second error files versions git device "
        "engine threads host pid results_version"
    )
    assert list(Manifest(RunDirectory("nowhere"), **ABOUT).content) == keys.split()


def test_the_status_follows_from_the_round_and_the_exception(tmp_path):
    endings = [
        (30, None, "interrupted", None),
        (30, KeyboardInterrupt(), "interrupted", None),
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
        content = read_manifest(tmp_path)
        assert (content["status"], content["error"], content["progress"]["round"]) == (status, line, round)
        assert content["ended"] is not None


def test_seconds_are_those_of_all_processes_and_the_speed_is_that_of_the_last(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(50)
    clock.now += 10_000  # the night between
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=40) as second:
        assert read_manifest(tmp_path)["progress"]["round"] == 40
        assert read_manifest(tmp_path)["ended"] is None
        clock.now += 10
        second.progress(100)
    content = read_manifest(tmp_path)
    assert (content["seconds"], content["sittings"], content["rounds_per_second"]) == (60.0, 2, 6.0)
    assert content["cpu_seconds"] == 30.0
    assert content["started"] == first.content["started"]


def test_the_peak_memory_is_the_largest_of_all_processes(tmp_path, monkeypatch):
    for size, largest in ((2.0, 2.0), (3.0, 3.0), (1.0, 3.0), (None, 3.0)):
        monkeypatch.setattr(module, "peak_memory_gb", lambda size=size: size)
        with Manifest(RunDirectory(tmp_path), **ABOUT):
            pass
        assert read_manifest(tmp_path)["peak_memory_gb"] == largest


def test_a_process_without_a_round_keeps_the_speed(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(100)
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=100):
        clock.now += 1
    assert read_manifest(tmp_path)["rounds_per_second"] == 2.0
    assert read_manifest(tmp_path)["status"] == "finished"


def test_a_run_of_less_than_a_second_has_a_speed(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        clock.now += 0.5
        manifest.progress(100)
    assert read_manifest(tmp_path)["rounds_per_second"] == 200


def test_a_running_run_has_no_speed_before_five_seconds_and_start_up_is_counted_apart(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT, began=clock.now - 3) as manifest:
        for moment, round, speed in ((4.0, 10, None), (2.0, 30, 5.0)):
            clock.now += moment
            manifest.progress(round)
            assert read_manifest(tmp_path)["rounds_per_second"] == speed
    assert read_manifest(tmp_path)["startup_seconds"] == 3.0


def test_progress_is_written_every_two_seconds(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT, every=2.0) as manifest:
        for round, moment, on_disk in ((1, 1.0, 0), (2, 0.5, 0), (3, 0.5, 3), (4, 1.9, 3)):
            clock.now += moment
            manifest.progress(round)
            assert read_manifest(tmp_path)["progress"]["round"] == on_disk


def test_a_damaged_manifest_does_not_prevent_the_run(tmp_path):
    (tmp_path / "run.json").write_text('{"seconds": 12')
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        assert manifest.content["sittings"] == 1


def test_no_manifest_is_none(tmp_path):
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "nowhere") is None


def test_versions_are_those_of_the_installed_packages():
    import numpy
    import torch

    assert versions()["ol2r"] == __version__
    assert versions()["numpy"] == numpy.__version__
    assert versions()["torch"].split("+")[0] == torch.__version__.split("+")[0]


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
    assert checkout(tmp_path) == {"commit": commit, "dirty": False}
    with monkeypatch.context() as during:  # as in a git hook of another repository
        during.setenv("GIT_DIR", str(tmp_path / "another" / ".git"))
        assert checkout(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("two")
    assert checkout(tmp_path) == {"commit": commit, "dirty": True}
    (tmp_path / "below").mkdir()
    assert checkout(tmp_path / "below") is None, "a package that is installed inside another repository"
