from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ol2r_cli.commands.continuations import continuations
from ol2r_cli.commands.report import main
from tests.launch import Launched
from tests.report.runs import make

SMOKE = ["experiment=smoke", "click=perfect"]


def test_a_sweep_reported_chosen_from_and_run_again(tmp_path, capsys):
    """What `--overrides` prints leads to the very runs that were chosen."""
    output = f"output_dir={tmp_path / 'runs'}"
    sweep = ["run", "-m", *SMOKE, output, "ranker.l2=1,10", "replicas=2"]
    launched = Launched(sweep, tmp_path / "sweep")
    assert launched.wait() == 0, launched.errors
    assert main([str(tmp_path / "runs"), "--select", "validation", "--overrides"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("dataset=synthetic click=perfect ranker=pairrank exploration=confidence ranker.l2=1")
    launched = Launched(["run", *SMOKE, output, "replicas=2", *shlex.split(line)], tmp_path / "again")
    assert launched.wait() == 0, launched.errors
    assert "done before" in launched.output
    assert main([str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert out.count("| synthetic | perfect | pairrank | l2=1") == 2
    assert "2 runs. Figures are means over n values, one for each seed" in out


def test_into_a_file(tmp_path, capsys):
    make(tmp_path / "runs")
    main([str(tmp_path / "runs")])
    shown = capsys.readouterr().out
    file = tmp_path / "new" / "folder" / "table.md"
    assert main([str(tmp_path / "runs"), "--out", str(file)]) == 0
    assert capsys.readouterr().out == f"written: {file}\n"
    assert file.read_text() == shown
    assert [path.name for path in file.parent.iterdir()] == ["table.md"]


def test_several_folders_around_options(tmp_path, capsys):
    make(tmp_path / "a", "ranker=pdgd")
    make(tmp_path / "b")
    make(tmp_path / "b", status="failed")
    arguments = [str(tmp_path / "a"), "--select", "validation", str(tmp_path / "b"), "--metric", "test_ndcg_10"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "pdgd" in out
    assert "pairrank" in out
    assert f"\n\n1 run not finished: ol2r status {tmp_path / 'b'}\n" in out


def test_overrides_are_lines_for_ol2r_run_and_nothing_else_on_stdout(tmp_path, capsys):
    make(tmp_path, "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.1, 1: 0.1})
    make(tmp_path, "ranker.l2=2", test={0: 0.1}, validation={0: 0.2})
    make(tmp_path, status="failed")
    assert main([str(tmp_path), "--select", "validation", "--overrides"]) == 0
    out, errors = capsys.readouterr()
    assert out == "dataset=mq2008 click=perfect ranker=pairrank exploration=confidence ranker.l2=1\n"
    warning, unfinished = errors.splitlines()
    assert warning.startswith("ol2r report: left out of the choice, 1 value ")
    assert warning.endswith("ranker.l2=2")
    assert unfinished == f"ol2r report: 1 run not finished: ol2r status {tmp_path}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "DIR must be a folder with runs, got nowhere, which does not exist"),
        (["empty"], "there are no finished runs below empty: start one with `ol2r run`"),
        (
            ["empty", "failed"],
            "there are no finished runs below empty or failed (1 run not finished: ol2r status failed): "
            "start one with `ol2r run`",
        ),
        (["runs", "--keep", "ranker.l2"], "--keep goes with --select validation"),
        (["runs", "--overrides"], "--overrides goes with --select validation"),
        (["runs", "--out", "table.tex"], "--out must end in .md, got table.tex"),
        (["runs", "--out", "runs/file/table.md"], "--out must be a file that can be written, got runs/file/table.md"),
        (["runs", "--select", "validation"], "--select validation needs validation_ndcg_10"),
        (["runs", "--metric", "ndcg"], "--metric must be one of online_ndcg,"),
    ],
)
def test_errors_are_one_line_and_2(arguments, complaint, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(Path("runs"), "ranker.l2=1")
    make(Path("runs"), "ranker.l2=2")
    make(Path("failed"), status="failed")
    Path("runs/file").touch()
    Path("empty").mkdir()
    assert main(arguments) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(f"ol2r report: {complaint}")
    assert errors.count("\n") == 1


def test_reading_takes_no_torch_and_no_tables(tmp_path):
    for number in range(3):
        make(tmp_path, test={number: 0.5})
    script = "\n".join(
        [
            "import sys",
            "from ol2r_cli.commands.report import main",
            "main([sys.argv[1]])",
            "heavy = {'torch', 'polars', 'hydra', 'sklearn', 'rich', 'scipy.stats'} & sys.modules.keys()",
            "sys.exit(f'imported {heavy}' if heavy else 0)",
        ]
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "3 runs" in done.stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ol2r rep", ["report "]),
        ("ol2r report runs --sel", ["--select "]),
        ("ol2r report runs --select ", ["validation "]),
        ("ol2r report ru", ["runs/"]),
    ],
)
def test_completion(line, words, tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert continuations(line) == words
