"""The same pages in every format and form are one log; what cannot be read is told in one line with what to type."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from ol2r_cli.plugins.click_logs.click_log import ClickLog, read
from ol2r_cli.plugins.click_logs.fit_clicks import main
from ol2r_cli.plugins.click_logs.log_file import Form
from ol2r_cli.plugins.click_logs.log_options import form_of

# Page, query, documents from the top, and the ranks of clicks.
PAGES = [
    ("p1", "shoes", ["a", "b", "c"], [1, 3]),
    ("p2", "coats", ["x", "y"], []),
    ("p3", "shoes", ["b", "a"], [2]),
    ("p4", "coats", ["y", "x", "w"], [1]),
]


def flags(documents: list[str], ranks: list[int]) -> list[int]:
    return [int(rank in ranks) for rank in range(1, len(documents) + 1)]


def row_a_document() -> pl.DataFrame:
    rows = [
        (page, query, document, rank, int(rank in ranks))
        for page, query, documents, ranks in PAGES
        for rank, document in enumerate(documents, 1)
    ]
    return pl.DataFrame(rows, schema=["page", "query", "document", "position", "click"], orient="row")


def row_a_page(clicks: str = "flags") -> pl.DataFrame:
    of = {
        "flags": flags,
        "documents": lambda documents, ranks: [documents[rank - 1] for rank in ranks],
        "ranks": lambda _, ranks: ranks,
    }[clicks]
    rows = [(page, query, documents, of(documents, ranks)) for page, query, documents, ranks in PAGES]
    return pl.DataFrame(rows, schema=["page", "query", "documents", "clicks"], orient="row")


def joined(table: pl.DataFrame, separator: str) -> pl.DataFrame:
    """Lists as text."""
    return table.with_columns(pl.col(pl.List).cast(pl.List(pl.String)).list.join(separator))


def as_json(table: pl.DataFrame) -> pl.DataFrame:
    columns = ("documents", "clicks")
    return table.with_columns(pl.Series(name, [json.dumps(one.to_list()) for one in table[name]]) for name in columns)


def assert_same(log: ClickLog, name: str) -> None:
    """It has the pages above, which are in order."""
    assert log.query_ids == ["coats", "shoes"], name
    assert log.document_ids == ["w", "x", "y", "a", "b", "c"], name
    assert log.pages is not None
    assert log.pages[0].tolist() == [[3, 4, 5], [1, 2, -1], [4, 3, -1], [2, 1, 0]], name
    assert log.pages[1].tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 0]], name
    assert log.query_of_pages().tolist() == [1, 0, 1, 0], name
    assert log.impressions.tolist() == [[0, 0, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]], name
    assert log.clicks.tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]], name


def test_every_format_and_form_has_the_same_pages(tmp_path: Path):
    """Endings do not matter: the first bytes say what a file is."""
    rows = row_a_document()
    files = {"rows.parquet": rows, "rows.csv": rows, "rows.jsonl": rows, "semicolons.txt": rows, "tabs.tsv": rows}
    for clicks in "flags", "documents", "ranks":
        lists = row_a_page(clicks)
        files |= {f"{clicks}.parquet": lists, f"{clicks}.ndjson": lists, f"{clicks}.json.csv": as_json(lists)}
        files |= {f"{clicks}.bars.csv": joined(lists, "|"), f"{clicks}.blanks.csv": joined(lists, " ")}
        files |= {f"{clicks}.commas.csv": joined(lists, ","), f"{clicks}.text.jsonl": joined(lists, ";")}
        pandas = as_json(lists).with_columns(pl.col("documents", "clicks").str.replace_all('"', "'"))
        files[f"{clicks}.pandas.csv"] = pandas
    for name, table in files.items():
        path = tmp_path / name
        if name.endswith(".parquet"):
            table.write_parquet(path)
        elif name.endswith(("jsonl", "ndjson")):
            table.write_ndjson(path)
        else:
            table.write_csv(path, separator={"tabs.tsv": "\t", "semicolons.txt": ";"}.get(name, ","))
        log, left_out = read(path)
        assert_same(log, name)
        assert (left_out, log.repeats) == (0, 0), name
        zipped = tmp_path / f"{name}.gz"
        if not name.endswith(".parquet"):
            zipped.write_bytes(gzip.compress(path.read_bytes()))
            assert_same(read(zipped)[0], zipped.name)


def test_counts_are_read_from_json_lines(tmp_path: Path):
    file = tmp_path / "counts.jsonl"
    rows = [{"query": 7, "doc_id": "a", "rank": rank, "impressions": 10, "clicks": 6 // rank} for rank in (1, 2)]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    log, _ = read(file)
    assert (log.query_ids, log.clicks.tolist()) == (["7"], [[6, 3]])


def test_other_names_are_known_or_given_and_told(tmp_path: Path, caplog):
    """Names of the table in upper case, too; a name that is given comes before a known one."""
    caplog.set_level("INFO")
    file = tmp_path / "log.csv"
    rows = row_a_document()
    rows.rename({"page": "Search_ID", "query": "q", "document": "product_id", "position": "Rank"}).write_csv(file)
    assert_same(read(file)[0], "known")
    assert "columns read as: page=Search_ID, query=q, document=product_id, place=Rank" in caplog.text
    other = rows.rename({"query": "term", "position": "slot"}).with_columns(query=pl.lit("id"), document_id=pl.lit("z"))
    other.write_csv(file)
    form = form_of(SimpleNamespace(columns="query=term,rank=slot", first_rank=None, separator=None, clicks=None))
    assert_same(read(file, form=form)[0], "given")


def test_ranks_from_0_are_asked_for_or_told(tmp_path: Path, capsys):
    """Where as many rows are at rank 0 as at rank 1 nothing is read, with --skip-bad neither."""
    file = tmp_path / "log.csv"
    row_a_document().with_columns(pl.col("position") - 1).write_csv(file)
    assert_same(read(file, form=Form(first_rank=0))[0], "rows")
    for words in [], ["--skip-bad"]:
        assert main([str(file), *words]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{file} has 4 rows at rank 0, so that ranks seem to count from 0: type --first-rank 0" in error
    with pytest.raises(ValueError, match="place from 1 to 1000, got page p1, query shoes, document a, position 0"):
        read(file, form=Form(first_rank=1))
    lists = row_a_page("ranks").with_columns(pl.col("clicks").list.eval(pl.element() - 1))
    lists.write_parquet(file)
    with pytest.raises(ValueError, match=r"column clicks has ranks from 0: type --clicks ranks --first-rank 0"):
        read(file)
    assert_same(read(file, form=Form(first_rank=0, clicks="ranks"))[0], "lists")


def test_lists_of_clicks_that_could_be_two_things_are_asked_for(tmp_path: Path):
    """Documents 1 and 2 are their ranks, too."""
    file = tmp_path / "log.jsonl"
    rows = [("q", [2, 1, 3], [2]), ("q", [1, 2, 3], [1])]
    pl.DataFrame(rows, schema=["query", "documents", "clicked"], orient="row").write_ndjson(file)
    with pytest.raises(ValueError, match=r"could have documents or ranks: type --clicks flags, --clicks documents or"):
        read(file)
    assert read(file, form=Form(clicks="documents"))[0].clicks.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert read(file, form=Form(clicks="ranks"))[0].clicks.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("time", [
    ["2024-06-01T12:00:00Z", "2024-06-01 11:00:00", "2024-06-01T14:30:00+02:00", "2024-05-31"],
    [4, 3, 5, 1],
    ["40.5", "9", "100", "1"],
])  # fmt: skip
def test_pages_are_in_the_order_of_their_time(tmp_path: Path, time: list):
    """Of text, as numbers, and of parquet: the order is fourth, second, first, third. Equal times keep the file's."""
    lists = row_a_page().with_columns(time=pl.Series(time))
    rows = row_a_document().join(lists.select("page", timestamp="time"), on="page", maintain_order="left")
    as_json(lists).write_csv(tmp_path / "lists.csv")
    rows.write_csv(tmp_path / "rows.csv")
    rows.write_ndjson(tmp_path / "rows.jsonl")
    lists.write_parquet(tmp_path / "lists.parquet")
    for name in "lists.csv", "rows.csv", "rows.jsonl", "lists.parquet":
        log, _ = read(tmp_path / name)
        assert log.pages[0].tolist() == [[2, 1, 0], [1, 2, -1], [3, 4, 5], [4, 3, -1]], name
        assert log.query_of_pages().tolist() == [0, 0, 1, 1], name
    rows.with_columns(timestamp=pl.lit(7)).write_csv(tmp_path / "rows.csv")
    assert_same(read(tmp_path / "rows.csv")[0], "equal times")
    as_json(lists).with_columns(time=pl.lit("noon")).write_csv(tmp_path / "lists.csv")
    with pytest.raises(ValueError, match="line 2: a row must have a time, a number or as 2024-06-01T12:00:00Z, got"):
        read(tmp_path / "lists.csv")


