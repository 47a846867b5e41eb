"""`ol2r clean` removes exactly what is chosen, and nothing that is in use or that ol2r has not written."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli import cli
from ol2r_cli.dataset.cache import Cache
from ol2r_cli.files import Lock
from ol2r_cli.plugins.look_after.removal import REMOVABLE, files_of_runs
from ol2r_cli.run import FILES
from ol2r_cli.run.store import RunDirectory
from tests.manifests import accept_changes, manifest

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
        clean(tmp_path, "--state", state, "--checkpoints", "--interactions", "--logs", "--yes")
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


def test_foreign_files_in_a_cache_and_behind_links_are_kept(outputs, tmp_path, clean):
    """What is not ours in a cache or lies behind links is kept."""
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    Cache(cache).open("a" * 24, lambda folder: np.save(folder / "features.npy", np.zeros(3)))
    np.save(cache / ("a" * 24) / "mine.npy", np.ones(3))
    links = {f"letters/failed-{ID}.log": outputs / ".sweep", "e" * 64 + ".npy": cache / "offline"}
    links |= {"d" * 24 + ".json": cache / "sources", "features.npy": cache / ("c" * 24)}
    for number, (name, link) in enumerate(links.items()):
        file = elsewhere / str(number) / name
        file.parent.mkdir(parents=True)
        file.write_text("of another project")
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(elsewhere / str(number))
    (outputs / "more" / ".sweep").mkdir(parents=True)
    (outputs / "more" / ".sweep" / "letters").symlink_to(elsewhere / "0" / "letters")
    _, err = clean(outputs, "--logs", "--cache", "--cache-dir", cache, "--yes")
    assert err == f"ol2r clean: left: {cache / ('a' * 24)} (it contains mine.npy, which ol2r has not written)\n"
    assert len([path for path in elsewhere.rglob("*") if path.is_file()]) == len(links)
    (cache / ("a" * 24) / "mine.npy").unlink()
    clean("--cache", "--cache-dir", cache, "--yes")
    assert not (cache / ("a" * 24)).exists()


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


def test_only_finished_runs_lose_checkpoints_and_interactions(outputs, clean):
    """Only finished runs lose checkpoints and interactions and other files stay."""
    finished, interrupted, failed = (outputs / "letters" / f"{n}-{ID}" for n in ("finished", "interrupted", "failed"))
    (finished / "trace.part00001.parquet").touch()  # of a process killed between the last round and cleaning up
    (failed / "note.txt").write_text("why it failed")
    foreign = outputs / "letters" / "theirs"
    foreign.mkdir()
    for name in FILES:
        (foreign / name).write_text("{}")
    clean(outputs, "--checkpoints", "--interactions", "--state", "failed", "damaged", "--yes")
    kept = {"run.json", "config.yaml", "summary.json", "trace.parquet"}
    assert {path.name for path in finished.iterdir()} == kept
    assert {path.name for path in interrupted.iterdir()} == kept | {"checkpoint.pt", "interactions.parquet"}
    assert [path.name for path in failed.iterdir()] == ["note.txt"]
    assert {path.name for path in foreign.iterdir()} == set(FILES)


def test_what_is_running_or_goes_on_during_the_question_is_kept(outputs, clean, monkeypatch):
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
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    _, err = clean(outputs, "--state", "interrupted")
    assert err == f"ol2r clean: left: {run.path} (it has gone on since)\n"
    assert (run.path / "checkpoint.pt").exists()


def test_the_user_must_confirm_or_without_a_terminal_type_yes(outputs, clean, monkeypatch):
    before = sorted(outputs.rglob("*"))
    _, err = clean(outputs, "--state", "failed", code=2)
    assert err == "ol2r clean: nothing was removed, because there is no terminal to ask: type --yes to remove it\n"
    assert sorted(outputs.rglob("*")) == before
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, removed in ("", False), ("n", False), ("y", True):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        clean(outputs, "--state", "failed")
        assert (outputs / "letters" / f"failed-{ID}").exists() != removed


def test_the_cache_is_removed_except_what_is_being_written(tmp_path, clean):
    """The cache is removed except entries that are being written and other files."""
    cache = tmp_path / "cache"
    key = "a" * 24
    for name in (key, "b" * 24, "c" * 24 + f".{16 * '0'}.partial", "mine", "offline/" + "f" * 64):
        (cache / name).mkdir(parents=True)
        (cache / name / "features.npy").write_bytes(b"x" * 100)
    for name in ("sources/" + "d" * 24 + ".json", "offline/mine.npy"):
        (cache / name).parent.mkdir(exist_ok=True)
        (cache / name).write_bytes(b"x" * 10)
    with Lock(cache / f"{key}.lock"):
        out, err = clean("--cache", "--cache-dir", cache, "--yes")
    assert err == f"ol2r clean: left: {cache / key} (it is being written)\n"
    assert "freed 310 B: 4 of 5 removed" in out
    left = {path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.suffix != ".lock"}
    assert left == {key, f"{key}/features.npy", "mine", "mine/features.npy", "sources", "offline", "offline/mine.npy"}


def test_bad_arguments_are_one_line(tmp_path, clean):
    for arguments, message in [
        ([tmp_path / "no"], f"DIR must be a folder with runs, got {tmp_path / 'no'}, which does not exist"),
        ([tmp_path, "--older-than", "3"], "--older-than must be hours, days or weeks such as 12h, 30d or 8w, got 3"),
        ([tmp_path, "b"], "there is no place for b: see `ol2r clean --help`"),
    ]:
        assert clean(*arguments, code=2)[1] == f"ol2r clean: {message}\n"
