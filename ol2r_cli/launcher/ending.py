"""Why a process ended, in words for a person: from its exit code, what it printed, and what the run noted."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

from ol2r_cli.launcher.job import Job
from ol2r_cli.results.manifest import read_manifest

_LAST = 8192  # bytes at the end of a file that are looked at
_COUNTERS = (
    Path("/proc/vmstat"),
    Path("/sys/fs/cgroup/memory.events"),
)  # where Linux counts processes killed for memory


def reason(job: Job, code: int, starved: bool = False) -> str:
    """One line; empty for code 0. `starved`: whether the system has killed processes for want of memory meanwhile."""
    if code == 0:
        return ""
    if code == -signal.SIGKILL:
        return "killed (signal 9): " + ("memory ran out" if starved else "by somebody, or because memory ran out")
    if code < 0:
        return f"killed (signal {-code}, {_signal_name(-code)})"
    if code == 130:
        return "interrupted: what was done is kept"
    said = last_line(job.log).removeprefix("ol2r run: ")
    if code == 1:
        return _noted(job.directory) or said or "failed, and left no word"
    return said or f"ended with exit code {code}"


def last_line(path: Path) -> str:
    """The last line of a file that is not empty, on one line of bearable length; that of the error in a traceback."""
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _LAST))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1][:300]
    return ""


def killed_for_memory() -> int:
    """How many processes the system has killed for want of memory so far, as far as it lets us know."""
    total = 0
    for path in _COUNTERS:
        with suppress(OSError):
            total += sum(int(count) for count in re.findall(r"^oom_kill (\d+)$", path.read_text(), re.MULTILINE))
    return total


def _noted(directory: Path) -> str:
    """The error that the run wrote down itself."""
    with suppress(ValueError, OSError):
        manifest = read_manifest(directory) or {}
        if manifest.get("status") == "failed":
            return str(manifest.get("error") or "")
    return ""


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return "of no name"
