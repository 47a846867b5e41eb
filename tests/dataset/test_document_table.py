"""`read_documents`: cells are read by one rule, and what cannot be read is named with file, line and column."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ol2r_cli import cli
from ol2r_cli.dataset.document_table import read_documents
from ol2r_cli.dataset.parse import DataError
from tests.finished import refused

HEAD = "query,document,label,price,age\n"
GOOD = "q1,a,0,1,2\nq1,b,1,3,4\n"


@pytest.fixture
def read(tmp_path):
    def read(text: str | bytes, **options):
        (tmp_path / "rows.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_documents(tmp_path / "rows.csv", **options)

    return read


def test_ids_are_text_and_a_late_fraction_is_a_number(read):
    rows = [f"{query},d,0,1,{age}\n" for query, age in (("007", 2), ("7", 3), ("7.0", 4), ("1e3", 5), ("1000", 2.5))]
    documents = read(HEAD + "".join(rows)[:-1])
    assert documents.query == ["007", "7", "7.0", "1e3", "1000"]
    assert documents.features[:, 1].tolist() == [2, 3, 4, 5, 2.5]
    late = HEAD + "".join(f"q{number},d,0,1,{number}\n" for number in range(20_000)) + "x,d,0,1,2.5\n"
    assert read(late).features[-1].tolist() == [1, 2.5]


def test_numbers_are_those_that_python_reads(read):
    texts = ["1", "+1.5", "-.5", "5.", "1e5", "1E+3", "0.1", "123456789.123456789", "2.2250738585072014e-308"]
    documents = read(HEAD + "".join(f"q,d,2.0,{text},0\n" for text in texts))
    assert documents.features[:, 0].tolist() == [float(text) for text in texts]
    assert documents.label == [2] * len(texts)
    assert (documents.names, documents.document) == (["price", "age"], ["d"] * len(texts))


def test_lines_are_those_of_an_editor(read, tmp_path):
    """With quoted line breaks, blank lines, line ends of Windows, and characters that only Python ends a line at."""
    before = 'q1,"a\nb\r\nc",0,1,2\r\n\nq1,\u2028\x0b\x0c\x85,0,1,2\n\n'
    with pytest.raises(DataError, match=re.escape("rows.csv:8: found 'x' in column price, expected a number")):
        read(f"{HEAD}{before}q2,z,1,x,4\n")
    assert read(HEAD + before).document == ["a\nb\r\nc", "\u2028\x0b\x0c\x85"]
    with pytest.raises(DataError, match=r"rows\.csv:8: found an empty cell in column query, expected text"):
        read(f"\ufeff{HEAD}{before},z,1,1,4\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: found nothing, expected names of columns"),
        (HEAD, ": found no document, expected a line for each"),
        ("query;label;x\nq;0;1\n", ":1: found columns that are separated by ';', expected commas"),
        ("query\tlabel\tx\nq\t0\t1\n", r":1: found columns that are separated by '\\t', expected commas"),
        ("query,label,,x\nq,0,1,2\n", ":1: found no name for column 3, expected one for each column"),
        ("query,label,x,x\nq,0,1,2\n", ":1: found 'x' twice, expected a name of its own for each column"),
        (
            "query,document,label\nq,d,0\n",
            ":1: found the columns query, document, label, expected one more for each feat",
        ),
        ("qid,label,x\nq,0,1\n", ":1: found the columns qid, label, x, and no query"),
        (
            HEAD + GOOD + "q2,c,0,,4\n",
            ":4: found an empty cell in column price, expected a number: say missing=",
        ),
        (HEAD + GOOD + "q2,c,0,NULL,4\n", ":4: found 'NULL' in column price, expected a number: say"),
        *(
            (f'{HEAD}{GOOD}q2,c,0,"{cell}",4\n', f":4: found {cell!r} in column price, expected a number$")
            for cell in ("1,5", "nan", "inf", "1_0", " 1", "0x1", "1e999", "one")
        ),
        *(
            (
                f"{HEAD}{GOOD}q2,c,{cell},1,4\n",
                f":4: found {cell!r} in column label, expected a whole number from 0 to 62",
            )
            for cell in ("-1", "63", "0.5", "good")
        ),
        (HEAD + GOOD + "q2,c,,1,4\n", ":4: found an empty cell in column label, expected a whole number"),
        (HEAD + GOOD + "q2,c,0,1,4,5\n", ":4: found 6 fields, expected 5, as in the heading"),
        (HEAD + GOOD + 'q2,"c,0,1,4\n', ": line 4 has a quote that is not closed or in a wrong place"),
        (
            (HEAD + GOOD + "q2,é,0,1,4\n").encode("latin1"),
            ", line 4: found text in another encoding, expected UTF-8: if it is LATIN1",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_with_its_place(read, text, message):
    with pytest.raises(DataError, match=message) as error:
        read(text)
    assert str(error.value).count("\n") == 0


def test_a_missing_value_gets_a_meaning(read):
    text = f"{HEAD}q1,a,0,,2\nq1,b,0,5,NULL\nq1,c,0,7,3\nq2,d,0,,1\n"
    assert read(text, missing=-1).features.tolist() == [[-1, 2], [5, -1], [7, 3], [-1, 1]]
    assert read(text, missing="minimum").features.tolist() == [[5, 2], [5, 2], [7, 3], [0, 1]]
    assert np.isnan(read(text, missing=np.nan).features).sum() == 3


def test_columns_may_be_left_out_called_otherwise_and_sorted(read):
    text = "query,grade,url,price,split\nb,1,x,1,test\na,0,x,2,train\nb,2,x,3,test\n"
    documents = read(text, label="grade", without=["url"], sort=True)
    assert (documents.query, documents.label) == (["a", "b", "b"], [0, 1, 2])
    assert documents.features.tolist() == [[2], [1], [3]]
    assert documents.split == ["train", "test", "test"]
    with pytest.raises(DataError, match=r":3: found 'dev' in column split, expected one of train, validation, test"):
        read(text.replace("2,train", "2,dev"), label="grade", without=["url"], sort=True)


def test_parquet_is_read_as_csv_and_named_by_rows(tmp_path):
    table = pl.DataFrame({"query": ["007", "7"], "label": [0, 1], "new": [True, False], "price": [1, 2]})
    table.write_parquet(tmp_path / "rows.parquet")
    documents = read_documents(tmp_path / "rows.parquet")
    assert (documents.query, documents.features.tolist()) == (["007", "7"], [[1, 1], [0, 2]])
    table.with_columns(price=pl.Series([1.0, None])).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"rows.parquet:row 2: found an empty cell in column price"):
        read_documents(tmp_path / "rows.parquet")
    table.with_columns(price=pl.Series([[1], [2]])).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"column price must have one number or text a row, got List"):
        read_documents(tmp_path / "rows.parquet")
    for name in ("none.csv", "none.parquet", "."):
        with pytest.raises(DataError, match="must be a csv or parquet file"):
            read_documents(tmp_path / name)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (7, "q1,1,774,0.43,18,8x7", ":7: found '8x7' in column age, expected a number"),
        (30, "q1,1,774,0.43,18,837", ":30"),
    ],
)
def test_a_dataset_of_ones_own_names_the_place(tmp_path, monkeypatch, capsys, number, line, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OL2R_CHOICES", raising=False)
    name = f"placed_rows_{number}"  # a module of its own
    assert cli.main(["new", "dataset", name]) == 0
    rows = Path("choices", f"{name}.csv").read_text().splitlines()
    Path("changed.csv").write_text("\n".join([*rows[: number - 1], line, *rows[number:]]) + "\n")
    words = [f"dataset={name}", "dataset.path=changed.csv", "ranker=pdgd", "rounds=5"]
    assert message in refused(capsys, "run", *words)
