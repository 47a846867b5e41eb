"""What may go wrong besides settings, whose errors are ValueErrors in the words of the command line."""

from __future__ import annotations

from pathlib import Path


class RunFailed(Exception):
    """A run ended with an error, or several of a sweep did; the message has a line for each.

    `paths` are their directories, with the traceback in `log.txt`. Running it again goes on from its last checkpoint.
    """

    def __init__(self, message: str, paths: tuple[Path, ...] = ()):
        super().__init__(message)
        self.paths = paths
