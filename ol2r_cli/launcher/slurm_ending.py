"""Why a job of Slurm's is over that has left no result, or will never begin: the outcome, in words for a person."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

from ol2r_cli.launcher import slurm_files as files
from ol2r_cli.launcher.ending import last_line, reason
from ol2r_cli.launcher.job import Job, Outcome
from ol2r_cli.launcher.slurm_queue import UNKNOWN, State
from ol2r_cli.launcher.slurm_task import INTERRUPTED
from ol2r_cli.results.directory import MANIFEST
from ol2r_cli.results.manifest import read_manifest

# Reasons of jobs that wait: what to type instead of waiting for ever.
_NEVER = {
    "PartitionTimeLimit": "launcher.minutes must be within the limit of the partition (`sinfo`)",
    "PartitionNodeLimit": "launcher.partition has no node like this",
    "BadConstraints": "launcher.constraint must be one that a node has (`sinfo --format=%f`)",
}
_ENDS = {
    "TIMEOUT": "out of time: raise launcher.minutes or launcher.requeue",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not start",
    "PREEMPTED": "pre-empted: raise launcher.requeue",
    "DEADLINE": "its deadline passed",
}


def hopeless(state: State) -> Outcome | None:
    """The outcome of a job that waits in Slurm's queue and will never start."""
    if state.name != "PENDING":
        return None
    if state.why in _NEVER:
        return Outcome(2, f"Slurm will not start it ({state.why}): {_NEVER[state.why]}")
    if "requeued" in state.why and "held" in state.why:
        return Outcome(1, f"Slurm could not start it and holds it: {state.why}")
    return None


def outcome(job: Job, state: State, since: float, errors: Path) -> Outcome:
    """That of a job in a final state, or unknown to Slurm.

    `since` is when the sweep began, by the clock of the file system; `errors` has what was printed around the run.
    """
    if _finished(job, since):  # its node died between the run's last step and the result
        return Outcome(0)
    if state.name == UNKNOWN:
        return Outcome(1, f"Slurm does not know it any more, and it left no result{_last_words(job, errors)}")
    if state.name == "CANCELLED":
        return Outcome(-signal.SIGTERM, f"cancelled by {state.user or 'somebody'} (scancel)")
    if state.name == "OUT_OF_MEMORY":
        return Outcome(-signal.SIGKILL, "memory ran out: raise launcher.memory_gb")
    if state.name in _ENDS:
        return Outcome(1, _ENDS[state.name])
    if state.signal or _killed(errors):
        number = state.signal or signal.SIGKILL
        return Outcome(-number, reason(job, -number))
    if state.code == INTERRUPTED:
        return Outcome(-signal.SIGTERM, "told to end (SIGTERM) by the cluster or by somebody: what was done is kept")
    ended = "" if state.code is None else f" with exit code {state.code}"
    return Outcome(1, f"ended{ended} and left no result{_last_words(job, errors)}")


def _finished(job: Job, since: float) -> bool:
    """Whether the run has finished since then."""
    with suppress(ValueError):
        manifest = read_manifest(job.directory) or {}
        return manifest.get("status") == "finished" and files.newer(job.directory / MANIFEST, since)
    return False


def _killed(errors: Path) -> bool:
    """Whether srun says so, whose exit code does not tell a signal from a code."""
    with suppress(OSError):
        return bool(re.search(r"^srun: error: .*: Killed$", errors.read_text(errors="replace"), re.MULTILINE))
    return False


def _last_words(job: Job, errors: Path) -> str:
    """What was printed last, before the run began or by itself; where nothing was, the folder is mostly the reason."""
    said = last_line(errors) or last_line(job.log)
    return f": {said}" if said else f": can the nodes see {errors.parent}? (launcher.folder)"
