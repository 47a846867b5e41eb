"""The fast and the strict parser against sklearn, against a slow reader, and on every defect a file may have."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from ol2r_cli.dataset.parse import DataError, ParsedFile, parse
from tests.dataset.letor_files import TINY, parser_set_to
from tests.reference.letor import LetorLines, read_letor


def parse_text(text: bytes, **options: object) -> ParsedFile:
    """What is read; both parsers agree where the fast one is sure."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "data.txt"
        file.write_bytes(text)
        read = parse(file, **options)  # type: ignore[arg-type]
        with parser_set_to(compiled=False):
            strictly = parse(file, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(read.features.view(np.uint32), strictly.features.view(np.uint32))
    np.testing.assert_array_equal(read.labels, strictly.labels)
    np.testing.assert_array_equal(read.offsets, strictly.offsets)
    assert read.query_ids == strictly.query_ids
    return read


def assert_equals_reference(documents: ParsedFile, text: bytes, missing: float | str = "error") -> None:
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


@pytest.mark.parametrize("name", ["MQ2008/Fold1/test", "ClueWeb09/Fold1/test", "yahoo_sample/Fold1/train"])
def test_real_files_equal_sklearn_bit_by_bit(data_dir, name):
    """And the fast parser is sure of them."""
    path = data_dir / f"{name}.txt"
    features, labels, queries = load_svmlight_file(str(path), query_id=True)
    with parser_set_to(_strict_chunk=None):
        documents, exact = parse(path), parse(path, dtype=np.float64).features
    single = features.toarray().astype(np.float32)
    np.testing.assert_array_equal(documents.features.view(np.uint32), single.view(np.uint32))
    np.testing.assert_array_equal(exact, features.toarray())
    np.testing.assert_array_equal(documents.labels, labels)
    assert np.repeat(documents.query_ids, np.diff(documents.offsets)).astype(int).tolist() == queries.tolist()
    assert (documents.features.dtype, documents.labels.dtype) == (np.float32, np.int8)


def test_every_number_is_rounded_as_float_rounds_it():
    """To double precision first: also beside the limits up to which a product or a quotient is exact."""
    random = np.random.default_rng(0)
    numbers = [*random.integers(0, 1 << 53, 1_500).tolist(), *random.integers(0, 1 << 62, 1_500).tolist()]
    near = [2**53 + offset for offset in range(-3, 4)] + [10**17 + offset for offset in range(-3, 4)] + [0, 1, 9]
    texts = [f"{'-' * (n % 2)}{n}e{n % 60 - 40}" for n in numbers]
    texts += [f"{n // 10**6}.{n % 10**6:06}E{n % 9}" for n in numbers]
    texts += [f"{n}e{power}" for n in near for power in (-24, -23, -22, -21, 0, 19, 20)]
    # 1 + 2^-24 + 2^-60: straight to float32 it rounds up; as a double it is the midpoint, which rounds to even, down.
    texts.append("1.00000005960464477625946")
    text = "".join(f"0 qid:1 1:{number}\n" for number in texts).encode()
    expected = np.array([float(number) for number in texts])
    assert np.abs(expected).max() < 3e38
    assert expected.astype(np.float32)[-1] == 1
    np.testing.assert_array_equal(parse_text(text).features[:, 0], expected.astype(np.float32))


NUMBER = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e30, 1e30, allow_nan=False).map("{:.17e}".format),
    st.integers(-1000, 1000).map(str),
    st.sampled_from(["0.000000", ".5", "5.", "+1.5", "-0", "1E+3"]),
)
VALUE = st.one_of(NUMBER, NUMBER, NUMBER, st.just("NULL"))
FEATURES = st.dictionaries(st.integers(1, 12), VALUE, max_size=12).map(lambda row: sorted(row.items()))
BLANK = st.sampled_from([" ", "  ", "\t"])
END = st.sampled_from(["\n", " \n", "\r\n", " # docid = GX-1 inc = 1\n", "#1:2 qid:3\n", "\n\n", "\n # note: 5\n"])


@st.composite
def letor_text(draw: st.DrawFn) -> str:
    """Files that are well-formed where NULL is a number: dense or sparse, with comments, blank lines and line ends of
    several systems."""
    lines = []
    dense = draw(st.booleans())
    for query in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(1, 4))):
            row = [(i, draw(VALUE)) for i in (1, 2, 3)] if dense else draw(FEATURES)
            grade = draw(st.sampled_from(["0", "1", "4", "2.0", "62"]))
            tokens = [grade, f"qid:NULL{query}", *(f"{feature}:{value}" for feature, value in row)]
            lines.append(draw(BLANK).join(tokens) + draw(END))
    text = "".join(lines)
    return text if draw(st.booleans()) else text.rstrip("\n")


