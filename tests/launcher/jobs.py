"""Jobs whose payload executes Python source when it is unpickled, so that they need no configuration."""

from __future__ import annotations

import pickle
from pathlib import Path

from ol2r_cli.launcher.job import Job, manifest_bytes


class _Source:
    def __init__(self, source: str):
        self.source = source

    def __reduce__(self) -> tuple:
        return exec, (self.source,)


def payload_of(source: str) -> bytes:
    """A payload that executes Python source."""
    return pickle.dumps(_Source(source))


def does(source: str, folder: Path, number: int = 0) -> Job:
    """A job that executes Python source. It ends with code 1 unless the source ends the process."""
    directory, log = folder / "runs" / str(number), folder / ".sweep" / "one" / f"{number}.log"
    return Job(number, payload_of(source), directory, log, manifest_bytes(directory))
