"""The folds in tests/data are what scripts/make_tiny_folds.py writes, and have the special cases that tests need."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
FOLDS = ["tiny/Fold1", "tiny/Fold2", "tiny_docid/Fold1", "tiny_sparse/Fold1", "tiny_grades3/Fold1"]
FILES = {"train.txt": 12, "vali.txt": 5, "test.txt": 5}  # queries
Document = tuple[int, dict[int, float]]  # grade and features by id


def read(path: Path) -> dict[str, list[Document]]:
    """Documents by query id."""
    queries: dict[str, list[Document]] = {}
    for line in path.read_text().splitlines():
        grade, query, *values = line.split("#")[0].split()
        pairs = (value.split(":") for value in values)
        queries.setdefault(query, []).append((int(grade), {int(number): float(value) for number, value in pairs}))
    return queries


def test_the_script_writes_the_committed_bytes(tmp_path: Path):
    subprocess.run([sys.executable, ROOT / "scripts" / "make_tiny_folds.py", tmp_path], check=True)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.txt")}
    committed = {path.relative_to(DATA): path.read_bytes() for path in DATA.glob("tiny*/Fold*/*.txt")}
    assert written == committed
    assert len(written) == len(FOLDS) * len(FILES)
    assert sum(map(len, committed.values())) < 200_000


def test_every_file_has_the_special_queries():
    for fold, file in product(FOLDS, FILES):
        queries = list(read(DATA / fold / file).values())
        assert len(queries) == FILES[file]
        assert all(len(documents) <= 15 for documents in queries)
        assert len(queries[1]) == 1
        assert len(queries[2]) > 1
        assert all(grade == 0 for grade, _ in queries[2])
        assert queries[3][::2] == queries[3][1::2]  # twice in a row


def test_training_files_have_all_grades():
    for fold, grades in {"tiny/Fold1": 5, "tiny/Fold2": 5, "tiny_grades3/Fold1": 3}.items():
        queries = read(DATA / fold / "train.txt").values()
        assert {grade for documents in queries for grade, _ in documents} == set(range(grades))


def test_no_query_is_in_two_files():
    for fold in FOLDS:
        names = [query for file in FILES for query in read(DATA / fold / file)]
        assert len(names) == len(set(names))


def test_variants_are_tiny_written_differently():
    for file in FILES:
        plain, docid, sparse = (read(DATA / name / "Fold1" / file) for name in ("tiny", "tiny_docid", "tiny_sparse"))
        assert all("#docid = " in line for line in (DATA / "tiny_docid/Fold1" / file).read_text().splitlines())
        assert docid == plain
        assert sparse != plain
        filled = {
            query: [(grade, dict.fromkeys(range(1, 11), 0.0) | values) for grade, values in documents]
            for query, documents in sparse.items()
        }
        assert filled == plain
