"""Errors of the user's own code, such as an own ranker or dataset: where they were raised, in one line."""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path

from ol2r_cli.source import PACKAGE
from ol2r_cli.text.formatting import error_line, shown_path

_OF_PYTHON = re.compile(r"^<|/lib/python[\d.]+/")

_Frame = tuple[str, int, str]  # file, line, and the function with its class


def place_of(error: BaseException, apart_from: Path | None = None) -> str:
    """Return where an error was raised, `mine.py:12, in Mine.learn`: in own code, if that was on the way.

    apart_from: a folder of code that calls what is looked at.
    """
    frames = _frames(error)
    outside = [
        (file, line, function)
        for file, line, function in frames
        if not (_OF_PYTHON.search(file) or (apart_from and Path(file).is_relative_to(apart_from)))
    ]
    own = [frame for frame in frames if _is_own_file(frame[0])]
    file, line, function = (own or outside or frames)[-1]
    return f"{shown_path(file)}:{line}, in {function}"


def is_own(error: BaseException) -> bool:
    """Return whether own code was on the way of an error, other than a program that calls ol2r."""
    files = [file for file, _, _ in _frames(error)]
    ours = next((number for number, file in enumerate(files) if Path(file).is_relative_to(PACKAGE)), len(files))
    return any(map(_is_own_file, files[ours:]))


def _is_own_file(file: str) -> bool:
    return not _OF_PYTHON.search(file) and not Path(file).is_relative_to(PACKAGE)


def is_refusal(error: BaseException) -> bool:
    """Return whether a `raise` statement raised the error on purpose, not Python or numpy inside an expression."""
    file, line, _ = _frames(error)[-1]
    return linecache.getline(file, line).lstrip().startswith("raise ")


def explained(error: BaseException) -> str:
    """Return an error in one line: a ValueError that was raised on purpose as it is, one of own code with its place."""
    if isinstance(error, ValueError) and (is_refusal(error) or not is_own(error)):
        return str(error)
    return f"{error_line(error)} ({place_of(error)})" if is_own(error) else error_line(error)


def _frames(error: BaseException) -> list[_Frame]:
    found = traceback.walk_tb(error.__traceback__)
    return [(frame.f_code.co_filename, line, frame.f_code.co_qualname) for frame, line in found]
