"""`ol2r clean` removes exactly what is chosen, and nothing that is in use or that ol2r has not written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.look_after.clean import REMOVABLE, files_of_runs
from ol2r_cli.run import FILES
from ol2r_cli.run.store import RunDirectory
from tests import cases
from tests.finished import refused
from tests.manifests import accept_changes, manifest
from tests.moments import stop_at
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
def outputs(tmp_path) -> Path:
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
def clean(capsys):
    """Runs the command; returns what it prints."""

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert cli.main(["clean", *map(str, arguments)]) == code
        return capsys.readouterr()

    return run


def names(root: Path) -> set[str]:
    return {path.name.removesuffix(f"-{ID}") for path in (root / "letters").iterdir()}


OF_USER = {
    "checkpoint.pt": "weights",
    "config.yaml": "model: mine",
    "log.txt": "lines",
    "run.json": '{"status": "finished", "id": 3}',
    ".lock": "of another program",
}


@pytest.mark.parametrize("manifest", [OF_USER["run.json"], "{"], ids=["of another program", "not JSON"])
def test_files_of_the_user_with_names_of_ours_are_kept(tmp_path, clean, manifest):
    folder, content = tmp_path / f"myrun-{ID}", OF_USER | {"run.json": manifest}
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_text(text)
    for state in REMOVABLE:
        clean(tmp_path, "--state", state, "--logs", "--yes")
    assert {path.name: path.read_text() for path in folder.iterdir()} == content


@pytest.mark.parametrize(
    ("file", "content", "kept"),
    [
        (".lock", OF_USER[".lock"], True),
        (".lock", "pid 12 on somewhere", False),  # of a run that was killed before its first file
        ("config.yaml", OF_USER["config.yaml"], True),
        ("config.yaml", CONFIG, False),  # of a run of which a part is left
    ],
)
def test_one_file_is_removed_where_it_is_of_a_run(tmp_path, clean, file, content, kept):
    path = tmp_path / f"myrun-{ID}" / file
    path.parent.mkdir()
    path.write_text(content)
    os.utime(path, (0, 0))
    clean(tmp_path, "--state", "damaged", "--yes")
    assert (path.exists(), path.parent.exists()) == (kept, kept)


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
    out, _ = clean(outputs)
    sizes = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in out.split("\n\n")[0].splitlines()[2:]}
    (interrupted,) = (files.size for files in files_of_runs(outputs) if files.run.path.name == f"interrupted-{ID}")
    expected = {
        "interrupted runs": ["1", f"{interrupted}", "B"],
        "checkpoints of finished runs": ["1", "3.0", "kB"],
        "checkpoints to go on from": ["1", "70", "B"],
        "interactions": ["2", "205", "B"],
        "temporaries": ["1", "30", "B"],
    }
    assert {name: sizes[name] for name in expected} == expected
    assert sizes["damaged runs"][0] == "3"
    assert len(names(outputs)) == 7
    assert "nothing was removed" in out, "without a terminal there is no answer"


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ("failed interrupted --older-than 3d", set()),
        ("failed interrupted --older-than 48h", {"failed"}),
        ("interrupted killed", {"interrupted", "killed", "begun"}),  # and temporary files
        ("damaged", {"torn", "unreadable", "begun"}),
    ],
)
def test_whole_runs_are_removed_by_state_and_age(outputs, clean, words, gone):
    two_days = time.time() - 2 * 24 * 3600 - 60
    for path in (outputs / "letters" / f"failed-{ID}").iterdir():
        os.utime(path, (two_days, two_days))
    left = names(outputs) - gone
    sizes = {files.run.path.name.removesuffix(f"-{ID}"): files.size for files in files_of_runs(outputs)}
    out, _ = clean(outputs, "--state", *words.split(), "--yes")
    assert names(outputs) == left
    assert not gone or f"freed {sum(sizes[name] for name in gone)} B: " in out


def test_empty_folders_are_removed_but_for_the_named_one(tmp_path, clean):
    make(tmp_path, "failed", "failed")
    clean(tmp_path, "--state", "failed", "--yes")
    assert tmp_path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_and_files_of_others_are_kept(outputs, clean):
    finished, failed, foreign = (outputs / "letters" / name for name in (f"finished-{ID}", f"failed-{ID}", "theirs"))
    (failed / "note.txt").write_text("why it failed")
    foreign.mkdir()
    for name in FILES:
        (foreign / name).write_text("{}")
    kept = {*finished.iterdir(), *foreign.iterdir(), failed / "note.txt"}
    clean(outputs, "--state", "failed", "damaged", "--yes")
    assert {path for folder in (finished, failed, foreign) for path in folder.iterdir()} == kept


def test_what_is_running_is_kept(outputs, clean):
    """As a killed run is that goes on, and a failed one that is run again."""
    running, failed = (outputs / "letters" / f"{name}-{ID}" for name in ("killed", "failed"))
    with RunDirectory(running), RunDirectory(failed):
        (running / ".trace.parquet.0123456789abcdef.partial").write_text("being written")
        files = {*running.iterdir(), failed / "run.json", failed / ".lock"}
        out, err = clean(outputs, "--state", "failed", "killed", "--yes")
        assert files <= {*running.iterdir(), *failed.iterdir()}
    assert "running runs" in out
    assert err == f"ol2r clean: left: {failed} (it is running)\n"


def test_logs_of_sweeps_are_removed_but_of_what_is_running(outputs, clean):
    folder = outputs / ".sweep" / "letters"
    folder.mkdir(parents=True)
    for name in (f"failed-{ID}.log", f"killed-{ID}.log", "notes.log"):
        (folder / name).write_text("Traceback")
    with RunDirectory(outputs / "letters" / f"killed-{ID}"):
        assert "log of a sweep" in clean(outputs, "--logs", "--yes")[0]
    assert {path.name for path in folder.iterdir()} == {f"killed-{ID}.log", "notes.log"}


def test_what_goes_on_during_the_question_is_kept(outputs, clean, monkeypatch, typed):
    run = RunDirectory(outputs / "letters" / f"interrupted-{ID}")
    monkeypatch.setattr("builtins.input", lambda _: run.write_json("run.json", manifest("finished", 1, 2)) or "y")
    typed()
    _, err = clean(outputs, "--state", "interrupted")
    assert err == f"ol2r clean: left: {run.path} (it has gone on since)\n"
    assert (run.path / "checkpoint.pt").exists()


def test_without_a_terminal_the_user_must_type_yes(outputs, clean):
    before = sorted(outputs.rglob("*"))
    _, err = clean(outputs, "--state", "failed", code=2)
    assert err == "ol2r clean: nothing was removed, because there is no terminal to ask: type --yes to remove it\n"
    assert sorted(outputs.rglob("*")) == before


@pytest.mark.parametrize(("answer", "kept"), [("", True), ("n", True), ("y", False)])
def test_the_user_must_confirm(outputs, clean, typed, answer, kept):
    typed(answer)
    clean(outputs, "--state", "failed")
    assert (outputs / "letters" / f"failed-{ID}").exists() == kept


MISTAKES = """
{here}/no | DIR must be a folder with runs, got {here}/no, which does not exist
{here} --older-than 3 | --older-than must be hours, days or weeks such as 12h, 30d or 8w, got 3
{here} b | there is no place for b: see `ol2r clean --help`
"""


@pytest.mark.parametrize(("words", "told"), cases.lines(MISTAKES))
def test_bad_arguments_are_one_line(tmp_path, capsys, words, told):
    assert refused(capsys, "clean", *words.format(here=tmp_path).split()) == told.format(here=tmp_path)


@pytest.mark.usefixtures("tally")
def test_what_a_plugin_records_is_removed_with_the_run(tmp_path, monkeypatch):
    stop_at(monkeypatch, 9)
    assert cli.main([*WORDS, f"output_dir={tmp_path}"]) == 130
    assert [*tmp_path.rglob("tally.part*.parquet")]
    assert cli.main(["clean", str(tmp_path), "--state", "interrupted", "--yes"]) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
