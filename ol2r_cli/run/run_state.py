"""Finds runs on disk and determines their state, from their manifests and locks."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ol2r_cli.config.own_choices import default_output_dir
from ol2r_cli.run.directory import MANIFEST, RunDirectory
from ol2r_cli.run.integrity import damage
from ol2r_cli.run.manifest import read_manifest

STATES = ("running", "finished", "interrupted", "killed", "failed", "damaged", "unreadable")

RENEWED = 120.0  # seconds; a process renews its manifest every two, if rounds are not longer


@dataclass(frozen=True)
class RunState:
    """A run on disk: its directory, its state (one of `STATES`), its manifest and the error with which it failed.

    running: a process holds the lock, or one on another machine, whose lock may not be seen here, has renewed the
    manifest in the last `RENEWED` seconds. killed: the manifest says running, but neither is so. damaged: it was
    finished, and a file of its results is missing or was changed. unreadable: the manifest is damaged, and `manifest`
    is empty. In both cases `error` describes the damage.
    """

    path: Path
    state: str
    manifest: dict[str, Any]
    error: str | None = None

    @property
    def round(self) -> int:
        """The last completed round."""
        return max(0, self.manifest.get("progress", {}).get("round", 0))

    @property
    def rounds(self) -> int:
        """The number of rounds of the whole run."""
        return max(0, self.manifest.get("progress", {}).get("rounds", 0))

    @property
    def remaining(self) -> float | None:
        """Seconds left at the present speed; None unless the run is running and its speed is known."""
        speed = self.manifest.get("rounds_per_second")
        return (self.rounds - self.round) / speed if self.state == "running" and speed and speed > 1e-9 else None


def read_state(path: str | os.PathLike[str], thorough: bool = False) -> RunState | None:
    """The state of the run in the directory `path`; None if there is no run.

    `thorough` compares the contents of all files of a finished run with their hashes, not only of those that are small.
    """
    directory = RunDirectory(path)
    try:
        manifest = read_manifest(path)
        running = manifest is not None and manifest.get("status") == "running" and _is_running(directory, manifest)
        if manifest is not None and manifest.get("status") == "running" and not running:
            manifest = read_manifest(path)  # the run may have ended after the first reading
    except (OSError, ValueError) as error:
        return RunState(directory.path, "unreadable", {}, str(error))
    if manifest is None:
        return None
    status = manifest["status"]
    if status == "finished" and (what := damage(directory.path, manifest, thorough)):
        return RunState(directory.path, "damaged", manifest, what)
    state = status if status != "running" or running else "killed"
    return RunState(directory.path, state, manifest, manifest.get("error"))


def _is_running(directory: RunDirectory, manifest: dict[str, Any]) -> bool:
    is_elsewhere = manifest.get("host") not in (None, platform.node())
    is_recent = abs(time.time() - (directory / MANIFEST).stat().st_mtime) < RENEWED
    return directory.is_running() or (is_elsewhere and is_recent)


def finished_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a finished run; ValueError, which says what to type, for any other directory."""
    state = read_state(path)
    if state is None or not state.manifest:
        raise ValueError(f"RUN must be a finished run, got {path} ({state.error if state else 'no run'})")
    command = f"type {state.manifest['command']}"
    if state.state == "damaged":
        raise ValueError(f"{path} is damaged ({state.error}): {command}")
    if state.state != "finished":
        advice = "wait for it" if state.state == "running" else command
        raise ValueError(f"RUN must be a finished run, got {path}, which is {state.state}: {advice}")
    return state.manifest


def find_runs(root: str | os.PathLike[str]) -> Iterator[Path]:
    """The run directories below `root`, which may be one itself, in alphabetical order. Runs do not nest."""
    for folder, subfolders, files in os.walk(root):
        if MANIFEST in files:
            subfolders.clear()
            yield Path(folder)
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))


def find_run(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The run directory with the path `name` or, below `root`, with the id `name`; ValueError if there is none.

    Without `root`, the folder is output_dir of the project file, or outputs; FOLDER/ID names another one.
    """
    path = Path(name)
    if (path / MANIFEST).is_file():
        return path
    is_id = re.fullmatch("[0-9a-f]{10}", path.name)
    if is_id and len(path.parts) > 1:
        root = path.parent
    root = default_output_dir() if root is None else root
    run = next((run for run in find_runs(root) if run.name.endswith(f"-{path.name}")), None) if is_id else None
    if run is None:
        missing = "in which there is no run" if path.is_dir() else "which is neither"
        other = f", or type FOLDER/{path.name} if it is in another folder" if is_id else ""
        raise ValueError(
            f"RUN must be the directory of a run or an id below {root}, got {name}, {missing}: see `ol2r status`{other}"
        )
    return run


def named_runs(name: str) -> list[Path]:
    """The runs that an argument RUN|DIR names: those below a folder, or one by its directory or id, as `find_run`."""
    return list(find_runs(name)) or [find_run(name)]
