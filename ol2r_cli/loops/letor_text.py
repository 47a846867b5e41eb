"""The fast parser: one compiled loop over the bytes of LETOR text, which gives up where a line has an unusual form.

A number of up to 15 digits is exact: a whole number up to 2^53 and a power of ten up to 10^22 are exact in double
precision, and their product or quotient is rounded once (Clinger, "How to read floating point numbers accurately",
PLDI 1990). The place of any other number is noted for `float`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.loops.compile import compiled

_TAB, _END, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON, _E, _SMALL_E = b"\t\n\r #+-.0:Ee"
_TENS = np.array([float(f"1e{exponent}") for exponent in range(23)])
_EXACT, _MANY = 1 << 53, 10**17  # whole numbers that a float64 has; no further digit is added to one of `_MANY`

Text = NDArray[np.uint8]


@compiled
def read(
    text: Text,
    largest_grade: int,
    most: int,
    grade: NDArray[np.int8],
    query: NDArray[np.int64],
    row: NDArray[np.int64],
    key: NDArray[np.int64],
    value: NDArray[np.float64],
    inexact: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Return the numbers of documents, of features and of inexact features in `text`; -1 documents if it is not sure.

    `text` ends with a line end; ids of features are at most `most`. The other arrays are written: for each document its
    grade, and where the id of its query begins and ends; for each feature the document `row`, its id `key` and `value`;
    and for inexact features their number, and where the text of the value begins and ends.
    """
    at, documents, features, inexacts = 0, 0, 0, 0
    while at < len(text):
        at = _after_blanks(text, at)
        if text[at] != _END and text[at] != _HASH:
            number, end = _whole(text, at)
            if not at < end <= at + 3 or number > largest_grade or not _ends_token(text[end]):
                return -1, 0, 0
            grade[documents] = number
            at = _after_blanks(text, end)
            for letter in b"qid:":
                if text[at] != letter:
                    return -1, 0, 0
                at += 1
            begin = at
            while not _ends_token(text[at]):
                if text[at] == _COLON or not 0 < text[at] < 128:
                    return -1, 0, 0
                at += 1
            if at == begin:
                return -1, 0, 0
            query[documents, 0], query[documents, 1] = begin, at
            previous = 0
            at = _after_blanks(text, at)
            while text[at] != _END and text[at] != _HASH:
                number, end = _whole(text, at)
                if end == at or not previous < number <= most or text[end] != _COLON:
                    return -1, 0, 0
                previous, begin = number, end + 1
                row[features], key[features] = documents, number
                value[features], at, exact = _number(text, begin)
                if at == begin or not _ends_token(text[at]):
                    return -1, 0, 0
                if not exact:
                    inexact[inexacts, 0], inexact[inexacts, 1], inexact[inexacts, 2] = features, begin, at
                    inexacts += 1
                features += 1
                at = _after_blanks(text, at)
            documents += 1
        while text[at] != _END:
            at += 1
        at += 1
    return documents, features, inexacts


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