def test_datetimes_of_parquet_are_times(tmp_path: Path):
    times = pl.Series(["2024-06-02", "2024-06-03", "2024-06-01", "2024-06-04"]).str.to_datetime()
    for column in times, times.dt.replace_time_zone("Europe/Berlin"), times.dt.date(), times.dt.cast_time_unit("ns"):
        row_a_page().with_columns(time=column).write_parquet(tmp_path / "log.parquet")
        assert read(tmp_path / "log.parquet")[0].pages[0][:, 2].tolist() == [-1, 5, -1, 0], column.dtype


def test_the_last_fifth_of_the_pages_is_apart(tmp_path: Path):
    """Both parts number all documents alike, and add up to the log; of counts it is every fifth query."""
    rng = np.random.default_rng(0)
    rows = [(page, page % 7, int(d), k + 1, int(rng.random() < 0.4))
            for page in range(50) for k, d in enumerate(rng.permutation(9)[:4])]  # fmt: skip
    table = pl.DataFrame(rows, schema=["page", "query", "document", "place", "click"], orient="row")
    table.write_parquet(tmp_path / "log.parquet")
    log, _ = read(tmp_path / "log.parquet")
    first, last = log.split()
    assert [len(part.pages[0]) for part in (first, last)] == [40, 10]
    assert (np.concatenate([first.pages[0], last.pages[0]]) == log.pages[0]).all()
    assert (first.impressions + last.impressions == log.impressions).all()
    assert (first.clicks + last.clicks == log.clicks).all()
    later = table.filter(pl.col("page") >= 40)
    assert (last.impressions.sum(), last.clicks.sum()) == (40, later["click"].sum())
    counts = table.group_by("query", "document", "place").agg(impressions=pl.len(), clicks=pl.col("click").sum())
    counts.write_csv(tmp_path / "counts.csv")
    log, _ = read(tmp_path / "counts.csv")
    first, last = log.split()
    assert {*log.query[last.impressions.any(1)]} == {4}
    assert {*log.query[first.impressions.any(1)]} == {0, 1, 2, 3, 5, 6}
    with pytest.raises(ValueError, match="a log of counts has no pages"):
        log.query_of_pages()


