from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.api import draw
from ol2r_cli.report import load
from tests import cases
from tests.finished import printed, refused
from tests.report.runs import make

SMOKE = ["experiment=smoke", "click=perfect", "replicas=2"]


def test_overrides_lead_to_the_chosen_run(tmp_path, capsys):
    """`ol2r run` with the words of `--overrides`, of which nothing else is on stdout, finds the run that was chosen."""
    runs = tmp_path / "runs"
    for l2 in (1, 10):
        printed(capsys, "run", *SMOKE, f"output_dir={runs}", f"ranker.l2={l2}")
    make(runs, status="failed")
    assert cli.main(["report", str(runs), "--select", "validation", "--overrides"]) == 0
    out, errors = capsys.readouterr()
    (line,) = out.splitlines()
    assert line.startswith("dataset=synthetic click=perfect ranker=pairrank exploration=confidence ranker.l2=1")
    assert errors == f"ol2r report: 1 run not finished: ol2r status {runs}\n"
    assert "done before" in printed(capsys, "run", *SMOKE, f"output_dir={runs}", *shlex.split(line))


def test_what_is_left_out_of_a_choice_is_told(tmp_path, capsys):
    make(tmp_path, "ranker.l2=1", test={0: 0.1, 1: 0.1}, validation={0: 0.1, 1: 0.1})
    make(tmp_path, "ranker.l2=2", test={0: 0.1}, validation={0: 0.2})
    assert cli.main(["report", str(tmp_path), "--select", "validation", "--overrides"]) == 0
    assert re.fullmatch(r"ol2r report: left out of the choice, .* ranker\.l2=2\n", capsys.readouterr().err)


def test_rows_have_the_notes_and_headings_may_be_typed(tmp_path, capsys):
    make(tmp_path, "ranker=pdgd", test={0: 0.34375}, note="first try")
    make(tmp_path, "ranker=pdgd", test={1: 0.34375}, note="second")
    (row,) = json.loads(printed(capsys, "report", tmp_path, "--json", "--metric", "Test NDCG@10"))
    expected = {"ranker": "pdgd", "note": "first try, second", "n": 2, "test_ndcg_10_mean": 0.34375}
    assert row.items() >= expected.items()
    assert "| pdgd   | first try, second | " in printed(capsys, "report", tmp_path, "--metric", "test_ndcg_10")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> Path:
    """Runs of several rankers, users and folds, one of them not finished."""
    tmp_path = tmp_path_factory.mktemp("mixed")
    make(tmp_path, "ranker.l2=1e-1", test={0: 0.1, 1: 0.1, 2: 0.1})
    make(tmp_path, "ranker=pdgd", "click=informational", "dataset.fold=2", test={3: 0.1})
    make(tmp_path, "ranker=pdgd", "rounds=9")
    make(tmp_path, "ranker=dbgd", status="failed")
    return tmp_path


CHOSEN_BY = """
click=inf | pdgd
click=per,inf ranker=pairrank,pdgd | pairrank pdgd pdgd
ranker.l2=0.10 rounds=2 dataset.fold=1 | pairrank
seed=3 | pdgd
rounds=9 evaluate_on=[validation,test] | pdgd
"""


@pytest.mark.filterwarnings("ignore:1 run not finished")
@pytest.mark.parametrize(("typed", "rankers"), cases.lines(CHOSEN_BY))
def test_words_of_run_choose_among_runs(mixed, capsys, typed, rankers):
    words = typed.split()
    assert cli.main(["report", words[0], str(mixed), *words[1:], "--format", "csv"]) == 0
    table, notes = capsys.readouterr()
    assert sorted(line.split(",")[3] for line in table.splitlines()[1:]) == rankers.split()
    assert "not finished" not in notes or "seed" not in typed
    assert sorted(load(mixed, *words).unique("path")["ranker"]) == rankers.split()
    assert f"{len(rankers.split())} finished" in printed(capsys, "status", mixed, *words)


NO_RUN = """
ranker=mgd | ranker must be one of pairrank, pdgd, dbgd, got mgd
click=per,nav | click must be one of perfect, informational, got navigational
rankr=pdgd | no run has a setting or group 'rankr': did you mean ranker?
click=inf rounds=9 | no run has click=informational and rounds=9 together
"""


