"""The fast and the strict parser against sklearn, against a slow reader, and on every defect a file may have."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from ol2r_cli.dataset import parse as parser
from ol2r_cli.dataset.parse import DataError, ParsedFile, parse
from tests.dataset.letor_files import TINY
from tests.reference.letor import LetorLines, read_letor


@contextmanager
def set_to(**values: object) -> Iterator[None]:
    """Other values of the parser's names, also within an example of hypothesis."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setattr(parser, name, value)
        yield


def parse_text(text: bytes, **options: object) -> ParsedFile:
    """What is read; both parsers agree where the fast one is sure."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "data.txt"
        file.write_bytes(text)
        read = parse(file, **options)  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as without_numba:
            without_numba.setattr("ol2r_cli.loops.compiled", lambda: False)
            strictly = parse(file, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(read.features.view(np.uint32), strictly.features.view(np.uint32))
    np.testing.assert_array_equal(read.labels, strictly.labels)
    assert (read.query_ids, read.offsets.tolist()) == (strictly.query_ids, strictly.offsets.tolist())
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


def test_real_files_equal_sklearn_bit_by_bit(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """And the fast parser is sure of them."""
    monkeypatch.setattr(parser, "_strict_chunk", None)
    for name in ("MQ2008/Fold1/test.txt", "ClueWeb09/Fold1/test.txt", "yahoo_sample/Fold1/train.txt"):
        path = data_dir / name
        features, labels, queries = load_svmlight_file(str(path), query_id=True)
        documents = parse(path)
        np.testing.assert_array_equal(
            documents.features.view(np.uint32), features.toarray().astype(np.float32).view(np.uint32), name
        )
        np.testing.assert_array_equal(documents.labels, labels, name)
        found = np.repeat(np.array(documents.query_ids, int), np.diff(documents.offsets))
        np.testing.assert_array_equal(found, queries, name)
        assert (documents.features.dtype, documents.labels.dtype) == (np.float32, np.int8)
        np.testing.assert_array_equal(parse(path, dtype=np.float64).features, features.toarray(), name)


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
def test_a_file_is_read_as_it_stands_or_rejected(text: str, damage: list, missing: float | str, chunk: int):
    """Also where characters are put in or replaced. NULL is a number, the minimum of the query, or rejected; whatever
    is read at once."""
    for place, character, replaces in damage:
        place %= len(text)
        text = text[:place] + character + text[place + replaces :]
    reference = read_letor(text.encode(), missing=missing)
    with set_to(CHUNK=chunk):
        if isinstance(reference, int):
            with pytest.raises(DataError, match=rf"data\.txt:{reference}: "):
                parse_text(text.encode(), missing=missing)
        else:
            assert_equals_reference(parse_text(text.encode(), missing=missing), text.encode(), missing)


GOOD = "1 qid:1 1:1 2:2\n0 qid:1 1:3 2:4\n"
READS_NULL = "dataset.missing=minimum or dataset.missing=0 reads NULL as one"


DEFECTS = {
    "value {} of feature 1, expected a number": ("1:x 2:2", "1:1_0", "1:1\x0b", "1:\x0c1 2:1", "1:1\x1c"),
    "value {} of feature 2, expected a number": ("1:1 2:null", "1:1 2:NaN", "1:1 2:", "1:1 2:3:4"),
    f"value {{}} of feature 2, expected a number: {READS_NULL}": ("1:1 2:NULL",),
    "value {} of feature 1, expected a finite number within the range of float32": ("1:1e39", "1:-inf"),
    "feature id {} after {}, expected ascending feature ids from 1 to 2 (dataset.features)": (
        *("2:1 1:2", "1:1 1:2", "0:1 1:2", "1:1 3:2", f"{'1' * 5000}:2"),
    ),
    "{}, expected <feature id>:<value>": ("1:1 0.5", "1:1 b:2", "1.5:2", "1e0:2", "+1:2", "1:1 +2:2", "-1:2"),
}
HEADS = {
    "{}, expected qid:<query> after the grade": ("0 1:1 2:2", "0", "0 qid: 1:1 2:2", "0 qid:1:2 1:1"),
    "grade {}, expected a whole number from 0 to 62": (
        *("-1 qid:2 1:1", "0.5 qid:2", "63 qid:2", "63.0 qid:2", "128 qid:2", "nan qid:2", "qid:2"),
    ),
}


def test_a_defect_is_named_with_file_and_line_in_any_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parser, "CHUNK", 1)
    file = tmp_path / "train.txt"
    lines = [(message, f"0 qid:2 {features}") for message, texts in DEFECTS.items() for features in texts]
    for message, line in lines + [(message, line) for message, texts in HEADS.items() for line in texts]:
        file.write_text(GOOD + line + "\n0 qid:3 1:1 2:2\n")
        with pytest.raises(DataError) as error:
            parse(file, features=2)
        assert re.fullmatch(re.escape(f"{file}:3: found {message}").replace(r"\{\}", ".*"), str(error.value)), line


def test_what_is_no_number():
    """With any setting; beside NULL where that is one; values beyond float32 count as zero when asked."""
    for beyond in ("-inf", "-1e39"):  # which the fast parser leaves to the strict one, and which it reads
        text = f"0 qid:1 1:1.79769313486232E+308 2:{beyond} 3:7\n".encode()
        assert parse_text(text, overflow="zero").features.tolist() == [[0, 0, 7]]
    for number in ("infinit", "1d5", "--5", "+-5", "0x10", "1e", "1e+", "e5", ".", "1,5", "1\0", "1\xa0", "١", "nan"):
        with pytest.raises(DataError, match=r"data\.txt:3: found value .* of feature 2, expected a number$"):
            parse_text(f"{GOOD}0 qid:2 2:{number}\n0 qid:3 1:1 2:2\n".encode(), overflow="zero")
    for value in ("nan", "null", "NULLS", "NULL5", "xNULL", "", "NULL:3"):
        with pytest.raises(DataError, match=r"data\.txt:3: found value .* of feature 2, expected a number$"):
            parse_text(f"{GOOD}0 qid:2 1:NULL 2:{value}\n".encode(), missing="minimum")


def test_a_byte_order_mark_is_named_with_what_removes_it(tmp_path: Path):
    plain, packed = tmp_path / "train.txt", tmp_path / "train.txt.gz"
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        plain.write_bytes("0 qid:1 1:1\n".encode(encoding))
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        for file in plain, packed:
            with pytest.raises(DataError, match=r":1: found a byte order mark, expected UTF-8 text without one: type"):
                parse(file)
    plain.write_bytes("0 qid:1 1:1\n\ufeff0 qid:1 1:2\n".encode())  # two files that were joined
    with pytest.raises(DataError, match=r":2: found a byte order mark, .*: type sed 's/.*//' FILE > NEW, or"):
        parse(plain)


def test_feature_ids_have_a_limit_and_leading_zeros_do_not_count():
    text = f"0 qid:1 01:1 002:2\n0 qid:1 {'0' * 5000}1:3 2:4\n".encode()
    assert_equals_reference(parse_text(text), text)
    with pytest.raises(DataError, match=r"data\.txt:3: found feature id 2 after 3,"):
        parse_text(text + b"0 qid:1 3:1 2:1")
    for text, limit in ((b"0 qid:1 1:1 2:2\n", 1), (b"0 qid:1 2:1\n", 1), (b"0 qid:1 100001:1\n", None)):
        with pytest.raises(DataError, match=r"found feature id \d+ after \d, expected ascending feature ids from 1 to"):
            parse_text(text, features=limit)
    assert parse_text(b"0 qid:1 100001:1\n", features=100_001).features[0, -1] == 1


def test_a_query_id_is_text_in_utf_8_and_a_query_in_one_place():
    text = "0 qid:été 1:1\n0 qid:\\xff 1:2\n".encode()
    assert parse_text(text).query_ids == ["été", "\\xff"]
    for line in (b"0 qid:\xff 1:3\n", b"0 qid:\xff 1:3 2:4\n", b"0 qid:1\x00 1:3\n"):
        with pytest.raises(DataError, match=r"data\.txt:3: found query id b'1?.x[0f][0f]', expected UTF-8 text with"):
            parse_text(text + line)
    again = r"data\.txt:5: found 'qid:1' again, after other queries \(it began at line 1\)"
    with pytest.raises(DataError, match=again):
        parse_text(f"{GOOD}0 qid:2 1:1\n\n0 qid:1 1:5\n".encode())
    for text in (b"", b"\n\n", b"# only a comment\n"):
        with pytest.raises(DataError, match=r"data\.txt:\d: found no document, expected lines of the form"):
            parse_text(text)


def test_other_compressions_are_named_with_what_to_type(tmp_path: Path):
    """Zstandard has no library here: its first bytes (RFC 8878), and those of unzip's format (APPNOTE.TXT)."""
    text = b"1 qid:1 1:0.5\n"
    for name, content, command in (
        ("a b.bz2", bz2.compress(text), "bzip2 -dc"),
        ("a b.xz", lzma.compress(text), "xz -dc"),
        ("a b.zst", b"\x28\xb5\x2f\xfd\x04\x00q", "zstd -dc"),
        ("a b.zip", b"PK\x03\x04\x14\x00", "unzip -p"),
    ):
        (file := tmp_path / name).write_bytes(content)
        with pytest.raises(DataError) as error:
            parse(file)
        expected = f"text, plain or by gzip: type {command} '{file}' > NEW"
        assert str(error.value) == f"{file}: found a file that is compressed in another way, expected {expected}"


def test_gzip_is_read_and_a_truncated_one_named(tmp_path: Path):
    text = (TINY / "Fold1" / "train.txt").read_bytes()
    file, packed = tmp_path / "train.txt.gz", gzip.compress(text)
    file.write_bytes(packed)
    assert_equals_reference(parse(file), text)
    for damaged in (packed[: len(packed) // 2], packed[:-8] + b"checksum"):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"train\.txt\.gz: found a damaged gzip file .*expected a complete one"):
            parse(file)
