"""Choosing what to remove, and removing it: a run is held meanwhile, so that nobody can be writing to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ol2r_cli.clean.inventory import CHECKPOINT, INTERACTIONS, Kept, Log, manifest
from ol2r_cli.results.directory import RunDirectory, RunningElsewhere


@dataclass(frozen=True)
class Choice:
    """What was asked for. `before`: seconds since the epoch; what has changed later stays."""

    states: frozenset[str] = frozenset()
    checkpoints: bool = False
    interactions: bool = False
    logs: bool = False
    before: float = float("inf")


@dataclass(frozen=True)
class Removal:
    """One thing to remove: its kind, its place and its size in bytes. `act` does it and returns the bytes freed.

    `act` raises ValueError, which says why, where the thing has to stay, and OSError where it cannot go.
    """

    kind: str
    path: Path
    size: int
    act: Callable[[], int]


def choose(runs: Iterable[Kept], logs: Iterable[Log], choice: Choice, root: Path) -> Iterator[Removal]:
    """What to remove of these. Temporaries of runs that are not running always go."""
    for run in runs:
        if run.state == "running" or run.changed >= choice.before:
            continue
        if run.state in choice.states:
            yield Removal(f"{run.state} run", run.path, run.size, _of(run, None, root))
            continue
        # The parts of a run that is not finished are what it goes on from.
        parts = {CHECKPOINT: choice.checkpoints, INTERACTIONS: choice.interactions} if run.state == "finished" else {}
        for name, chosen in parts.items():
            if chosen and name in run.files:
                what = "checkpoint of a finished run" if name == CHECKPOINT else "interactions of a finished run"
                yield Removal(what, run.path / name, run.files[name], _of(run, name, root))
        if run.temporaries:
            yield Removal("temporary", run.path, sum(run.temporaries.values()), _of(run, "", root))
    for log in logs:
        if choice.logs and log.changed < choice.before:
            yield Removal("log of a sweep", log.path, log.size, partial(_unlink, log.path, root))


def _of(run: Kept, name: str | None, root: Path) -> Callable[[], int]:
    """Removes a file of a run, or with None all of them; its temporaries go whenever it is held."""

    def act() -> int:
        directory = RunDirectory(run.path)
        if not run.path.is_dir():
            return 0
        before = _size(run)
        try:
            with directory:
                if manifest(run.path) != run.seen:
                    raise ValueError("it has gone on since")
                if name is None:
                    directory.clear()
                elif name:
                    (directory / name).unlink(missing_ok=True)
        except RunningElsewhere:
            raise ValueError("it is running") from None
        _prune(run.path, root)
        return before - _size(run)

    return act


def _size(run: Kept) -> int:
    """Bytes of those of its files that are there now."""
    total = 0
    for name in (*run.files, *run.temporaries):
        with suppress(FileNotFoundError):
            total += (run.path / name).lstat().st_size
    return total


def _unlink(path: Path, root: Path) -> int:
    size = path.lstat().st_size
    path.unlink()
    _prune(path.parent, root)
    return size


def _prune(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, below `root`, as far as they are empty."""
    while folder != root and folder.is_relative_to(root):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass  # gone with what was in it
        except OSError:  # not empty
            return
        folder = folder.parent
