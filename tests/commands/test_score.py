"""Scores of files by what finished runs have learned."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.results.survey import find_runs
from tests.reference.metrics import ndcg

FEATURES = 5
SEEDS = (4, 5)
RUNS = {
    "linear": ["ranker=pairrank"],
    "network": ["ranker=sgd_ranknet", "ranker/model=mlp", "ranker.model.width=64"],
    "of all training data": ["ranker=pairrank", "dataset.normalise=global_zscore", "dataset.drop_constant=true"],
    "toprank": ["ranker=toprank"],
    "oracle": ["ranker=oracle"],
}


def text(queries: int, seed: int) -> str:
    """Queries of 1 to 12 documents without equal features; the third is constant."""
    dice, lines = random.Random(seed), []
    for query in range(queries):
        for _ in range(dice.randint(1, 12)):
            values = [9 * dice.random() if i != 2 else 1.5 for i in range(FEATURES)]
            features = " ".join(f"{i}:{value:.4f}" for i, value in enumerate(values, 1))
            lines.append(f"{dice.choice([0, 0, 1, 2])} qid:{seed}{query} {features} # a document\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every kind, below one folder `outputs`, and `data`, which they learned from."""
    root = tmp_path_factory.mktemp("scored")
    (root / "data").mkdir()
    for number, (name, queries) in enumerate({"train": 30, "vali": 5, "test": 25}.items(), 1):
        (root / "data" / f"{name}.txt").write_text(text(queries, number))
    common = ["dataset=letor", f"dataset.path={root / 'data'}", "click=perfect", "rounds=60", "replicas=2", "seed=4"]
    folders = {"data": root / "data"}
    for name, words in RUNS.items():
        below = root / "outputs" / name.replace(" ", "_")
        own = [f"output_dir={below}", f"cache_dir={root / 'cache'}"]
        assert cli.main(["run", *common, *words, *own]) == 0
        (folders[name],) = find_runs(below)
    return folders


