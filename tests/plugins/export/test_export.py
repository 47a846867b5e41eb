"""`ol2r export`: which runs it takes, where it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys

import polars as pl
import pytest

from ol2r_cli import cli
from tests.finished import elsewhere, refused, text


def exported(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    capsys.readouterr()
    assert cli.main(["export", *map(str, arguments)]) == 0
    return capsys.readouterr()


def test_runs_of_a_folder_become_one_table(runs, tmp_path, capsys):
    """Those that cannot are reported, and a copy is there once."""
    outputs, parquet, csv = tmp_path / "outputs", tmp_path / "new" / "q.parquet", tmp_path / "q.csv"
    for name in ("linear", "ties", "oracle"):  # of which the last has no trained ranker
        shutil.copytree(runs[name], outputs / "letor" / runs[name].name)
    shutil.copytree(runs["ties"], outputs / "before" / runs["ties"].name)
    out, err = exported(capsys, outputs, "--to", "per-query", "--out", parquet)
    assert out == f"written: {parquet} (52 rows of 2 runs)\n"  # 13 queries, 2 seeds
    assert err.startswith("ol2r export: left out: RUN must be of a ranker that can score new queries, got ")
    assert err.endswith("ranker=oracle cannot\n")
    exported(capsys, outputs, "--to", "per-query", "--out", csv)
    table = pl.read_parquet(parquet)
    assert set(table["run"]) == {runs[name].name[-10:] for name in ("linear", "ties")}
    of_csv = pl.read_csv(csv, schema_overrides={"run": pl.String, "query_id": pl.String})
    assert of_csv.equals(table.cast({"documents": pl.Int64, "relevant": pl.Int64}))


def test_a_run_becomes_a_folder_and_several_one_each(runs, tmp_path, capsys):
    one, two, both = tmp_path / "one", tmp_path / "two", [runs[name] for name in ("linear", "ties")]
    out, _ = exported(capsys, both[0], "--to", "trec", "--out", one)
    assert out == f"written: {one} (seed-4.run, seed-5.run, qrels.txt, qrels-exponential.txt)\n"
    exported(capsys, *both, "--to", "trec", "--out", two)
    assert {path.parent.name for path in two.glob("*/qrels.txt")} == {run.name for run in both}
    assert (two / both[0].name / "seed-4.run").read_bytes() == (one / "seed-4.run").read_bytes()


def test_moved_data_need_an_option_and_must_be_the_same(runs, tmp_path, capsys):
    run, moved, out = elsewhere(runs, "linear", tmp_path / "run"), tmp_path / "moved", tmp_path / "q.csv"
    message = refused(capsys, "export", run, "--to", "per-query", "--out", out)
    assert message.startswith(f"the data of {run} cannot be read: type --data FOLDER (dataset.path must be a folder")
    shutil.copytree(runs["data"], moved)
    exported(capsys, run, "--to", "per-query", "--out", out, "--data", moved)
    exported_text = out.read_text()
    exported(capsys, runs["linear"], "--to", "per-query", "--out", out)
    assert out.read_text() == exported_text
    (moved / "test.txt").write_text(text(13, 8))
    message = refused(capsys, "export", run, "--to", "per-query", "--out", out, "--data", moved)
    assert message == f"the data of {run} are others than when it ran: type --data FOLDER, or run it again"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--to per-query --out x.txt", "--out must end in .csv or .parquet, got x.txt"),
        ("--to clicks --out x.json", "--out must end in .parquet, .csv or .txt, got x.json"),
        (
            "--to clicks --out x.csv --split test",
            "--split does not go with --to clicks, as users click in training: leave it out",
        ),
        ("--to tensorboard --out x --split test", "--split does not go with --to tensorboard: leave it out"),
        ("--to trec --out x --points 3", "--points does not go with --to trec: leave it out"),
        (
            "--to trec --out x --team=",
            "--team must be the name of a team, got nothing: leave it out for files without metadata",
        ),
        (
            "--to trec --out {run}/run.json",
            "--out must be a place that can be written, got {run}/run.json (File exists: {run}/run.json)",
        ),
    ],
)
def test_wrong_arguments_are_refused_with_one_line(runs, capsys, words, told):
    run = runs["linear"]
    assert refused(capsys, "export", run, *words.format(run=run).split()) == told.format(run=run)


def test_a_run_that_is_not_finished_is_refused(runs, tmp_path, capsys):
    run = shutil.copytree(runs["linear"], tmp_path / "run")
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    told = f"RUN must be a finished run, got {run}, which is interrupted: type {manifest['command']}"
    assert refused(capsys, "export", run, "--to", "trec", "--out", "x") == told


def test_tensorboard_needs_its_package(runs, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    told = "--to tensorboard needs the package tensorboard: type pip install 'ol2r[tensorboard]'"
    assert refused(capsys, "export", runs["linear"], "--to", "tensorboard", "--out", "x") == told


def test_a_curve_has_a_point(runs, capsys):
    pytest.importorskip("tensorboard")
    words = [runs["linear"], "--to", "tensorboard", "--out", "x", "--points", 0]
    assert refused(capsys, "export", *words) == "--points must be 1 or more, got 0"
