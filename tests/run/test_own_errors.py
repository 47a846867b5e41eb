"""Errors of own code: what is said names the file, the class and the line, and blames no folder of ol2r."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.run.run import find_runs
from tests.worlds import TINY

CODE = """\
import numpy as np
from ol2r_cli.dataset.synthetic import Synthetic
from ol2r_cli.ranker.model_ranker import RandomRanker


class Mine:
    def __init__(self, how):
        self.how = how

    def load(self):
        if self.how == "missing":
            open("no_such_table.csv")
        if self.how == "number":
            float("twelve")
        if self.how == "refused":
            raise ValueError("dataset.how must be sensible, got refused")
        raise KeyError("column")


class Slips(RandomRanker):
    def __init__(self, at):
        super().__init__()
        self.at = at

    def setup(self, context, features, oracle=None):
        super().setup(context, features, oracle)
        assert self.at != "setup", "nothing was set up"

    def learn(self, interaction, random):
        if self.at == "file":
            open("no_such_file.csv")
        np.zeros(3)[self.at]
"""
LINES = CODE.splitlines()


def place(text: str, function: str) -> str:
    """Where the only line with a text is."""
    (line,) = (number for number, other in enumerate(LINES, 1) if text in other)
    return f"(mine_too.py:{line}, in {function})"


@pytest.fixture(autouse=True)
def _own_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_too.py").write_text(CODE)
    for group, name, content in (
        ("dataset", "mine", "_target_: mine_too.Mine\nhow: missing  # text\n"),
        ("ranker", "slips", "_target_: mine_too.Slips\nat: 3  # a place\n"),
    ):
        (tmp_path / "choices" / group).mkdir(parents=True)
        (tmp_path / "choices" / group / f"{name}.yaml").write_text(f"# Mine.\n{content}")
    yield
    sys.modules.pop("mine_too", None)


def error_of(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    capsys.readouterr()
    assert cli.main(["run", "--config-dir=choices", "rounds=2", *words]) == code
    return capsys.readouterr().err


def test_an_own_dataset_is_named_with_file_class_and_line(capsys):
    error = error_of(capsys, "dataset=mine", code=2)
    opened = place("no_such_table.csv", "Mine.load")
    assert error == f"ol2r run: FileNotFoundError: [Errno 2] No such file or directory: 'no_such_table.csv' {opened}\n"
    error = error_of(capsys, "dataset=mine", "dataset.how=number", code=2)
    assert error.startswith("ol2r run: ValueError: could not convert string to float: 'twelve' ")
    assert error.endswith(place("twelve", "Mine.load") + "\n")
    error = error_of(capsys, "dataset=mine", "dataset.how=refused", code=2)
    assert error == "ol2r run: dataset.how must be sensible, got refused\n"
    error = error_of(capsys, "dataset=mine", "dataset.how=other", code=1)
    assert error.endswith(f"\nol2r run: KeyError: 'column' {place('KeyError', 'Mine.load')}\n")
    error = error_of(capsys, "-m", "dataset=mine", "dataset.how=missing,number,refused,other", code=2)
    for told in (opened, place("twelve", "Mine.load"), place("KeyError", "Mine.load"), "must be sensible"):
        assert error.count(told) == 1, error
    assert "Traceback" not in error
    assert "output_dir" not in error


@pytest.mark.parametrize(("how", "code"), [("missing", 2), ("number", 2), ("refused", 2), ("other", 1)])
def test_data_tells_of_an_own_dataset_what_run_tells(capsys, how, code):
    words = ["dataset=mine", f"dataset.how={how}"]
    told = error_of(capsys, *words, code=code).splitlines()[-1].removeprefix("ol2r run: ")
    for action in ("info", "prepare"):
        assert cli.main(["data", action, "--config-dir=choices", *words]) == code
        lines = capsys.readouterr().err.splitlines()
        assert lines[-1] == f"ol2r data: {told}"
        assert len(lines) == 1 or lines[0].startswith("Traceback"), "with a traceback where it is a slip"


def test_an_own_ranker_is_named_with_file_class_and_line(capsys):
    ranker = ["ranker=slips", *TINY]
    error = error_of(capsys, *ranker, "output_dir=a", code=1)
    (path,) = find_runs("a")
    at = place("np.zeros(3)[", "Slips.learn")
    told = f"IndexError: index 3 is out of bounds for axis 0 with size 3 {at}"
    assert f"ol2r run: failed: {told}\n" in error
    assert json.loads((path / "run.json").read_text())["error"] == told
    error = error_of(capsys, *ranker, "ranker.at=file", code=1)
    assert f"'no_such_file.csv' {place('no_such_file', 'Slips.learn')}\n" in error
    error = error_of(capsys, *ranker, "ranker.at=setup", code=1)
    assert error.endswith(f"ol2r run: AssertionError: nothing was set up {place('nothing was', 'Slips.setup')}\n")
    error = error_of(capsys, "-m", *ranker, "ranker.at=setup,4", code=2)
    assert f"AssertionError: nothing was set up {place('nothing was', 'Slips.setup')}" in error
