"""The same pages in every format and form are one log; what cannot be read is told in one line with what to type."""

from __future__ import annotations

import bz2
import gzip
import json
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ol2r_cli.plugins.click_logs.click_log import read
from ol2r_cli.plugins.click_logs.fit_clicks import main
from ol2r_cli.plugins.click_logs.log_file import AS_IT_IS, Form
from tests.finished import refused
from tests.plugins.click_logs.logs import counts_of, pages_of

FIT = "data", "fit-clicks"

PAGES = ["shoes: a* b c*", "coats: x y", "shoes: b a*", "coats: y* x w"]  # * is a click
COUNTS = "query,document,place,impressions,clicks\n"
SESSIONS = "session,query,document,place,click\n"


def row_a_page(clicks="flags"):
    rows = []
    for number, page in enumerate(PAGES, 1):
        query, _, shown = page.partition(": ")
        documents, clicked = shown.replace("*", "").split(), [one[-1] == "*" for one in shown.split()]
        ranks = [rank for rank, is_clicked in enumerate(clicked, 1) if is_clicked]
        kinds = {"flags": [*map(int, clicked)], "ranks": ranks, "documents": [documents[rank - 1] for rank in ranks]}
        rows.append((f"p{number}", query, documents, kinds[clicks]))
    return pl.DataFrame(rows, schema=["page", "query", "documents", "clicks"], orient="row")


def row_a_document():
    rows = row_a_page().with_columns(position=pl.int_ranges(1, pl.col("documents").list.len() + 1))
    rows = rows.explode("documents", "clicks", "position").rename({"documents": "document", "clicks": "click"})
    return rows.select("page", "query", "document", "position", "click")


def joined(table, separator):
    """Lists as text."""
    return table.with_columns(pl.col(pl.List).cast(pl.List(pl.String)).list.join(separator))


def as_json(table, quote='"'):
    columns = {
        name: [json.dumps(one.to_list()).replace('"', quote) for one in table[name]] for name in ("documents", "clicks")
    }
    return table.with_columns(pl.Series(name, texts) for name, texts in columns.items())


def assert_same(path: Path, form: Form = AS_IT_IS) -> None:
    """The file has the pages above, in order; endings do not matter, since the first bytes say what a file is."""
    log, left_out = read(path, form=form)
    assert pages_of(log) == PAGES
    assert counts_of(log) == [
        *("coats w 0/0 0/0 0/1", "coats x 0/1 0/1 0/0", "coats y 1/1 0/1 0/0"),
        *("shoes a 1/1 1/1 0/0", "shoes b 0/1 0/1 0/0", "shoes c 0/0 0/0 1/1"),
    ]
    assert (left_out, log.repeats) == (0, 0)


def zipped(path):
    path.write_bytes(gzip.compress(path.read_bytes()))
    return path


FORMATS = {
    "parquet": pl.DataFrame.write_parquet,
    "json lines": pl.DataFrame.write_ndjson,
    "commas": lambda table, file: joined(table, ",").write_csv(file),
    "semicolons": partial(pl.DataFrame.write_csv, separator=";"),
    "tabs": partial(pl.DataFrame.write_csv, separator="\t"),
    "text in json lines": lambda lists, file: joined(lists, ";").write_ndjson(file),
    "json in csv": lambda lists, file: as_json(lists).write_csv(file),
    "pandas": lambda lists, file: as_json(lists, quote="'").write_csv(file),
    "bars": lambda lists, file: joined(lists, "|").write_csv(file),
    "blanks": lambda lists, file: joined(lists, " ").write_csv(file),
    "commas with blanks": lambda lists, file: joined(lists, ", ").write_csv(file),
}
OF_ROWS = [*FORMATS][:5]
OF_LISTS = [*FORMATS][:3] + [*FORMATS][5:]
CLICKS = "flags", "documents", "ranks"  # of lists


@pytest.mark.parametrize(("clicks", "written"), [*product(["rows"], OF_ROWS), *product(CLICKS, OF_LISTS)])
def test_pages_in_every_format(tmp_path, clicks, written):
    table = row_a_page(clicks) if clicks in CLICKS else row_a_document()
    FORMATS[written](table, file := tmp_path / "log")
    assert_same(file)
    if written != "parquet":
        assert_same(zipped(file))


