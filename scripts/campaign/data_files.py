"""Mutated LETOR files: the parser against the oracle of tests/reference/letor.py and against scikit-learn.

A case is a well-formed file, plain or gzipped, with up to four mutations of bytes, tokens or lines, read in small
chunks so that chunks end everywhere. survived: both accept the file, with equal query ids and arrays, bit by bit; where
scikit-learn accepts it as well, its arrays are equal, too (to it -0 is 0). refused: both refuse it, and the parser
names the line that the oracle names, in one line of text. Everything else is wrong.

scikit-learn accepts more than the definition (grades such as 0.5, repeated queries), hence it is asked only about files
that the parser accepts, whose query ids are digits and whose values are all kept. A damaged gzip file may have a
defect before the damage: then either may be named, and the line of the damage is not compared, because it depends on
how much is decompressed at once.
"""

from __future__ import annotations

import gzip
import random
import re
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file
from tally import Tally

from ol2r_cli.dataset import parse as parser
from ol2r_cli.dataset.defects import DataError
from ol2r_cli.dataset.parse import Documents
from tests.reference.letor import LetorLines, read_letor

BYTES = [bytes([code]) for code in (0, 9, 11, 12, 13, 27, 28, 31, 127, 128, 160, 194, 255)]
BYTES += [character.encode() for character in "  :::\n\n##..--++eE0019_,\"'qidnaxf\u0085\u00a0\u0661\u2003\u2028\ufeff"]
NUMBERS = [b"nan", b"NaN", b"inf", b"-Infinity", b"1e400", b"-1e39", b"3.4028235e38", b"3.4028236e38", b"1e-50"]
NUMBERS += [b"1_0", b"0x10", b"1d5", b"--5", b"+-5", b"", b".", b"e5", b"1e", b"1e+", b"1.5.5", b"1,5", b"true"]
NUMBERS += [b"null", b'"1"', b"9" * 50, b"0." + b"1" * 400, b"0" * 5000 + b"1", b"1" * 5000, b"1e99999999999"]
NUMBERS += [b"-0", b"5.", b".5", b"+7"]
IDS = [b"0", b"-1", b"+2", b"1e0", b"2.0", b"01", b"007", b"1_0", b"qid", b"", b"101", b"100001", b"2147483649"]
IDS += [b"18446744073709551617", b"4294967297", b"1" * 5000, b"0" * 5000 + b"3"]
GRADES = [b"-1", b"0.5", b"128", b"999", b"1000", b"1.0", b"2.", b"03", b"1e0", b"+1", b"nan", b"", b"qid:1", b"1:1"]
QUERIES = [b"qid:", b"qid", b"qid:1:2", b"QID:1", b"qid:\xff", b"qid:\\xff", "qid:é".encode(), b"qid:\x0b", b"qid:1#"]
LINES = [b"", b" ", b"#", b"# 1 qid:1", b"\r", b"0", b"0 qid:1", b"0 qid:zz 1:1", b"-1:0", b"qid:1 1:1", b"\xff\xfe"]

OPTIONS = [(None, "error")] * 6 + [(None, "zero"), (3, "error"), (7, "error"), (200_000, "zero")]
CHUNKS = (1, 7, 30, 64, 200, 1 << 20)


@dataclass(frozen=True)
class Case:
    """The bytes of a file and how it is read."""

    content: bytes
    features: int | None
    overflow: str
    chunk: int


def run(seed: int, count: int, folder: Path) -> Tally:
    """Try `count` files."""
    tally, chunk = Tally("data files"), parser.CHUNK
    file = folder / "data.txt"
    try:
        for number in range(count):
            case = make(seed, number)
            parser.CHUNK = case.chunk
            file.write_bytes(case.content)
            problem = judge(case, file)
            if problem is None:
                tally.survived += 1
            elif not problem:
                tally.refused += 1
            else:
                tally.wrong.append(f"seed {seed}, case {number}: {problem}: {case!r:.400}")
    finally:
        parser.CHUNK = chunk
    return tally


def make(seed: int, number: int) -> Case:
    """The case of this number; equal for equal arguments."""
    rng = random.Random(f"{seed} {number}")
    text = well_formed(rng)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 4))):
        text = rng.choice(MUTATIONS)(text, rng)
    if rng.random() < 0.1:
        text = gzip.compress(text, 1, mtime=0)
        if rng.random() < 0.3:
            text = rng.choice((_damage_bytes, _truncate))(text, rng)
    features, overflow = rng.choice(OPTIONS)
    return Case(text, features, overflow, rng.choice(CHUNKS))


