"""A fake cluster: commands of Slurm that print what a test defines and record their arguments."""

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
    "scontrol": 'echo "$@" >> told; test ! -f refusal.txt',
    "scancel": 'echo "$@" >> cancelled',
}


class FakeSlurm:
    """The commands, in `folder`. A command without a defined answer fails, as without controller or accounting."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        for name, script in _COMMANDS.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
            path.chmod(0o755)
        self.path = f"{folder}:{os.environ['PATH']}"

    def states(self, states: Mapping[str, str]) -> None:
        """Define the answer of squeue: the state of each job, with its reason after a blank (`PENDING BeginTime`)."""
        rows = [(id, *[*words.split(), "None"][:2]) for id, words in states.items()]
        (self.folder / "squeue.txt").write_text("".join("|".join(row) + "\n" for row in rows))

    def forgets(self) -> None:
        """Let squeue fail."""
        (self.folder / "squeue.txt").unlink()

    def refuses(self, text: str) -> None:
        """Define why sbatch and scontrol refuse a job."""
        (self.folder / "refusal.txt").write_text(text)

    def scripts(self) -> list[str]:
        """The scripts that sbatch received."""
        paths = sorted((self.folder / "scripts").iterdir(), key=lambda path: int(path.name))
        return [path.read_text() for path in paths]

    def noted(self, what: str) -> list[str]:
        """The arguments of all calls of scancel (`cancelled`) or scontrol (`told`)."""
        path = self.folder / what
        return path.read_text().splitlines() if path.exists() else []


def leave_result(folder: Path, id: str, code: int, reason: str = "") -> None:
    """Write the file that submitit writes when a job ends."""
    (folder / f"{id}_0_result.pkl").write_bytes(pickle.dumps(("success", (code, reason))))
