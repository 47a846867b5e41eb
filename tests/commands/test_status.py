"""`ol2r status`: a line per run with its state and what to type."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ol2r_cli.commands.status import main
from ol2r_cli.run.store import Manifest, RunDirectory

ABOUT = {
    "id": "0123456789",
    "choices": {"dataset": "synthetic", "ranker": "pdgd", "click": "perfect"},
    "fingerprint": "abc",
    "seeds": [1],
    "rounds": 100,
    "device": "cpu",
    "threads": 1,
    "command": "ol2r run",
}


def make(root: Path, name: str, status: str, round: int, **more: object) -> Path:
    """A run with this status and round in its manifest."""
    directory = RunDirectory(root / name)
    content = Manifest(directory, **ABOUT | {"command": f"ol2r run name={name}"}).content
    content |= {"status": status, "progress": {"round": round, "rounds": 100}, "seconds": 185.0, "files": {}} | more
    directory.write_json("run.json", content)
    return directory.path


@pytest.fixture
def outputs(tmp_path):
    """One run of each state; this process holds the lock of the running one."""
    make(tmp_path, "synthetic/a-finished", "finished", 100, rounds_per_second=250.0)
    make(tmp_path, "synthetic/b-killed", "running", 20)
    make(tmp_path, "synthetic/c-failed", "failed", 30, error="ValueError: click must be known, got x")
    make(tmp_path, "mslr/d-interrupted", "interrupted", 40)
    running = make(tmp_path, "mslr/e-running", "running", 75, rounds_per_second=0.5)
    (tmp_path / "mslr" / "f-not-a-run").mkdir()
    (tmp_path / "mslr" / "g-unreadable").mkdir()
    (tmp_path / "mslr" / "g-unreadable" / "run.json").write_text("{")
    with RunDirectory(running), RunDirectory(tmp_path / "mslr" / "f-not-a-run"):
        yield tmp_path


def test_a_killed_run_is_at_the_round_of_its_checkpoint(tmp_path, capsys):
    """What a process has played after it is lost; one that has failed is where it failed."""
    progress = {"round": 20, "rounds": 100, "checkpoint": 10}
    for name, status in {"killed": "running", "failed": "failed"}.items():
        make(tmp_path, f"synthetic/{name}", status, 20, progress=progress)
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^killed +synthetic/killed +10/100 \(10%\)", out, re.MULTILINE)
    assert re.search(r"^failed +synthetic/failed +20/100 \(20%\)", out, re.MULTILINE)


def test_every_run_has_an_aligned_line(outputs, capsys):
    assert main([str(outputs)]) == 0
    lines = capsys.readouterr().out.splitlines()
    line_of = {line.split()[1]: line for line in lines[1:7]}
    assert [name.split("/")[1][0] for name in line_of] == list("degabc"), "sorted by folder; a lock alone is not a run"
    columns = [lines[0].index(heading) for heading in ("state", "run", "rounds", "rounds/s", "time", "note")]

    def cell(name: str) -> list[str]:
        return [line_of[name][a:b].strip() for a, b in zip(columns, [*columns[1:], None], strict=True)]

    assert cell("synthetic/a-finished") == ["finished", "synthetic/a-finished", "100/100", "250.0", "3m 05s", ""]
    assert cell("synthetic/b-killed")[::5] == ["killed", ""]
    assert cell("synthetic/c-failed")[5] == "ValueError: click must be known, got x"
    assert cell("mslr/d-interrupted")[::5] == ["interrupted", ""]
    assert cell("mslr/e-running") == ["running", "mslr/e-running", "75/100 (75%)", "0.5", "3m 05s", "50.0s to go"]
    assert cell("mslr/g-unreadable")[0] == "unreadable"
    assert "run.json must be JSON" in line_of["mslr/g-unreadable"]
    assert lines[7:] == [
        "6 runs: 1 running, 1 finished, 1 interrupted, 1 killed, 1 failed, 1 unreadable",
        "mslr/d-interrupted, to go on:",
        "  ol2r run name=mslr/d-interrupted",
        "synthetic/b-killed, to go on:",
        "  ol2r run name=synthetic/b-killed",
        "synthetic/c-failed, to run again:",
        "  ol2r run name=synthetic/c-failed",
    ]


def test_a_terminal_has_whole_commands_below_the_table(tmp_path, capsys, on_terminal):
    on_terminal(80)
    words = " ".join(f"ranker.setting_{number}=0.{number}" for number in range(12))
    make(tmp_path, "synthetic/killed", "running", 20, command=f"ol2r run {words}")
    make(tmp_path, "synthetic/failed", "failed", 30, command="ol2r run seed=1", error="ValueError: " + "word " * 30)
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    end = lines.index("2 runs: 1 killed, 1 failed")
    assert max(len(line) for line in lines[:end] if "\x1b" not in line and str(tmp_path) not in line) <= 80
    assert "ol2r run" not in " ".join(lines[:end])
    assert lines[end + 1 :] == [
        *("failed, to run again:", "  ol2r run seed=1"),
        *("killed, to go on:", f"  ol2r run {words}"),
    ]
    for number in range(20):
        make(tmp_path, f"synthetic/stopped-{number}", "interrupted", 20)
    assert main([str(tmp_path)]) == 0
    assert f"\nand 12 more: ol2r status {tmp_path}/synthetic | less\n" in capsys.readouterr().out, "22 without 10"


def test_notes_and_json(outputs, capsys):
    make(outputs, "synthetic/a-finished", "finished", 100, note="first try")
    make(outputs, "synthetic/c-failed", "failed", 30, error="ValueError: x", note="second")
    assert main([str(outputs)]) == 0
    out = capsys.readouterr().out
    assert "3m 05s  first try\n" in out
    assert "  second; ValueError: x\n" in out
    assert main([str(outputs), "--json"]) == 0
    runs = {Path(run["path"]).name: run for run in json.loads(capsys.readouterr().out)}
    states = {name: run["state"] for name, run in runs.items()}
    assert (states["a-finished"], states["b-killed"], states["g-unreadable"]) == ("finished", "killed", "unreadable")
    assert (runs["a-finished"]["note"], runs["c-failed"]["error"]) == ("first try", "ValueError: x")


def above_the_table(text: str) -> tuple[str, list[str]]:
    """What is said above the table, in one line, and the lines of the table, of which the first has bold headings."""
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if "\x1b[1m" in line)
    return " ".join(" ".join(lines[:first]).split()), lines[first:]


def test_what_all_runs_share_is_said_once_on_a_terminal(tmp_path, capsys, on_terminal):
    """What is the same for all runs is said once on a terminal."""
    for name in ("a-first", "b-second"):
        make(tmp_path, f"synthetic/{name}", "finished", 100, rounds_per_second=250.0 + len(name))
    on_terminal(80)
    assert main([str(tmp_path)]) == 0
    head, (_, *lines, last) = above_the_table(capsys.readouterr().out)
    assert head == f"below {tmp_path}/synthetic. In all rows: state finished, rounds 100/100, time 3m 05s."
    assert [line.split() for line in lines] == [["a-first", "257.0"], ["b-second", "258.0"]]
    assert last == "2 runs: 2 finished"
    make(tmp_path, "mslr/pairrank-informational-0a66e34a51", "interrupted", 10, rounds_per_second=1.5)
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    lines = above_the_table("\n".join(lines))[1][1 : lines.index("3 runs: 2 finished, 1 interrupted")]
    assert max(map(len, lines)) <= 80
    assert any("0a66e34a51" in line for line in lines), "an id is not broken"
    assert sum("10/100 (10%)" in line for line in lines) == 1
    on_terminal(200)
    make(tmp_path, "synthetic/c-failed", "failed", 30, error="ValueError: x")
    assert main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "30/100 (30%)" in out
    assert "c-failed, to run again:\n  ol2r run name=synthetic/c-failed\n" in out


def test_names_are_broken_only_where_there_is_no_room(tmp_path, capsys, on_terminal):
    name = "pairrank-informational-0123456789"
    for number, dataset in enumerate(("mslr_web10k", "synthetic")):
        make(tmp_path, f"{dataset}/{name}", ("finished", "running")[number], 60 + number, rounds_per_second=10 + number)
    for columns, lines in (100, 1), (76, 2), (60, 3):
        on_terminal(columns)
        assert main([str(tmp_path)]) == 0
        _, (_, *table) = above_the_table(capsys.readouterr().out)
        assert table[2 * lines] == "2 runs: 1 finished, 1 killed", columns
        assert max(map(len, table[: 2 * lines])) <= columns


def test_a_missing_folder_is_one_line_and_exit_code_2(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ol2r status: DIR must be a folder with runs, got ")
    assert captured.err.count("\n") == 1
