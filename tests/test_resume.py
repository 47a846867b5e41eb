"""After any interruption the same command ends with the files of an undisturbed run, to the last bit."""

from __future__ import annotations

import os
import re
import signal
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.config.composer import Composition, compose
from ol2r_cli.run import runner
from ol2r_cli.run.run import Run, find_runs
from ol2r_cli.run.runner import run_experiment
from tests.moments import at_round

ROUNDS = 400
COMMAND = [
    "run",
    "dataset.queries={train: 15, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "click=navigational",
    "replicas=2",
    f"rounds={ROUNDS}",
    "evaluate_every=30",
    "block_rounds=[10,130,390]",
    "save_interactions=true",
    "checkpoint_rounds=50",
]
RESULTS = ("trace.parquet", "evaluation.parquet", "blocks.parquet", "interactions.parquet", "ranker.pt")


def command(folder: Path) -> list[str]:
    return [*COMMAND, f"output_dir={folder}"]


@cache
def composition(*overrides: str) -> Composition:
    return compose(overrides)


def the_run(folder: Path) -> Path:
    """The only run below a folder; a path that does not exist while there is none."""
    runs = list(find_runs(folder))
    assert len(runs) <= 1
    return runs[0] if runs else folder / "none"


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (the_run(folder) / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The results of a run without interruptions."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.main(command(folder)) == 0
    return contents(folder)


def interrupt(monkeypatch, folder: Path, round: int) -> None:
    """Run or resume in this process until a signal comes after this round."""
    words = command(folder)[1:]
    composed = composition(*words)
    with monkeypatch.context() as patch:
        at_round(patch, round, lambda: os.kill(os.getpid(), signal.SIGINT if round % 2 else signal.SIGTERM))
        assert run_experiment(composed.settings, composed.choices, words) == 130
    assert Run.read(the_run(folder)).round == round


def test_an_interrupted_run_says_what_resumes_it(tmp_path, monkeypatch, capsys):
    for number, (forced, advice) in enumerate({"": "", "force=true": " without force=true"}.items()):
        folder = tmp_path / f"{number}"
        with monkeypatch.context() as patch:
            at_round(patch, 50, lambda: os.kill(os.getpid(), signal.SIGTERM))
            assert cli.main([*command(folder), *forced.split()]) == 130
        line = f"interrupted after round 50: the same command{advice} goes on from there"
        assert capsys.readouterr().err.splitlines()[-1] == line
        run = Run.read(the_run(folder))
        assert (run.state, run.round, "force=true" in run.manifest["command"]) == ("interrupted", 50, False)


def test_a_run_with_another_version_says_so_and_records_both(tmp_path, monkeypatch, capsys):
    """A run that goes on with another version says so and records both."""
    for round, threads in (60, 1), (130, 1), (190, 2), (250, 2):
        monkeypatch.setattr("ol2r_cli.run.versions._version", lambda _, threads=threads: f"{threads}.0")
        interrupt(monkeypatch, tmp_path, round)
        line = "warning: goes on after round 130 with torch 1.0 -> 2.0, numpy 1.0 -> 2.0"
        assert (line in capsys.readouterr().err) == (round == 190)
    ran = Run.read(the_run(tmp_path)).manifest["ran"]
    assert [(part["after"], part["torch"], part["device"]) for part in ran] == [(0, "1.0", "cpu"), (130, "2.0", "cpu")]


def test_a_run_can_be_stopped_at_any_round(tmp_path, undisturbed, monkeypatch):
    """A run can be stopped at any round, also where its tables have parts.

    Around an evaluation, and where measures, blocks and checkpoints are due; with parts as of a million rounds.
    """
    monkeypatch.setattr("ol2r_cli.run.trace.PART_BYTES", 9000)
    monkeypatch.setattr("ol2r_cli.run.trace.FLUSH_ROWS", 200)
    for round in 1, 29, 30, 31, 64, 129, 130, 140, 350:
        interrupt(monkeypatch, tmp_path, round)
    run = the_run(tmp_path)
    assert list(run.glob("trace.part*"))
    assert cli.main(command(tmp_path)) == 0
    assert not list(run.glob("*part*"))
    assert Run.read(run, thorough=True).state == "finished"
    for name in RESULTS[:-1]:
        assert pl.read_parquet(run / name).equals(pl.read_parquet(undisturbed[name])), name
    assert (run / "ranker.pt").read_bytes() == undisturbed["ranker.pt"]


def test_a_finished_run_is_shown_and_not_changed_without_force(tmp_path, undisturbed, capsys):
    assert cli.main(command(tmp_path)) == 0
    run, output = the_run(tmp_path), capsys.readouterr().out
    assert contents(tmp_path) == undisturbed
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in run.iterdir()}
    assert cli.main(command(tmp_path)) == 0
    assert capsys.readouterr().out == f"{output}(done before: force=true runs it again)\n"
    assert {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in run.iterdir()} == before
    assert cli.main([*command(tmp_path), "force=true"]) == 0
    assert Run.read(run).manifest["sittings"] == 1
    assert all((run / name).stat().st_mtime_ns > before[name][0] for name in RESULTS)
    assert contents(tmp_path) == undisturbed


def test_a_failure_is_one_line_and_a_traceback_in_the_log(tmp_path, undisturbed, monkeypatch, capsys):
    """In a round, and then between the traces and the second checkpoint; then the run goes on."""
    save, saved = runner.save_checkpoint, []

    def fail():
        raise ZeroDivisionError("an error in a test")

    for where in "in a round", "at a checkpoint":
        with monkeypatch.context() as patch:
            if where == "in a round":
                at_round(patch, 70, fail)
            else:
                patch.setattr(
                    runner, "save_checkpoint", lambda *content: saved.append(fail() if saved else save(*content))
                )
            assert cli.main(command(tmp_path)) == 1
        run = the_run(tmp_path)
        state = Run.read(run)
        assert state.state == "failed"
        # The code of the test stands where own code may be, whose place is named.
        assert re.fullmatch(r"ZeroDivisionError: an error in a test \(.*test_resume\.py:\d+, in .*fail\)", state.error)
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == f"ol2r run: failed: {state.error}"
        assert lines[1:] == [f"the traceback is in {run / 'log.txt'}"]
        log = (run / "log.txt").read_text()
        assert "Traceback (most recent call last)" in log
        assert "in fail" in log
    assert cli.main(command(tmp_path)) == 0
    log = (run / "log.txt").read_text()
    assert ": from round 51 to" in log, "it resumes from its last checkpoint"
    assert ": from round 101 to" in log
    assert contents(tmp_path) == undisturbed
