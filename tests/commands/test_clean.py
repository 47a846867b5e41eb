"""`ol2r clean`: what is removed is exactly what was chosen, and nothing that is in use or somebody else's."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.clean.inventory import STATES, runs
from ol2r_cli.commands.continuations import continuations
from ol2r_cli.results.directory import FILES, RunDirectory

MANIFEST = {"id": "0" * 10, "choices": {}, "progress": {"round": 1, "rounds": 2}, "results_version": 2}
ID = "0123456789"


def make(root: Path, name: str, status: str, **files: int) -> Path:
    """A run of this status, with files of so many bytes beside its usual ones; underscores stand for dots."""
    run = RunDirectory(root / "letters" / f"{name}-{ID}")
    run.write_json("run.json", {**MANIFEST, "status": status})
    for file in ("config.yaml", "summary.json", "trace.parquet"):
        run.write_bytes(file, b"x" * 10)
    for file, size in files.items():
        run.write_bytes(file.replace("_", "."), b"x" * size)
    return run.path


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A run in every state, one of them running (its lock is held until the end)."""
    root = tmp_path / "outputs"
    make(root, "finished", "finished", checkpoint_pt=3000, interactions_parquet=200)
    make(root, "interrupted", "interrupted", checkpoint_pt=70, interactions_parquet=5)
    make(root, "killed", "running")
    make(root, "failed", "failed")
    (make(root, "torn", "finished") / "summary.json").unlink()
    (make(root, "unreadable", "finished") / "run.json").write_text("{")
    begun = root / "letters" / f"begun-{ID}"
    begun.mkdir()
    (begun / ".config.yaml.partial").write_bytes(b"x" * 30)
    return root


def clean(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert cli.main(["clean", *map(str, arguments)]) == code
    return capsys.readouterr()


def names(root: Path) -> set[str]:
    return {path.name.removesuffix(f"-{ID}") for path in (root / "letters").iterdir()}


def test_a_folder_of_ones_own_with_a_name_like_that_of_a_run_is_left_alone(tmp_path, capsys):
    own = tmp_path / "analysis-2026112117"
    own.mkdir()
    for name in "config.yaml", "log.txt", "trace.parquet":
        (own / name).write_text("mine: true")
    clean(capsys, tmp_path, "--state", "damaged", "--yes")
    assert {path.name for path in own.iterdir()} == {"config.yaml", "log.txt", "trace.parquet"}
    (own / "config.yaml").write_text("ranker: {}\nclick: {}\ndataset: {}\nrounds: 5\n")
    clean(capsys, tmp_path, "--state", "damaged", "--yes")
    assert not own.exists(), "this was a run, cleared half"


def test_sizes_by_kind_come_first_and_nothing_is_removed_unasked(outputs, capsys):
    out, _ = clean(capsys, outputs)
    told = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in out.split("\n\n")[0].splitlines()[2:]}
    size = {run.path.name: run.size for run in runs(outputs)}
    assert told["interrupted runs"] == ["1", str(size[f"interrupted-{ID}"]), "B"]
    assert told["damaged runs"][0] == "3"
    assert told["checkpoints of finished runs"] == ["1", "3.0", "kB"]
    assert told["checkpoints to go on from"] == ["1", "70", "B"]
    assert told["interactions"] == ["2", "205", "B"]
    assert told["temporaries"] == ["1", "30", "B"]
    assert len(names(outputs)) == 7
    assert "nothing was removed" in out, "nobody was there to agree that temporaries go"


@pytest.mark.parametrize(
    ("states", "left"),
    [
        (["failed"], {"finished", "interrupted", "killed", "torn", "unreadable"}),
        (["interrupted", "killed"], {"finished", "failed", "torn", "unreadable"}),
        (["damaged"], {"finished", "interrupted", "killed", "failed"}),
    ],
)
def test_whole_runs_by_their_state(outputs, capsys, states: list[str], left: set[str]):
    sizes = sum(run.size for run in runs(outputs) if run.path.name.removesuffix(f"-{ID}") not in left)
    out, _ = clean(capsys, outputs, "--state", *states, "--yes")
    assert names(outputs) == left, "a folder that held a temporary only goes, too"
    assert f"freed {sizes} B: " in out


def test_checkpoints_and_interactions_of_finished_runs_only(outputs, capsys):
    clean(capsys, outputs, "--checkpoints", "--interactions", "--state", "failed", "--yes")
    finished, interrupted = (outputs / "letters" / f"{name}-{ID}" for name in ("finished", "interrupted"))
    kept = {"run.json", "config.yaml", "summary.json", "trace.parquet"}
    assert {path.name for path in finished.iterdir()} == kept
    assert {path.name for path in interrupted.iterdir()} == kept | {"checkpoint.pt", "interactions.parquet"}
    assert not (outputs / "letters" / f"failed-{ID}").exists()


def test_a_run_that_is_running_stays_whatever_its_manifest_says(outputs, capsys):
    running = outputs / "letters" / f"killed-{ID}"
    with RunDirectory(running), RunDirectory(outputs / "letters" / f"failed-{ID}") as failed:
        (running / ".trace.parquet.partial").write_text("being written")
        out, err = clean(capsys, outputs, "--state", "failed", "killed", "--yes")
        assert {path.name for path in failed.path.iterdir()} >= {"run.json", ".lock"}
    assert "running runs" in out
    assert err == f"ol2r clean: left: {failed.path} (it is running)\n"
    assert {path.name for path in running.iterdir()} >= {"run.json", "trace.parquet", ".trace.parquet.partial"}


