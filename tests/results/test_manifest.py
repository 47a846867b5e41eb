from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from ol2r_cli import __version__
from ol2r_cli.results import manifest as module
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.identity import RESULTS_VERSION
from ol2r_cli.results.manifest import Manifest, duration, read_manifest
from ol2r_cli.results.provenance import checkout, command_line, versions

ABOUT = {
    "id": "0123456789",
    "choices": {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect"},
    "fingerprint": "abc",
    "seeds": [1, 2],
    "rounds": 100,
    "device": "cpu",
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

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_finished_run(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        assert read_manifest(tmp_path)["status"] == "running"
        clock.now += 40
        manifest.progress(100)
    found = read_manifest(tmp_path)
    assert found == manifest.content
    assert found["status"] == "finished"
    assert found["progress"] == {"round": 100, "rounds": 100}
    assert (found["seconds"], found["rounds_per_second"], found["sittings"]) == (40.0, 2.5, 1)
    assert found["dataset"] == {"name": "synthetic", "fingerprint": "abc"}
    assert (found["seeds"], found["command"], found["error"]) == ([1, 2], "ol2r run ranker=pdgd", None)
    assert (found["pid"], found["results_version"]) == (os.getpid(), RESULTS_VERSION)
    started, ended = (datetime.fromisoformat(found[key]) for key in ("started", "ended"))
    assert started.utcoffset() == ended.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - ended < timedelta(minutes=1)


def test_the_keys_are_public():
    keys = (
        "status id command choices dataset seeds exposure progress started ended seconds sittings extended_from "
        "rounds_per_second error versions git device threads host pid results_version"
    )
    assert list(Manifest(RunDirectory("nowhere"), **ABOUT).content) == keys.split()


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, "interrupted", None),  # left before all rounds were done
        (KeyboardInterrupt(), "interrupted", None),
        (SystemExit(143), "interrupted", None),
        (ValueError("rounds must be\n  1 or more"), "failed", "ValueError: rounds must be 1 or more"),
    ],
)
def test_how_a_run_ends(tmp_path, error, status, line):
    def run() -> None:
        with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
            manifest.progress(30)
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    found = read_manifest(tmp_path)
    assert (found["status"], found["error"], found["progress"]["round"]) == (status, line, 30)
    assert found["ended"] is not None


@pytest.mark.parametrize(("error", "status"), [(OSError("disk full"), "failed"), (KeyboardInterrupt(), "interrupted")])
def test_what_goes_wrong_after_the_last_round_is_not_finished(tmp_path, error, status):
    def run() -> None:
        with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
            manifest.progress(100)
            raise error

    with pytest.raises(type(error)):
        run()
    assert read_manifest(tmp_path)["status"] == status


def test_times_add_up_over_sittings_and_the_speed_is_that_of_the_last(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(50)
    clock.now += 10_000  # the night between
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=40) as second:
        assert read_manifest(tmp_path)["progress"]["round"] == 40
        assert read_manifest(tmp_path)["ended"] is None
        clock.now += 10
        second.progress(100)
    found = read_manifest(tmp_path)
    assert (found["seconds"], found["sittings"], found["rounds_per_second"]) == (60.0, 2, 6.0)
    assert found["started"] == first.content["started"]


def test_a_sitting_without_a_round_keeps_the_speed(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT) as first:
        clock.now += 50
        first.progress(100)
    with Manifest(RunDirectory(tmp_path), **ABOUT, round=100):
        clock.now += 1
    assert read_manifest(tmp_path)["rounds_per_second"] == 2.0
    assert read_manifest(tmp_path)["status"] == "finished"


def test_progress_is_written_every_so_often(tmp_path, clock):
    with Manifest(RunDirectory(tmp_path), **ABOUT, every=2.0) as manifest:
        for round, moment, on_disk in ((1, 1.0, 0), (2, 0.5, 0), (3, 0.5, 3), (4, 1.9, 3)):
            clock.now += moment
            manifest.progress(round)
            assert read_manifest(tmp_path)["progress"]["round"] == on_disk
        manifest.progress(5, now=True)
        assert read_manifest(tmp_path)["progress"]["round"] == 5


def test_a_damaged_manifest_does_not_stop_the_next_sitting(tmp_path):
    (tmp_path / "run.json").write_text('{"seconds": 12')
    with Manifest(RunDirectory(tmp_path), **ABOUT) as manifest:
        assert manifest.content["sittings"] == 1


def test_no_manifest_is_none(tmp_path):
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "nowhere") is None


def test_the_command_line_can_be_typed_again():
    assert command_line(["/opt/bin/ol2r", "run", "ranker=pdgd"]) == "ol2r run ranker=pdgd"
    assert command_line(["/opt/ol2r_cli/__main__.py", "run"]) == "python -m ol2r_cli run"
    assert command_line(["scripts/mine.py", "block_rounds=[1, 2]"]) == "python scripts/mine.py 'block_rounds=[1, 2]'"


def test_versions_are_those_of_the_packages():
    import numpy
    import torch

    assert versions()["ol2r"] == __version__
    assert versions()["numpy"] == numpy.__version__
    assert versions()["torch"].split("+")[0] == torch.__version__.split("+")[0]


def test_the_commit_of_a_checkout_and_whether_it_was_changed(tmp_path):
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
    git("tag", "-a", "v1", "-m", "a tag must not take the place of the commit")
    commit = git("rev-parse", "HEAD")
    assert checkout(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("two")
    assert checkout(tmp_path) == {"commit": commit, "dirty": True}
    (tmp_path / "below").mkdir()
    assert checkout(tmp_path / "below") is None, "a package installed below somebody's repository"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(8.24, "8.2s"), (59.97, "1m 00s"), (185.0, "3m 05s"), (7620.0, "2h 07m"), (86400 * 3 + 4 * 3600 + 59.0, "3d 04h")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