def test_repeated_pages_are_counted_apart(tmp_path: Path, caplog):
    """By their id and query; a file without ids says that it cannot tell."""
    caplog.set_level("INFO")
    file, lists = tmp_path / "log.jsonl", row_a_page()
    pl.concat([lists, lists[:2], lists[1:2]]).write_ndjson(file)
    log, left_out = read(file)
    assert_same(log, "repeats")
    assert (log.repeats, left_out) == (3, 0)
    other = lists[2:3].with_columns(clicks=pl.lit([1, 0]))
    pl.concat([lists, lists[:1], other]).write_ndjson(file)
    with pytest.raises(
        ValueError, match=r"line 3: a row must have the same documents and clicks for the same page, got"
    ):
        read(file)
    log, left_out = read(file, "malformed")
    assert (len(log.pages[0]), log.repeats, left_out) == (3, 1, 2)
    assert "no id" not in caplog.text
    pl.concat([lists, lists]).drop("page").write_ndjson(file)
    assert len(read(file)[0].pages[0]) == 8
    assert "pages have no id, so that repeats cannot be told: type --columns page=NAME" in caplog.text


def test_entries_without_an_id_keep_their_rank(tmp_path: Path, caplog):
    """Such as an advertisement: what is below it is at its own rank, and its clicks count for nothing."""
    caplog.set_level("INFO")
    file = tmp_path / "log.jsonl"
    rows = [(["a", None, "b"], [1, 1, 0]), ([None, "b", "a"], [0, 0, 1]), (["b", "a", ""], [0, 1, 0])]
    pl.DataFrame([("q", *row) for row in rows], schema=["query", "documents", "clicks"], orient="row").write_ndjson(
        file
    )
    log, _ = read(file)
    assert log.impressions.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert log.clicks.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert log.pages[0].tolist() == [[0, -1, 1], [-1, 1, 0], [1, 0, -1]]
    assert "3 places of lists without a document: what is below keeps its rank" in caplog.messages


def test_a_document_twice_on_a_page_is_clicked_where_it_is_first(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    rows = [("q", ["a", "b", "a"], ["a"]), ("q", ["b", "a", "c"], ["c"])]
    pl.DataFrame(rows, schema=["query", "documents", "clicked"], orient="row").write_ndjson(file)
    assert read(file)[0].clicks.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_broken_lines_of_json_are_told_or_left_out(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    row_a_page().write_ndjson(file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], '{"page": "p9", "que', "", *lines[2:], "7"]) + "\n")
    with pytest.raises(ValueError, match=r"line 3: a line must have one json object \(malformed rows in all: 2\)"):
        read(file)
    log, left_out = read(file, "malformed")
    assert_same(log, "skipped")
    assert left_out == 2
    bad = '{"page": "p8", "query": "shoes", "documents": ["a", "b"], "clicks": [1]}\n'
    file.write_text("\n".join(["", *lines, bad]))
    with pytest.raises(ValueError, match="must be a csv, parquet or json lines file"):
        read(file)
    file.write_text("\n".join([*lines, "", bad]))
    with pytest.raises(ValueError, match="line 6: a row must have 0 or 1 for each document in clicks, got page p8"):
        read(file)