@pytest.mark.parametrize(
    "other", ["", '{"query": "q", "documents": "[\\"x\\"]", "clicks": [1]}\n'], ids=["lists", "a text"]
)
def test_documents_of_json_lines_are_those_of_json(tmp_path, other):
    """Backslashes, quotes, signs of lists and other letters in names; also where a list is text that is json."""
    names = [r"C:\new\u0041.txt", 'a "quoted" name', "a,b]", "ü\n", "'", 7]
    line = json.dumps({"query": "q", "documents": names, "clicks": [1, 0, 0, 0, 0, 0]})
    (file := tmp_path / "log.jsonl").write_text(f"{line}\n{other}")
    log, _ = read(file, form=Form())
    assert sorted(log.document_ids) == sorted([*map(str, names), *(["x"] if other else [])])
    assert {log.document_ids[row] for row in np.flatnonzero(log.clicks.any(1))} == {names[0], *(["x"] if other else [])}


READ = {
    "repeated rows are added, and pos counts from 0": (
        "query,url,pos,Impression,Click\nq,a,0,1000,900\nq,b,0,7,1\nq,a,0,10,1\nq,a,1,5,2\nq,c,2,0,0\n",
        ["q a 901/1010 2/5", "q b 1/7 0/0"],
    ),
    "counts in json lines": (
        '{"query": 7, "doc_id": "a", "rank": 1, "impressions": 10, "clicks": 6}\n'
        '{"query": 7, "doc_id": "a", "rank": 2, "impressions": 10, "clicks": 3}\n\n',
        ["7 a 6/10 3/10"],
    ),
    "numbers with a point": (f"{COUNTS}q,a,1,10.0,3\nq,a,2.,9.00,1.0\n", ["q a 3/10 1/9"]),
    "the mark of UTF-8": (f"\ufeff{COUNTS}q,ü,1,10,3\n", ["q ü 3/10"]),
    "breaks in quotes, and blank lines": (
        f'{COUNTS}"two\nlines",a,1,9,3\n\n"two\nlines",a,2,9,2\n\n',
        ["two\nlines a 3/9 2/9"],
    ),
    "document before url": ("query,document,url,pos,impressions,clicks\nq,d,u,0,10,4\n", ["q d 4/10"]),
    "position before pos": ("query,document,position,pos,impressions,clicks\nq,d,1,7,10,4\n", ["q d 4/10"]),
    "a click before counts": (
        "session,query,document,place,click,clicks,impressions\n1,q,a,1,1,0,7\n1,q,b,2,0,1,7\n",
        ["q a 1/1 0/0", "q b 0/0 0/1"],
    ),
    "true as of polars": (f"{SESSIONS}1,q,a,1,true\n1,q,b,2,false\n", ["q a 1/1 0/0", "q b 0/0 0/1"]),
    "True as of pandas": (f"{SESSIONS}1,q,a,1,True\n1,q,b,2,False\n", ["q a 1/1 0/0", "q b 0/0 0/1"]),
    "a document twice is clicked where it is first": (
        '{"query": "q", "documents": ["a", "b", "a"], "clicked": ["a"]}\n'
        '{"query": "q", "documents": ["b", "a", "c"], "clicked": ["c"]}\n',
        ["q a 1/1 0/1 0/1", "q b 0/1 0/1 0/0", "q c 0/0 0/0 1/1"],
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_file_has_clicks_and_impressions(tmp_path, case):
    content, expected = READ[case]
    (file := tmp_path / "log").write_text(content, encoding="utf-8")
    log, left_out = read(file)
    assert (counts_of(log), left_out) == (expected, 0)


@pytest.mark.parametrize("kind", [pl.Float32, pl.Boolean, pl.Int8])
def test_sessions_of_clax_are_rows_of_lists(tmp_path, kind):
    """Documents and clicks from the top, with clicks of any type."""
    rows = {"query_id": [7, 7, 9], "query_doc_ids": [[1, 2], [2, 1, 3], [4]], "clicks": [[1, 0], [0, 0, 1], [1]]}
    table = pl.DataFrame(rows).with_columns(pl.col("clicks").list.eval(pl.element().cast(kind)))
    table.write_parquet(file := tmp_path / "clax.parquet")
    assert pages_of(read(file)[0]) == ["7: 1* 2", "7: 2 1 3*", "9: 4*"]


def test_entries_without_an_id_keep_their_rank(tmp_path, caplog):
    """Such as an advertisement: what is below it is at its own rank, and its clicks count for nothing."""
    caplog.set_level("INFO")
    (file := tmp_path / "log").write_text(
        '{"query": "q", "documents": ["a", null, "b"], "clicks": [1, 1, 0]}\n'
        '{"query": "q", "documents": [null, "b", "a"], "clicks": [0, 0, 1]}\n'
        '{"query": "q", "documents": ["b", "a", ""], "clicks": [0, 1, 0]}\n'
    )
    log, _ = read(file)
    assert pages_of(log) == ["q: a* - b", "q: - b a*", "q: b a*"]
    assert counts_of(log) == ["q a 1/1 1/1 1/1", "q b 0/1 0/1 0/1"]
    assert "3 places of lists without a document: what is below keeps its rank" in caplog.messages


def test_known_names_of_columns_are_told(tmp_path, caplog):
    caplog.set_level("INFO")
    names = {"page": "Search_ID", "query": "q", "document": "product_id", "position": "Rank"}
    row_a_document().rename(names).write_csv(file := tmp_path / "log.csv")
    assert_same(file)
    assert "columns read as: page=Search_ID, query=q, document=product_id, place=Rank" in caplog.text


def test_names_that_are_given_come_before_known_ones(tmp_path, capsys):
    other = row_a_document().rename({"query": "term", "position": "slot"})
    other.with_columns(query=pl.lit("id"), document_id=pl.lit("z")).write_csv(file := tmp_path / "log.csv")
    assert_same(file, Form(columns={"query": "term", "place": "slot"}))
    told = refused(capsys, *FIT, file, "--columns", "query=term,rank=slot", "--first-rank", 0)
    assert "must have impressions at each place from 1 to 4, got none at place 1" in told


def test_ranks_from_0_of_rows_are_asked_for(tmp_path, capsys):
    """Where as many rows are at rank 0 as at rank 1 nothing is read, with --skip-bad neither."""
    row_a_document().with_columns(pl.col("position") - 1).write_csv(file := tmp_path / "log.csv")
    assert_same(file, Form(first_rank=0))
    for words in [], ["--skip-bad"]:
        told = f"{file} has 4 rows at rank 0, so that ranks seem to count from 0: type --first-rank 0"
        assert told in refused(capsys, *FIT, file, *words)
    with pytest.raises(ValueError, match="place from 1 to 1000, got page p1, query shoes, document a, position 0"):
        read(file, form=Form(first_rank=1))


def test_ranks_from_0_of_lists_are_asked_for(tmp_path):
    lists = row_a_page("ranks").with_columns(pl.col("clicks").list.eval(pl.element() - 1))
    lists.write_parquet(file := tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=r"column clicks has ranks from 0: type --clicks ranks --first-rank 0"):
        read(file)
    assert_same(file, Form(first_rank=0, clicks="ranks"))


def test_lists_of_clicks_that_could_be_two_things_are_asked_for(tmp_path):
    """Documents 1 and 2 are their ranks, too."""
    rows = [("q", [2, 1, 3], [2]), ("q", [1, 2, 3], [1])]
    table = pl.DataFrame(rows, schema=["query", "documents", "clicked"], orient="row")
    table.write_ndjson(file := tmp_path / "log.jsonl")
    with pytest.raises(ValueError, match=r"could have documents or ranks: type --clicks flags, --clicks documents or"):
        read(file)
    assert pages_of(read(file, form=Form(clicks="documents"))[0]) == ["q: 2* 1 3", "q: 1* 2 3"]
    assert pages_of(read(file, form=Form(clicks="ranks"))[0]) == ["q: 2 1* 3", "q: 1* 2 3"]


TIMES = {  # the order is fourth, second, first, third
    "ISO 8601": ["2024-06-01T12:00:00Z", "2024-06-01 11:00:00", "2024-06-01T14:30:00+02:00", "2024-05-31"],
    "numbers": [4, 3, 5, 1],
    "numbers as text": ["40.5", "9", "100", "1"],
}
IN_TIME = [PAGES[3], PAGES[1], PAGES[0], PAGES[2]]


@pytest.mark.parametrize(("table", "written"), [
    ("lists", "json in csv"), ("lists", "parquet"), ("rows", "commas"), ("rows", "json lines"),
])  # fmt: skip
@pytest.mark.parametrize("times", TIMES)
def test_pages_are_in_the_order_of_their_time(tmp_path, times, table, written):
    lists = row_a_page().with_columns(time=pl.Series(TIMES[times]))
    rows = row_a_document().join(lists.select("page", timestamp="time"), on="page", maintain_order="left")
    FORMATS[written]({"lists": lists, "rows": rows}[table], file := tmp_path / "log")
    assert pages_of(read(file)[0]) == IN_TIME


DAYS = pl.Series(["2024-06-03", "2024-06-02", "2024-06-04", "2024-06-01"]).str.to_datetime()


@pytest.mark.parametrize(
    "times",
    [DAYS, DAYS.dt.replace_time_zone("Europe/Berlin"), DAYS.dt.date(), DAYS.dt.cast_time_unit("ns")],
    ids=["datetime", "zone", "date", "ns"],
)
def test_datetimes_of_parquet_are_times(tmp_path, times):
    row_a_page().with_columns(time=times).write_parquet(file := tmp_path / "log.parquet")
    assert pages_of(read(file)[0]) == IN_TIME


def test_pages_of_equal_times_keep_the_order_of_the_file(tmp_path):
    row_a_document().with_columns(timestamp=pl.lit(7)).write_csv(file := tmp_path / "log.csv")
    assert_same(file)


@pytest.fixture
def fifty_pages():
    rng = np.random.default_rng(0)
    rows = []
    for page in range(50):
        shown = rng.permutation(9)[:4].tolist()
        rows += [(page, page % 7, document, place, int(rng.random() < 0.4)) for place, document in enumerate(shown, 1)]
    return pl.DataFrame(rows, schema=["page", "query", "document", "place", "click"], orient="row")


def test_the_last_fifth_of_the_pages_is_apart(tmp_path, fifty_pages):
    """Both parts number all documents alike, and add up to the log."""
    fifty_pages.write_parquet(file := tmp_path / "log.parquet")
    log, _ = read(file)
    first, last = log.split()
    assert (pages_of(first), pages_of(last)) == (pages_of(log)[:40], pages_of(log)[40:])
    assert (first.impressions + last.impressions == log.impressions).all()
    assert (first.clicks + last.clicks == log.clicks).all()
    clicks = fifty_pages.filter(pl.col("page") >= 40)["click"].sum()
    assert (last.impressions.sum(), last.clicks.sum()) == (40, clicks)


def test_every_fifth_query_of_counts_is_apart(tmp_path, fifty_pages):
    counts = fifty_pages.group_by("query", "document", "place").agg(impressions=pl.len(), clicks=pl.col("click").sum())
    counts.write_csv(file := tmp_path / "counts.csv")
    log, _ = read(file)
    queries = [{*log.query[part.impressions.any(1)].tolist()} for part in log.split()]
    assert queries == [{0, 1, 2, 3, 5, 6}, {4}]
    with pytest.raises(ValueError, match="a log of counts has no pages"):
        log.query_of_pages()


def test_repeated_pages_are_counted_apart(tmp_path):
    """By their id and query; those that differ are malformed."""
    file, lists = tmp_path / "log.jsonl", row_a_page()
    pl.concat([lists, lists[:2], lists[1:2]]).write_ndjson(file)
    log, left_out = read(file)
    assert (pages_of(log), log.repeats, left_out) == (PAGES, 3, 0)
    other = lists[2:3].with_columns(clicks=pl.lit([1, 0]))
    pl.concat([lists, lists[:1], other]).write_ndjson(file)
    with pytest.raises(ValueError, match="line 3: a row must have the same documents and clicks for the same page, go"):
        read(file)
    log, left_out = read(file, "malformed")
    assert (pages_of(log), log.repeats, left_out) == ([*PAGES[:2], PAGES[3]], 1, 2)


def test_pages_without_an_id_cannot_be_told_apart(tmp_path, caplog):
    caplog.set_level("INFO")
    row_a_page().write_ndjson(file := tmp_path / "log.jsonl")
    read(file)
    assert "no id" not in caplog.text
    pl.concat([row_a_page()] * 2).drop("page").write_ndjson(file)
    assert pages_of(read(file)[0]) == PAGES * 2
    assert "pages have no id, so that repeats cannot be told: type --columns page=NAME" in caplog.text


@pytest.mark.parametrize("leave_out", ["none", "malformed"])
def test_repeated_rows_of_a_session_are_counted_apart(tmp_path, leave_out):
    """Of rows that are there twice or three times one counts."""
    rows = row_a_document()
    again = pl.concat([rows, rows[2:8], rows[5:]]).sample(fraction=1, shuffle=True, seed=1)
    again.write_csv(file := tmp_path / "log.csv")
    log, left_out = read(file, leave_out)
    assert (sorted(pages_of(log)), log.repeats, left_out) == (sorted(PAGES), 11, 0)


def test_places_of_a_session_with_two_rows_are_malformed(tmp_path, capsys, caplog):
    """All rows of a place with two documents, or with a click and without one."""
    caplog.set_level("INFO")
    rows = row_a_document()
    other_click, other_document = (
        rows[:1].with_columns(click=1 - pl.col("click")),
        rows[3:4].with_columns(document=pl.lit("z")),
    )
    pl.concat([rows, other_click, rows[:1], other_document, rows[5:6]]).write_csv(file := tmp_path / "log.csv")
    log, left_out = read(file, "malformed")
    assert (pages_of(log), log.repeats, left_out) == (["shoes: - b c*", "coats: - y", *PAGES[2:]], 1, 5)
    assert (
        f"{file}, line 2: a row must have each place of a page once, got page p1, query shoes, document a, position 1, "
        "click 1 (malformed rows in all: 5)" in refused(capsys, *FIT, file)
    )
    assert main([str(file), "--skip-bad", "--fit", "pbm"]) == 0
    assert {"5 malformed rows left out", "1 repeated row left out"} <= {*caplog.messages}


COUNTED, SHOWN = f"{COUNTS}q,b,1,9,1\nr,b,1,9,1\n", f"{SESSIONS}7,q,a,1,1\n8,q,a,1,1\n"
LISTED = '{"query": "q", "documents": ["a", "b"], "clicks": [1, 0], "time": "2024-06-01"}\n'
TIMED = LISTED.replace('"2024-06-01"', "9")
MALFORMED = {  # content, line, what is wrong, rows
    "clicks above impressions": (f"{COUNTED}q,a,1,10,11\n", 4, "clicks from 0 to impressions, got query q, docum", 1),
    "rank 0": (f"{COUNTED}q,a,0,10,1\n", 4, "place from 1 to 1000, got query q, document a, place 0", 1),
    "a word for a rank": (f"{COUNTED}q,a,first,10,1\n", 4, "place from 1 to 1000, got query q, document a, place f", 1),
    "impressions below 0": (f"{COUNTED}q,a,1,-1,0\n", 4, "impressions from 0, got query q", 1),
    "a word for clicks": (f"{COUNTED}q,a,1,10,some\n", 4, "clicks from 0, got query q", 1),
    "no query": (f"{COUNTED},a,1,10,1\n", 4, "query and document, got query None", 1),
    "below a row of two lines": (f'{COUNTED}"two\nlines",a,1,9,3\n\nq,a,2,9,10\n', 7, "clicks from 0 to impressio", 1),
    "two clicks": (f"{SHOWN}1,q,a,1,2\n", 4, "clicks from 0 to impressions, got session 1", 1),
    "no session": (f"{SHOWN},q,a,1,1\n", 4, "session, got session None", 1),
    "two documents at a rank": (f"{SHOWN}1,q,a,1,1\n1,q,b,1,0\n", 4, "each place of a session once, got session 1", 2),
    "a word for a time": (3 * LISTED + LISTED.replace("2024-06-01", "noon"), 4, "a time, a number or as 2024-", 1),
    "a word among numbers": (
        3 * TIMED + TIMED.replace("9", '"noon"'), 4, "a time, a number or as 2024-06-01T12:00:00Z, got query q", 1
    ),
    "fewer clicks than documents": (3 * LISTED + LISTED.replace("1, 0", "1"), 4, "0 or 1 for each document in cli", 1),
}  # fmt: skip


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_row_is_told_with_its_line_or_left_out(tmp_path, capsys, case, ending):
    content, line, found, number = MALFORMED[case]
    (file := tmp_path / f"log{ending}").write_text(content)
    if ending:
        zipped(file)
    error = refused(capsys, *FIT, file)
    assert error.startswith(f"ol2r data fit-clicks: {file}, line {line}: a row must have {found}")
    assert error.endswith(f" (malformed rows in all: {number}): type --skip-bad to leave malformed rows out")
    log, left_out = read(file, "malformed")
    assert (left_out, log.impressions.any()) == (number, True)


def test_rows_of_parquet_have_numbers(tmp_path):
    table = pl.DataFrame({"query_id": [7, 7], "query_doc_ids": [[1, 2], [1, 2]], "clicks": [[1, 0], [1]]})
    table.write_parquet(file := tmp_path / "clax.parquet")
    with pytest.raises(ValueError, match=r"clax\.parquet, row 2: a row must have 0 or 1 for each document in clicks, "):
        read(file)


def test_broken_lines_of_json_are_told_or_left_out(tmp_path):
    row_a_page().write_ndjson(file := tmp_path / "log.jsonl")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], '{"page": "p9", "que', "", *lines[2:], "7"]) + "\n")
    with pytest.raises(ValueError, match=r"line 3: a line must have one json object \(malformed rows in all: 2\)"):
        read(file)
    log, left_out = read(file, "malformed")
    assert (pages_of(log), left_out) == (PAGES, 2)


