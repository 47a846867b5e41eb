"""The parser against sklearn, against a slow reader, and on every defect a file may have."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from ol2r_cli.dataset import parse as parser
from ol2r_cli.dataset.defects import DataError
from ol2r_cli.dataset.parse import Documents, _columns, parse
from tests.dataset.letor_files import TINY
from tests.reference.letor import LetorLines, read_letor


def parse_text(text: bytes, **options: object) -> Documents:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "data.txt"
        file.write_bytes(text)
        return parse(file, **options)  # type: ignore[arg-type]


def assert_equals_reference(documents: Documents, text: bytes, missing: float | str = "error") -> None:
    reference = read_letor(text, missing=missing)
    assert isinstance(reference, LetorLines), f"the parser accepted line {reference}, which is not of the form"
    rows = reference.documents
    dense = np.zeros((len(rows), max((max(row, default=0) for row in rows), default=0)), np.float32)
    for number, row in enumerate(rows):
        for feature, value in row.items():
            dense[number, feature - 1] = value
    np.testing.assert_array_equal(documents.features, dense)
    np.testing.assert_array_equal(documents.labels, reference.grades)
    assert np.repeat(documents.query_ids, np.diff(documents.offsets)).tolist() == reference.queries


@pytest.mark.parametrize("name", ["MQ2008/Fold1/test.txt", "ClueWeb09/Fold1/test.txt", "yahoo_sample/Fold1/train.txt"])
def test_real_files_equal_sklearn_bit_by_bit(data_dir: Path, name: str):
    path = data_dir / name
    documents = parse(path)
    features, labels, queries = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(
        documents.features.view(np.uint32), features.toarray().astype(np.float32).view(np.uint32)
    )
    np.testing.assert_array_equal(documents.labels, labels)
    np.testing.assert_array_equal(np.repeat(np.array(documents.query_ids, int), np.diff(documents.offsets)), queries)
    assert (documents.features.dtype, documents.labels.dtype) == (np.float32, np.int8)


def test_values_are_rounded_to_double_first_as_sklearn_does(tmp_path: Path):
    # 1 + 2^-24 + 2^-60: straight to float32 it rounds up; as a double it is the midpoint, which rounds to even, down.
    value = "1.00000005960464477625946"
    assert np.float32(float(value)) == 1 < np.nextafter(np.float32(1), np.float32(2))
    (tmp_path / "a.txt").write_text(f"0 qid:1 1:{value}\n")
    assert parse(tmp_path / "a.txt").features[0, 0] == 1
    assert load_svmlight_file(str(tmp_path / "a.txt"))[0].toarray().astype(np.float32)[0, 0] == 1


@pytest.mark.parametrize("chunk", [1, 700, 1 << 20])
def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch, chunk: int):
    file = TINY / "Fold1" / "train.txt"
    monkeypatch.setattr(parser, "CHUNK", chunk)
    assert_equals_reference(parse(file), file.read_bytes())


NUMBER = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e30, 1e30, allow_nan=False).map("{:.17e}".format),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(["0.000000", ".5", "5.", "+1.5", "-0", "1E+3"]),
)
FEATURES = st.dictionaries(st.integers(1, 12), NUMBER, max_size=12).map(lambda row: sorted(row.items()))
BLANK = st.sampled_from([" ", "  ", "\t"])
END = st.sampled_from(["\n", " \n", "\r\n", " # docid = GX-1 inc = 1\n", "#1:2 qid:3\n", "\n\n", "\n # note: 5\n"])


@st.composite
def letor_text(draw: st.DrawFn) -> str:
    """Well-formed files: dense or sparse, with comments, blank lines and line ends of several systems."""
    lines = []
    dense = draw(st.booleans())
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 4))):
            row = [(i, draw(NUMBER)) for i in (1, 2, 3)] if dense else draw(FEATURES)
            grade = draw(st.sampled_from(["0", "1", "4", "2.0", "127"]))
            tokens = [grade, f"qid:q{query}", *(f"{feature}:{value}" for feature, value in row)]
            lines.append(draw(BLANK).join(tokens) + draw(END))
    text = "".join(lines)
    return text if draw(st.booleans()) else text.rstrip("\n")


@given(letor_text())
@settings(max_examples=60)
def test_well_formed_text_is_read(text: str):
    assert_equals_reference(parse_text(text.encode()), text.encode())


@given(
    letor_text(),
    st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from(list(" :.-+#\n\t\r\x0b09eqidn_a")), st.booleans()), max_size=4
    ),
)
@example("0 qid:1 1:1 2:2   3:4\n", [])
@example("0 qid:1 1:2 abc 3:4\n", [])
@example("0 qid:1 0.5 2:3 #a:b\n", [])
@example("0 qid:1 1:2\n3:4 5:6\n", [])
@example("0 qid:1 -1:0 1:2\n", [])
@example("0 qid:1 1:2 0 qid:1 1:3\n\n", [])
@settings(max_examples=120)
def test_a_damaged_file_is_rejected_or_read_as_it_stands(text: str, damage: list[tuple[int, str, bool]]):
    for place, character, replaces in damage:
        place %= len(text)
        text = text[:place] + character + text[place + replaces :]
    reference = read_letor(text.encode())
    if isinstance(reference, int):
        with pytest.raises(DataError, match=rf"data\.txt:{reference}: "):
            parse_text(text.encode())
    else:
        assert_equals_reference(parse_text(text.encode()), text.encode())


GOOD = "1 qid:1 1:1 2:2\n0 qid:1 1:3 2:4\n"
READS_NULL = "dataset.missing=minimum or dataset.missing=0 reads NULL as one"


@pytest.mark.parametrize(
    ("line", "found", "expected"),
    [
        ("0 qid:2 1:x 2:2", "value 'x' of feature 1", "a number"),
        ("0 qid:2 1:1 2:NULL", "value 'NULL' of feature 2", f"a number: {READS_NULL}"),
        ("0 qid:2 1:1 2:null", "value 'null' of feature 2", "a number"),
        ("0 qid:2 1:1 2:NaN", "value 'NaN' of feature 2", "a number"),
        ("0 qid:2 1:1 2:", "value '' of feature 2", "a number"),
        ("0 qid:2 1:1_0", "value '1_0' of feature 1", "a number"),
        ("0 qid:2 1:1 2:3:4", "value '3:4' of feature 2", "a number"),
        ("0 qid:2 1:1 2:-inf", "value '-inf' of feature 2", "a finite number within the range of float32"),
        ("0 qid:2 1:1e39", "value '1e39' of feature 1", "a finite number within the range of float32"),
        ("0 qid:2 2:1 1:2", "feature id 1 after 2", "feature ids in ascending order"),
        ("0 qid:2 1:1 1:2", "feature id 1 twice", "every feature at most once in a line"),
        ("0 qid:2 0:1 1:2", "feature id 0", "feature ids that start at 1"),
        ("0 qid:2 1:1 3:2", "feature id 3", "at most 2 (dataset.features)"),
        ("0 qid:2 1:1 0.5", "'0.5'", "<feature id>:<value>"),
        ("0 qid:2 1:1 b:2", "'b:2'", "<feature id>:<value>"),
        ("0 qid:2 1.5:2", "'1.5:2'", "<feature id>:<value>"),
        ("0 qid:2 1e0:2", "'1e0:2'", "<feature id>:<value>"),
        ("0 qid:2 1.0:2", "'1.0:2'", "<feature id>:<value>"),
        ("0 qid:2 +1:2", "'+1:2'", "<feature id>:<value>"),
        ("0 qid:2 1:1 +2:2", "'+2:2'", "<feature id>:<value>"),
        ("0 qid:2 -1:2", "'-1:2'", "<feature id>:<value>"),
        (f"0 qid:2 {'1' * 5000}:2", f"feature id {'1' * 20}", "at most 2 (dataset.features)"),
        ("0 qid:2 1:1\x0b", "value '1\\x0b' of feature 1", "a number"),
        ("0 qid:2 1:\x0c1 2:1", "value '\\x0c1' of feature 1", "a number"),
        ("0 qid:2 1:1\x1c", "value '1\\x1c' of feature 1", "a number"),
        ("0 1:1 2:2", "'1:1'", "qid:<query> after the grade"),
        ("0", "the end of the line", "qid:<query> after the grade"),
        ("0 qid: 1:1 2:2", "'qid:'", "qid:<query> after the grade"),
        ("-1 qid:2 1:1 2:2", "grade '-1'", "a whole number from 0 to 127"),
        ("0.5 qid:2 1:1 2:2", "grade '0.5'", "a whole number from 0 to 127"),
        ("128 qid:2 1:1 2:2", "grade '128'", "a whole number from 0 to 127"),
        ("nan qid:2 1:1 2:2", "grade 'nan'", "a whole number from 0 to 127"),
        ("qid:2 1:1 2:2", "grade 'qid:2'", "a whole number from 0 to 127"),
    ],
)
def test_a_defect_is_named_with_file_and_line(tmp_path: Path, line: str, found: str, expected: str):
    file = tmp_path / "train.txt"
    file.write_text(GOOD + line + "\n0 qid:3 1:1 2:2\n")
    with pytest.raises(DataError) as error:
        parse(file, features=2)
    assert str(error.value) == f"{file}:3: found {found}, expected {expected}"


@pytest.mark.parametrize(
    "number", ["infinit", "1d5", "--5", "+-5", "0x10", "1e", "e5", ".", "1,5", "1\0", "1\xa0", "١"]
)
@pytest.mark.parametrize("line", ["0 qid:2 1:{} 2:2", "0 qid:2 2:{}"])
def test_the_fast_path_and_the_diagnosis_agree_on_numbers(number: str, line: str):
    with pytest.raises(DataError, match=r"data\.txt:3: found value .* of feature \d, expected a number"):
        parse_text((GOOD + line.format(number) + "\n0 qid:3 1:1 2:2\n").encode())


MARKED = "UTF-8 text without one: type "


@pytest.mark.parametrize("line", ["0 qid:1 1:1\n", "# a comment\n0 qid:1 1:1\n", "0 qid:1 2:1 3:1\n0 qid:1 1:1\n"])
def test_a_byte_order_mark_is_named_with_what_removes_it(tmp_path: Path, line: str):
    """And what is typed makes a file that is read."""
    file, new = tmp_path / "my train.txt", tmp_path / "new.txt"
    for encoding, name, typed in (
        ("utf-8-sig", "UTF-8", rf"sed -i '1s/^\xEF\xBB\xBF//' '{file}'"),
        ("utf-16", "UTF-16", f"iconv -f UTF-16 -t UTF-8 '{file}' > NEW"),
        ("utf-32", "UTF-32", f"iconv -f UTF-32 -t UTF-8 '{file}' > NEW"),
    ):
        file.write_bytes(line.encode(encoding))
        with pytest.raises(DataError) as error:
            parse(file)
        assert str(error.value) == f"{file}:1: found a byte order mark ({name}), expected {MARKED}{typed}"
        subprocess.run(["bash", "-c", typed.replace("NEW", str(new))], check=True)
        text = (file if "-i" in typed else new).read_bytes()
        assert text == line.encode()
    for big, name in (("utf-16-be", "UTF-16"), ("utf-32-be", "UTF-32")):
        file.write_bytes(f"\ufeff{line}".encode(big))
        with pytest.raises(DataError, match=rf":1: found a byte order mark \({name}\), expected "):
            parse(file)


def test_a_byte_order_mark_of_a_packed_file_and_between_joined_files(tmp_path: Path):
    packed, joined = tmp_path / "train.txt.gz", tmp_path / "train.txt"
    packed.write_bytes(gzip.compress(GOOD.encode("utf-8-sig")))
    with pytest.raises(DataError) as error:
        parse(packed)
    sed = r"sed '1s/^\xEF\xBB\xBF//'"
    assert str(error.value).endswith(f"{MARKED}zcat {packed} | {sed} | gzip > NEW.gz")
    joined.write_text(f"{GOOD}\ufeff0 qid:2 1:1\n")
    with pytest.raises(DataError) as error:
        parse(joined)
    assert f"{joined}:3: found a byte order mark (UTF-8)" in str(error.value)
    assert f"{MARKED}sed -i '3s/^" in str(error.value)


@st.composite
def text_with_null(draw: st.DrawFn) -> str:
    """Dense or sparse files in which some values are NULL."""
    lines = []
    dense, value = draw(st.booleans()), st.one_of(NUMBER, st.just("NULL"))
    features = st.dictionaries(st.integers(1, 6), value, max_size=6).map(lambda row: sorted(row.items()))
    for query in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            row = [(i, draw(value)) for i in (1, 2, 3)] if dense else draw(features)
            tokens = [f"{draw(BLANK)}{feature}:{value}" for feature, value in row]
            lines.append(f"1 qid:NULL{query}{''.join(tokens)}{draw(END)}")
    return "".join(lines)


@given(text_with_null(), st.sampled_from(["minimum", 0, -2.5, 1e-30]), st.sampled_from([1, 60, 1 << 20]))
@example("0 qid:NULL 1:NULL 2:5\n0 qid:NULL 1:NULL 2:NULL\n", "minimum", 1)
@example("0 qid:1 1:NULL 2:5\n0 qid:1 2:NULL\n0 qid:1 1:3\n", "minimum", 1 << 20)
@settings(max_examples=80)
def test_null_is_a_number_or_the_minimum_of_the_query(text: str, missing: float | str, chunk: int):
    parser.CHUNK, before = chunk, parser.CHUNK
    try:
        documents = parse_text(text.encode(), missing=missing)
    finally:
        parser.CHUNK = before
    assert_equals_reference(documents, text.encode(), missing)


@pytest.mark.parametrize("others", ["", "0 qid:9 3:1\n"])  # by columns, by tokens
def test_null_by_hand(others: str):
    text = f"0 qid:1 1:NULL 2:5\n0 qid:1 1:4 2:NULL\n1 qid:1 1:3 2:-7\n0 qid:2 1:NULL 2:NULL\n{others}".encode()
    lowest = [[3, 5], [4, -7], [3, -7], [0, 0]]  # of query 1; query 2 has no value
    assert parse_text(text, missing="minimum").features[:4, :2].tolist() == lowest
    assert parse_text(text, missing=9).features[:4, :2].tolist() == [[9, 5], [4, 9], [3, -7], [9, 9]]


@pytest.mark.parametrize("missing", ["minimum", 0])
@pytest.mark.parametrize("value", ["nan", "null", "NULLS", "NULL5", "xNULL", "", "NULL:3"])
@pytest.mark.parametrize("line", ["0 qid:2 1:NULL 2:{}", "0 qid:2 2:{} 3:NULL"])
def test_nothing_else_is_read_as_null(missing: float | str, value: str, line: str):
    with pytest.raises(DataError, match=r"data\.txt:3: found value .* of feature 2, expected a number$"):
        parse_text(f"{GOOD}{line.format(value)}\n0 qid:3 1:1 2:NULL\n".encode(), missing=missing)


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", " \n"])
def test_a_form_feed_at_the_end_of_a_chunk_is_no_blank(monkeypatch: pytest.MonkeyPatch, chunk: int, end: str):
    monkeypatch.setattr(parser, "CHUNK", chunk)
    with pytest.raises(DataError, match=r"data\.txt:3: found value '4.x0c' of feature 2, expected a number"):
        parse_text(f"{GOOD}0 qid:1 1:3 2:4\x0c{end}".encode())


@pytest.mark.parametrize("others", ["", "0 qid:9 3:1\n"])  # by columns, by tokens
def test_leading_zeros_of_a_feature_id_do_not_count(others: str):
    text = f"0 qid:1 01:1 002:2\n0 qid:1 {'0' * 5000}1:3 2:4\n{others}".encode()
    assert_equals_reference(parse_text(text), text)
    with pytest.raises(DataError, match=r"data\.txt:3: found feature id 2 after 3,"):
        parse_text(f"0 qid:1 01:1 002:2\n0 qid:1 {'0' * 5000}1:3 2:4\n0 qid:1 3:1 2:1".encode())


def test_a_query_id_is_text_in_utf_8():
    text = "0 qid:été 1:1\n0 qid:\\xff 1:2\n".encode()
    assert parse_text(text).query_ids == ["été", "\\xff"]
    for line in (b"0 qid:\xff 1:3\n", b"0 qid:\xff 1:3 2:4\n", b"0 qid:1\x00 1:3\n"):
        with pytest.raises(DataError, match=r"data\.txt:3: found query id b'1?.x[0f][0f]', expected UTF-8 text with"):
            parse_text(text + line)


def test_a_limit_above_that_of_other_files_holds_in_messages_too():
    with pytest.raises(DataError, match=r"data\.txt:2: found value 'x' of feature 1, expected a number"):
        parse_text(b"0 qid:1 100001:1\n0 qid:1 1:x\n", features=100_001)


def test_feature_ids_have_a_limit_in_dense_and_sparse_files():
    for text, limit in (("0 qid:1 1:1 2:2\n", 1), ("0 qid:1 2:1\n", 1), ("0 qid:1 100001:1\n", None)):
        with pytest.raises(DataError, match=r"found feature id \d+, expected at most"):
            parse_text(text.encode(), features=limit)


def test_a_chunk_of_nothing_but_a_bad_line_is_not_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parser, "CHUNK", 1)
    with pytest.raises(DataError, match=r"data\.txt:3: found grade 'abc'"):
        parse_text(f"{GOOD}abc\n{GOOD}".encode())


def test_a_query_in_two_places_is_an_error(tmp_path: Path):
    file = tmp_path / "train.txt"
    file.write_text(GOOD + "0 qid:2 1:1\n\n0 qid:1 1:5\n")
    with pytest.raises(
        DataError, match=r"train\.txt:5: found 'qid:1' again, after other queries \(it began at line 1\)"
    ):
        parse(file)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_file_without_documents_is_an_error(tmp_path: Path, text: str):
    file = tmp_path / "train.txt"
    file.write_text(text)
    with pytest.raises(DataError, match=r"train\.txt:\d: found no document, expected lines of the form"):
        parse(file)


def test_values_beyond_float32_count_as_zero_when_asked():
    documents = parse_text(b"0 qid:1 1:1.79769313486232E+308 2:-inf 3:7\n", overflow="zero")
    assert documents.features.tolist() == [[0, 0, 7]]
    with pytest.raises(DataError, match="value 'nan' of feature 1"):
        parse_text(b"0 qid:1 1:nan\n", overflow="zero")


def test_gzip_is_read_and_a_truncated_one_named(tmp_path: Path):
    text = (TINY / "Fold1" / "train.txt").read_bytes()
    file = tmp_path / "train.txt.gz"
    file.write_bytes(gzip.compress(text))
    assert_equals_reference(parse(file), text)
    packed = gzip.compress(text)
    for damaged in (packed[: len(packed) // 2], packed[:-8] + b"checksum"):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"train\.txt\.gz:\d+: found a damaged gzip file .*expected a complete one"):
            parse(file)


def test_columns_and_tokens_give_the_same_features(monkeypatch: pytest.MonkeyPatch):
    path = TINY / "Fold1" / "train.txt"
    by_columns = parse(path).features
    monkeypatch.setattr(parser, "_columns", lambda *_: None)
    assert np.array_equal(by_columns, parse(path).features)
    assert by_columns.any()


@pytest.mark.parametrize(
    "line", ["0 qid:2 1:1 3:2 2:3", "0 qid:2 1:1 2:2 4:3", "0 qid:2 1:1 2:x 3:3", "0 qid:2 1:1 2: 3:3"]
)
def test_a_line_that_does_not_fit_the_columns_is_left_to_tokens(line: str):
    text = f"\n1 qid:1 1:1 2:2 3:3\n{line}".encode()
    assert _columns(text, 2, None, 0) is None


def test_a_value_with_a_blank_is_found_after_a_line_that_ends_in_a_blank(tmp_path: Path):
    file = tmp_path / "train.txt"
    file.write_text("0 qid:1 1:0.5 2:0.5 3:0.5 \n0 qid:2 1:0.5 2:0 .5 3:0.5\n")
    with pytest.raises(DataError, match=r"train.txt:2: found '.5', expected <feature id>:<value>"):
        parse(file)
