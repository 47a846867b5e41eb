"""Which runs lie below a folder, and how each of them fares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ol2r_cli.results.directory import MANIFEST, RunDirectory
from ol2r_cli.results.manifest import read_manifest

STATES = ("running", "finished", "interrupted", "killed", "failed", "unreadable")


@dataclass(frozen=True)
class RunState:
    """One of `STATES` and what is known besides.

    running: a process holds the lock. killed: the manifest says running, but no process does. unreadable: the manifest
    is damaged (`error` says how) and `manifest` is empty.
    """

    path: Path
    state: str
    manifest: dict[str, Any]
    error: str | None = None

    @property
    def round(self) -> int:
        return int(self.manifest.get("progress", {}).get("round", 0))

    @property
    def rounds(self) -> int:
        return int(self.manifest.get("progress", {}).get("rounds", 0))

    @property
    def remaining(self) -> float | None:
        """Seconds to go at the present speed; None unless running at a known one."""
        speed = self.manifest.get("rounds_per_second")
        return (self.rounds - self.round) / speed if self.state == "running" and speed else None


def find_runs(root: str | os.PathLike[str]) -> Iterator[Path]:
    """Folders with a manifest: `root` itself and all below it, in alphabetical order; runs do not nest."""
    for folder, below, files in os.walk(root):
        if MANIFEST in files:
            below.clear()
            yield Path(folder)
        below[:] = sorted(name for name in below if not name.startswith("."))


def find_run(name: str, root: str | os.PathLike[str] = "outputs") -> Path:
    """The run directory that `name` is the path or, below `root`, the id of; ValueError when there is none."""
    path = Path(name)
    if (path / MANIFEST).is_file():
        return path
    found = (run for run in find_runs(root) if run.name.endswith(f"-{name}"))
    run = next(found, None) if re.fullmatch("[0-9a-f]{10}", name) else None
    if run is None:
        missing = "in which there is no run" if path.is_dir() else "which is neither"
        raise ValueError(
            f"RUN must be the directory of a run or an id below {root}, got {name}, {missing}: see `ol2r status`"
        )
    return run


def read_state(path: str | os.PathLike[str]) -> RunState | None:
    """The state of the run in `path`; None when there is none."""
    directory = RunDirectory(path)
    try:
        manifest = read_manifest(path)
        running = manifest is not None and manifest.get("status") == "running" and directory.is_running()
        if manifest is not None and manifest.get("status") == "running" and not running:
            manifest = read_manifest(path)  # it may have ended between the two looks
    except (OSError, ValueError) as error:
        return RunState(directory.path, "unreadable", {}, str(error))
    if manifest is None:
        return None
    status = manifest.get("status")
    if status not in ("running", "finished", "interrupted", "failed"):
        return RunState(directory.path, "unreadable", {}, f"its status is {status}")
    state = status if status != "running" or running else "killed"
    return RunState(directory.path, state, manifest, manifest.get("error"))