def score(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[float]:
    capsys.readouterr()
    assert cli.main(["score", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return [float(line) for line in captured.out.splitlines()]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert cli.main(["score", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("ol2r score: ")
    return captured.err.removeprefix("ol2r score: ").rstrip("\n")


def queries(file: Path) -> dict[str, list[tuple[int, list[float]]]]:
    """Grade and features of every document, by query."""
    found: dict[str, list[tuple[int, list[float]]]] = {}
    for line in file.read_text().splitlines():
        grade, query, *features = line.partition(" #")[0].split()
        found.setdefault(query, []).append((int(grade), [float(pair.partition(":")[2]) for pair in features]))
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["linear", "network", "of all training data"])
def test_the_test_file_gets_the_scores_that_were_evaluated(made, name: str, seed: int, capsys):
    scores = iter(score(capsys, made[name], made["data"] / "test.txt", "--seed", seed))
    values = []
    for documents in queries(made["data"] / "test.txt").values():
        own = [next(scores) for _ in documents]
        assert len(set(own)) == len(own), "ties, which the evaluation breaks at random"
        order = sorted(range(len(own)), key=lambda i: -own[i])
        values.append(ndcg(order, [grade for grade, _ in documents]))
    assert next(scores, None) is None
    evaluated = pl.read_parquet(made[name] / "evaluation.parquet")
    last = evaluated.filter((pl.col("split") == "test") & (pl.col("seed") == seed) & (pl.col("round") == 60))
    assert np.mean(values) == pytest.approx(last["ndcg_10"].item(), abs=1e-6)


def test_a_score_is_the_weighted_sum_of_features_normalised_within_their_query(made, capsys):
    found = score(capsys, made["linear"], made["data"] / "vali.txt")
    theta = torch.load(made["linear"] / "ranker.pt", weights_only=True)["deployed"][0].numpy()
    expected = []
    for documents in queries(made["data"] / "vali.txt").values():
        x = np.array([features for _, features in documents])
        span = np.ptp(x, axis=0)
        expected += [*(np.where(span > 0, (x - x.min(0)) / np.where(span > 0, span, 1), 0) @ theta)]
    assert found == pytest.approx(expected, abs=1e-5)
    assert np.ptp(found) > 0


def test_what_the_normalisation_learned_is_that_of_the_training_data(made, capsys):
    found = score(capsys, made["of all training data"], made["data"] / "vali.txt")
    theta = torch.load(made["of all training data"] / "ranker.pt", weights_only=True)["deployed"][0].numpy()
    read = {
        name: [f for d in queries(made["data"] / f"{name}.txt").values() for _, f in d] for name in ("train", "vali")
    }
    varying = [0, 1, 3, 4]
    train, x = (np.array(read[name])[:, varying] for name in ("train", "vali"))
    assert theta.shape == (len(varying),)
    assert found == pytest.approx(list((x - train.mean(0)) / train.std(0) @ theta), abs=1e-5)


def test_grades_do_not_count_and_a_file_may_be_packed(made, tmp_path, capsys):
    packed = tmp_path / "new.gz"
    blank = re.sub(r"^\d", "0", (made["data"] / "test.txt").read_text(), flags=re.MULTILINE)
    packed.write_bytes(gzip.compress(blank.encode()))
    assert score(capsys, made["linear"], packed) == score(capsys, made["linear"], made["data"] / "test.txt")


def test_a_run_by_its_id_its_first_seed_and_a_file_for_the_scores(made, tmp_path, capsys, monkeypatch):
    file = made["data"] / "test.txt"
    first, second = (score(capsys, made["network"], file, "--seed", seed) for seed in SEEDS)
    assert first != second
    monkeypatch.chdir(made["data"].parent)
    run = made["network"].name[-10:]
    assert score(capsys, run, file) == first
    assert cli.main(["score", run, str(file), "--output", str(tmp_path / "new" / "scores.txt")]) == 0
    assert capsys.readouterr().out == f"written: {tmp_path / 'new' / 'scores.txt'}\n"
    assert [float(line) for line in (tmp_path / "new" / "scores.txt").read_text().splitlines()] == first


def test_features_that_a_file_leaves_out_are_0_and_more_or_fewer_are_refused(made, tmp_path, capsys):
    whole, sparse = tmp_path / "whole", tmp_path / "sparse"
    whole.write_text("1 qid:1 1:2 2:3 3:0 4:1 5:0\n0 qid:1 1:1 2:0 3:4 4:0 5:0\n")
    sparse.write_text("1 qid:1 1:2 2:3 4:1\n0 qid:1 1:1 3:4\n")
    assert score(capsys, made["linear"], sparse) == score(capsys, made["linear"], whole)
    for number in (3, 6):
        other = tmp_path / "other"
        other.write_text("".join(f"0 qid:1 {' '.join(f'{i + 1}:{i}' for i in range(number))}\n" for _ in range(2)))
        told = refused(capsys, made["linear"], other)
        assert told == f"FILE must have 5 features, as the data of the run, got {other}, which has {number}"


def test_training_data_that_have_moved_are_asked_for_and_must_be_the_same(made, tmp_path, capsys):
    run, moved, file = tmp_path / "run", tmp_path / "moved", made["data"] / "vali.txt"
    shutil.copytree(made["of all training data"], run)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(made["data"]), str(tmp_path / "before")))
    told = refused(capsys, run, file)
    assert told.startswith(
        "dataset.normalise=global_zscore needs the training data of the run, which are no longer in "
    )
    assert told.endswith(f"{tmp_path / 'before'}: type --data FOLDER")
    shutil.copytree(made["data"], moved)
    assert score(capsys, run, file, "--data", moved) == score(capsys, made["of all training data"], file)
    (moved / "train.txt").write_text(text(30, 7))
    assert refused(capsys, run, file, "--data", moved) == (
        f"--data must be the data of the run, got {moved}, where something else is"
    )


def test_without_a_need_of_training_data_none_are_looked_for(made, tmp_path, capsys):
    run, file = tmp_path / "run", made["data"] / "vali.txt"
    shutil.copytree(made["linear"], run)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace(str(made["data"]), str(tmp_path / "gone")))
    assert score(capsys, run, file) == score(capsys, made["linear"], file)


@pytest.mark.parametrize("name", ["toprank", "oracle"])
def test_rankers_that_know_nothing_of_new_queries(made, name: str, capsys):
    told = refused(capsys, made[name], made["data"] / "test.txt")
    assert told == f"RUN must be of a ranker that can score new queries, got {made[name]}: ranker={name} cannot"


def test_runs_that_are_not_whole(made, tmp_path, capsys):
    run, file = tmp_path / "run", made["data"] / "test.txt"
    shutil.copytree(made["linear"], run)
    manifest = json.loads((run / "run.json").read_text())
    command = manifest["command"]
    assert command.startswith("ol2r run ")
    (run / "ranker.pt").write_bytes(b"half of it")
    assert refused(capsys, run, file).endswith(f": type {command} force=true")
    (run / "ranker.pt").unlink()
    assert refused(capsys, run, file) == f"{run} has no ranker.pt: type {command} force=true"
    (run / "run.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    told = refused(capsys, run, file)
    assert told == f"RUN must be a finished run, got {run}, which is interrupted: type {command}"
    (run / "run.json").write_text("{")
    assert "run.json must be JSON" in refused(capsys, run, file)


def test_what_is_not_there(made, tmp_path, capsys):
    file = made["data"] / "test.txt"
    (tmp_path / "bad").write_text("1 1:0.5\n")
    for arguments, told in [
        (["0123456789", file], "RUN must be the directory of a run or an id below outputs, got 0123456789, "),
        ([tmp_path, file], f"got {tmp_path}, in which there is no run"),
        (
            [made["linear"], tmp_path / "none"],
            f"FILE must be a file in LETOR form, got {tmp_path}/none, which does not",
        ),
        ([made["linear"], tmp_path], "which is a folder"),
        ([made["linear"], tmp_path / "bad"], f"{tmp_path}/bad:1: found '1:0.5', expected qid:<query> after the grade"),
        ([made["linear"], file, "--seed", 3], "--seed must be one of 4, 5, got 3"),
        ([made["linear"], file, "--output", tmp_path], f"--output must be a file that can be written, got {tmp_path}"),
    ]:
        assert told in refused(capsys, *arguments)