def judge(case: Case, file: Path) -> str | None:
    """None for a file that is read correctly, "" for one that is refused correctly, otherwise what is wrong."""
    text, damaged = _unpacked(case.content)
    expected = read_letor(text, case.features, case.overflow)
    try:
        documents = parser.parse(file, case.features, case.overflow)
    except DataError as error:
        return _judge_message(str(error), str(file), expected, damaged)
    except (Exception, BaseExceptionGroup) as error:
        return f"{type(error).__name__} instead of DataError: {error}"
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of polars, which is not an Exception
            raise
        return f"panic: {error}"
    if damaged:
        return "accepts a damaged gzip file"
    if isinstance(expected, int):
        return f"accepts line {expected}, which is not of the form"
    if problem := _difference(documents, expected):
        return problem
    return _difference_from_sklearn(documents, file) if case.overflow == "error" else None


def _unpacked(content: bytes) -> tuple[bytes, bool]:
    """The text, and whether the gzip file is damaged; then the text is the part that can be read."""
    if content[:2] != b"\x1f\x8b":
        return content, False
    try:
        return gzip.decompress(content), False
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass
    stream, text = zlib.decompressobj(wbits=31), b""
    try:
        for place in range(len(content)):
            text += stream.decompress(content[place : place + 1])
    except zlib.error:
        pass
    return text, True


def _judge_message(message: str, file: str, expected: LetorLines | int, damaged: bool) -> str:
    match = re.fullmatch(rf"{re.escape(file)}:(\d+): found (.+), expected (.+)", message)
    if match is None or message.splitlines() != [message] or not message.isprintable():
        return f"a message of another form: {message}"
    if "a defect in one of the lines" in message:
        return f"a message without the defect: {message}"
    if damaged and match[2].startswith("a damaged gzip file"):
        return ""
    if expected != int(match[1]):
        return f"{message.removeprefix(file)}, where the oracle has {expected if isinstance(expected, int) else 'none'}"
    return ""


def _difference(documents: Documents, expected: LetorLines) -> str:
    """Where the arrays differ from the lines that the oracle read; empty if nowhere."""
    rows = expected.documents
    dense = np.zeros((len(rows), max((max(row, default=0) for row in rows), default=0)), np.float32)
    for number, row in enumerate(rows):
        for feature, value in row.items():
            dense[number, feature - 1] = value
    kinds = (documents.features.dtype, documents.labels.dtype, documents.offsets.dtype)
    if kinds != (np.float32, np.int8, np.int64):
        return f"arrays of {kinds}"
    if not np.array_equal(documents.features.view(np.uint32), dense.view(np.uint32)):
        return "features differ"
    if documents.labels.tolist() != expected.grades:
        return "grades differ"
    lengths = np.diff(documents.offsets).tolist()
    queries = [name for name, length in zip(documents.query_ids, lengths, strict=True) for _ in range(length)]
    if queries != expected.queries:
        return "queries differ"
    return "" if len(set(documents.query_ids)) == len(documents.query_ids) else "a query id twice"


def _difference_from_sklearn(documents: Documents, file: Path) -> str | None:
    """Where the arrays differ from those of scikit-learn; None if nowhere, or if it does not read such files."""
    if not documents.features.shape[1] or not all(re.fullmatch("[0-9]{1,18}", name) for name in documents.query_ids):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # As a file object, because the name has no .gz.
            with parser.open_text(file) as opened:
                features, labels, queries = load_svmlight_file(opened, query_id=True, zero_based=False)
    except (ValueError, OverflowError):
        return None
    if not np.array_equal(features.toarray().astype(np.float32), documents.features):  # its -0 becomes 0
        return "features differ from scikit-learn's"
    if not np.array_equal(labels, documents.labels):
        return "grades differ from scikit-learn's"
    same = np.array_equal(queries, np.repeat(np.array(documents.query_ids, np.int64), np.diff(documents.offsets)))
    return None if same else "queries differ from scikit-learn's"


