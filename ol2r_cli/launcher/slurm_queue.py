"""What Slurm says about jobs, and is told about them.

Its accounting is not trusted: some clusters have none, and others lose it.
"""

from __future__ import annotations

import pwd
import re
import signal as signals
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# States from which a job does not come back. All others, also those of Slurms to come, are taken for waiting.
_FINAL = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE"}
)
UNKNOWN = "UNKNOWN"  # ours, for a job that Slurm has forgotten
_PATIENCE = 60  # seconds for one answer
_SENT = 10  # seconds in which scancel has sent everything; it then repeats for minutes what jobs that are ending refuse


@dataclass(frozen=True)
class State:
    """Of one job. name: in Slurm's word. why: Slurm's reason for it, empty where there is none.

    code, signal: how its process ended, None where that is not known. user: who cancelled it, where that is known.
    """

    name: str
    why: str = ""
    code: int | None = None
    signal: int | None = None
    user: str = ""

    @property
    def final(self) -> bool:
        """Whether the job has ended and will not be started again."""
        return self.name in _FINAL


def _ask(*command: str, patience: float = _PATIENCE) -> str | None:
    """What a command of Slurm prints, None where it fails, is not there, or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=patience).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def queue(ids: Iterable[str]) -> dict[str, State] | None:
    """The state of each of these jobs that squeue still knows, those that ended lately included; None: no answer."""
    arrays = sorted({name.partition("_")[0] for name in ids})
    command = ("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r")
    answer = _ask(*command, f"--jobs={','.join(arrays)}")
    if answer is None:  # also where there is but one id and Slurm has forgotten it
        answer = _ask(*command, "--me")
    if answer is None:
        return None
    rows = (line.split("|") for line in answer.splitlines() if line.count("|") == 2)
    return {name: State(state, "" if why == "None" else why) for name, state, why in rows}


def cancel(ids: Sequence[str], state: str = "") -> None:
    """Cancel jobs or arrays, or only what is in one state (`PENDING`)."""
    if ids:
        _ask("scancel", "--quiet", *([f"--state={state}"] if state else []), *ids, patience=_SENT)


def signal(ids: Sequence[str], number: signals.Signals) -> None:
    """Send a signal to what runs of jobs or arrays."""
    if ids:
        _ask("scancel", "--quiet", "--state=RUNNING", f"--signal={number.name}", *ids, patience=_SENT)


def record(name: str) -> State | None:
    """How a job ended, from the accounting if it knows, else from the controller; None where neither does."""
    return _accounted(name) or _remembered(name)


def _accounted(name: str) -> State | None:
    answer = _ask(
        "sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,ExitCode", f"--jobs={name}"
    )
    for line in (answer or "").splitlines():
        found, state, ended = (*line.split("|"), "", "")[:3]
        word, _, who = state.partition(" by ")
        if found == name and word in _FINAL:
            return State(word, "", *_ended(ended), _user(who))
    return None


def _remembered(name: str) -> State | None:
    answer = _ask("scontrol", "show", "job", name) or ""
    fields = dict(re.findall(r"(JobState|ExitCode)=(\S+)", answer))
    if fields.get("JobState") not in _FINAL:
        return None
    return State(fields["JobState"], "", *_ended(fields.get("ExitCode", "")))


def _ended(code: str) -> tuple[int | None, int | None]:
    """Exit code and signal of Slurm's `1:0`."""
    match = re.fullmatch(r"(\d+):(\d+)", code)
    return (int(match[1]), int(match[2])) if match else (None, None)


def _user(number: str) -> str:
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError):
        return f"user {number}" if number else ""