PLAIN = [], "error", 1 << 20


@given(
    letor_text(),
    st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from(list(" :.-+#\n\t\r\x0b09eqidn_a")), st.booleans()), max_size=4
    ),
    st.sampled_from(["error", "minimum", "minimum", 0, -2.5, 1e-30]),
    st.sampled_from([1, 60, 1 << 20]),
)
@example("0 qid:1 1:1 2:2   3:4\n", *PLAIN)
@example("0 qid:1 1:2 abc 3:4\n", *PLAIN)
@example("0 qid:1 0.5 2:3 #a:b\n", *PLAIN)
@example("0 qid:1 1:2\n3:4 5:6\n", *PLAIN)
@example("0 qid:1 -1:0 1:2\n", *PLAIN)
@example("0 qid:1 1:2 0 qid:1 1:3\n\n", *PLAIN)
@example("0 qid:NULL 1:NULL 2:5\n0 qid:NULL 1:NULL 2:NULL\n", [], "minimum", 1)
@example("0 qid:1 1:NULL 2:5\n0 qid:1 2:NULL\n0 qid:1 1:3\n", [], "minimum", 1 << 20)
@settings(max_examples=200)
def test_a_file_is_read_as_it_stands_or_rejected(text, damage, missing, chunk):
    """Also where characters are put in or replaced. NULL is a number, the minimum of the query, or rejected; whatever
    is read at once."""
    for place, character, replaces in damage:
        place %= len(text)
        text = text[:place] + character + text[place + replaces :]
    reference = read_letor(text.encode(), missing=missing)
    with parser_set_to(CHUNK=chunk):
        if isinstance(reference, int):
            with pytest.raises(DataError, match=rf"data\.txt:{reference}: "):
                parse_text(text.encode(), missing=missing)
        else:
            assert_equals_reference(parse_text(text.encode(), missing=missing), text.encode(), missing)


GOOD = "1 qid:1 1:1 2:2\n0 qid:1 1:3 2:4\n"
NO_NUMBER = "value {} of feature %d, expected a number"
NO_NUMBERS = ["infinit", "1d5", "--5", "+-5", "0x10", "1e", "1e+", "e5", ".", "1,5", "1\x00", "1\xa0", "١", "nan"]
NO_NULLS = ("nan", "null", "NULLS", "NULL5", "xNULL", "", "NULL:3")
READS_NULL = "dataset.missing=minimum or dataset.missing=0 reads NULL as one"
DEFECTS = [  # in what is found in the third line; the settings; and lines behind their query, or whole ones
    (NO_NUMBER % 1, {}, ("1:x 2:2", "1:1_0", "1:1\x0b", "1:\x0c1 2:1", "1:1\x1c")),
    (NO_NUMBER % 2, {}, ("1:1 2:null", "1:1 2:NaN", "1:1 2:", "1:1 2:3:4")),
    (f"{NO_NUMBER % 2}: {READS_NULL}", {}, ("1:1 2:NULL",)),
    (NO_NUMBER % 2, {"overflow": "zero"}, [f"2:{number}" for number in NO_NUMBERS]),
    (
        NO_NUMBER % 2,
        {"missing": "minimum"},
        [f"1:NULL 2:{text}" for text in NO_NULLS],
    ),
    ("value {} of feature 1, expected a finite number within the range of float32", {}, ("1:1e39", "1:-inf")),
    (
        "feature id {} after {}, expected ascending feature ids from 1 to 2 (dataset.features)",
        {"features": 2},
        ("2:1 1:2", "1:1 1:2", "0:1 1:2", "1:1 3:2", "3:1", f"{'1' * 5000}:2"),
    ),
    (
        "feature id 100001 after 0, expected ascending feature ids from 1 to 100000 (dataset.features)",
        {},
        ("100001:1",),
    ),
    ("{}, expected <feature id>:<value>", {}, ("1:1 0.5", "1:1 b:2", "1.5:2", "1e0:2", "+1:2", "1:1 +2:2", "-1:2")),
    ("{}, expected qid:<query> after the grade", {}, ("0 1:1 2:2", "0", "0 qid: 1:1 2:2", "0 qid:1:2 1:1")),
    (
        "grade {}, expected a whole number from 0 to 62",
        {},
        ("-1 qid:2 1:1", "0.5 qid:2", "63 qid:2", "63.0 qid:2", "128 qid:2", "nan qid:2", "qid:2"),
    ),
]
EACH_DEFECT = [(message, form, text) for message, form, texts in DEFECTS for text in texts]


