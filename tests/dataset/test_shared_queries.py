"""Queries that two splits have in common, in tiny files written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli import api as ol2r
from ol2r_cli import cli
from tests.dataset.letor_files import letor, write_fold

TRAIN = "1 qid:a 1:1 2:2\n0 qid:a 1:3 2:4\n2 qid:b 1:5\n0 qid:c 1:6\n"
UNSEEN = "results on test are not results on unseen queries"
HARMLESS = "this is harmless only if each file numbers its queries for itself"
ONE = f"1 of the 2 queries of test are in train too, such as qid:a, with the same documents: {UNSEEN}"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder whose test file has query a of the training file."""
    return write_fold(tmp_path / "set", train=TRAIN, test="0 qid:a 1:1 2:2\n0 qid:a 1:3 2:4\n1 qid:z 1:1\n")


CASES = [
    ("0 qid:y 1:1 2:2\n0 qid:z 1:3 2:4\n", None),
    ("1 qid:z 1:1\n0 qid:a 1:3 2:4\n2 qid:a 1:1 2:2\n", ONE),  # in another order, with other labels
    ("1 qid:a 1:1 2:2\n0 qid:a 1:3 2:5\n0 qid:z 1:3\n", "1 of the 2 {}, such as qid:a, with other documents: {}"),
    ("1 qid:a 1:1 2:2\n0 qid:z 1:3\n", "1 of the 2 {}, such as qid:a, with other documents: {}"),
    ("1 qid:c 1:7\n0 qid:b 1:5\n", "2 of the 2 {}, such as qid:b; 1 of the 2 that were compared have the same"),
]


def test_a_test_file_with_queries_of_the_training_file(tmp_path: Path):
    for test, warning in CASES:
        write_fold(tmp_path / "set", train=TRAIN, test=test)
        expected = () if warning is None else (warning.format("queries of test are in train too", HARMLESS),)
        for settings in ({}, {}, {"normalise": "query_minmax"}):  # parsed, and from the cache
            found = letor(tmp_path / "set", tmp_path / "cache", **settings).load().warnings
            assert len(found) == len(expected), test
            assert all(line.startswith(start) for line, start in zip(found, expected, strict=True)), test


def test_every_two_splits_are_compared_and_only_the_queries_that_are_used(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN, vali="0 qid:b 1:5\n0 qid:v 1:2\n", test="0 qid:v 1:2\n0 qid:c 1:6\n")
    found = letor(tmp_path / "set", tmp_path / "cache").load().warnings
    assert [line.split(", such")[0] for line in found] == [
        "1 of the 2 queries of validation are in train too",
        "1 of the 2 queries of test are in train too",
        "1 of the 2 queries of test are in validation too",
    ]
    kept = [letor(tmp_path / "set", tmp_path / "cache", queries=1, seed=seed).load() for seed in range(20)]
    for dataset in kept:
        (query,) = (dataset.query_ids[number] for number in dataset.splits["train"].tolist())
        assert len(dataset.warnings) == {"a": 1, "b": 2, "c": 2}[query]
    assert {len(dataset.warnings) for dataset in kept} == {1, 2}


def test_ol2r_data_warns_in_one_line(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for action in ("info", "prepare", "check"):
        words = [action, "dataset=letor", f"dataset.path={shared}", f"cache_dir={tmp_path / 'cache'}"]
        assert cli.main(["data", *words]) == 0
        assert [line for line in capsys.readouterr().err.splitlines() if "warning" in line] == [f"warning: {ONE}"]


def test_ol2r_run_warns_on_stderr_and_in_its_log(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["dataset=letor", f"dataset.path={shared}", f"cache_dir={tmp_path / 'cache'}", "rounds=2"]
    assert cli.main(["run", *words, f"output_dir={tmp_path / 'out'}"]) == 0
    assert capsys.readouterr().err.count(f"warning: {ONE}\n") == 1
    (log,) = (tmp_path / "out").rglob("log.txt")
    assert log.read_text().count(f" WARNING {ONE}\n") == 1
    run = ol2r.run(*words, output_dir=str(tmp_path / "quiet"))
    assert f" WARNING {ONE}\n" in (run.path / "log.txt").read_text()
    assert capsys.readouterr().err == ""
