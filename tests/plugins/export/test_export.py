"""`ol2r export`: which runs it takes, where it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys

import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.plugins.export import export
from tests.finished import refused, text
from tests.manifests import accept_changes


def exported(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    capsys.readouterr()
    assert cli.main(["export", *map(str, arguments)]) == 0
    return capsys.readouterr()


def test_runs_become_one_table_or_a_folder_each(runs, tmp_path, capsys):
    """Runs of a folder are one table, or a folder each, and others are reported."""
    outputs, parquet, csv = tmp_path / "outputs", tmp_path / "new" / "q.parquet", tmp_path / "q.csv"
    for name in ("linear", "ties", "oracle"):  # of which the last has no trained ranker
        shutil.copytree(runs[name], outputs / "letor" / runs[name].name)
    out, err = exported(capsys, outputs, "--to", "per-query", "--out", parquet)
    assert out == f"written: {parquet} (52 rows of 2 runs)\n"  # 13 queries, 2 seeds
    assert err.startswith("ol2r export: left out: RUN must be of a ranker that can score new queries, got ")
    assert err.endswith("ranker=oracle cannot\n")
    exported(capsys, outputs, "--to", "per-query", "--out", csv)
    table = pl.read_parquet(parquet)
    assert set(table["run"]) == {runs[name].name[-10:] for name in ("linear", "ties")}
    of_csv = pl.read_csv(csv, schema_overrides={"run": pl.String, "query_id": pl.String})
    assert of_csv.equals(table.cast({"documents": pl.Int64, "relevant": pl.Int64}))
    files = "seed-4.run, seed-5.run, qrels.txt, qrels-exponential.txt"
    out, _ = exported(capsys, runs["linear"], "--to", "trec", "--out", tmp_path / "one")
    assert out == f"written: {tmp_path / 'one'} ({files})\n"
    exported(capsys, runs["linear"], runs["ties"], "--to", "trec", "--out", tmp_path / "two")
    assert {path.parent.name for path in (tmp_path / "two").glob("*/qrels.txt")} == {
        runs[name].name for name in ("linear", "ties")
    }
    one, two = (folder / "seed-4.run" for folder in (tmp_path / "one", tmp_path / "two" / runs["linear"].name))
    assert one.read_bytes() == two.read_bytes()


def test_moved_data_need_an_option_and_must_be_the_same(runs, tmp_path, capsys):
    run, moved, out = tmp_path / "run", tmp_path / "moved", tmp_path / "q.csv"
    shutil.copytree(runs["linear"], run)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(runs["data"]), str(tmp_path / "before")))
    accept_changes(run)
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


def test_wrong_arguments_are_refused_with_one_line(runs, tmp_path, capsys, monkeypatch):
    run, copy = runs["linear"], tmp_path / "run"
    shutil.copytree(run, copy)
    manifest = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for arguments, message in [
        ([run, "--to", "per-query", "--out", "x.txt"], "--out must end in .csv or .parquet, got x.txt"),
        (
            [run, "--to", "tensorboard", "--out", "x"],
            "--to tensorboard needs the package tensorboard: type pip install 'ol2r[tensorboard]'",
        ),
        (
            [run, "--to", "trec", "--out", "x", "--team", " "],
            "--team must be the name of a team, got nothing: leave it out for files without metadata",
        ),
        ([run, "--to", "trec", "--out", "x", "--points", 3], "--points does not go with --to trec: leave it out"),
        (
            [copy, "--to", "trec", "--out", "x"],
            f"RUN must be a finished run, got {copy}, which is interrupted: type {manifest['command']}",
        ),
        (
            [run, "--to", "trec", "--out", run / "run.json"],
            f"--out must be a place that can be written, got {run}/run.json (File exists: {run}/run.json)",
        ),
    ]:
        assert refused(capsys, "export", *arguments) == message
    monkeypatch.setattr(export, "find_spec", lambda name: object())
    message = refused(capsys, "export", run, "--to", "tensorboard", "--out", "x", "--split", "test")
    assert message == "--split does not go with --to tensorboard: leave it out"
    assert (
        refused(capsys, "export", run, "--to", "tensorboard", "--out", "x", "--points", 0)
        == "--points must be 1 or more, got 0"
    )