def test_a_run_that_has_gone_on_since_it_was_looked_at_stays(outputs, capsys, monkeypatch):
    run = RunDirectory(outputs / "letters" / f"interrupted-{ID}")

    def meanwhile(_: str) -> str:
        run.write_json("run.json", {**MANIFEST, "status": "finished"})
        return "y"

    monkeypatch.setattr("builtins.input", meanwhile)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    _, err = clean(capsys, outputs, "--state", "interrupted")
    assert err == f"ol2r clean: left: {run.path} (it has gone on since)\n"
    assert (run.path / "checkpoint.pt").exists()


@pytest.mark.parametrize(("answer", "gone"), [("y", True), ("yes", True), ("", False), ("n", False)])
def test_it_asks(outputs, capsys, monkeypatch, answer: str, gone: bool):
    monkeypatch.setattr("builtins.input", lambda _: answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    clean(capsys, outputs, "--state", "failed")
    assert (outputs / "letters" / f"failed-{ID}").exists() != gone


def test_without_a_terminal_it_takes_yes(outputs, capsys):
    before = sorted(outputs.rglob("*"))
    _, err = clean(capsys, outputs, "--state", "failed", code=2)
    assert err == "ol2r clean: nothing was removed, since nobody can be asked: type --yes to remove it\n"
    assert sorted(outputs.rglob("*")) == before


def test_files_of_others_stay(outputs, capsys):
    note = outputs / "letters" / f"failed-{ID}" / "note.txt"
    note.write_text("why it failed")
    foreign = outputs / "letters" / "theirs"
    foreign.mkdir()
    for name in FILES:
        (foreign / name).write_text("{}")
    clean(capsys, outputs, "--state", "failed", "damaged", "--yes")
    assert [path.name for path in note.parent.iterdir()] == ["note.txt"]
    assert {path.name for path in foreign.iterdir()} == set(FILES)


def test_folders_that_become_empty_go_but_not_the_one_that_was_named(tmp_path, capsys):
    make(tmp_path / "outputs", "failed", "failed")
    clean(capsys, tmp_path / "outputs", "--state", "failed", "--yes")
    assert list((tmp_path / "outputs").iterdir()) == []


def test_only_what_is_older(outputs, capsys):
    old = outputs / "letters" / f"failed-{ID}"
    two_days = time.time() - 2 * 24 * 3600 - 60
    for path in old.iterdir():
        os.utime(path, (two_days, two_days))
    clean(capsys, outputs, "--state", "failed", "interrupted", "--older-than", "3d", "--yes")
    assert {"failed", "interrupted"} <= names(outputs)
    clean(capsys, outputs, "--state", "failed", "interrupted", "--older-than", "48h", "--yes")
    assert "interrupted" in names(outputs)
    assert "failed" not in names(outputs)


def test_logs_of_sweeps_but_for_runs_that_are_running(outputs, capsys):
    folder = outputs / ".sweep" / "letters"
    folder.mkdir(parents=True)
    for name in (f"failed-{ID}.log", f"killed-{ID}.log", "notes.log"):
        (folder / name).write_text("Traceback")
    with RunDirectory(outputs / "letters" / f"killed-{ID}"):
        out, _ = clean(capsys, outputs, "--logs", "--yes")
    assert {path.name for path in folder.iterdir()} == {f"killed-{ID}.log", "notes.log"}
    assert "log of a sweep" in out


def test_the_cache_but_for_what_is_being_written_and_what_is_not_of_it(tmp_path, capsys):
    import fcntl

    cache, key = tmp_path / "cache", "a" * 24
    for name in (key, "b" * 24, "c" * 24 + ".partial", "mine"):
        (cache / name).mkdir(parents=True)
        (cache / name / "features.npy").write_bytes(b"x" * 100)
    for name in ("sources/" + "d" * 24 + ".json", "offline/" + "e" * 64 + ".npy", "offline/mine.npy"):
        (cache / name).parent.mkdir(exist_ok=True)
        (cache / name).write_bytes(b"x" * 10)
    with (cache / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out, err = clean(capsys, "--cache", "--cache-dir", cache, "--yes")
    assert err == f"ol2r clean: left: {cache / key} (it is being written)\n"
    assert "freed 220 B: 4 of 5 removed" in out
    left = {path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.suffix != ".lock"}
    assert left == {key, f"{key}/features.npy", "mine", "mine/features.npy", "sources", "offline", "offline/mine.npy"}


def test_what_is_refused(tmp_path, capsys):
    for arguments, told in [
        ([tmp_path / "no"], f"DIR must be a folder with runs, got {tmp_path / 'no'}, which does not exist"),
        ([tmp_path, "--older-than", "3"], "--older-than must be hours, days or weeks such as 12h, 30d or 8w, got 3"),
    ]:
        _, err = clean(capsys, *arguments, code=2)
        assert err == f"ol2r clean: {told}\n"


def test_completion_knows_states_and_options(capsys):
    assert continuations("ol2r clean --state ") == [f"{state} " for state in STATES]
    with pytest.raises(SystemExit):
        cli.main(["clean", "--help"])
    told = set(re.findall(r"(?<=  )--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert {word.strip() for word in continuations("ol2r clean --")} == told
