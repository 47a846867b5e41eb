"""Jobs whose payload is any function: unpickling calls it, so that nothing needs to be configured or simulated."""

from __future__ import annotations

import pickle
from pathlib import Path

from ol2r_cli.launcher.job import Job


class _Does:
    def __init__(self, source: str):
        self.source = source

    def __reduce__(self) -> tuple:
        return exec, (self.source,)


def does(source: str, folder: Path, number: int = 0) -> Job:
    """A job that executes Python source; it ends with code 1 unless the source ends the process."""
    name = f"job {number}"
    directory, log = folder / "runs" / str(number), folder / ".sweep" / "one" / f"{number}.log"
    return Job(number, name, f"ol2r run {number}", pickle.dumps(_Does(source)), directory, log)
