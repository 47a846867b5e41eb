"""`ol2r clean` removes exactly what is chosen, and nothing that is in use or that ol2r has not written."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.look_after.clean import REMOVABLE, files_of_runs
from ol2r_cli.run import FILES
from ol2r_cli.run.store import RunDirectory
from tests.manifests import accept_changes, manifest
from tests.moments import at_round
from tests.run.test_parts import WORDS, tally  # noqa: F401  (a fixture)

ID = "0123456789"
CONFIG = "ranker: {}\nclick: {}\ndataset: {}\nrounds: 2\n"


def make(root: Path, name: str, status: str, **files: int) -> Path:
    """A run with this status; `files` are sizes of further files, with underscores for dots."""
    run = RunDirectory(root / "letters" / f"{name}-{ID}")
    run.write_json("run.json", manifest(status, 1, 2))
    for file in ("summary.json", "trace.parquet"):
        run.write_bytes(file, b"x" * 10)
    run.write_text("config.yaml", CONFIG)
    for file, size in files.items():
        run.write_bytes(file.replace("_", "."), b"x" * size)
    if status == "finished":
        accept_changes(run.path)
    return run.path


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A run in every state that can be removed, a finished one, and one that was killed at its start."""
    root = tmp_path / "outputs"
    make(root, "finished", "finished", checkpoint_pt=3000, interactions_parquet=200)
    make(root, "interrupted", "interrupted", checkpoint_pt=70, interactions_parquet=5)
    make(root, "killed", "running")
    make(root, "failed", "failed")
    (make(root, "torn", "finished") / "summary.json").unlink()
    (make(root, "unreadable", "finished") / "run.json").write_text("{")
    begun = root / "letters" / f"begun-{ID}"
    begun.mkdir()
    (begun / ".config.yaml.0123456789abcdef.partial").write_bytes(b"x" * 30)
    return root


@pytest.fixture
def clean(capsys: pytest.CaptureFixture[str]):
    """Runs the command; returns what it prints."""

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert cli.main(["clean", *map(str, arguments)]) == code
        return capsys.readouterr()

    return run


def names(root: Path) -> set[str]:
    return {path.name.removesuffix(f"-{ID}") for path in (root / "letters").iterdir()}


def test_files_of_the_user_with_names_of_ours_are_kept(tmp_path, clean):
    """Folders and files of the user with names of ours are kept."""
    folder = tmp_path / f"myrun-{ID}"
    folder.mkdir()
    for name, content in {
        "checkpoint.pt": "weights",
        "config.yaml": "model: mine",
        "log.txt": "lines",
        "run.json": '{"status": "finished", "id": 3}',
        ".lock": "of another program",
    }.items():
        (folder / name).write_text(content)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for state in REMOVABLE:
        clean(tmp_path, "--state", state, "--logs", "--yes")
    (folder / "run.json").write_text("{")
    before["run.json"] = b"{"
    clean(tmp_path, "--state", "damaged", "--yes")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    for path in folder.iterdir():
        if path.name != ".lock":
            path.unlink()
    clean(tmp_path, "--state", "damaged", "--yes")
    assert (folder / ".lock").read_text() == "of another program"
    (folder / ".lock").write_text("pid 12 on somewhere")
    os.utime(folder / ".lock", (0, 0))
    clean(tmp_path, "--state", "damaged", "--yes")
    assert not folder.exists(), "a run that was killed before its first file"
    folder.mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    clean(tmp_path, "--state", "damaged", "--yes")
    assert not folder.exists(), "with this configuration it is a run of which a part is left"


def test_files_behind_links_are_kept(outputs, tmp_path, clean):
    elsewhere = tmp_path / "elsewhere" / "letters" / f"failed-{ID}.log"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("of another project")
    (outputs / ".sweep").symlink_to(tmp_path / "elsewhere")
    (outputs / "more" / ".sweep").mkdir(parents=True)
    (outputs / "more" / ".sweep" / "letters").symlink_to(elsewhere.parent)
    (outputs / "ours" / ".sweep" / "letters").mkdir(parents=True)
    log = outputs / "ours" / ".sweep" / "letters" / f"failed-{ID}.log"
    log.write_text("of a job")
    clean(outputs, "--logs", "--yes")
    assert elsewhere.read_text() == "of another project"
    assert not log.exists()


def test_sizes_are_shown_and_nothing_is_removed_by_default(outputs, clean):
    """Sizes by kind are shown and nothing is removed by default."""
    out, _ = clean(outputs)
    sizes = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in out.split("\n\n")[0].splitlines()[2:]}
    run_size = {files.run.path.name: files.size for files in files_of_runs(outputs)}
    assert sizes["interrupted runs"] == ["1", str(run_size[f"interrupted-{ID}"]), "B"]
    assert sizes["damaged runs"][0] == "3"
    assert sizes["checkpoints of finished runs"] == ["1", "3.0", "kB"]
    assert sizes["checkpoints to go on from"] == ["1", "70", "B"]
    assert sizes["interactions"] == ["2", "205", "B"]
    assert sizes["temporaries"] == ["1", "30", "B"]
    assert len(names(outputs)) == 7
    assert "nothing was removed" in out, "without a terminal there is no answer"


