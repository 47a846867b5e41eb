"""Whatever ends a run, the same command ends with the files of an undisturbed run, to the last bit; or says why not.

Signals, errors, full disks and damaged files, in this process; kills are in test_kill.py.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from functools import cache
from itertools import chain, count
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.config.composer import Composition, compose
from ol2r_cli.run import LOCK, runner
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.run import DamagedFile, Run, find_runs
from ol2r_cli.run.runner import run_experiment
from ol2r_cli.run.trace import Trace
from tests.manifests import change, on_disk
from tests.moments import at_round, stop_at
from tests.run.damage import DAMAGES

ROUNDS = 160
COMMAND = [
    "run",
    "dataset.queries={train: 15, validation: 4, test: 4}",
    "dataset.documents=8",
    "dataset.features=5",
    "click=navigational",
    "replicas=2",
    f"rounds={ROUNDS}",
    "evaluate_every=30",
    "block_rounds=[10,90,150]",
    "save_interactions=true",
    "validation_sessions=30",
    "checkpoint_rounds=50",
]
LATE = ("update_every=8", "start.labels=0.5")  # a batch waits where the run is stopped, around a start that was fitted
TABLES = {"trace.parquet", "evaluation.parquet", "blocks.parquet", "interactions.parquet"}
RESULTS = [*TABLES, "validation_clicks.parquet", "ranker.pt", "summary.json"]


def command(folder: Path, *words: str) -> list[str]:
    return [*COMMAND, *words, f"output_dir={folder}"]


@cache
def composition(*overrides: str) -> Composition:
    return compose(overrides)


def the_run(folder: Path) -> Path:
    """The only run below a folder; a path that does not exist while there is none."""
    runs = list(find_runs(folder))
    assert len(runs) <= 1
    return runs[0] if runs else folder / "none"


def contents(folder: Path) -> dict[str, bytes]:
    run = the_run(folder)
    return {name: (run / name).read_bytes() for name in RESULTS if (run / name).exists()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """The results of a run without interruptions."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.main(command(folder)) == 0
    results = contents(folder)
    assert [*results] == RESULTS
    return results


