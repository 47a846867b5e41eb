"""`ol2r data` on the committed folds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ol2r_cli.commands import data
from ol2r_cli.commands.data import main
from ol2r_cli.config.composer import Composer

TINY = Path(__file__).parents[1] / "data" / "tiny"


def run(action: str, tmp_path: Path, *more: str) -> int:
    return main([action, "dataset=letor", f"dataset.path={TINY}", f"cache_dir={tmp_path}", *more])


def test_actions_of_plugins_are_named(capsys):
    assert main(["fit-click"]) == 2
    assert "'check', 'fit-clicks')" in capsys.readouterr().err
    assert main(["--config-dir", ".", "fit-clicks"]) == 2
    assert capsys.readouterr().err == "ol2r data: fit-clicks stands before options: type ol2r data fit-clicks ..\n"


def test_info_prints_aligned_columns_when_piped(tmp_path, capsys):
    assert run("info", tmp_path, "dataset.group={feature:1,threshold:0.5}") == 0
    first, *table, blank, heads, _, _, _, _ = capsys.readouterr().out.splitlines()
    assert (first.partition(" ")[0], blank) == ("letor:", "")
    counts = {"train": "12", "validation": "5", "test": "5", "all": "22"}
    assert {name: queries for name, queries, *_ in map(str.split, table[1:])} == counts
    assert len({len(line) for line in table}) == 1
    assert heads.split()[-4:] == ["merit", "0:1", "parity", "0:1"]


def test_check_agrees_or_says_in_one_line_what_differs(tmp_path, capsys):
    assert run("check", tmp_path, "+dataset.expected.queries=22") == 0
    capsys.readouterr()
    assert run("check", tmp_path, "+dataset.expected.queries=23") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "ol2r data: queries must be 23, got 22: this is not the published set, or not all of it"
    assert main(["check"]) == 0  # generated data
    assert "nothing is known" in capsys.readouterr().out


def test_prepare_fills_the_cache_and_check_verifies_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ol2r_cli.dataset.cache._SMALL", 0)  # as if the arrays were large
    assert run("prepare", tmp_path) == 0
    assert "22 queries, 162 documents" in capsys.readouterr().out
    assert run("check", tmp_path) == 0
    assert "cache: intact\n" in capsys.readouterr().out
    for file in tmp_path.rglob("features.npy"):
        content = file.read_bytes()
        file.write_bytes(content[:-400] + bytes(400))
    for told in " was damaged, or without a checksum, and has been built again\n", "cache: intact\n":
        assert run("check", tmp_path) == 0
        assert told in capsys.readouterr().out


def test_the_documented_examples_compose():
    page = (Path(__file__).parents[2] / "docs" / "how-to/own_data.md").read_text()
    examples = re.findall(r"^ +ol2r data \w+ (.*)$", f"{data.__doc__}\n{page}", re.MULTILINE)
    assert len(examples) >= 5
    compose = Composer()
    for example in examples:
        compose(shlex.split(example.replace("$HOME", "/home/me"), comments=True))


@pytest.mark.parametrize("override", ["dataset=nonsense", "dataset.normalise=nonsense", "dataset.path=nowhere"])
def test_bad_settings_are_one_line_and_exit_code_2(tmp_path, capsys, override):
    assert run("info", tmp_path, override) == 2
    assert capsys.readouterr().err.count("\n") == 1
