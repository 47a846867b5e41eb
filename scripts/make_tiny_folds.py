"""Writes the tiny LETOR folds of tests/data, always the same bytes: python scripts/make_tiny_folds.py [FOLDER]

    tiny          Fold1 and Fold2, five grades, every feature written
    tiny_docid    Fold1 of tiny, each line ending in a `#docid = ...` comment as in MQ2008
    tiny_sparse   Fold1 of tiny without the features that are 0
    tiny_grades3  Fold1 with three grades

Every file has one query with a single document, one without a relevant document and one with identical documents. The
ten features differ in scale: 1 to 5 in 0 .. 1 with many zeros, 6 and 7 counts, 8 the same for a whole query, 9 negative
like a log-likelihood, 10 mostly 0. Relevance increases with features 1 and 2, so that a ranker can learn something.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

FILES = {"train.txt": 12, "vali.txt": 5, "test.txt": 5}  # queries in each
SINGLE, IRRELEVANT, IDENTICAL = 1, 2, 3  # places of the special queries in every file


@dataclass(frozen=True)
class Document:
    """One line of a file."""

    grade: int
    query: int
    name: str
    features: list[float]

    def line(self, docid: bool = False, sparse: bool = False) -> str:
        """`grade qid:Q id:value ..`; `docid` adds a comment, `sparse` leaves out the values that are 0."""
        values = [f"{i}:{v:.6g}" for i, v in enumerate(self.features, start=1) if v or not sparse]
        comment = f" #docid = {self.name} inc = 1 prob = 0.5" if docid else ""
        return f"{self.grade} qid:{self.query} {' '.join(values)}{comment}\n"


def features(random: Random, whole_query: float) -> list[float]:
    """The ten features of a document."""
    shares = [round(random.random(), 3) if random.random() < 0.7 else 0 for _ in range(5)]
    counts = [int(30 * random.random() * random.random()), int(4 * random.random())]
    rare = 1 if random.random() < 0.1 else 0
    return [*shares, *counts, whole_query, round(-12 * random.random() - 1, 4), rare]


def query(random: Random, number: int, place: int, grades: int) -> list[Document]:
    """3 to 15 documents; at the special places a single one, only irrelevant ones, or each one twice in a row."""
    count = 1 if place == SINGLE else 3 + int(13 * random.random())
    whole_query = round(5 * random.random(), 2)
    documents = []
    for i in range(count):
        x = features(random, whole_query)
        relevance = (x[0] + x[1] + 0.5 * random.random()) / 2.5  # in 0 .. 1
        grade = 0 if place == IRRELEVANT else min(int(1.6 * grades * relevance * relevance), grades - 1)
        documents.append(Document(grade, number, f"T{number:03d}-{i:02d}", x))
    if place == IDENTICAL:
        documents = [document for document in documents[:7] for _ in range(2)]
    return documents


def fold(seed: int, grades: int = 5) -> dict[str, list[Document]]:
    """The documents of each file of a fold.

    Only random() of Random is used: Python guarantees its numbers for all versions, but not those of other methods.
    """
    random, number = Random(seed), 100 * seed
    files = {}
    for name, count in FILES.items():
        files[name] = [d for place in range(count) for d in query(random, number + place, place, grades)]
        number += count
    return files


def texts() -> dict[str, str]:
    """The content of every file by its path below tests/data."""
    first, second, three = fold(1), fold(2), fold(3, grades=3)
    written = {}
    for name in FILES:
        written[f"tiny/Fold1/{name}"] = "".join(d.line() for d in first[name])
        written[f"tiny/Fold2/{name}"] = "".join(d.line() for d in second[name])
        written[f"tiny_docid/Fold1/{name}"] = "".join(d.line(docid=True) for d in first[name])
        written[f"tiny_sparse/Fold1/{name}"] = "".join(d.line(sparse=True) for d in first[name])
        written[f"tiny_grades3/Fold1/{name}"] = "".join(d.line() for d in three[name])
    return written


def main(folder: Path) -> None:
    """Write all files below `folder`."""
    for path, text in texts().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())  # bytes, so that no operating system changes the line ends


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1] / "tests" / "data")
