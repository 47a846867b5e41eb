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
JUDGED = "qid\tintent\tdocid\tgrade\na\t1\tD2\t3\nb\t2\tD1\t1\na\t2\tD1\t2\nc\t1\tD8\t1\nc\t1\tD9\t1\nz\t9\tD1\t1\n"
CLUEWEB = Path(__file__).parents[3] / "shared" / "data" / "ClueWeb09"


def folder(tmp_path: Path, judged: str = JUDGED, train: str = TRAIN) -> Path:
    """A dataset with a file of judgements."""
    root = write_fold(tmp_path / "data", train=train, test=TEST)
    (root / "intents.tsv").write_text(judged)
    return root


def load(tmp_path: Path, root: Path, binary: bool = False, **more):
    return letor(root, tmp_path / "cache", intents={"file": "intents.tsv", "binary": binary}, **more).load()


def test_labels_by_intent(tmp_path):
    dataset = load(tmp_path, folder(tmp_path))
    assert dataset.labels.tolist() == [1, 0, 2, 0, 1]
    assert dataset.intents.labels.tolist() == [[0, 3, 0, 0, 1], [2, 0, 1, 0, 0]]
    assert dataset.intents.grades == 4
    binary = load(tmp_path, folder(tmp_path), binary=True)
    assert binary.intents.labels.tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    assert binary.intents.grades == 2
    second = load(tmp_path, folder(tmp_path), binary=True, intent=2)
    assert second.labels.tolist() == [1, 0, 1, 0, 0]
    assert second.grades == 2


def test_judgements_are_part_of_the_fingerprint(tmp_path):
    root = folder(tmp_path)
    plain = letor(root, tmp_path / "cache").load().fingerprint
    several = [
        load(tmp_path, root, binary=binary, intent=intent).fingerprint
        for binary in (False, True)
        for intent in (None, 1)
    ]
    other = load(tmp_path, folder(tmp_path, JUDGED.replace("D2\t3", "D2\t2"))).fingerprint
    assert len({plain, other, *several}) == 6


WRONG = {
    "expected the columns": "a\t1\tD2\t3\n",
    "intents.tsv:2: found": "qid\tintent\tdocid\tgrade\na\t0\tD2\t3\n",
    "intents.tsv:3: found": "qid\tintent\tdocid\tgrade\na\t1\tD2\t3\na 1 D1 1\n",
    "must have judgements of documents of the data": "qid\tintent\tdocid\tgrade\nz\t1\tD2\t3\n",
}


def test_what_is_malformed_or_missing_is_explained(tmp_path):
    for message, judged in WRONG.items():
        with pytest.raises(DataError, match=re.escape(message)):
            load(tmp_path, folder(tmp_path, judged))
    with pytest.raises(DataError, match="needs a comment `# docid = NAME` behind every document"):
        load(tmp_path, folder(tmp_path, train=TRAIN.replace("#docid = D2", "")))
    with pytest.raises(ValueError, match=r"without judgements of intents type dataset\.intents=null"):
        letor(folder(tmp_path), tmp_path / "cache", intents={"file": "other.tsv"}).load()
    with pytest.raises(ValueError, match=r"dataset\.intents must be null or \{file: FILE"):
        letor(folder(tmp_path), tmp_path / "cache", intents={"folder": "x"})


@pytest.mark.skipif(not CLUEWEB.is_dir(), reason="needs ../shared/data/ClueWeb09")
def test_clueweb09(tmp_path):
    """Every label of both folds, by query and document, and the numbers of queries in the README of the data."""
    with (CLUEWEB / "intents.tsv").open() as file:
        judged = {(row["qid"], row["docid"], int(row["intent"])) for row in csv.DictReader(file, delimiter="\t")}
    dataset = configured("clueweb09", CLUEWEB.parent, tmp_path).load()
    assert dataset.intents.grades == 2
    found, row = set(), 0
    for name in ("train.txt", "test.txt"):
        for line in (CLUEWEB / "Fold1" / name).read_text().splitlines():
            query = re.search(r"qid:(\S+)", line)[1]
            document = line.split("docid = ")[1].split()[0]
            for intent in dataset.intents.labels[:, row].nonzero().flatten().tolist():
                found.add((query, document, intent + 1))
            row += 1
    assert found == judged
    relevant = [len({query for query, _, judged_for in found if judged_for == intent}) for intent in range(1, 8)]
    assert relevant == [55, 56, 53, 32, 12, 6, 1]
    assert torch.equal(dataset.judged_by(3).labels, dataset.intents.labels[2])
