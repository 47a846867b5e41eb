"""The fast parser: one compiled loop over the bytes of LETOR text, which gives up where a line has an unusual form.

A number of up to 15 digits is exact: a whole number up to 2^53 and a power of ten up to 10^22 are exact in double
precision, and their product or quotient is rounded once (Clinger, "How to read floating point numbers accurately",
PLDI 1990). The place of any other number is noted for `float`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.loops.compile import compiled

_TAB, _END, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON, _E, _SMALL_E = b"\t\n\r #+-.0:Ee"
_TENS = np.array([float(f"1e{exponent}") for exponent in range(23)])
_EXACT, _MANY = 1 << 53, 10**17  # whole numbers that a float64 has; no further digit is added to one of `_MANY`

_UNSURE = -1  # in place of where a token ends

Text = NDArray[np.uint8]


class Written(NamedTuple):
    """Arrays that `read` writes; they need room for all documents and features."""

    grade: NDArray[np.int8]  # of each document
    query: NDArray[np.int64]  # of each document [n, 2]: where the id of its query begins and ends
    row: NDArray[np.int64]  # of each feature: its document
    key: NDArray[np.int64]  # of each feature: its id
    value: NDArray[np.float64]  # of each feature
    inexact: NDArray[np.int64]  # [m, 3]: numbers of inexact features, and where the text of the value begins and ends


@compiled
def read(text: Text, largest_grade: int, largest_id: int, written: Written) -> tuple[int, int, int]:
    """Return the numbers of documents, of features and of inexact features in `text`; -1 documents if it is not sure.

    `text` ends with a line end.
    """
    at, documents, features, inexacts = 0, 0, 0, 0
    while at < len(text):
        at = _after_blanks(text, at)
        if not _ends_content(text[at]):
            written.grade[documents], at = _grade(text, at, largest_grade)
            if at == _UNSURE:
                return _UNSURE, 0, 0
            begin, at = _query(text, _after_blanks(text, at))
            if at == _UNSURE:
                return _UNSURE, 0, 0
            written.query[documents, 0], written.query[documents, 1] = begin, at
            at, features, inexacts = _features(text, at, largest_id, written, documents, features, inexacts)
            if at == _UNSURE:
                return _UNSURE, 0, 0
            documents += 1
        while text[at] != _END:
            at += 1
        at += 1
    return documents, features, inexacts


@compiled
def _grade(text: Text, at: int, largest: int) -> tuple[int, int]:
    """Return the grade that begins here, of at most three digits, and where it ends."""
    number, end = _whole(text, at)
    if not at < end <= at + 3 or number > largest or not _ends_token(text[end]):
        return 0, _UNSURE
    return number, end


@compiled
def _query(text: Text, at: int) -> tuple[int, int]:
    """Return where the id of the query begins, whose token `qid:<id>` begins here, and where it ends."""
    for letter in b"qid:":
        if text[at] != letter:
            return at, _UNSURE
        at += 1
    begin = at
    while not _ends_token(text[at]):
        if text[at] == _COLON or not 0 < text[at] < 128:
            return begin, _UNSURE
        at += 1
    return begin, at if at > begin else _UNSURE


@compiled
def _features(
    text: Text, at: int, largest_id: int, written: Written, document: int, features: int, inexacts: int
) -> tuple[int, int, int]:
    """Write the features of a document, which follow here, after so many features and inexact ones.

    Return where the content of the line ends, and how many of both there are now.
    """
    previous = 0
    at = _after_blanks(text, at)
    while not _ends_content(text[at]):
        number, colon = _whole(text, at)
        if colon == at or not previous < number <= largest_id or text[colon] != _COLON:
            return _UNSURE, features, inexacts
        previous = number
        written.row[features], written.key[features] = document, number
        begin = colon + 1
        written.value[features], at, exact = _number(text, begin)
        if at == begin or not _ends_token(text[at]):
            return _UNSURE, features, inexacts
        if not exact:
            written.inexact[inexacts, 0] = features
            written.inexact[inexacts, 1], written.inexact[inexacts, 2] = begin, at
            inexacts += 1
        features += 1
        at = _after_blanks(text, at)
    return at, features, inexacts


@compiled
def _ends_content(byte: int) -> bool:
    return byte in (_END, _HASH)


@compiled
def _ends_token(byte: int) -> bool:
    return byte in (_BLANK, _END, _TAB, _RETURN, _HASH)


@compiled
def _after_blanks(text: Text, at: int) -> int:
    while text[at] in (_BLANK, _TAB, _RETURN):
        at += 1
    return at


@compiled
def _whole(text: Text, at: int) -> tuple[int, int]:
    """Return the whole number that begins here, at most about 10^18, and where its digits end."""
    number = 0
    while 0 <= text[at] - _ZERO <= 9:
        if number < _MANY:
            number = 10 * number + (text[at] - _ZERO)
        at += 1
    return number, at


@compiled
def _number(text: Text, at: int) -> tuple[float, int, bool]:
    """Return the decimal number that begins here, where it ends (here if it is none), and whether it is exact."""
    begin = at
    negative = text[at] == _MINUS
    at += text[at] in (_PLUS, _MINUS)
    digits, mantissa, power = 0, 0, 0
    fraction = False
    while True:
        if text[at] == _POINT and not fraction:
            fraction = True
        elif 0 <= text[at] - _ZERO <= 9:
            digits += 1
            power -= fraction
            if mantissa < _MANY:  # otherwise it is not exact, whatever follows
                mantissa = 10 * mantissa + (text[at] - _ZERO)
        else:
            break
        at += 1
    if digits == 0:
        return 0.0, begin, False
    if text[at] in (_E, _SMALL_E):
        below = text[at + 1] == _MINUS
        start = at + 1 + (text[at + 1] in (_PLUS, _MINUS))
        exponent, at = _whole(text, start)
        if at == start:
            return 0.0, begin, False
        power += -exponent if below else exponent
    if mantissa > _EXACT or abs(power) > 22:
        return 0.0, at, False
    value = mantissa / _TENS[-power] if power < 0 else mantissa * _TENS[power]
    return -value if negative else value, at, True