def test_whole_runs_are_removed_by_state_and_age(outputs, clean):
    """Whole runs are removed by their state and age with empty folders."""
    two_days = time.time() - 2 * 24 * 3600 - 60
    for path in (outputs / "letters" / f"failed-{ID}").iterdir():
        os.utime(path, (two_days, two_days))
    left = {"finished", "interrupted", "killed", "failed", "torn", "unreadable", "begun"}
    for states, gone in (
        ("failed interrupted --older-than 3d", set()),
        ("failed interrupted --older-than 48h", {"failed"}),
        ("interrupted killed", {"interrupted", "killed", "begun"}),  # and temporary files
        ("damaged", {"torn", "unreadable"}),
    ):
        left -= gone
        listed = list(files_of_runs(outputs))
        sizes = [files.size for files in listed if files.run.path.name.removesuffix(f"-{ID}") in gone]
        out, _ = clean(outputs, "--state", *states.split(), "--yes")
        assert names(outputs) == left, states
        assert not gone or f"freed {sum(sizes)} B: " in out
    make(outputs / "other", "failed", "failed")
    clean(outputs / "other", "--state", "failed", "--yes")
    assert list((outputs / "other").iterdir()) == [], "the named folder stays"


def test_a_finished_run_and_files_of_others_are_kept(outputs, clean):
    finished, failed = (outputs / "letters" / f"{name}-{ID}" for name in ("finished", "failed"))
    (failed / "note.txt").write_text("why it failed")
    foreign = outputs / "letters" / "theirs"
    foreign.mkdir()
    for name in FILES:
        (foreign / name).write_text("{}")
    before = {path.name for path in finished.iterdir()}
    clean(outputs, "--state", "failed", "damaged", "--yes")
    assert {path.name for path in finished.iterdir()} == before
    assert [path.name for path in failed.iterdir()] == ["note.txt"]
    assert {path.name for path in foreign.iterdir()} == set(FILES)


def test_what_is_running_or_goes_on_during_the_question_is_kept(outputs, clean, monkeypatch, typed):
    running, folder = outputs / "letters" / f"killed-{ID}", outputs / ".sweep" / "letters"
    folder.mkdir(parents=True)
    for name in (f"failed-{ID}.log", f"killed-{ID}.log", "notes.log"):
        (folder / name).write_text("Traceback")
    with RunDirectory(running), RunDirectory(outputs / "letters" / f"failed-{ID}") as failed:
        (running / ".trace.parquet.0123456789abcdef.partial").write_text("being written")
        files = {path.name for path in running.iterdir()}
        out, err = clean(outputs, "--state", "failed", "killed", "--yes")
        assert {path.name for path in failed.path.iterdir()} >= {"run.json", ".lock"}
        assert {path.name for path in running.iterdir()} == files
        assert "running runs" in out
        assert err == f"ol2r clean: left: {failed.path} (it is running)\n"
    with RunDirectory(running):
        assert "log of a sweep" in clean(outputs, "--logs", "--yes")[0]
    assert {path.name for path in folder.iterdir()} == {f"killed-{ID}.log", "notes.log"}
    run = RunDirectory(outputs / "letters" / f"interrupted-{ID}")
    monkeypatch.setattr("builtins.input", lambda _: run.write_json("run.json", manifest("finished", 1, 2)) or "y")
    typed()
    _, err = clean(outputs, "--state", "interrupted")
    assert err == f"ol2r clean: left: {run.path} (it has gone on since)\n"
    assert (run.path / "checkpoint.pt").exists()


def test_the_user_must_confirm_or_without_a_terminal_type_yes(outputs, clean, typed):
    before = sorted(outputs.rglob("*"))
    _, err = clean(outputs, "--state", "failed", code=2)
    assert err == "ol2r clean: nothing was removed, because there is no terminal to ask: type --yes to remove it\n"
    assert sorted(outputs.rglob("*")) == before
    for answer, removed in ("", False), ("n", False), ("y", True):
        typed(answer)
        clean(outputs, "--state", "failed")
        assert (outputs / "letters" / f"failed-{ID}").exists() != removed


def test_bad_arguments_are_one_line(tmp_path, clean):
    for arguments, message in [
        ([tmp_path / "no"], f"DIR must be a folder with runs, got {tmp_path / 'no'}, which does not exist"),
        ([tmp_path, "--older-than", "3"], "--older-than must be hours, days or weeks such as 12h, 30d or 8w, got 3"),
        ([tmp_path, "b"], "there is no place for b: see `ol2r clean --help`"),
    ]:
        assert clean(*arguments, code=2)[1] == f"ol2r clean: {message}\n"


@pytest.mark.usefixtures("tally")
def test_what_a_plugin_records_is_removed_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        at_round(patch, 9, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert cli.main([*WORDS, f"output_dir={tmp_path}"]) == 130
    assert [*tmp_path.rglob("tally.part*.parquet")]
    assert cli.main(["clean", str(tmp_path), "--state", "interrupted", "--yes"]) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
