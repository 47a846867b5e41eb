"""The recipe of docs/how-to/own_data.md: a table of one's own as five folds of LETOR files."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from ol2r_cli.cli import main
from ol2r_cli.dataset.letor import document_ids
from ol2r_cli.dataset.parse import parse

PAGE = (Path(__file__).parents[2] / "docs" / "how-to/own_data.md").read_text()
(RECIPE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TABLE = pl.DataFrame(
    {
        "query": [f"q{row // 3}" for row in range(60)],
        "document": [f"d{row}" for row in range(60)],
        "label": [row % 3 for row in range(60)],
        "bm25": [row / 8 for row in range(60)],
        "rare": [1e-7] * 60,
        "visits": [None if row % 3 == 1 else row for row in range(60)],
    }
)


@pytest.fixture
def folds(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TABLE.sample(fraction=1, shuffle=True, seed=0).write_csv("documents.csv")
    exec(RECIPE, {})
    return tmp_path / "mine"


def test_every_query_is_tested_in_one_of_five_folds(folds):
    tested = []
    for fold in range(1, 6):
        files = [folds / f"Fold{fold}" / f"{split}.txt" for split in ("train", "vali", "test")]
        queries = [parse(file, missing="minimum").query_ids for file in files]
        assert [len(ids) for ids in queries] == [12, 4, 4]
        assert len({query for ids in queries for query in ids}) == 20
        tested.extend(queries[2])
    assert sorted(tested) == sorted(set(TABLE["query"]))


def test_files_have_the_cells_of_the_table(folds):
    file = folds / "Fold1" / "train.txt"
    documents = parse(file, missing=0)
    names = document_ids([file])
    expected = TABLE.join(pl.DataFrame({"document": names}), on="document", maintain_order="right")
    assert documents.labels.tolist() == expected["label"].to_list()
    columns = expected.select("bm25", "rare", "visits").fill_null(0).cast(pl.Float32)
    assert documents.features.tolist() == [list(row) for row in columns.iter_rows()]


def test_an_empty_cell_has_to_be_given_a_meaning(folds, capsys):
    words = ["data", "info", "dataset=letor", f"dataset.path={folds}"]
    assert main(words) == 2
    assert "dataset.missing=minimum" in capsys.readouterr().err
    assert main([*words, "dataset.missing=minimum"]) == 0
    assert "letor: 3 features, 1 constant over the training split (2)" in capsys.readouterr().out