def well_formed(rng: random.Random) -> bytes:
    """A file of the form: dense or sparse, with comments, blank lines, tabs and line ends of several systems."""
    width, dense = rng.choice((1, 2, 3, 5, 8, 12)), rng.random() < 0.5
    blank, end = rng.choice(("  ", " ", " ", "\t", " \t")), rng.choice(("\n", "\n", "\r\n", " \n"))
    name = rng.choice(("{}", "{}", "q{}", "0{}", "été-{}", "\\x{}", "{}\u00a0"))
    kind, comments = rng.choice((_decimal, _decimal, _whole, _scientific, _any)), rng.random() < 0.3
    lines = []
    for query in range(rng.randint(1, 4)):
        for _ in range(rng.randint(1, 4)):
            ids = range(1, width + 1) if dense else sorted(rng.sample(range(1, 2 * width + 1), rng.randint(0, width)))
            grade = f"{rng.choice((0, 1, 2, 4, 127))}{rng.choice(('', '', '', '.', '.0', '.00'))}"
            tokens = [grade, f"qid:{name.format(query)}", *(f"{i}:{kind(rng)}" for i in ids)]
            comment = rng.choice((" # docid = GX-1", "#1:2 qid:3", "")) if comments else ""
            between = rng.choice(("", "", "", "\n", "# only a comment\n", " \n")) if comments else ""
            lines.append(blank.join(tokens) + comment + end + between)
    text = "".join(lines)
    return (text if rng.random() < 0.8 else text.rstrip("\r\n")).encode()


def _decimal(rng: random.Random) -> str:
    return f"{rng.uniform(-2, 2):.6f}"


def _whole(rng: random.Random) -> str:
    return str(rng.randint(-9, 99))


def _scientific(rng: random.Random) -> str:
    return f"{rng.uniform(-1, 1) * 10 ** rng.randint(-45, 38):.{rng.randint(0, 20)}e}"


def _any(rng: random.Random) -> str:
    others = (repr(rng.random()), ".5", "5.", "+1.5", "-0", "1E+3", "0.000000", "1.00000005960464477625946")
    return rng.choice((_decimal(rng), _whole(rng), _scientific(rng), *others))


def _damage_bytes(text: bytes, rng: random.Random) -> bytes:
    """Delete, insert, replace, repeat or exchange bytes, or invert a bit."""
    start = rng.randint(0, len(text))
    stop = min(len(text), start + rng.choice((1, 1, 2, 5, 40)))
    part, new = text[start:stop], rng.choice(BYTES)
    inverted = bytes([part[0] ^ 1 << rng.randrange(8)]) + part[1:] if part else new
    changed = rng.choice((b"", new, new + part, new + part[1:], part + part, part[::-1], inverted, new * 3 + part))
    return text[:start] + changed + text[stop:]


def _truncate(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randint(0, len(text))]


def _damage_token(text: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, exchange or replace a token or a part of it."""
    lines = text.split(b"\n")
    row = rng.randrange(len(lines))
    tokens = lines[row].split(b" ")
    place, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    left, colon, right = tokens[place].partition(b":")
    kind = rng.randrange(8)
    if kind == 0:
        del tokens[place]
    elif kind == 1:
        tokens.insert(other, tokens[place])
    elif kind == 2:
        tokens[place], tokens[other] = tokens[other], tokens[place]
    elif kind == 3:
        tokens[place] = left + colon + rng.choice(NUMBERS)
    elif kind == 4:
        tokens[place] = rng.choice(IDS) + colon + right
    elif kind == 5:
        tokens[0] = rng.choice(GRADES)
    elif kind == 6:
        tokens[1:2] = [rng.choice(QUERIES)]
    else:
        tokens[place] += rng.choice(BYTES)
    lines[row] = b" ".join(tokens)
    return b"\n".join(lines)


def _damage_lines(text: bytes, rng: random.Random) -> bytes:
    """Delete, repeat, exchange, move, join or insert lines."""
    lines = text.split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines.append(lines.pop(place))
    elif kind == 4:
        lines[place : place + 2] = [rng.choice((b"", b" ", b"\r")).join(lines[place : place + 2])]
    else:
        lines.insert(place, rng.choice(LINES))
    return b"\n".join(lines)


Mutation = Callable[[bytes, random.Random], bytes]
MUTATIONS: tuple[Mutation, ...] = (_damage_bytes, _damage_bytes, _damage_token, _damage_token, _damage_lines, _truncate)
