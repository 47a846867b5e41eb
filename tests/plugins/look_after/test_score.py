"""`ol2r score`: the scores of a file by the rankers of finished runs."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import re
import shutil
from pathlib import Path
from threading import Thread

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import cli
from tests.finished import ROUNDS, SEEDS, read, refused, text
from tests.manifests import accept_changes
from tests.reference.metrics import ndcg


@pytest.fixture
def score(capsys: pytest.CaptureFixture[str]):
    def run(*arguments: object) -> list[float]:
        capsys.readouterr()
        assert cli.main(["score", *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return [float(line) for line in captured.out.splitlines()]

    return run


def elsewhere(run: Path, data: Path, copy: Path) -> Path:
    """A copy of a run whose data have been moved."""
    shutil.copytree(run, copy)
    config = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(config.replace(str(data), str(copy.parent / "before")))
    accept_changes(copy)
    return copy


def test_the_test_file_gets_the_scores_that_were_evaluated(runs, score):
    for name, seed in itertools.product(["linear", "network", "global zscore"], SEEDS):
        output = iter(score(runs[name], runs["data"] / "test.txt", "--seed", seed))
        values = []
        for documents in read(runs["data"] / "test.txt").values():
            scores = [next(output) for _ in documents]
            assert len(set(scores)) == len(scores), "ties, which the evaluation breaks at random"
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            values.append(ndcg(order, [grade for grade, _ in documents]))
        assert next(output, None) is None
        evaluated = pl.read_parquet(runs[name] / "evaluation.parquet")
        last = evaluated.filter(split="test", seed=seed, round=ROUNDS)
        assert np.mean(values) == pytest.approx(last["ndcg_10"].item(), abs=1e-6), name


def test_normalisation_has_statistics_of_the_training_data(runs, score):
    """Statistics of the normalisation are those of the training data."""
    found = score(runs["global zscore"], runs["data"] / "vali.txt")
    theta = torch.load(runs["global zscore"] / "ranker.pt", weights_only=True)["deployed"][0].numpy()
    features = {
        name: [f for d in read(runs["data"] / f"{name}.txt").values() for _, f in d] for name in ("train", "vali")
    }
    varying = [0, 1, 3, 4]  # feature 3 is constant
    train, x = (np.array(features[name])[:, varying] for name in ("train", "vali"))
    assert theta.shape == (len(varying),)
    assert found == pytest.approx(list((x - train.mean(0)) / train.std(0) @ theta), abs=1e-5)


def test_files_without_grades_gzipped_sparse_or_wider(runs, tmp_path, score, capsys):
    """Files without grades, gzipped or sparse, and of another width."""
    blank = re.sub(r"^\d", "0", (runs["data"] / "test.txt").read_text(), flags=re.MULTILINE)
    (tmp_path / "new.gz").write_bytes(gzip.compress(blank.encode()))
    assert score(runs["linear"], tmp_path / "new.gz") == score(runs["linear"], runs["data"] / "test.txt")
    whole, sparse, other = tmp_path / "whole", tmp_path / "sparse", tmp_path / "other"
    whole.write_text("1 qid:1 1:2 2:3 3:0 4:1 5:0\n0 qid:1 1:1 2:0 3:4 4:0 5:0\n")
    sparse.write_text("1 qid:1 1:2 2:3 4:1\n0 qid:1 1:1 3:4\n")
    assert score(runs["linear"], sparse) == score(runs["linear"], whole)
    for number in (3, 6):
        other.write_text("".join(f"0 qid:1 {' '.join(f'{i + 1}:{i}' for i in range(number))}\n" for _ in range(2)))
        message = f"FILE must have 5 features, as the data of the run, got {other}, which has {number}"
        assert refused(capsys, "score", runs["linear"], other) == message


def test_a_file_may_be_stdin_or_a_pipe(runs, tmp_path, score, capsys, monkeypatch):
    """Also one that only the strict parser reads, after a first look."""
    run, content = runs["linear"], (runs["data"] / "test.txt").read_bytes()
    expected = score(run, runs["data"] / "test.txt")
    for written, pipe in (
        (content, "plain"),
        (gzip.compress(content), "gzip"),
        (content.replace(b" 1:", b" 1:+"), "strict"),
    ):
        os.mkfifo(tmp_path / pipe)
        writer = Thread(target=(tmp_path / pipe).write_bytes, args=(written,))
        writer.start()
        assert score(run, tmp_path / pipe) == expected, pipe
        writer.join(timeout=60)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
        assert score(run, "-") == expected, pipe
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 1:0.5\n")))
    assert refused(capsys, "score", run, "-") == "stdin:1: found '1:0.5', expected qid:<query> after the grade"
    monkeypatch.setattr("sys.stdin", None)
    assert refused(capsys, "score", run, "-") == "FILE must be a file, got -, and stdin is closed"


def test_a_run_is_named_by_its_id_and_scores_go_to_a_file(runs, tmp_path, score, capsys, monkeypatch):
    """A run is named by its id; its first seed scores; a file can have the scores."""
    file, out = runs["data"] / "test.txt", tmp_path / "new" / "scores.txt"
    first, second = (score(runs["network"], file, "--seed", seed) for seed in SEEDS)
    assert first != second
    monkeypatch.chdir(runs["network"].parents[2])
    run = runs["network"].name[-10:]
    assert score(run, file) == first
    assert cli.main(["score", run, str(file), "--output", str(out)]) == 0
    assert capsys.readouterr().out == f"written: {out}\n"
    assert [float(line) for line in out.read_text().splitlines()] == first


def test_moved_training_data_need_an_option_and_must_be_the_same(runs, tmp_path, score, capsys):
    """Moved training data need an option and must be the same where they are needed."""
    moved, file = tmp_path / "moved", runs["data"] / "vali.txt"
    run = elsewhere(runs["global zscore"], runs["data"], tmp_path / "run")
    needs = "dataset.normalise=global_zscore and dataset.drop_constant=true need the training data of the run"
    no_longer = f"which are no longer in {tmp_path / 'before'}: type --data FOLDER"
    assert refused(capsys, "score", run, file) == f"{needs}, {no_longer}"
    shutil.copytree(runs["data"], moved)
    assert score(run, file, "--data", moved) == score(runs["global zscore"], file)
    (moved / "train.txt").write_text(text(25, 7))
    message = f"--data must be the data of the run, got {moved}, which has other data"
    assert refused(capsys, "score", run, file, "--data", moved) == message
    assert score(elsewhere(runs["linear"], runs["data"], tmp_path / "linear"), file) == score(runs["linear"], file)


def test_features_that_single_precision_does_not_hold_are_named(runs, tmp_path, capsys):
    """On stderr, beside the scores."""
    rows = [f"0 qid:1 1:{1_700_000_000 + second} 2:.5 3:1.5 4:.1 5:.2\n" for second in range(9)]
    (tmp_path / "seconds").write_text("".join(rows))
    words = ["score", str(runs["linear"]), str(tmp_path / "seconds")]
    capsys.readouterr()
    assert cli.main(words) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 9
    assert captured.err.startswith("warning: features 1 have values that single precision (7 digits) moves by over")


def test_damaged_and_unfinished_runs_are_refused(runs, tmp_path, capsys):
    """Damaged and unfinished runs and wrong arguments are refused."""
    run, file = tmp_path / "run", runs["data"] / "test.txt"
    shutil.copytree(runs["linear"], run)
    manifest = json.loads((run / "run.json").read_text())
    command = manifest["command"]
    (run / "ranker.pt").write_bytes(b"half of it")
    assert refused(capsys, "score", run, file).endswith(f": type {command}")
    (run / "ranker.pt").unlink()
    assert refused(capsys, "score", run, file) == f"{run} is damaged (ranker.pt is missing): type {command}"
    (run / "run.json").write_text(json.dumps({**manifest, "files": {}, "checksum": ""}))
    assert refused(capsys, "score", run, file) == f"{run} has no ranker.pt: type {command} force=true"
    (run / "run.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    message = f"RUN must be a finished run, got {run}, which is interrupted: type {command}"
    assert refused(capsys, "score", run, file) == message
    (tmp_path / "bad").write_text("1 1:0.5\n")
    unable = "RUN must be of a ranker that can score new queries, got"
    for arguments, message in [
        ([runs["toprank"], file], f"{unable} {runs['toprank']}: ranker=toprank cannot"),
        ([runs["oracle"], file], f"{unable} {runs['oracle']}: ranker=oracle cannot"),
        (["0123456789", file], "RUN must be the directory of a run or an id below outputs, got 0123456789, "),
        ([tmp_path, file], f"got {tmp_path}, in which there is no run"),
        ([runs["linear"], tmp_path / "no"], f"FILE must be a file in LETOR form, got {tmp_path}/no, which does not"),
        ([runs["linear"], tmp_path], "which is a folder"),
        ([runs["linear"], tmp_path / "bad"], f"{tmp_path}/bad:1: found '1:0.5', expected qid:<query> after the grade"),
        ([runs["linear"], file, "--seed", 3], "--seed must be one of 4, 5, got 3"),
        ([runs["linear"], file, "--output", tmp_path], f"--output must be a file that can be written, got {tmp_path}"),
    ]:
        if arguments[0] == tmp_path:
            shutil.rmtree(run)
        assert message in refused(capsys, "score", *arguments)
