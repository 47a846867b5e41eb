"""The files that submitit and its jobs exchange in a folder of their own."""

from __future__ import annotations

import dataclasses
import os
import pickle
from contextlib import suppress
from pathlib import Path

from ol2r_cli.launcher.job import Job


def rooted(job: Job) -> Job:
    """The same job with paths that do not depend on where they are read."""
    return dataclasses.replace(job, directory=job.directory.absolute(), log=job.log.absolute())


def names(folder: Path) -> set[str]:
    """The names of the files; network file systems read a folder anew once its time has been changed."""
    with suppress(OSError):
        os.utime(folder)
    with suppress(OSError):
        return set(os.listdir(folder))
    return set()


def result(id: str) -> str:
    """The name of the file in which job `id` (`12_3`) leaves its result."""
    return f"{id}_0_result.pkl"


def errors(folder: Path, id: str) -> Path:
    """The file of what was printed to stderr around the run, by the shell, Slurm and submitit."""
    return folder / f"{id}_0_log.err"


def read_result(folder: Path, id: str) -> tuple[int, str]:
    """Code and reason that the job has left; it is whole as soon as it is there."""
    how, content = pickle.loads((folder / result(id)).read_bytes())
    if how == "success":
        return content
    return 1, f"could not be started on its node: {content.strip().splitlines()[-1]}"


def remove(folder: Path, id: str, errors: bool = True) -> None:
    """The files of a job that is over; `errors`: also what was printed around the run, which may be all there is."""
    for name in ("submitted.pkl", "0_result.pkl", "0_log.out", *(["0_log.err"] if errors else [])):
        (folder / f"{id}_{name}").unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Leave nothing but what was printed around runs that left no result, and no folder without that."""
    for name in names(folder):
        if not name.endswith("_log.err"):
            (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # not empty
        folder.rmdir()
        folder.parent.rmdir()
        if folder.parent.parent.name == ".sweep":
            folder.parent.parent.rmdir()
            folder.parent.parent.parent.rmdir()


def now(folder: Path) -> float:
    """The time by the clock of the file system, in seconds; the folder is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    return folder.stat().st_mtime


def newer(path: Path, time: float) -> bool:
    """Whether a file has been written since then; False where there is none."""
    with suppress(OSError):
        return path.stat().st_mtime > time
    return False
