"""`ol2r status`: a line per run with its state and what to type."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ol2r_cli.run.store import RunDirectory
from tests.finished import printed
from tests.manifests import manifest


def make(root: Path, name: str, status: str, round: int, **more: object) -> Path:
    """A run with this status and round in its manifest."""
    directory = RunDirectory(root / name)
    more = {"command": f"ol2r run name={name}", "seconds": 185.0, **more}
    directory.write_json("run.json", manifest(status, round) | more)
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


@pytest.mark.parametrize(
    ("status", "line"), [("running", r"killed +synthetic/run +10/100 \(10%\)"), ("failed", r"failed .* 20/100 \(20%\)")]
)
def test_a_killed_run_is_at_the_round_of_its_checkpoint(tmp_path, capsys, status, line):
    """What a process has played after it is lost; one that has failed is where it failed."""
    make(tmp_path, "synthetic/run", status, 20, progress={"round": 20, "rounds": 100, "checkpoint": 10})
    assert re.search(f"^{line}", printed(capsys, "status", tmp_path), re.MULTILINE)


def test_every_run_has_an_aligned_line(outputs, capsys):
    heads, *lines = printed(capsys, "status", outputs).splitlines()
    columns = [heads.index(heading) for heading in ("state", "run", "rounds", "rounds/s", "time", "note")]
    rows = [
        [line[first:last].strip() for first, last in zip(columns, [*columns[1:], None], strict=True)]
        for line in lines[:6]  # sorted by folder; a lock alone is not a run
    ]
    assert "run.json must be JSON" in rows[2].pop()
    assert rows == [
        ["interrupted", "mslr/d-interrupted", "40/100 (40%)", "", "3m 05s", ""],
        ["running", "mslr/e-running", "75/100 (75%)", "0.5", "3m 05s", "50.0s to go"],
        ["unreadable", "mslr/g-unreadable", "", "", ""],
        ["finished", "synthetic/a-finished", "100/100", "250.0", "3m 05s", ""],
        ["killed", "synthetic/b-killed", "20/100 (20%)", "", "3m 05s", ""],
        ["failed", "synthetic/c-failed", "30/100 (30%)", "", "3m 05s", "ValueError: click must be known, got x"],
    ]
    assert lines[6:] == [
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
    lines = printed(capsys, "status", tmp_path).splitlines()
    end = lines.index("2 runs: 1 killed, 1 failed")
    assert max(len(line) for line in lines[:end] if "\x1b" not in line and str(tmp_path) not in line) <= 80
    assert "ol2r run" not in " ".join(lines[:end])
    assert lines[end + 1 :] == [
        *("failed, to run again:", "  ol2r run seed=1"),
        *("killed, to go on:", f"  ol2r run {words}"),
    ]


def test_of_many_commands_the_first_are_shown(tmp_path, capsys, on_terminal):
    on_terminal(80)
    for number in range(22):
        make(tmp_path, f"synthetic/stopped-{number}", "interrupted", 20)
    more = f"\nand 12 more: ol2r status {tmp_path}/synthetic | less\n"
    assert more in printed(capsys, "status", tmp_path), "22 without 10"


def test_notes_stand_before_errors_and_in_json(outputs, capsys):
    make(outputs, "synthetic/a-finished", "finished", 100, note="first try")
    make(outputs, "synthetic/c-failed", "failed", 30, error="ValueError: x", note="second")
    out = printed(capsys, "status", outputs)
    assert "3m 05s  first try\n" in out
    assert "  second; ValueError: x\n" in out
    runs = {Path(run["path"]).name[0]: run for run in json.loads(printed(capsys, "status", outputs, "--json"))}
    assert [runs[name]["state"] for name in "abg"] == ["finished", "killed", "unreadable"]
    assert (runs["a"]["note"], runs["c"]["error"]) == ("first try", "ValueError: x")


def above_the_table(text: str) -> tuple[str, list[str]]:
    """What is said above the table, in one line, and the lines below its headings, which are bold."""
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if "\x1b[1m" in line)
    return " ".join(" ".join(lines[:first]).split()), lines[first + 1 :]


@pytest.fixture
def two(tmp_path):
    """Two finished runs of one folder."""
    for name in ("a-first", "b-second"):
        make(tmp_path, f"synthetic/{name}", "finished", 100, rounds_per_second=250.0 + len(name))
    return tmp_path


def test_what_all_runs_share_is_said_once_on_a_terminal(two, capsys, on_terminal):
    on_terminal(80)
    head, (*lines, last) = above_the_table(printed(capsys, "status", two))
    assert head == f"below {two}/synthetic. In all rows: state finished, rounds 100/100, time 3m 05s."
    assert [line.split() for line in lines] == [["a-first", "257.0"], ["b-second", "258.0"]]
    assert last == "2 runs: 2 finished"


def test_an_id_is_not_broken_on_a_terminal(two, capsys, on_terminal):
    on_terminal(80)
    make(two, "mslr/pairrank-informational-0a66e34a51", "interrupted", 10, rounds_per_second=1.5)
    _, lines = above_the_table(printed(capsys, "status", two))
    lines = lines[: lines.index("3 runs: 2 finished, 1 interrupted")]
    assert max(map(len, lines)) <= 80
    assert any("0a66e34a51" in line for line in lines)
    assert sum("10/100 (10%)" in line for line in lines) == 1


@pytest.mark.parametrize(("columns", "lines"), [(100, 1), (76, 2), (60, 3)])
def test_names_are_broken_only_where_there_is_no_room(tmp_path, capsys, on_terminal, columns, lines):
    name = "pairrank-informational-0123456789"
    make(tmp_path, f"mslr_web10k/{name}", "finished", 60, rounds_per_second=10)
    make(tmp_path, f"synthetic/{name}", "running", 61, rounds_per_second=11)
    on_terminal(columns)
    _, table = above_the_table(printed(capsys, "status", tmp_path))
    assert table[2 * lines] == "2 runs: 1 finished, 1 killed"
    assert max(map(len, table[: 2 * lines])) <= columns
