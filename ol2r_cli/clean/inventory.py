"""What lies below a folder of runs: every run with its files, what killed processes left, logs of sweeps."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from ol2r_cli.results.directory import FILES, LOCK, MANIFEST, RunDirectory
from ol2r_cli.results.manifest import read_manifest
from ol2r_cli.results.survey import RunState, read_state

DAMAGED = "damaged"
STATES = ("failed", "interrupted", "killed", DAMAGED)  # of which whole runs may be chosen
CHECKPOINT, INTERACTIONS = "checkpoint.pt", "interactions.parquet"
SWEEPS = ".sweep"
_ID = re.compile(r"-[0-9a-f]{10}$")  # how the folder of a run ends
_LOG = re.compile(r"-[0-9a-f]{10}\.log$")
_ALWAYS = ("config.yaml", "summary.json", "trace.parquet")  # without these a finished run is none
_TEMPORARY = {f".{name}.partial" for name in FILES}


@dataclass(frozen=True)
class Kept:
    """A run: sizes in bytes of its files and of temporaries in its folder; `changed`: seconds, of the latest file.

    `state` is one of those of a run, or damaged: no readable manifest, or finished without its tables. `seen` is the
    manifest as it was, to tell whether the run has gone on since.
    """

    path: Path
    state: str
    seen: Mapping[str, object] | None
    files: Mapping[str, int]
    temporaries: Mapping[str, int]
    changed: float

    @property
    def size(self) -> int:
        return sum(self.files.values()) + sum(self.temporaries.values())


@dataclass(frozen=True)
class Log:
    """What a job of a sweep printed; removed by the sweep itself when the job was fine."""

    path: Path
    size: int
    changed: float


def runs(root: Path) -> Iterator[Kept]:
    """All runs below a folder, in alphabetical order; also folders where a run was killed before it had begun."""
    for folder, below, names in os.walk(root):
        own = {name for name in names if name in FILES or name in _TEMPORARY or name == LOCK}
        if MANIFEST in own or (_ID.search(Path(folder).name) and _left_over(Path(folder), own)):
            below.clear()
            if (run := _run(Path(folder), own)) is not None:
                yield run
        below[:] = sorted(name for name in below if not name.startswith("."))


def _left_over(path: Path, names: set[str]) -> bool:
    """Whether files without a manifest are those of a run: some that only runs have, or a run's configuration."""
    if names & {LOCK, CHECKPOINT, "ranker.pt", *_TEMPORARY}:
        return True
    try:
        settings = yaml.safe_load((path / "config.yaml").read_bytes())
    except (OSError, yaml.YAMLError):
        return False
    return isinstance(settings, dict) and {"ranker", "click", "dataset", "rounds"} <= settings.keys()


def _run(path: Path, names: set[str]) -> Kept | None:
    state = read_state(path)
    described = state is not None and _is_ours(state)
    if not described and not _ID.search(path.name):
        return None  # another program's run.json
    sizes, changed = {}, 0.0
    for name in sorted(names):
        try:
            found = (path / name).lstat()
        except FileNotFoundError:  # written to, or taken away, at this moment
            continue
        sizes[name], changed = found.st_size, max(changed, found.st_mtime)
    return Kept(
        path,
        _state(path, state if described else None, names),
        manifest(path),
        {name: size for name, size in sizes.items() if name in FILES},
        {name: size for name, size in sizes.items() if name in _TEMPORARY},
        changed,
    )


def manifest(path: Path) -> Mapping[str, object] | None:
    """The manifest of the run in a folder; empty when it cannot be read, None without one."""
    try:
        return read_manifest(path)
    except (OSError, ValueError):
        return {}


def _is_ours(state: RunState) -> bool:
    return {"id", "choices", "progress", "results_version"} <= state.manifest.keys()


def _state(path: Path, state: RunState | None, names: set[str]) -> str:
    if state is None:
        return "running" if RunDirectory(path).is_running() else DAMAGED
    if state.state == "finished" and not set(_ALWAYS) <= names:
        return DAMAGED
    return state.state


def logs(root: Path) -> Iterator[Log]:
    """Logs of the jobs of sweeps below a folder, but for those of runs that are running."""
    for folder, below, _ in os.walk(root):
        if SWEEPS in below:
            for path in sorted(Path(folder, SWEEPS).glob("*/*.log")):
                run = RunDirectory(Path(folder, path.parent.name, path.stem))
                if _LOG.search(path.name) and not run.is_running():
                    found = path.lstat()
                    yield Log(path, found.st_size, found.st_mtime)
        below[:] = sorted(name for name in below if not name.startswith("."))