GOOD = "page,query,document,rank,click\n"


@pytest.mark.parametrize(("content", "words", "message"), [
    (b"", [], "must be a csv, parquet or json lines file (its first line is empty)"),
    (b"1,shoes,a,3,0\n", [], "it has 1, shoes, a, 3, 0, and no query: type --columns query=NAME"),
    (b"hello", [], "it has hello, and no query"),
    (b'[{"query": "q"}]', [], "must have one json object a line: type jq -c '.[]'"),
    (b'{\n"query": "q"\n}\n', [], "must have one json object a line: type jq -c ."),
    (b'{"query": {"text": "q"}, "documents": ["a"], "clicks": [1]}\n', [], "column query must have one number or text"),
    (b'{"query": "q", "documents": [{"id": "a"}], "clicks": [1]}\n', [],
     "column documents must have lists of numbers or text, got List(Struct({'id': String})): write a file with jq"),
    (b"query,documents,clicks\nq,a,1\nq,b,0\n", [], "must have a column of ranks, or lists in column documents: type"),
    (GOOD.encode() + "1,sh\xf6es,a,1,1\n".encode("latin-1"), [], "line 2: found text in another encoding"),
    ('{"q": "sh\xf6es", "documents": ["a", "b"], "clicks": [1, 0]}\n'.encode("latin-1"), [], "in another encoding"),
    ((GOOD + "1,q,a,1,1\n").encode("utf-16"), [], "line 1: found text in another encoding, expected UTF-8: if it is"),
    (GOOD.encode(), ["--columns", "query=term"], "has no column term; it has page, query, document, rank, click"),
    (GOOD.encode(), ["--columns", "qery=q"], "names of page, query, document, place, impressions, clicks, time, got"),
    (GOOD.encode(), ["--columns", "query"], "--columns must be NAME=COLUMN,.. with names of page,"),
    (GOOD.encode() + b"1,q,a,1,0\n2,r,a,1,0\n", [], "has no click"),
    (GOOD.encode() + b"1,q,a,1,1\n2,q,a,1,0\n", [], "must have two queries or more"),
    (GOOD.encode() + b"1,q,a,1,3\n2,r,a,1,0\n", [], "must have clicks from 0 to impressions, got page 1, query q"),
    (b"query,document,rank,impressions,clicks\nq,a,1,3,4\n", [], "line 2: a row must have clicks from 0 to"),
    (GOOD.encode(), [], "has no row that can be used"),
    (b"PAR1 and no more", [], "must be a csv, parquet or json lines file ("),
    (b"PK\3\4 of a spreadsheet", [], "found a file that is compressed in another way"),
])  # fmt: skip
def test_what_cannot_be_read_is_one_line(tmp_path: Path, capsys, content: bytes, words: list[str], message: str):
    file = tmp_path / "log.csv"
    file.write_bytes(content)
    assert main([str(file), *words]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("ol2r data fit-clicks: ")
    assert message in error


def test_a_log_without_rank_changes_or_of_ten_rows_is_told(tmp_path: Path, capsys):
    """Harvesting has nothing to harvest; of ten rows the fits say that they are unreliable."""
    file = tmp_path / "log.csv"
    rows = [f"{page},{'qr'[page % 2]},{document},{rank},{int(page % 3 > rank % 2)}"
            for page in range(6) for rank, document in enumerate("ab", 1)]  # fmt: skip
    file.write_text(GOOD + "\n".join(rows) + "\n")
    assert main([str(file)]) == 2
    assert "documents that were shown at both of places 1 and 2 must have clicks" in capsys.readouterr().err
    rows = [f"{page},{'qr'[page % 2]},{document},{rank},{int(page == rank or page > 2)}"
            for page in range(5) for rank, document in enumerate("ab" if page % 4 < 2 else "ba", 1)]  # fmt: skip
    file.write_text(GOOD + "\n".join(rows) + "\n")
    assert main([str(file)]) == 0
    assert "impressions (harmonic mean over clicks): pbm, dcm, attraction by grade" in capsys.readouterr().err
