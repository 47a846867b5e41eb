"""Errors of own code: what is said names the file, the class and the line, and blames no folder of ol2r."""

from __future__ import annotations

import re
import sys

import pytest

from ol2r_cli import cli
from ol2r_cli.run.run import find_runs
from tests.manifests import on_disk
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
def _own_choices(tmp_path, monkeypatch):
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


def error_of(capsys, *words: str, code: int) -> str:
    capsys.readouterr()
    assert cli.main(["run", "--config-dir=choices", "rounds=2", *words]) == code
    return capsys.readouterr().err


OPENED = place("no_such_table.csv", "Mine.load")
# The line of a dataset with each slip: FileNotFoundError and the like.
TOLD = {
    "missing": f"FileNotFoundError: [Errno 2] No such file or directory: 'no_such_table.csv' {OPENED}",
    "number": f"ValueError: could not convert string to float: 'twelve' {place('twelve', 'Mine.load')}",
    "refused": "dataset.how must be sensible, got refused",
    "other": f"KeyError: 'column' {place('KeyError', 'Mine.load')}",
}


@pytest.mark.parametrize("how", TOLD)
def test_an_own_dataset_is_named_with_file_class_and_line(capsys, how):
    error = error_of(capsys, "dataset=mine", f"dataset.how={how}", code=1 if how == "other" else 2)
    assert error.endswith(f"ol2r run: {TOLD[how]}\n")
    assert error.count("\n") == 1 or how == "other", "with a traceback where it is a slip"


def test_a_sweep_tells_each_slip_of_a_dataset_once(capsys):
    error = error_of(capsys, "-m", "dataset=mine", f"dataset.how={','.join(TOLD)}", code=2)
    assert {told: error.count(told) for told in TOLD.values()} == dict.fromkeys(TOLD.values(), 1)
    assert not re.search("Traceback|output_dir", error)


@pytest.mark.parametrize("action", ["info", "prepare"])
@pytest.mark.parametrize("how", TOLD)
def test_data_tells_of_an_own_dataset_what_run_tells(capsys, how, action):
    words = ["data", action, "--config-dir=choices", "dataset=mine", f"dataset.how={how}"]
    assert cli.main(words) == (1 if how == "other" else 2)
    *before, last = capsys.readouterr().err.splitlines()
    assert last == f"ol2r data: {TOLD[how]}"
    assert bool(before) == (how == "other")


RANKER = ["ranker=slips", *TINY]
NOTHING = f"AssertionError: nothing was set up {place('nothing was', 'Slips.setup')}"


def test_an_own_ranker_is_named_with_file_class_and_line(capsys):
    error = error_of(capsys, *RANKER, "output_dir=a", code=1)
    (path,) = find_runs("a")
    told = f"IndexError: index 3 is out of bounds for axis 0 with size 3 {place('np.zeros(3)[', 'Slips.learn')}"
    assert f"ol2r run: failed: {told}\n" in error
    assert on_disk(path)["error"] == told


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["ranker.at=file"], 1, f"'no_such_file.csv' {place('no_such_file', 'Slips.learn')}\n"),
        (["ranker.at=setup"], 1, f"ol2r run: {NOTHING}\n"),
        (["-m", "ranker.at=setup,4"], 2, NOTHING),
    ],
    ids=["a file", "at setup", "a sweep"],
)
def test_slips_of_an_own_ranker_are_told_wherever_they_are(capsys, words, code, told):
    assert told in error_of(capsys, *RANKER, *words, code=code)
