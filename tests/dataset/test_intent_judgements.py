"""Labels by intent from a file of judgements, against a search line by line."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import torch

from ol2r_cli.dataset.parse import DataError
from tests.dataset.letor_files import configured, letor, write_fold

TRAIN = "1 qid:a 1:3 # docid = D1 inc = 1\n0 qid:a 1:4 #docid = D2\n2 qid:b 1:1 # docid = D1\n"
TEST = "0 qid:c 1:5 # docid = D7\n1 qid:c 1:6 # docid = D8\n"
HEAD = "qid\tintent\tdocid\tgrade\n"
JUDGED = f"{HEAD}a\t1\tD2\t3\nb\t2\tD1\t1\na\t2\tD1\t2\nc\t1\tD8\t1\nc\t1\tD9\t1\nz\t9\tD1\t1\n"


def load(tmp_path: Path, judged: str = JUDGED, train: str = TRAIN, binary: bool = False, **more):
    root = write_fold(tmp_path / "data", train=train, test=TEST)
    (root / "intents.tsv").write_text(judged)
    intents = {"file": "intents.tsv", "binary": binary}
    return letor(root, tmp_path / "cache", **({"intents": intents} | more)).load()


def test_labels_by_intent_are_those_of_the_judgements(tmp_path):
    dataset, binary = load(tmp_path), load(tmp_path, binary=True)
    assert dataset.labels.tolist() == [1, 0, 2, 0, 1]
    assert (dataset.intents.labels.tolist(), dataset.intents.grades) == ([[0, 3, 0, 0, 1], [2, 0, 1, 0, 0]], 4)
    assert (binary.intents.labels.tolist(), binary.intents.grades) == ([[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]], 2)
    second = load(tmp_path, binary=True, intent=2)
    assert (second.labels.tolist(), second.grades) == ([1, 0, 1, 0, 0], 2)


def test_judgements_are_of_all_splits_that_share_a_query(tmp_path):
    """A query that is in training and test has one row a document in each."""
    apart, shared = load(tmp_path / "1"), load(tmp_path / "2", train=TEST + TRAIN)
    labels = shared.intents.labels.tolist()
    documents = len(TEST.strip().splitlines())
    assert any(map(any, labels))
    assert [of[:documents] for of in labels] == [of[-documents:] for of in labels]
    assert [of[documents:] for of in labels] == apart.intents.labels.tolist()


def test_judgements_are_part_of_the_fingerprint(tmp_path):
    others = [{}, {"intents": None}, {"binary": True}, {"binary": True, "intent": 2}, {"intent": 1}]
    others.append({"judged": JUDGED.replace("D2\t3", "D2\t2")})
    assert len({load(tmp_path, **settings).fingerprint for settings in others}) == len(others)


@pytest.mark.parametrize(
    ("judged", "message"),
    [
        ("a\t1\tD2\t3\n", "expected the columns"),
        ("", "intents.tsv:1: found"),
        (f"{HEAD}a\t0\tD2\t3\n", "intents.tsv:2: found"),
        (f"{HEAD}a\t1\tD\u20282\t3\nbad\n", "intents.tsv:3: found 'bad'"),  # where Python ends a line, but no editor
        (f"{HEAD}a\t1\tD2\t3\na 1 D1 1\n", "intents.tsv:3: found"),
        (f"{HEAD}z\t1\tD2\t3\n", "must have judgements of documents of the data"),
    ],
)
def test_malformed_judgements_are_named(tmp_path, judged, message):
    with pytest.raises(DataError, match=re.escape(message)):
        load(tmp_path, judged)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": TRAIN.replace("#docid = D2", "")}, "needs a comment `# docid = NAME` behind every document"),
        ({"intents": {"file": "other.tsv"}}, r"without judgements of intents type dataset\.intents=null"),
        ({"intents": {"folder": "x"}}, r"IntentFile has no setting 'folder'"),
    ],
)
def test_what_is_missing_is_explained(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, **settings)


def test_clueweb09(tmp_path, data_dir):
    """Every label of both files, by query and document, and the numbers of queries in the README of the data."""
    with (data_dir / "ClueWeb09" / "intents.tsv").open() as file:
        judged = {(row["qid"], row["docid"], int(row["intent"])) for row in csv.DictReader(file, delimiter="\t")}
    dataset = configured("clueweb09", data_dir, tmp_path).load()
    assert dataset.intents.grades == 2
    found, row = set(), 0
    for name in ("train.txt", "test.txt"):
        for line in (data_dir / "ClueWeb09" / "Fold1" / name).read_text().splitlines():
            query, document = re.search(r"qid:(\S+)", line)[1], line.split("docid = ")[1].split()[0]
            for intent in dataset.intents.labels[:, row].nonzero().flatten().tolist():
                found.add((query, document, intent + 1))
            row += 1
    assert found == judged
    relevant = [len({query for query, _, judged_for in found if judged_for == intent}) for intent in range(1, 8)]
    assert relevant == [55, 56, 53, 32, 12, 6, 1]
    assert torch.equal(dataset.judged_by(3).labels, dataset.intents.labels[2])