UNREADABLE = {  # content, message
    "nothing": ("", "must be a csv, parquet or json lines file (its first line is empty)"),
    "a blank line": ('\n{"query": "q"}\n', "must be a csv, parquet or json lines file (its first line is empty)"),
    "no heading": ("1,shoes,a,3,0\n", "it has 1, shoes, a, 3, 0, and no query: type --columns query=NAME"),
    "a word": ("hello", "must have the columns query, document, place, impressions, clicks, or session, query, docum"),
    "a list of json": ('[{"query": "q"}]', "must have one json object a line: type jq -c '.[]'"),
    "json over lines": ('{\n"query": "q"\n}\n', "must have one json object a line: type jq -c ."),
    "structures": (
        '{"query": {"text": "q"}, "documents": ["a"], "clicks": [1]}\n',
        "column query must have one number or text a row, got Struct({'text': String}): write a file with jq",
    ),
    "lists of structures": (
        '{"query": "q", "documents": [{"id": "a"}], "clicks": [1]}\n',
        "column documents must have lists of numbers or text, got List(Struct({'id': String})): write a file with jq",
    ),
    "a list a row": ('{"session": 1, "query": ["q"], "document": "a", "place": 1, "click": 1}\n', "got List(String)"),
    "no ranks": ("query,documents,clicks\nq,a,1\nq,b,0\n", "must have a column of ranks, or lists in column documents"),
    "latin-1": (f"{SESSIONS}1,shöes,a,1,1\n".encode("latin-1"), "line 2: found text in another encoding"),
    "latin-1 in json": ('{"q": "shöes", "documents": ["a"]}\n'.encode("latin-1"), "text in another encoding"),
    "utf-16": (SHOWN.encode("utf-16"), "line 1: found text in another encoding, expected UTF-8: if it is UTF-16"),
    "bzip2": (bz2.compress(COUNTS.encode()), "found a file that is compressed in another way"),
    "a spreadsheet": (b"PK\3\4 of a spreadsheet", "found a file that is compressed in another way"),
    "half of parquet": ("PAR1 and no more", "must be a csv, parquet or json lines file ("),
    "more fields": (f"{COUNTS}q,a,1,9,1\nq,c,2,9,1,7\n", "(line 3 has more fields than the first)"),
    "more fields, zipped": (gzip.compress(b"query,document\nq,a,1\n"), "(line 2 has more fields than the first)"),
    "an open quote": (f'{COUNTS}"two\nlines",a,1,9,3\n\n"two\nlines,a,2,9,1\n', "(line 5 has a quote"),
    "no row": (SESSIONS, "has no row that can be used"),
    "no impressions": (f"{COUNTS}q,a,1,0,0\n", "has no row that can be used"),
    "no click": (f"{SESSIONS}1,q,a,1,0\n2,r,a,1,0\n", "has no click"),
    "a place without any": (f"{COUNTS}q,a,1,9,3\nr,a,3,9,3\n", "at each place from 1 to 3, got none at place 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_one_line(tmp_path, capsys, case):
    content, message = UNREADABLE[case]
    (file := tmp_path / "log.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    error = refused(capsys, *FIT, file)
    assert error.startswith("ol2r data fit-clicks: ")
    assert str(file) in error
    assert message in error


@pytest.mark.parametrize(("columns", "message"), [
    ("query=term", "has no column term; it has session, query, document, place, click"),
    ("qery=q", "names of page, query, document, place, impressions, clicks, time, got qery=q: did you mean query?"),
    ("query", "--columns must be NAME=COLUMN,.. with names of page,"),
])  # fmt: skip
def test_names_of_columns_that_are_not_there_are_told(tmp_path, capsys, columns, message):
    (file := tmp_path / "log.csv").write_text(SESSIONS)
    assert message in refused(capsys, *FIT, file, "--columns", columns)


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """The folder of a log that is read in parts, and queries, documents and clicks of its pages.

    The last line of the first part of the csv file ends within a quoted field.
    """
    folder, rng, pages = tmp_path_factory.mktemp("long"), np.random.default_rng(0), 16_500
    query = np.array([f'a\n"quoted" line, {number}' for number in rng.integers(50, size=pages)])
    document, click = np.argsort(rng.random((pages, 10)))[:, :8], rng.random((pages, 8)) < 0.3
    lists = pl.DataFrame({"query": query, "documents": document.tolist(), "clicks": (click * 1).tolist()})
    lists.write_parquet(folder / "lists.parquet")
    rows = lists.with_columns(page=pl.int_range(pages), place=pl.lit([*range(1, 9)]))
    rows = rows.explode("documents", "clicks", "place").rename({"documents": "document"})
    rows.write_csv(folder / "rows.csv")
    rows.write_parquet(folder / "rows.parquet")
    part = (folder / "rows.csv").read_bytes()[: 2**22]
    assert part[: part.rindex(b"\n")].count(b'"') % 2 == 1
    return folder, [query, document.astype(str), click]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "lists.parquet"])
def test_a_long_log_is_read_in_parts(long_log, name):
    folder, pages = long_log
    log, _ = read(folder / name)
    document, click = log.pages
    found = np.array(log.query_ids)[log.query_of_pages()], np.array(log.document_ids)[document], click
    assert [np.array_equal(part, expected) for part, expected in zip(found, pages, strict=True)] == [True] * 3


def test_lines_are_counted_over_parts(long_log, tmp_path):
    (file := tmp_path / "bad.csv").write_text((long_log[0] / "rows.csv").read_text() + '"two\nlines",1,0,9999,0\n')
    with pytest.raises(ValueError, match=r"line 264002: a row must have place from 1 to 1000, got page 9999"):
        read(file)