@pytest.mark.parametrize(("message", "form", "text"), EACH_DEFECT, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_defect_is_named_with_file_and_line_in_any_chunk(message, form, text, chunk):
    line = text if "grade" in message else f"0 qid:2 {text}"
    with parser_set_to(CHUNK=chunk), pytest.raises(DataError) as error:
        parse_text(f"{GOOD}{line}\n0 qid:3 1:1 2:2\n".encode(), **form)
    expected = re.escape(f"data.txt:3: found {message}").replace(r"\{\}", ".*")
    assert re.fullmatch(f".*/{expected}", str(error.value))


@pytest.mark.parametrize("beyond", ["-inf", "-1e39"], ids=["read by the strict parser", "read by the fast one"])
def test_values_beyond_float32_count_as_zero_when_asked(beyond):
    text = f"0 qid:1 1:1.79769313486232E+308 2:{beyond} 3:7\n".encode()
    assert parse_text(text, overflow="zero").features.tolist() == [[0, 0, 7]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_named_with_what_removes_it(encoding, packed):
    text = "0 qid:1 1:1\n".encode(encoding)
    with pytest.raises(DataError, match=r":1: found a byte order mark, expected UTF-8 text without one: type"):
        parse_text(gzip.compress(text) if packed else text)


def test_a_byte_order_mark_between_two_joined_files_is_named():
    with pytest.raises(DataError, match=r":2: found a byte order mark, .*: type sed 's/.*//' FILE > NEW, or"):
        parse_text("0 qid:1 1:1\n\ufeff0 qid:1 1:2\n".encode())


def test_feature_ids_have_no_limit_but_the_one_that_is_set():
    """Leading zeros do not count."""
    text = f"0 qid:1 01:1 002:2\n0 qid:1 {'0' * 5000}1:3 2:4\n".encode()
    assert_equals_reference(parse_text(text), text)
    assert parse_text(b"0 qid:1 100001:1\n", features=100_001).features[0, -1] == 1


def test_a_query_id_is_text_in_utf_8():
    text = "0 qid:été 1:1\n0 qid:\\xff 1:2\n".encode()
    assert parse_text(text).query_ids == ["été", "\\xff"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"0 qid:\xff 1:3\n", r"1: found query id b'\\xff', expected UTF-8 text with"),
        (b"\n0 qid:\xff 1:3 2:4\n", r"2: found query id b'\\xff', expected UTF-8 text with"),
        (b"0 qid:1\x00 1:3\n", r"1: found query id b'1\\x00', expected UTF-8 text with"),
        (b"0 qid:1 1:1\n0 qid:2 1:1\n\n0 qid:1 1:5\n", r"4: found 'qid:1' again, .* \(it began at line 1\)"),
        (b"", r"\d: found no document, expected lines of the form"),
        (b"\n\n", r"\d: found no document, expected lines of the form"),
        (b"# only a comment\n", r"\d: found no document, expected lines of the form"),
    ],
)
def test_a_file_without_queries_each_in_one_place_is_refused(text, message):
    with pytest.raises(DataError, match=rf"data\.txt:{message}"):
        parse_text(text)


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        ("a b.bz2", bz2.compress(b"1 qid:1 1:0.5\n"), "bzip2 -dc"),
        ("a b.xz", lzma.compress(b"1 qid:1 1:0.5\n"), "xz -dc"),
        ("a b.zst", b"\x28\xb5\x2f\xfd\x04\x00q", "zstd -dc"),  # RFC 8878
        ("a b.zip", b"PK\x03\x04\x14\x00", "unzip -p"),  # APPNOTE.TXT
    ],
)
def test_other_compressions_are_named_with_what_to_type(tmp_path, name, content, command):
    (file := tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        parse(file)
    expected = f"text, plain or by gzip: type {command} '{file}' > NEW"
    assert str(error.value) == f"{file}: found a file that is compressed in another way, expected {expected}"


def test_gzip_is_read_and_a_truncated_one_named():
    text = (TINY / "Fold1" / "train.txt").read_bytes()
    packed = gzip.compress(text)
    assert_equals_reference(parse_text(packed), text)
    for damaged in packed[: len(packed) // 2], packed[:-8] + b"checksum":
        with pytest.raises(DataError, match=r"data\.txt: found a damaged gzip file .*expected a complete one"):
            parse_text(damaged)
