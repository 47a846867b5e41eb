"""The folder in which submitit and its jobs exchange files. It is on a file system that all nodes share."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path


class ExchangeFolder:
    """The folder of one sweep. `id` is a job of Slurm, such as `12_3`."""

    def __init__(self, path: Path):
        self.path = path

    def names(self) -> set[str]:
        """The names of the files. Network file systems read a folder again once its time has changed."""
        with suppress(OSError):
            os.utime(self.path)
        with suppress(OSError):
            return set(os.listdir(self.path))
        return set()

    def now(self) -> float:
        """The time by the clock of the file system, in seconds. Creates the folder if necessary."""
        self.path.mkdir(parents=True, exist_ok=True)
        os.utime(self.path)
        return self.path.stat().st_mtime

    def errors(self, id: str) -> Path:
        """The file with what the shell, Slurm and submitit printed to stderr around the run."""
        return self.path / f"{id}_0_log.err"

    def result(self, id: str) -> tuple[int, str]:
        """The code and the reason that a job has left in its result file, which is complete once it exists."""
        status, content = pickle.loads((self.path / result_name(id)).read_bytes())
        if status == "success":
            return content
        return 1, f"could not be started on its node: {content.strip().splitlines()[-1]}"

    def remove(self, id: str, errors: bool = True) -> None:
        """Remove the files of a job that has ended; without `errors` its stderr stays, which may explain its end."""
        for name in ("submitted.pkl", "0_result.pkl", "0_log.out", *(["0_log.err"] if errors else [])):
            (self.path / f"{id}_{name}").unlink(missing_ok=True)

    def clean_up(self) -> None:
        """Remove everything but the stderr of jobs without a result, and the folder if nothing is left."""
        for name in self.names():
            if not name.endswith("_log.err"):
                (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.path.rmdir()
            self.path.parent.rmdir()
            if self.path.parent.parent.name == ".sweep":
                self.path.parent.parent.rmdir()
                self.path.parent.parent.parent.rmdir()


def result_name(id: str) -> str:
    """The name of the file in which a job leaves its result."""
    return f"{id}_0_result.pkl"


def is_newer(path: Path, time: float) -> bool:
    """Whether a file has been written after `time`; False if it does not exist."""
    with suppress(OSError):
        return path.stat().st_mtime > time
    return False