@pytest.mark.parametrize(("typed", "message"), cases.lines(NO_RUN))
def test_words_that_no_run_has_are_answered_with_those_there_are(mixed, capsys, typed, message):
    assert [refused(capsys, command, mixed, *typed.split()) for command in ("report", "status")] == [message] * 2
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        draw("bar", mixed, *typed.split())


def test_runs_of_other_commands_are_left_out_unless_named(tmp_path, capsys):
    make(tmp_path / "mq2008")
    for part in ("reproduce", "benchmark", "search"):
        make(tmp_path / part / "mq2008", "ranker=pdgd")
    out = printed(capsys, "report", tmp_path)
    assert "pdgd" not in out
    assert f"1 run of reproduce left out: ol2r report {tmp_path}/reproduce\n" in out
    with pytest.warns(UserWarning, match=r"^1 run of (reproduce|benchmark|search) left out: ol2r"):
        assert load(tmp_path)["ranker"].to_list() == ["pairrank"]
    for folder in (tmp_path / "reproduce", tmp_path / "search" / "mq2008"):
        out = printed(capsys, "report", folder)
        assert ("pdgd" in out, "left out:" in out) == (True, False), folder


@pytest.fixture(scope="module")
def selected(tmp_path_factory) -> Path:
    """A folder of `ol2r benchmark` and one of others, in which runs of another seed have chosen settings."""
    folder = tmp_path_factory.mktemp("selected")
    for below in folder / "benchmark" / "mq2008", folder / "own" / "mq2008":
        make(below, "ranker=pdgd", test={0: 0, 1: 0})
        for ranker in ("pdgd", "dbgd"):
            words = f"ranker={ranker}", "seed=1000", "evaluate_on=[validation]"
            make(below, *words, test={1000: 0.75}, evaluated=False)
    return folder


PUBLISHED, CHOSEN = {"pdgd": (2, 0)}, {"pdgd": (1, 0.75), "dbgd": (1, 0.75)}


@pytest.mark.parametrize(
    ("typed", "rows", "apart"),
    [
        ("benchmark", PUBLISHED, True),
        ("benchmark/mq2008", PUBLISHED, True),
        ("benchmark/mq2008 seed=1000", CHOSEN, False),
        ("own/mq2008", CHOSEN | {"pdgd": (3, 0.25)}, False),  # how others choose is not known
    ],
)
def test_seeds_that_chose_settings_are_not_mixed_with_others(selected, capsys, monkeypatch, typed, rows, apart):
    """Neither with the runs that a recipe reports, nor with published ones; by themselves they are a report."""
    monkeypatch.chdir(selected)
    assert cli.main(["report", *typed.split(), "--metric", "online_ndcg", "--json"]) == 0
    out, told = capsys.readouterr()
    assert {row["ranker"]: (row["n"], row["online_ndcg_mean"]) for row in json.loads(out)} == rows
    line = f"2 runs of model selection left out, which has other seeds: ol2r report {typed} seed=1000\n"
    assert (line in told, "left out" in told) == (apart, apart)


def test_narrow_terminals_say_columns_of_one_value_once(tmp_path, on_terminal, capsys):
    on_terminal(80)
    make(tmp_path, test={0: 0.1, 1: 0.1})
    make(tmp_path, "ranker=pdgd")
    metrics = ["test_ndcg_10", "online_ndcg", "test_ndcg_10_untrained"]
    out = re.sub(r"\x1b\[[0-9;]*m", "", printed(capsys, "report", tmp_path, "--metric", *metrics))
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
    return ["report", tmp_path / "runs", "--baseline", "pdgd"]


