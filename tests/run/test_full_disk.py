"""A file system that is full or fails ends a run in one line, and the same command goes on when it works again."""

from __future__ import annotations

import errno
import os
from itertools import chain, count
from pathlib import Path
from unittest.mock import Mock

import pytest

from ol2r_cli.commands.run import main
from ol2r_cli.run import LOCK
from ol2r_cli.run.run import Run, find_runs

RESULTS = ["trace.parquet", "evaluation.parquet", "summary.json"]


def command(folder: Path, *words: str) -> list[str]:
    return ["experiment=smoke", "checkpoint_rounds=20", f"output_dir={folder}", *words]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert main(command(folder)) == 0
    (path,) = find_runs(folder)
    return {name: (path / name).read_bytes() for name in RESULTS}


def failing_from(monkeypatch: pytest.MonkeyPatch, call: int, number: int) -> None:
    """Let the `call`-th file that is written fail, and all later ones, by no code of the user."""
    errors = (OSError(number, os.strerror(number)) for _ in count())
    monkeypatch.setattr(os, "fsync", Mock(side_effect=chain([None] * (call - 1), errors)))


def test_a_run_that_cannot_write_says_so_in_one_line(
    tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for number, call in (errno.ENOSPC, 1), (errno.EIO, 2), (errno.ENOSPC, 3), (errno.EIO, 8), (errno.ENOSPC, 13):
        (folder := tmp_path / f"{call}").mkdir()
        with monkeypatch.context() as patch:
            failing_from(patch, call, number)
            assert main(command(folder)) == 1, call
        error = capsys.readouterr().err
        expected = "no space is left for" if number == errno.ENOSPC else "output_dir ("
        assert error.startswith(f"ol2r run: failed: {expected}"), call
        assert error.endswith("or type output_dir=DIR\n")
        assert error.count("\n") == 1
        runs = list(find_runs(folder))
        if call <= 2:  # config.yaml and run.json come first
            assert not [path for path in folder.rglob("*") if path.is_file()], call
        else:
            run = Run.read(runs[0])
            assert run is not None
            assert run.state == "killed", "nothing could be written any more"
        assert main(command(folder)) == 0
        (path,) = find_runs(folder)
        assert {name: (path / name).read_bytes() for name in RESULTS} == undisturbed, call


def test_what_a_kill_after_finishing_leaves_is_removed(tmp_path: Path):
    """What a kill after finishing leaves is removed, and a checkpoint that was kept on purpose stays."""
    for keep in False, True:
        words = command(tmp_path, f"keep_checkpoint={str(keep).lower()}", "force=true")
        assert main(words) == 0
        (path,) = find_runs(tmp_path)
        assert (path / "checkpoint.pt").exists() is keep
        if not keep:
            (path / "checkpoint.pt").write_bytes(b"of a killed process")
        (path / LOCK).write_text("pid 4194304 on a machine")
        assert main(words[:-1]) == 0
        assert (path / "checkpoint.pt").exists() is keep
        assert not (path / LOCK).exists()
