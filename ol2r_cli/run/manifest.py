"""`run.json`: the status, progress and times of a run, and where its numbers come from (command, versions, commit)."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

from ol2r_cli import __version__
from ol2r_cli.formatting import error_line
from ol2r_cli.loops.clock import clock
from ol2r_cli.run.directory import MANIFEST, RunDirectory
from ol2r_cli.run.identity import RESULTS_VERSION
from ol2r_cli.run.integrity import checksum
from ol2r_cli.untrusted_file import invalid_fields

SETTLED = 5.0  # seconds of rounds, before which neither the speed nor the time left of a running run is known
# What a run.json has; with None, what is not known at first.
_SCHEMA: dict[Any, Any] = {
    **dict.fromkeys(("id", "command"), str),
    "choices": {...: str},
    "dataset": {"fingerprint": str},
    "seeds": [int],
    "progress": {"round": int, "rounds": int},
    "results_version": int,
    **dict.fromkeys(("note", "error", "checksum", "device", "engine", "host"), (str, None)),
    **dict.fromkeys(("seconds", "cpu_seconds", "peak_memory_gb", "rounds_per_second"), (int, float, None)),
    "sittings": (int, None),
    "files": ({...: {"bytes": int, "sha256": str}}, None),
    "versions": ({...: (str, None)}, None),
    "git": ({"commit": str, "dirty": bool}, None),
    "code": (dict, None),
    "columns": ({"trace": (list, None), "evaluation": (list, None)}, None),
}


class Manifest:
    """Keeps `run.json` up to date while a process runs or resumes a run: a context manager around all of its work.

    When the block is left, the status becomes `finished` if all rounds are done, `interrupted` if they are not or after
    KeyboardInterrupt or SystemExit, and `failed` after any other exception. Exceptions are not suppressed. `round` is
    the round of the checkpoint from which the run resumes, `packages` are those of the roles, `every` the least number
    of seconds between two writes of progress, `began` when the work on the run began, by `time.monotonic`, `columns`
    those of `RunColumns.declared`, `explain` the text of an exception, and `content` the mapping on disk. `warnings`
    has a line if versions, device or number of threads are not those of the rounds before.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        id: str,
        choices: Mapping[str, str],
        fingerprint: str,
        code: Mapping[str, str] | None = None,
        seeds: Sequence[int],
        rounds: int,
        round: int = 0,
        device: str,
        engine: str,
        threads: int,
        command: str,
        packages: Sequence[str] = (),
        exposure: Mapping[str, Any] | None = None,
        columns: Mapping[str, Any] | None = None,
        every: float = 2.0,
        note: str = "",
        began: float | None = None,
        explain: Callable[[Exception], str] = error_line,
    ):
        self.directory = directory
        self.every, self.explain = every, explain
        self._began = time.monotonic() if began is None else began
        earlier = _earlier(directory)
        now = {**versions(engine, packages), "device": device, "threads": threads}
        ran = [each for each in earlier.get("ran", []) if each["after"] < round]
        before = ran[-1] if ran else now
        changed = [f"{name} {before.get(name)} -> {now[name]}" for name in now if before.get(name) != now[name]]
        what = (
            f"goes on after round {round} with {', '.join(changed)}: the last digits can differ from an undisturbed run"
        )
        self.warnings = [what] if changed else []
        if changed or not ran:
            ran.append({"after": round, **now})
        self._seconds_before = float(earlier.get("seconds") or 0.0)
        self._cpu_seconds_before = float(earlier.get("cpu_seconds") or 0.0)
        self._peak_memory_before = float(earlier.get("peak_memory_gb") or 0.0)
        self.content: dict[str, Any] = {
            "status": "running",
            "id": id,
            "command": command,
            "note": note,
            "choices": dict(choices),
            "dataset": {"name": choices["dataset"], "fingerprint": fingerprint},
            "code": dict(code) if code else None,
            "seeds": list(seeds),
            "exposure": exposure,
            "columns": columns or None,
            "progress": {"round": round, "rounds": rounds},
            "started": earlier.get("started") or _now(),
            "ended": None,
            "seconds": self._seconds_before,
            "cpu_seconds": self._cpu_seconds_before,
            "peak_memory_gb": self._peak_memory_before or None,
            "startup_seconds": None,
            "ran": ran,
            "sittings": int(earlier.get("sittings") or 0) + 1,
            "rounds_per_second": earlier.get("rounds_per_second"),
            "error": None,
            "files": None,
            "versions": versions(engine, packages),
            "git": checkout(),
            "device": device,
            "engine": engine,
            "threads": threads,
            "host": platform.node(),
            "pid": os.getpid(),
            "results_version": RESULTS_VERSION,
        }

    def __enter__(self) -> Manifest:
        """Start the clock and write the manifest, which makes the directory a run."""
        self._start, self._cpu_start = clock.read()
        self._first_round = self._round = self.content["progress"]["round"]
        self._write()
        return self

    def progress(self, round: int) -> None:
        """Record that `round` is done. Called every round; the file is written every `every` seconds."""
        self._round = round
        if time.monotonic() - self._written >= self.every:
            self._write()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        done = self._round >= self.content["progress"]["rounds"]
        if isinstance(error, Exception):
            self.content["status"] = "failed"
            self.content["error"] = self.explain(error)
        else:
            self.content["status"] = "finished" if error is None and done else "interrupted"
        self.content["ended"] = _now()
        try:
            self._write(ended=self.content["status"] == "finished")
        except OSError as failure:  # the disk is full
            if error is None:
                self.content |= {"status": "failed", "error": self.explain(failure), "files": None}
                self.content.pop("checksum", None)
            with suppress(OSError):
                self.directory.overwrite_json(MANIFEST, self.content)
            if error is None:
                raise

    def _write(self, ended: bool = False) -> None:
        self._written = time.monotonic()
        now, cpu = clock.read()
        seconds = now - self._start
        self.content["seconds"] = round(self._seconds_before + seconds, 3)
        self.content["cpu_seconds"] = round(self._cpu_seconds_before + cpu - self._cpu_start, 3)
        self.content["startup_seconds"] = round(self._written - self._began - seconds, 3)
        if memory := peak_memory_gb():
            self.content["peak_memory_gb"] = round(max(self._peak_memory_before, memory), 3)
        self.content["progress"]["round"] = self._round
        if self._round > self._first_round and seconds > (SETTLED if self.content["status"] == "running" else 0):
            self.content["rounds_per_second"] = round((self._round - self._first_round) / seconds, 3)
        if ended:
            self.content["checksum"] = checksum(self.content)
        self.directory.write_json(MANIFEST, self.content)


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The manifest of the run in the directory `path`; None without a manifest, ValueError for a damaged one."""
    try:
        manifest = RunDirectory(path).read_json(MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if manifest.get("status") not in ("running", "finished", "interrupted", "failed"):
        raise ValueError(f"its status is {manifest.get('status')}")
    if wrong := invalid_fields(manifest, _SCHEMA):
        raise ValueError(f"{MANIFEST} has no valid {', '.join(wrong)}")
    return manifest


def peak_memory_gb() -> float | None:
    """The peak resident size of this process so far, in GB (10^9 bytes); None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _earlier(directory: RunDirectory) -> dict[str, Any]:
    """The manifest that earlier processes have left; empty if it is damaged, which does not prevent the run."""
    with suppress(ValueError):
        return read_manifest(directory.path) or {}
    return {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions(engine: str = "tensors", packages: Sequence[str] = ()) -> dict[str, str | None]:
    """The versions of the packages that decide numbers, from their metadata, so that none has to be imported.

    Those of the engine `loops` include numba; `packages` are more. A package that is not installed has None.
    `ol2r_code` is the hash of all files of ol2r.
    """
    from ol2r_cli.dataset.cache import code_hash  # imports numpy, which `ol2r status` does not need

    versions: dict[str, str | None] = {"ol2r": __version__, "ol2r_code": code_hash("")[:12]}
    versions["python"] = platform.python_version()
    for package in ("torch", "numpy", *(["numba"] if engine == "loops" else []), *packages):
        versions[package] = None
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def version_line() -> str:
    """The version, with the commit where the package is a checkout: `0.2.0.dev0 (commit 0123abc, modified)`."""
    git = checkout()
    return __version__ + (f" (commit {git['commit'][:7]}{', modified' * git['dirty']})" if git else "")


def checkout(root: Path | None = None) -> dict[str, Any] | None:
    """The commit and the dirty flag of the git checkout that contains this package at its top level.

    None for an installed package, also if its environment is inside another project's repository.
    """
    root = Path(__file__).parents[2] if root is None else root
    if not (root / ".git").exists():
        return None
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=True, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, dirty = answer.stdout.strip().partition("-")
    return {"commit": commit, "dirty": bool(dirty)}
