"""Commands of ol2r in forked processes, which takes milliseconds where starting Python takes seconds.

The process that forks may not use polars or threads, which do not survive a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

SURVIVED, REFUSED = "survived", "refused"  # outcomes of a case; any other text says what is wrong
Cases = Iterator[tuple[str, str]]  # the case, and its outcome


def start(words: list[str], log: Path, before: Callable[[], object] = int) -> int:
    """Begin a command, after `before`, with its output in LOG.out and LOG.err; the number of its process."""
    process = os.fork()
    if process:
        return process
    code = 99
    with suppress(BaseException):
        from ol2r_cli.cli import main

        for number, end in (1, ".out"), (2, ".err"):
            os.dup2(os.open(f"{log}{end}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        before()
        code = main(words)
    os._exit(code)


def wait(process: int) -> int:
    """The exit code of a process, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