def test_a_baseline_is_marked_and_compared(compared, capsys):
    out = printed(capsys, *compared, "--metric", "test_ndcg_10")
    told = "| pdgd (baseline) |", "| +0.10050 ± 0.00057 ↑ |", "\n↑ and ↓ are significantly higher and lower than pdgd"
    assert [words for words in told if words not in out] == []
    out = printed(capsys, *compared, "--differences")
    assert "(baseline)" not in out
    assert out.count("\n| online NDCG  | mq2008  | perfect | pairrank | pdgd  |") == 1


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_has_all_metrics_in_full_precision(compared, tmp_path, capsys, ending):
    file = tmp_path / f"table.{ending}"
    printed(capsys, *compared, "--out", file)
    frame = getattr(pl, f"read_{ending}")(file)
    assert frame["ranker"].to_list() == ["pairrank", "pdgd"]
    assert frame["test_ndcg_10_difference"][0] == pytest.approx(0.1005, abs=1e-7)
    assert "test_ndcg_10_untrained_mean" in frame.columns
    if ending == "csv":
        assert cli.main([*map(str, compared), "--format", "csv"]) == 0
        out, notes = capsys.readouterr()
        assert (out, notes[:21]) == (file.read_text(), "ol2r report: 2 runs. ")


def test_a_row_has_the_name_that_is_typed(tmp_path, capsys, monkeypatch):
    """In the table, that of LaTeX and a figure, which takes the baseline of the command."""
    monkeypatch.chdir(tmp_path)
    for ranker in ("pairrank", "pdgd", "dbgd"):
        make(Path("runs"), f"ranker={ranker}", test={0: 0.25, 1: 0.5, 2: 0.5})
    named = ["report", "runs", "--name", "pairrank=ours", "ranker=pdgd=the other"]
    texts = [printed(capsys, *named, "--format", form) for form in ("md", "latex")]
    printed(capsys, *named, "--figure", "differences", "--baseline", "pairrank", "--out", "differences.svg")
    texts.append(Path("differences.svg").read_text())
    assert [[name in text for name in ("the other", "ours", "PDGD")] for text in texts] == [[True, True, False]] * 3
    assert ">DBGD</text>" in texts[2]


@pytest.fixture(scope="module")
def there(tmp_path_factory) -> Path:
    """A folder with two rows in `runs`, a failed run in `failed` and nothing in `empty`."""
    folder = tmp_path_factory.mktemp("there")
    for l2 in (1, 2):
        make(folder / "runs", f"ranker.l2={l2}")
    make(folder / "failed", status="failed")
    (folder / "runs" / "file").touch()
    (folder / "empty").mkdir()
    return folder


NO_ROW = "--baseline must be a ranker, or choices and settings, of some row, got"
# What is typed, and the beginning of the line that answers.
MISTAKES = f"""
 | DIR must be a folder with runs, got outputs, which does not exist
empty failed | there are no finished runs below empty or failed (1 run not finished: ol2r status failed):
runs --keep ranker.l2 | --keep goes with --select validation
runs --out table.doc | --out must end in .md, .csv, .parquet, .json, .tex, .html, got table.doc
runs --out t.md --format csv | --out must not end in .md with --format csv, got t.md
runs --format parquet | --format parquet needs a file: type --out report.parquet
runs --format png | --format must be one of md, csv, parquet, json, latex, html without --figure, got png
runs --test t | --test goes with --baseline RANKER or --compare all
runs --baseline ' ' | {NO_ROW} nothing
runs --baseline pdgd --compare all | --baseline and --compare all are two ways of comparing
runs --baseline pdgd | {NO_ROW} pdgd: the rankers are pairrank
runs --baseline pairrnk | {NO_ROW} pairrnk: did you mean pairrank?
runs --baseline pairrank | --baseline must match one row of each task, got pairrank
runs --option split=test | --option goes with --figure KIND
runs --name pairrank | --name must be OVERRIDES=NAME, such as pairrank=ours, got pairrank
runs --recovery --out x.html | --recovery has no html: type --format md
runs/file --out x.html | a page needs the folders of runs, got runs/file, which has final values: type --for
runs --out runs/file/table.md | --out must be a file that can be written, got runs/file/table.md
runs --select validation | settings are chosen by validation_ndcg_10
runs --sumary | there is no option --sumary: see `ol2r report --help`
runs --metric speed | --metric must be one of online_ndcg,
runs --metric ndcg | --metric ndcg: did you mean test_ndcg_10 or online_ndcg?
"""


@pytest.mark.parametrize(("typed", "line"), [line.split(" | ") for line in MISTAKES.split("\n")[1:-1]])
def test_a_mistake_is_one_line_and_2(there, capsys, monkeypatch, typed, line):
    monkeypatch.chdir(there)
    assert refused(capsys, "report", *shlex.split(typed)).startswith(line)
