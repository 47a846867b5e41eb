"""Stands in for a cluster: commands of Slurm that say what a test wants, and note what they are told."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path

_COMMANDS = {
    "srun": "exit 0",
    "sbatch": """
        if [ -f refusal.txt ]; then cat refusal.txt >&2; exit 1; fi
        number=$(($(ls scripts | wc -l) + 1))
        cp "$1" scripts/$number
        echo "Submitted batch job $number" """,
    "squeue": "cat squeue.txt",
    "sacct": "cat sacct.txt",
    "scontrol": 'echo "$@" >> told; cat scontrol.txt',
    "scancel": 'echo "$@" >> cancelled',
}


class FakeSlurm:
    """The commands, below `folder`; without what to say they fail, as where there is no controller or no accounting."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        for name, script in _COMMANDS.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
            path.chmod(0o755)
        self.path = f"{folder}:{os.environ['PATH']}"

    def states(self, states: Mapping[str, str]) -> None:
        """What squeue answers: the state of each job, with its reason behind a blank (`PENDING BeginTime`)."""
        rows = [(id, *[*words.split(), "None"][:2]) for id, words in states.items()]
        self._file("squeue", "".join("|".join(row) + "\n" for row in rows))

    def forgets(self) -> None:
        """The controller does not answer any more."""
        (self.folder / "squeue.txt").unlink()

    def says(self, command: str, text: str) -> None:
        """What sacct or scontrol answers, or (`refusal`) why sbatch refuses."""
        self._file(command, text)

    def scripts(self) -> list[str]:
        """What was given to sbatch."""
        paths = sorted((self.folder / "scripts").iterdir(), key=lambda path: int(path.name))
        return [path.read_text() for path in paths]

    def noted(self, what: str) -> list[str]:
        """What scancel (`cancelled`) or scontrol (`told`) was told."""
        path = self.folder / what
        return path.read_text().splitlines() if path.exists() else []

    def _file(self, name: str, text: str) -> None:
        (self.folder / f"{name}.txt").write_text(text)


def leave_result(folder: Path, id: str, code: int, reason: str = "") -> None:
    """What submitit's process leaves when a job ends."""
    (folder / f"{id}_0_result.pkl").write_bytes(pickle.dumps(("success", (code, reason))))
