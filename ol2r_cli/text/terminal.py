"""What a command prints, to streams that may be closed, on a full disk, without a reader, or of ASCII only.

What is printed is never a reason to lose what was computed: stderr takes what it can, and the first error of stdout is
kept until the end of the command.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

_IN_ASCII = {
    **{"±": "+-", "·": "-", "–": "-", "…": "..", "↑": "^", "↓": "v", "└": "`", "─": "-", "✓": "+", "✗": "x"},
    **dict(zip("ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ", "abcdefghijklmnoprstuvwxyz", strict=True)),
}

_PLAIN_EVERY = 30.0  # seconds between lines that are not on a terminal


def _shown(error: UnicodeError) -> tuple[str, int]:
    """Return a handler of `codecs`: characters that a stream does not have, in those that every stream has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(char) or char.encode("unicode_escape").decode() for char in missing), error.end


codecs.register_error("ol2r.shown", _shown)


class _Descriptor(io.FileIO):
    """A file descriptor that is written to until it fails; `error` is why. What comes after is lost."""

    def __init__(self, descriptor: int, raises: tuple[type[OSError], ...] = ()):
        super().__init__(descriptor, "w", closefd=False)
        self.error: OSError | None = None
        self._raises = raises

    def write(self, content: Any, /) -> int:
        if self.error is None:
            try:
                return super().write(content)
            except OSError as error:
                self.error = error
                if isinstance(error, self._raises):
                    raise
        return len(content)


@contextmanager
def printing() -> Iterator[Callable[[], OSError | None]]:
    """Exchange the streams of the process for a block; yields a function that returns why stdout took less than was
    printed and flushed.

    A reader of stdout who has gone (`ol2r list | head`) is a BrokenPipeError at once. Streams that are not those of the
    process, as in tests and notebooks, stay as they are.
    """
    before, closed = (sys.stdout, sys.stderr), _open_closed()
    _flush(before)  # what the calling program has printed comes first
    stdout = _Descriptor(1, raises=(BrokenPipeError,))
    if 1 in closed:
        stdout.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(stdout, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(_Descriptor(2), sys.stderr)
    try:
        yield lambda: stdout.error
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _flush(streams: Iterable[TextIO | None]) -> None:
    for stream in streams:
        if stream is not None:
            with suppress(OSError, ValueError):  # a full disk, a closed stream
                stream.flush()


def _open_closed() -> set[int]:
    """Open those of the three standard descriptors that are closed: the next file would get their number, and text.

    Returns those that were closed.
    """
    closed = set()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free
    return closed


def _stream(descriptor: _Descriptor, like: Any) -> io.TextIOWrapper:
    """Return a stream of text that is written to a descriptor, in the encoding of another stream; None: of a closed
    one.

    Of an unbuffered process (PYTHONUNBUFFERED), every line is written at once.
    """
    is_unbuffered = getattr(like, "write_through", False)
    return io.TextIOWrapper(
        io.BufferedWriter(descriptor),
        encoding=getattr(like, "encoding", "utf-8"),
        errors="ol2r.shown",
        line_buffering=is_unbuffered or getattr(like, "line_buffering", True),
    )


@contextmanager
def share_shown(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on stderr how much of a long task is done; yields a function that takes how much of `total` that is.

    After a second that is a line on a terminal, which goes when the task ends; elsewhere it is a line every 30 seconds.
    """
    is_live = sys.stderr is not None and sys.stderr.isatty()
    due, drawn = time.monotonic() + (1.0 if is_live else _PLAIN_EVERY), False

    def show(done: int) -> None:
        nonlocal due, drawn
        now = time.monotonic()
        if now < due or not 0 < done < total:
            return
        due, drawn = now + (0.25 if is_live else _PLAIN_EVERY), True
        share, width = f": {100 * done // total} %", shutil.get_terminal_size().columns - 1
        if is_live:
            print(f"\r{what[: width - len(share)]}{share}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(f"{what}{share}", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if drawn and is_live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