def interrupt(monkeypatch, folder: Path, round: int, *words: str):
    """Run or resume in this process until a signal comes after this round."""
    words = (*command(folder, *words)[1:],)
    composed = composition(*words)
    with monkeypatch.context() as patch:
        stop_at(patch, round, signal.SIGINT if round % 2 else signal.SIGTERM)
        assert run_experiment(composed.settings, composed.choices, list(words), kind=KIND, render=None) == 130
    assert Run.read(the_run(folder)).round == round


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Path:
    """The folder of a run that was stopped after round 40, with a checkpoint and a part of every table."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "queue_length", lambda _: 1)  # so that evaluations are written before it stops
        interrupt(patch, folder, 40)
    return folder


@pytest.fixture
def copied(interrupted, tmp_path) -> Path:
    """A copy of that run, which the same command finds below `tmp_path`."""
    path = the_run(interrupted)
    return Path(shutil.copytree(path, tmp_path / path.relative_to(interrupted)))


@pytest.mark.parametrize(("forced", "advice"), [((), ""), (("force=true",), " without force=true")])
def test_an_interrupted_run_says_what_resumes_it(tmp_path, monkeypatch, capsys, forced, advice):
    stop_at(monkeypatch, 50)
    assert cli.main(command(tmp_path, *forced)) == 130
    line = f"interrupted after round 50: the same command{advice} goes on from there"
    assert capsys.readouterr().err.splitlines()[-1] == line
    run = Run.read(the_run(tmp_path))
    assert (run.state, run.round, "force=true" in run.manifest["command"]) == ("interrupted", 50, False)
    monkeypatch.undo()
    assert cli.main(command(tmp_path)) == 0
    assert capsys.readouterr().err == "goes on from round 50 of 160, where it was saved\n"


@pytest.mark.parametrize("before", [None, "1.0"])
def test_a_run_with_another_version_says_so_and_records_both(copied, tmp_path, capsys, before):
    """run.json says with which versions the rounds before were played."""
    versions = on_disk(copied)["ran"][0]
    if before:
        change(copied, ran=[versions | {"torch": before, "numpy": before}])
    assert cli.main(command(tmp_path)) == 0
    line = f"warning: goes on after round 40 with torch 1.0 -> {versions['torch']}, numpy 1.0 -> {versions['numpy']}: "
    assert (line in capsys.readouterr().err) == bool(before)
    ran = Run.read(copied).manifest["ran"]
    expected = [(0, before), (40, versions["torch"])] if before else [(0, versions["torch"])]
    assert [(part["after"], part["torch"]) for part in ran] == expected


@pytest.mark.parametrize(
    ("words", "rounds"),
    [((), (1, 29, 30, 31, 64, 89, 90, 100, 155)), (LATE, (5, 64)), ((*LATE, "ranker=pdgd"), (5, 64))],
    ids=["at once", "late", "late pdgd"],
)
@pytest.mark.usefixtures("small_parts")
def test_a_run_can_be_stopped_at_any_round(tmp_path, undisturbed, monkeypatch, words, rounds):
    """Around an evaluation, and where measures, blocks and checkpoints are due; with parts as of a million rounds."""
    whole = undisturbed
    if words:
        assert cli.main(command(tmp_path / "whole", *words)) == 0
        whole = contents(tmp_path / "whole")
    folder = tmp_path / "stopped"
    for round in rounds:
        interrupt(monkeypatch, folder, round, *words)
    run = the_run(folder)
    assert list(run.glob("trace.part*"))
    stopped = Run.read(run)
    assert stopped.kept == stopped.manifest["progress"]["checkpoint"] == rounds[-1]
    assert cli.main(command(folder, *words)) == 0
    assert "checkpoint" not in Run.read(run).manifest["progress"]
    assert not list(run.glob("*part*"))
    assert Run.read(run, thorough=True).state == "finished"
    found = contents(folder)
    assert found.keys() == whole.keys()
    tables = {name: pl.read_parquet(found[name]).equals(pl.read_parquet(whole[name])) for name in whole.keys() & TABLES}
    assert tables == dict.fromkeys(tables, True)
    assert found["ranker.pt"] == whole["ranker.pt"]


def test_a_resumed_run_uses_what_its_checkpoint_records(copied, undisturbed, tmp_path):
    """Rows of parts that no checkpoint records, and files of another process, are not used."""
    run = Run.read(copied)
    assert (run.state, run.round) == ("interrupted", 40)
    assert run.trace["round"].to_list() == [*range(1, 41)] * 2
    assert run.interactions["round"].max() == 40
    saved = (copied / "checkpoint.pt").read_bytes()
    (copied / "checkpoint.pt").unlink()
    assert Run.read(copied).trace.is_empty(), "no record says which rows are sound"
    (copied / "checkpoint.pt").write_bytes(saved)
    shutil.copy(copied / "trace.part00001.parquet", copied / "trace.part00002.parquet")
    (copied / "trace.parquet").write_bytes(b"of a process that was killed before it finished")
    assert cli.main(command(tmp_path)) == 0
    assert contents(tmp_path) == undisturbed
    assert not list(copied.glob("*.part*"))


DAMAGED = [*zip(("trace", "evaluation", "blocks", "interactions"), DAMAGES, strict=True)]


@pytest.mark.parametrize(("table", "how"), DAMAGED)
def test_a_run_whose_tables_do_not_fit_starts_afresh(copied, undisturbed, tmp_path, capsys, table, how):
    """A run whose tables are not those of its checkpoint starts afresh."""
    (part,) = copied.glob(f"{table}.part*")
    DAMAGES[how](part)
    with pytest.raises((DamagedFile, OSError)):
        getattr(Run.read(copied), table)
    capsys.readouterr()
    assert cli.main(command(tmp_path)) == 0
    assert capsys.readouterr().err.startswith(f"starts afresh: {part.name} ")
    assert contents(tmp_path) == undisturbed


def test_a_run_does_not_finish_without_the_rows_it_wrote(tmp_path, monkeypatch):
    def remove_parts():
        for part in the_run(tmp_path).glob("trace.part*"):
            part.unlink()

    at_round(monkeypatch, ROUNDS - 1, remove_parts)
    assert cli.main(command(tmp_path)) == 1
    path = the_run(tmp_path)
    assert Run.read(path).state == "failed"
    expected = r"trace.part0000\d.parquet is missing, while the run was writing to it: run it again"
    assert re.fullmatch(expected, str(Run.read(path).error))
    assert not (path / "summary.json").exists()


def test_a_run_does_not_finish_without_rows_for_all_rounds(tmp_path, monkeypatch):
    record = Trace.record
    monkeypatch.setattr(Trace, "record", lambda trace, round, measures: round < 100 and record(trace, round, measures))
    assert cli.main(command(tmp_path)) == 1
    expected = rf"trace.parquet has \d+ rows, and {2 * ROUNDS} were written: run it again"
    assert re.search(expected, str(Run.read(the_run(tmp_path)).error))


def test_a_run_resumes_after_its_start_was_moved(tmp_path, monkeypatch):
    """The same command finds it below output_dir, by its id, and takes it by its content."""
    assert cli.main(command(tmp_path, "ranker=pdgd")) == 0
    source = the_run(tmp_path)
    words = command(tmp_path, "ranker=sgd_ranknet", f"start.run={source}")
    with monkeypatch.context() as patch:
        stop_at(patch, 20)
        assert cli.main(words) == 130
    (tmp_path / "archive").mkdir()
    moved = source.rename(tmp_path / "archive" / source.name)
    assert cli.main(words) == 0
    (run,) = [Run.read(path) for path in find_runs(tmp_path) if path != moved]
    assert (run.state, run.manifest["sittings"]) == ("finished", 2)


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


def fail():
    raise ZeroDivisionError("an error in a test")


def in_a_round(patch: pytest.MonkeyPatch):
    at_round(patch, 70, fail)


def at_the_second_checkpoint(patch: pytest.MonkeyPatch):
    save, calls = runner.save_checkpoint, count()
    patch.setattr(runner, "save_checkpoint", lambda *content: fail() if next(calls) else save(*content))


@pytest.mark.parametrize("fails", [in_a_round, at_the_second_checkpoint])
def test_a_failure_is_one_line_and_a_traceback_in_the_log(tmp_path, undisturbed, monkeypatch, capsys, fails):
    """At the checkpoint, it is after the tables. Then the run goes on from its last checkpoint."""
    with monkeypatch.context() as patch:
        fails(patch)
        assert cli.main(command(tmp_path)) == 1
    run = the_run(tmp_path)
    state, log = Run.read(run), run / "log.txt"
    assert state.state == "failed"
    # The code of the test stands where own code may be, whose place is named.
    assert re.fullmatch(r"ZeroDivisionError: an error in a test \(.*test_resume\.py:\d+, in fail\)", state.error)
    lines = [f"ol2r run: failed: {state.error}", f"the traceback is in {log}"]
    assert capsys.readouterr().err.splitlines() == lines
    assert re.search(r"Traceback \(most recent call last\)(.*\n)*.*in fail", log.read_text())
    assert cli.main(command(tmp_path)) == 0
    assert ": from round 51 to" in log.read_text()
    assert contents(tmp_path) == undisturbed


def failing_from(monkeypatch, call: int, number: int):
    """Let the `call`-th file that is written fail, and all later ones, by no code of the user."""
    errors = (OSError(number, os.strerror(number)) for _ in count())
    monkeypatch.setattr(os, "fsync", Mock(side_effect=chain([None] * (call - 1), errors)))


@pytest.mark.parametrize(
    ("number", "call"), [(errno.ENOSPC, 1), (errno.EIO, 2), (errno.ENOSPC, 3), (errno.EIO, 8), (errno.ENOSPC, 13)]
)
def test_a_run_that_cannot_write_says_so_in_one_line(tmp_path, undisturbed, monkeypatch, capsys, number, call):
    """And the same command goes on when the file system works again."""
    with monkeypatch.context() as patch:
        failing_from(patch, call, number)
        assert cli.main(command(tmp_path)) == 1
    error = capsys.readouterr().err
    expected = "no space is left for" if number == errno.ENOSPC else "output_dir ("
    assert error.startswith(f"ol2r run: failed: {expected}")
    assert error.endswith("or type output_dir=DIR\n")
    assert error.count("\n") == 1
    if call <= 2:  # config.yaml and run.json come first
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    else:
        assert Run.read(the_run(tmp_path)).state == "killed", "nothing could be written any more"
    assert cli.main(command(tmp_path)) == 0
    assert contents(tmp_path) == undisturbed


@pytest.mark.parametrize("keep", [False, True])
def test_what_a_kill_after_finishing_leaves_is_removed(tmp_path, keep):
    """What a kill after finishing leaves is removed, and a checkpoint that was kept on purpose stays."""
    words = command(tmp_path, f"keep_checkpoint={str(keep).lower()}")
    assert cli.main(words) == 0
    path = the_run(tmp_path)
    assert (path / "checkpoint.pt").exists() is keep
    if not keep:
        (path / "checkpoint.pt").write_bytes(b"of a killed process")
    (path / LOCK).write_text("pid 4194304 on a machine")
    assert cli.main(words) == 0
    assert (path / "checkpoint.pt").exists() is keep
    assert not (path / LOCK).exists()
