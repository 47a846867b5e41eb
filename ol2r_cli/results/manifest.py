"""`run.json`: what was run, with what, how far it got, how long it took and how it ended.

status             running | finished | failed | interrupted; `running` without a holder of the lock means killed
id, command        the run's id; the line that runs (or goes on with) it
choices            group -> choice: dataset, ranker, click, exploration, fairness; ranker/model where the ranker has one
dataset            name and fingerprint (sha256 over all that decides its numbers)
seeds              one per replica
progress           round (the last one done) and rounds (how many there will be)
started, ended     ISO 8601, UTC; of the first sitting and of the end (null while running)
seconds            wall-clock time of all sittings together, set-up before `Manifest` not included
sittings           how many times the run was started or taken up again
extended_from      id and round (its last) of the shorter run that it went on from, else null; times are those of both
rounds_per_second  of the present sitting, evaluation included; all replicas advance together in one round
error              one line when failed, else null
versions           ol2r, python, torch, numpy
git                commit and dirty (tracked files changed) of the checkout the package runs from, else null
device, threads, host, pid, results_version
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from ol2r_cli.results.directory import MANIFEST, RunDirectory
from ol2r_cli.results.identity import RESULTS_VERSION
from ol2r_cli.results.provenance import checkout, command_line, versions


class Manifest:
    """Keeps `run.json` up to date for one sitting: a context manager around everything the run does and writes.

    A normal end with all rounds done is `finished`, and is written when the block is left, hence last; a normal end
    before that, KeyboardInterrupt and SystemExit are `interrupted`; an exception is `failed`. None is swallowed.
    `round` is where a checkpoint takes the run up, `every` the least number of seconds between two writes of progress,
    `content` the mapping on disk.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        id: str,
        choices: Mapping[str, str],
        fingerprint: str,
        seeds: Sequence[int],
        rounds: int,
        round: int = 0,
        device: str,
        threads: int,
        exposure: Mapping[str, Any] | None = None,
        command: str | None = None,
        every: float = 2.0,
    ):
        self.directory = directory
        self.every = every
        before = _before(directory)
        self._seconds_before = float(before.get("seconds") or 0.0)
        self.content: dict[str, Any] = {
            "status": "running",
            "id": id,
            "command": command_line() if command is None else command,
            "choices": dict(choices),
            "dataset": {"name": choices["dataset"], "fingerprint": fingerprint},
            "seeds": list(seeds),
            "exposure": exposure,
            "progress": {"round": round, "rounds": rounds},
            "started": before.get("started") or _now(),
            "ended": None,
            "seconds": self._seconds_before,
            "sittings": int(before.get("sittings") or 0) + 1,
            "extended_from": before.get("extended_from"),
            "rounds_per_second": before.get("rounds_per_second"),
            "error": None,
            "versions": versions(),
            "git": checkout(),
            "device": device,
            "threads": threads,
            "host": platform.node(),
            "pid": os.getpid(),
            "results_version": RESULTS_VERSION,
        }

    def __enter__(self) -> Manifest:
        """Begin the sitting: the clock runs from here, and the folder is a run from here."""
        self._clock = time.monotonic()
        self._from = self._round = self.content["progress"]["round"]
        self._write()
        return self

    def progress(self, round: int, now: bool = False) -> None:
        """`round` is done. Cheap enough for every round: the file is written every `every` seconds, or `now`."""
        self._round = round
        if now or time.monotonic() - self._written >= self.every:
            self._write()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        done = self._round >= self.content["progress"]["rounds"]
        if isinstance(error, Exception):
            self.content["status"] = "failed"
            self.content["error"] = " ".join(f"{type(error).__name__}: {error}".split())
        else:
            self.content["status"] = "finished" if error is None and done else "interrupted"
        self.content["ended"] = _now()
        self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        sitting = self._written - self._clock
        self.content["seconds"] = round(self._seconds_before + sitting, 3)
        self.content["progress"]["round"] = self._round
        if self._round > self._from and sitting > 0:
            self.content["rounds_per_second"] = round((self._round - self._from) / sitting, 3)
        self.directory.write_json(MANIFEST, self.content)


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The manifest of the run in `path`, None when there is none; ValueError when it cannot be read."""
    try:
        return RunDirectory(path).read_json(MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _before(directory: RunDirectory) -> dict[str, Any]:
    """What earlier sittings left; nothing when their manifest is damaged, which is no reason not to run."""
    with suppress(ValueError):
        return read_manifest(directory.path) or {}
    return {}


def duration(seconds: float) -> str:
    """Seconds as a person says them: 8.2s, 3m 05s, 2h 07m, 3d 04h."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02d}h"
    if hours:
        return f"{hours}h {minute:02d}m"
    return f"{minutes}m {second:02d}s" if minutes else f"{seconds:.1f}s"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
