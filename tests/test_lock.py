"""One process at a time plays a run, and where locks have no effect, none reports a wrong result."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ol2r_cli.files import Lock, LockHeld, is_held
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.run.store import DirectoryLost, RunDirectory
from tests.launch import Launched, without_locks

QUERIES = "dataset.queries={train: 15, validation: 4, test: 4}"
RESULTS = ("trace.parquet", "evaluation.parquet", "ranker.pt")


def refuse(*_: object) -> None:
    raise OSError(37, "No locks available")


def words(root: Path) -> list[str]:
    sizes = ["dataset.documents=8", "dataset.features=5", "rounds=400", "checkpoint_rounds=20", "replicas=2"]
    return ["run", "ranker=sgd_ranknet", QUERIES, *sizes, f"output_dir={root}"]


def results(root: Path) -> list[bytes]:
    """The files with results of the only run below a folder, which must be finished."""
    (path,) = find_runs(root)
    assert Run.read(path, thorough=True).state == "finished"
    assert not (path / ".lock").exists()
    return [(path / name).read_bytes() for name in RESULTS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert Launched(words(folder / "runs"), folder).wait() == 0
    return results(folder / "runs")


def said(process: Launched) -> list[str]:
    """The lines on stderr, without that of compiling, which depends on who begins."""
    return [line for line in process.errors.splitlines() if not line.startswith("compiling loops")]


def test_one_of_two_processes_plays_a_run(tmp_path, undisturbed: list[bytes]):
    root = tmp_path / "runs"
    both = [Launched(words(root), tmp_path / name) for name in "ab"]
    codes = [process.wait() for process in both]
    assert sorted(codes) in ([0, 2], [0, 0]), "the second one may find the finished run"
    for process, code in zip(both, codes, strict=True):
        assert len(said(process)) == (code == 2)
        assert code == 0 or "another process (pid " in process.errors
    assert results(root) == undisturbed


def test_unseen_processes_report_no_wrong_result(tmp_path, undisturbed: list[bytes]):
    """Processes that do not see each other report no wrong result."""
    both = [Launched(words(tmp_path / "runs"), tmp_path / name, without_locks) for name in "ab"]
    codes = [process.wait() for process in both]
    for process, code in zip(both, codes, strict=True):
        # Who begins when the other has saved its state goes on from there.
        wrong = [line for line in said(process) if not line.startswith("goes on from round")]
        assert (code, wrong == []) in ((0, True), (1, False)), process.errors
        assert "Traceback" not in process.errors
    if any(codes):
        assert Launched(words(tmp_path / "runs"), tmp_path / "c", without_locks).wait() == 0
    assert results(tmp_path / "runs") == undisturbed


def test_without_locks_the_last_process_has_the_directory(tmp_path, monkeypatch):
    for name, flock in {"refused": refuse, "without effect": lambda *_: None}.items():
        monkeypatch.setattr(fcntl, "flock", flock)
        path = tmp_path / name
        with RunDirectory(path) as first, RunDirectory(path) as last:
            last.write_text("log.txt", "last")
            with pytest.raises(DirectoryLost, match="another process has taken it over"):
                first.write_text("log.txt", "first")
        assert (path / "log.txt").read_text() == "last"
        assert not (path / ".lock").exists(), name


def test_a_lock_is_taken_once_and_its_file_removed(tmp_path):
    file = tmp_path / "folder" / "lock"
    with Lock(file), pytest.raises(LockHeld, match=f"^pid {os.getpid()} on "), Lock(file, wait=False):
        pass
    assert not file.exists()
    file.write_text("pid 1 on a machine that has ended")
    assert not is_held(file)
    with Lock(file, wait=False):
        assert is_held(file)
