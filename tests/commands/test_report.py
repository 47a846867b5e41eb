from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.api import draw
from ol2r_cli.commands.report import main
from ol2r_cli.commands.status import main as status
from ol2r_cli.report import load
from tests.report.runs import make

SMOKE = ["experiment=smoke", "click=perfect"]


def test_overrides_lead_to_the_chosen_run(tmp_path, capsys):
    """Overrides lead to the chosen run, and nothing else is on stdout.

    `ol2r run` with the words of `--overrides` finds the run that was chosen.
    """
    output = f"output_dir={tmp_path / 'runs'}"
    for l2 in (1, 10):
        assert cli.main(["run", *SMOKE, output, f"ranker.l2={l2}", "replicas=2"]) == 0
    make(tmp_path / "runs", status="failed")
    capsys.readouterr()
    assert main([str(tmp_path / "runs"), "--select", "validation", "--overrides"]) == 0
    out, errors = capsys.readouterr()
    (line,) = out.splitlines()
    assert line.startswith("dataset=synthetic click=perfect ranker=pairrank exploration=confidence ranker.l2=1")
    assert errors == f"ol2r report: 1 run not finished: ol2r status {tmp_path / 'runs'}\n"
    assert cli.main(["run", *SMOKE, output, "replicas=2", *shlex.split(line)]) == 0
    assert "done before" in "".join(capsys.readouterr())
    make(tmp_path / "uneven", "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.1, 1: 0.1})
    make(tmp_path / "uneven", "ranker.l2=2", test={0: 0.1}, validation={0: 0.2})
    assert main([str(tmp_path / "uneven"), "--select", "validation", "--overrides"]) == 0
    warning = capsys.readouterr().err
    assert warning.startswith("ol2r report: left out of the choice, ")
    assert warning.endswith("ranker.l2=2\n")


def test_json_has_the_rows_in_full_precision(tmp_path, capsys):
    """JSON has the rows in full precision and metrics by their headings."""
    make(tmp_path, "ranker=pdgd", test={0: 0.34375}, note="first try")
    make(tmp_path, "ranker=pdgd", test={1: 0.34375}, note="second")
    assert main([str(tmp_path), "--json", "--metric", "Test NDCG@10"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["ranker"], row["note"], row["n"]) == ("pdgd", "first try, second", 2)
    assert row["test_ndcg_10_mean"] == 0.34375
    assert main([str(tmp_path), "--metric", "test_ndcg_10"]) == 0
    assert "| pdgd   | first try, second | " in capsys.readouterr().out


@pytest.fixture
def mixed(tmp_path):
    """Runs of several rankers, users and folds, one of them not finished."""
    make(tmp_path, "ranker.l2=1e-1", test={0: 0.1, 1: 0.1, 2: 0.1})
    make(tmp_path, "ranker=pdgd", "click=informational", "dataset.fold=2", test={3: 0.1})
    make(tmp_path, "ranker=pdgd", "rounds=9")
    make(tmp_path, "ranker=dbgd", status="failed")
    return tmp_path


@pytest.mark.filterwarnings("ignore:1 run not finished")
def test_words_of_run_choose_among_runs(mixed, capsys):
    for typed, rankers in {
        "click=inf": "pdgd",
        "click=per,inf ranker=pairrank,pdgd": "pairrank pdgd pdgd",
        "ranker.l2=0.10 rounds=2 dataset.fold=1": "pairrank",
        "seed=3": "pdgd",
        "rounds=9 evaluate_on=[validation,test]": "pdgd",
    }.items():
        words = typed.split()
        assert main([words[0], str(mixed), *words[1:], "--format", "csv"]) == 0
        out, notes = capsys.readouterr()
        assert sorted(line.split(",")[3] for line in out.splitlines()[1:]) == rankers.split(), typed
        assert "not finished" not in notes or "seed" not in typed
        assert sorted(load(mixed, *words).unique("path")["ranker"]) == rankers.split()
        assert status([str(mixed), *words]) == 0
        assert f"{len(rankers.split())} finished" in capsys.readouterr().out


def test_words_that_no_run_has_are_answered_with_those_there_are(mixed, capsys):
    for typed, message in {
        "ranker=mgd": "ranker must be one of pairrank, pdgd, dbgd, got mgd",
        "click=per,nav": "click must be one of perfect, informational, got navigational",
        "rankr=pdgd": "no run has a setting or group 'rankr': did you mean ranker?",
        "click=inf rounds=9": "no run has click=informational and rounds=9 together",
    }.items():
        for command, program in ((main, "report"), (status, "status")):
            assert command([str(mixed), *typed.split()]) == 2
            assert capsys.readouterr() == ("", f"ol2r {program}: {message}\n")
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            draw("bar", mixed, *typed.split())


def test_runs_of_other_commands_are_left_out_unless_named(tmp_path, capsys):
    """Runs of other commands are left out unless their folder is named."""
    make(tmp_path / "mq2008")
    for part in ("reproduce", "benchmark", "search"):
        make(tmp_path / part / "mq2008", "ranker=pdgd")
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "pdgd" not in out
    assert f"1 run of reproduce left out: ol2r report {tmp_path}/reproduce\n" in out
    with pytest.warns(UserWarning, match=r"^1 run of (reproduce|benchmark|search) left out: ol2r"):
        assert load(tmp_path)["ranker"].to_list() == ["pairrank"]
    for folder in (tmp_path / "reproduce", tmp_path / "search" / "mq2008"):
        assert main([str(folder)]) == 0
        out = capsys.readouterr().out
        assert "pdgd" in out
        assert "left out:" not in out


def test_seeds_that_chose_settings_are_not_mixed_with_others(tmp_path, capsys):
    """Neither with the runs that a recipe reports, nor with published ones; by themselves they are a report."""
    folder = tmp_path / "benchmark" / "mq2008"
    make(folder, "ranker=pdgd", test={0: 0.25, 1: 0.25})
    make(folder, "ranker=pdgd", "seed=1000", "evaluate_on=[validation]", test={1000: 0.75}, evaluated=False)
    make(folder, "ranker=dbgd", "seed=1000", "evaluate_on=[validation]", test={1000: 0.75}, evaluated=False)
    for named in (tmp_path / "benchmark", folder):
        assert main([str(named), "--metric", "online_ndcg", "--json"]) == 0
        out, told = capsys.readouterr()
        (row,) = json.loads(out)
        assert (row["ranker"], row["n"], row["online_ndcg_mean"]) == ("pdgd", 2, 0.25)
        assert f"2 runs of model selection left out, which has other seeds: ol2r report {named} seed=1000\n" in told
    assert main([str(folder), "seed=1000", "--json"]) == 0
    out, told = capsys.readouterr()
    assert [row["n"] for row in json.loads(out)] == [1, 1]
    assert "left out" not in told
    elsewhere = tmp_path / "own" / "mq2008"  # how others choose is not known
    make(elsewhere, "ranker=pdgd", test={0: 0.25})
    make(elsewhere, "ranker=pdgd", "seed=1000", "evaluate_on=[validation]", test={1000: 0.75}, evaluated=False)
    assert main([str(elsewhere), "--metric", "online_ndcg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] == 2


def test_narrow_terminals_say_columns_of_one_value_once(mixed, on_terminal, capsys):
    """On a narrow terminal, columns with one value are said once."""
    on_terminal(80)
    make(mixed, "ranker=pdgd")
    words = ["click=per", "rounds=2", "ranker=pairrank,pdgd"]
    assert main([str(mixed), *words, "--metric", "test_ndcg_10", "online_ndcg", "test_ndcg_10_untrained"]) == 0
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table, _, same = out.split("\n\n")[0].partition("In all rows: ")
    assert max(map(len, table.splitlines())) <= 80
    assert "mq2008" not in table
    assert same == "dataset mq2008, click perfect."


@pytest.fixture
def compared(tmp_path):
    """pairrank, better than pdgd in each of six seeds."""
    even = {seed: 0.25 + 0.01 * seed for seed in range(6)}
    make(tmp_path / "runs", "ranker=pdgd", test=even)
    make(tmp_path / "runs", test={seed: value + 0.1 + 0.001 * (seed % 2) for seed, value in even.items()})
    return str(tmp_path / "runs")


def test_frames_compare_all_metrics_with_a_baseline(compared, tmp_path, capsys):
    """Frames compare with a baseline, with all metrics in full precision."""
    assert main([compared, "--baseline", "pdgd", "--metric", "test_ndcg_10"]) == 0
    first, second, _, how = capsys.readouterr().out.strip().split("\n\n")
    assert [line.count("↑") for line in first.splitlines()] == [0, 0, 1, 0]
    assert first.splitlines()[3].startswith("| mq2008  | perfect | pdgd (baseline) |")
    assert "| +0.10050 ± 0.00057 ↑ |" in second
    assert how.startswith("↑ and ↓ are significantly higher and lower than pdgd: p < 0.05 after Holm's correction for ")
    assert main([compared, "--baseline", "pdgd", "--differences"]) == 0
    out = capsys.readouterr().out
    assert "(baseline)" not in out
    assert out.count("\n| online NDCG  | mq2008  | perfect | pairrank | pdgd  |") == 1
    for ending in "parquet", "csv":
        file = tmp_path / f"table.{ending}"
        assert main([compared, "--baseline", "pdgd", "--out", str(file)]) == 0
        frame = getattr(pl, f"read_{ending}")(file)
        assert frame["ranker"].to_list() == ["pairrank", "pdgd"]
        assert frame["test_ndcg_10_difference"][0] == pytest.approx(0.1005, abs=1e-7)
        assert "test_ndcg_10_untrained_mean" in frame.columns
    capsys.readouterr()
    assert main([compared, "--baseline", "pdgd", "--format", "csv"]) == 0
    out, notes = capsys.readouterr()
    assert out == file.read_text()
    assert notes.startswith("ol2r report: 2 runs. ")


def test_a_row_has_the_name_that_is_typed(tmp_path, capsys, monkeypatch):
    """In the table, that of LaTeX and a figure, which takes the baseline of the command."""
    monkeypatch.chdir(tmp_path)
    for ranker in ("pairrank", "pdgd", "dbgd"):
        make(Path("runs"), f"ranker={ranker}", test={0: 0.25, 1: 0.5, 2: 0.5})
    named = ["runs", "--name", "pairrank=ours", "ranker=pdgd=the other"]
    assert main([*named, "--format", "md"]) == 0
    table = capsys.readouterr().out
    assert main([*named, "--format", "latex"]) == 0
    latex = capsys.readouterr().out
    assert main([*named, "--figure", "differences", "--baseline", "pairrank", "--out", "differences.svg"]) == 0
    figure = Path("differences.svg").read_text()
    for text in (table, latex, figure):
        assert "the other" in text
        assert "ours" in text
        assert "PDGD" not in text
    assert ">DBGD</text>" in figure


def test_errors_are_one_line_and_2(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(Path("runs"), "ranker.l2=1")
    make(Path("runs"), "ranker.l2=2")
    make(Path("failed"), status="failed")
    Path("runs/file").touch()
    Path("empty").mkdir()
    rows = "--baseline must be a ranker, or choices and settings, of some row, got"
    for typed, complaint in {
        "": "DIR must be a folder with runs, got outputs, which does not exist",
        "empty failed": "there are no finished runs below empty or failed (1 run not finished: ol2r status failed): ",
        "runs --keep ranker.l2": "--keep goes with --select validation",
        "runs --out table.doc": "--out must end in .md, .csv, .parquet, .json, .tex, .html, got table.doc",
        "runs --out t.md --format csv": "--out must not end in .md with --format csv, got t.md",
        "runs --format parquet": "--format parquet needs a file: type --out report.parquet",
        "runs --format png": "--format must be one of md, csv, parquet, json, latex, html without --figure, got png",
        "runs --test t": "--test goes with --baseline RANKER or --compare all",
        "runs --baseline ' '": f"{rows} nothing",
        "runs --baseline pdgd --compare all": "--baseline and --compare all are two ways of comparing",
        "runs --baseline pdgd": f"{rows} pdgd: the rankers are pairrank\n",
        "runs --baseline pairrnk": f"{rows} pairrnk: did you mean pairrank?",
        "runs --baseline pairrank": "--baseline must match one row of each task, got pairrank",
        "runs --option split=test": "--option goes with --figure KIND",
        "runs --name pairrank": "--name must be OVERRIDES=NAME, such as pairrank=ours, got pairrank\n",
        "runs --recovery --out x.html": "--recovery has no html: type --format md",
        "runs/file --out x.html": "a page needs the folders of runs, got runs/file, which has final values: type --for",
        "runs --out runs/file/table.md": "--out must be a file that can be written, got runs/file/table.md",
        "runs --select validation": "settings are chosen by validation_ndcg_10",
        "runs --sumary": "there is no option --sumary: see `ol2r report --help`",
    }.items():
        assert main(shlex.split(typed)) == 2
        out, errors = capsys.readouterr()
        assert out == ""
        assert errors.startswith(f"ol2r report: {complaint}")
        assert errors.count("\n") == 1
