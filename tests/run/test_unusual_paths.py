"""A path is a path: characters that are a pattern or the home folder for others name a folder like all others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli.cli import main
from ol2r_cli.plugins.benchmark.results import read_results, results_frame
from ol2r_cli.report.collection import collect
from ol2r_cli.report.frames import load
from ol2r_cli.run.run import Run
from ol2r_cli.run.store import RunDirectory
from ol2r_cli.run.trace import Trace
from tests.report.runs import make

# Folders, each with one beside it that the first matches as a pattern.
PATTERNS = {"b[1]": "b1", "c*": "cx", "d?": "dy", "**": "e", "[!f]": "g", "~": "h", "~nobody": "i", "\\j[1]": "j1"}


@pytest.fixture
def _here(tmp_path, monkeypatch) -> None:
    """Runs in an empty folder, whose files have relative paths."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.usefixtures("_here", "small_parts")
@pytest.mark.parametrize("name", PATTERNS)
def test_rows_and_results_of_another_folder_are_not_read(name):
    for folder, rounds, level in (name, 5, 0.25), (PATTERNS[name], 7, 0.75):
        directory = RunDirectory(folder)
        trace = Trace(directory, [1])
        for t in range(1, rounds + 1):
            trace.record(t, {"clicks": torch.tensor([t])})
            trace.flush()
        trace.finish()
        run = Run(folder, {}, files=directory.files)
        assert run.trace["round"].to_list() == list(range(1, rounds + 1)), folder
        make(Path("runs", folder), test={0: level})
        directory.write_parquet("r.parquet", results_frame(collect([Path("runs", folder)]).runs, [{}], [()]))
    ((of_file, _),) = read_results(Path(name, "r.parquet"))
    assert of_file.values[0]["test_ndcg_10"] == 0.25


@pytest.mark.usefixtures("_here")
def test_a_name_with_a_tilde_is_not_the_folder_of_a_user(capsys):
    make(Path("~nobody_of_this_name"))
    assert load("~nobody_of_this_name").height == 1
    named, smoke = "output_dir='~nobody_of_this_name'", ["experiment=smoke", "rounds=2"]
    for words in (
        *([command, "~nobody_of_this_name"] for command in ("status", "report", "clean")),
        ["run", *smoke, named],
        ["run", "-m", *smoke, "seed=1,2", named, "--dry-run"],
        ["data", "info", named.replace("output", "cache")],
    ):
        assert main(words) == 0, words
    assert "Traceback" not in capsys.readouterr().err
    assert ol2r.run(*smoke, named).path.is_dir()
    assert os.listdir() == ["~nobody_of_this_name"]
