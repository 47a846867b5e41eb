"""`ol2r score`: the scores of a file by the rankers of finished runs."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
from threading import Thread

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import cli
from tests import cases
from tests.finished import ROUNDS, SEEDS, elsewhere, read, refused, text
from tests.manifests import change, on_disk
from tests.reference.metrics import ndcg


@pytest.fixture
def score(capsys):
    def run(*arguments: object) -> list[float]:
        capsys.readouterr()
        assert cli.main(["score", *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return [float(line) for line in captured.out.splitlines()]

    return run


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["linear", "network", "global zscore"])
def test_the_test_file_gets_the_scores_that_were_evaluated(runs, score, name, seed):
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
    assert np.mean(values) == pytest.approx(last["ndcg_10"].item(), abs=1e-6)


def test_normalisation_has_statistics_of_the_training_data(runs, score):
    found = score(runs["global zscore"], runs["data"] / "vali.txt")
    theta = torch.load(runs["global zscore"] / "ranker.pt", weights_only=True)["deployed"][0].numpy()
    documents = [read(runs["data"] / f"{name}.txt").values() for name in ("train", "vali")]
    varying = [0, 1, 3, 4]  # feature 3 is constant
    train, x = (np.array([f for of_query in queries for _, f in of_query])[:, varying] for queries in documents)
    assert theta.shape == (len(varying),)
    assert found == pytest.approx(list((x - train.mean(0)) / train.std(0) @ theta), abs=1e-5)


def test_grades_are_not_looked_at_and_a_file_may_be_gzipped(runs, tmp_path, score):
    blank = re.sub(r"^\d", "0", (runs["data"] / "test.txt").read_text(), flags=re.MULTILINE)
    (tmp_path / "new.gz").write_bytes(gzip.compress(blank.encode()))
    assert score(runs["linear"], tmp_path / "new.gz") == score(runs["linear"], runs["data"] / "test.txt")


def test_a_feature_that_is_left_out_is_0(runs, tmp_path, score):
    (tmp_path / "whole").write_text("1 qid:1 1:2 2:3 3:0 4:1 5:0\n0 qid:1 1:1 2:0 3:4 4:0 5:0\n")
    (tmp_path / "sparse").write_text("1 qid:1 1:2 2:3 4:1\n0 qid:1 1:1 3:4\n")
    assert score(runs["linear"], tmp_path / "sparse") == score(runs["linear"], tmp_path / "whole")


@pytest.mark.parametrize("number", [3, 6])
def test_a_file_of_another_width_is_refused(runs, tmp_path, capsys, number):
    file = tmp_path / "other"
    file.write_text(2 * f"0 qid:1 {' '.join(f'{i + 1}:{i}' for i in range(number))}\n")
    message = f"FILE must have 5 features, as the data of the run, got {file}, which has {number}"
    assert refused(capsys, "score", runs["linear"], file) == message


@pytest.fixture
def stdin(monkeypatch):
    """What gives bytes to stdin, or closes it."""
    return lambda given: monkeypatch.setattr("sys.stdin", given and io.TextIOWrapper(io.BytesIO(given)))


@pytest.mark.parametrize(
    "as_written",
    [bytes, gzip.compress, lambda content: content.replace(b" 1:", b" 1:+")],
    ids=["plain", "gzip", "strict parser"],
)
def test_a_file_may_be_stdin_or_a_pipe(runs, tmp_path, score, stdin, as_written):
    """Also one that only the strict parser reads, after a first look."""
    run, file, pipe = runs["linear"], runs["data"] / "test.txt", tmp_path / "pipe"
    expected, written = score(run, file), as_written(file.read_bytes())
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(written,))
    writer.start()
    assert score(run, pipe) == expected
    writer.join(timeout=60)
    stdin(written)
    assert score(run, "-") == expected


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"1 1:0.5\n", "stdin:1: found '1:0.5', expected qid:<query> after the grade"),
        (None, "FILE must be a file, got -, and stdin is closed"),
    ],
)
def test_what_stdin_lacks_is_told(runs, capsys, stdin, given, told):
    stdin(given)
    assert refused(capsys, "score", runs["linear"], "-") == told


def test_a_run_is_named_by_its_id_and_scores_go_to_a_file(runs, tmp_path, score, capsys, monkeypatch):
    """Its first seed scores."""
    file, out = runs["data"] / "test.txt", tmp_path / "new" / "scores.txt"
    first, second = (score(runs["network"], file, "--seed", seed) for seed in SEEDS)
    assert first != second
    monkeypatch.chdir(runs["network"].parents[2])
    run = runs["network"].name[-10:]
    assert cli.main(["score", run, str(file), "--output", str(out)]) == 0
    assert capsys.readouterr().out == f"written: {out}\n"
    assert [float(line) for line in out.read_text().splitlines()] == first


def test_moved_training_data_need_an_option_and_must_be_the_same(runs, tmp_path, score, capsys):
    moved, file = tmp_path / "moved", runs["data"] / "vali.txt"
    run = elsewhere(runs, "global zscore", tmp_path / "run")
    needs = "dataset.normalise=global_zscore and dataset.drop_constant=true need the training data of the run"
    no_longer = f"which are no longer in {tmp_path / 'before'}: type --data FOLDER"
    assert refused(capsys, "score", run, file) == f"{needs}, {no_longer}"
    shutil.copytree(runs["data"], moved)
    assert score(run, file, "--data", moved) == score(runs["global zscore"], file)
    (moved / "train.txt").write_text(text(25, 7))
    message = f"--data must be the data of the run, got {moved}, which has other data"
    assert refused(capsys, "score", run, file, "--data", moved) == message


def test_moved_training_data_that_are_not_needed_are_not_missed(runs, tmp_path, score):
    run, file = elsewhere(runs, "linear", tmp_path / "run"), runs["data"] / "vali.txt"
    assert score(run, file) == score(runs["linear"], file)


def test_features_that_single_precision_does_not_hold_are_named(runs, tmp_path, capsys):
    """On stderr, beside the scores."""
    rows = [f"0 qid:1 1:{1_700_000_000 + second} 2:.5 3:1.5 4:.1 5:.2\n" for second in range(9)]
    (tmp_path / "seconds").write_text("".join(rows))
    words = ["score", str(runs["linear"]), str(tmp_path / "seconds")]
    capsys.readouterr()
    assert cli.main(words) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 9
    assert captured.err.startswith("warning: features 1 have values that single precision (7 digits) moves by over")


def test_a_run_without_its_ranker_is_refused(runs, tmp_path, capsys):
    """What is told of others that are not finished, or damaged, is in tests/run/test_run.py."""
    run, file = tmp_path / "run", runs["data"] / "test.txt"
    shutil.copytree(runs["linear"], run)
    (run / "ranker.pt").write_bytes(b"half of it")
    command = on_disk(run)["command"]
    assert refused(capsys, "score", run, file).endswith(f": type {command}")
    (run / "ranker.pt").unlink()
    change(run, files={}, checksum="")
    assert refused(capsys, "score", run, file) == f"{run} has no ranker.pt: type {command} force=true"


MISTAKES = """
{toprank} {file} | must be of a ranker that can score new queries, got {toprank}: ranker=toprank cannot
{oracle} {file} | must be of a ranker that can score new queries, got {oracle}: ranker=oracle cannot
{linear} {here}/no | FILE must be a file in LETOR form, got {here}/no, which does not
{linear} {here} | which is a folder
{linear} {here}/bad | {here}/bad:1: found '1:0.5', expected qid:<query> after the grade
{linear} {file} --seed 3 | --seed must be one of 4, 5, got 3
{linear} {file} --output {here} | --output must be a file that can be written, got {here}
"""


@pytest.mark.parametrize(("words", "told"), cases.lines(MISTAKES))
def test_wrong_arguments_are_one_line(runs, tmp_path, capsys, words, told):
    (tmp_path / "bad").write_text("1 1:0.5\n")
    places = {name: runs[name] for name in ("toprank", "oracle", "linear")}
    places |= {"file": runs["data"] / "test.txt", "here": tmp_path}
    assert told.format(**places) in refused(capsys, "score", *words.format(**places).split())
