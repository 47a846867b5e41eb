"""Asks Slurm for the states of jobs, and cancels or signals jobs, by its commands.

The accounting (`sacct`) is optional: some clusters have none, and others lose records.
"""

from __future__ import annotations

import pwd
import re
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# States in which a job has ended for good. Any other state, including those of future versions, counts as waiting.
_FINAL = frozenset(
    {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE"}
)
UNKNOWN = "UNKNOWN"  # our name for the state of a job that Slurm does not know any more
_ANSWER = 60  # seconds to wait for an answer
_SENT = 10  # seconds in which scancel has sent everything; then it retries for minutes on jobs that are ending


@dataclass(frozen=True)
class State:
    """The state of a job. name: Slurm's name of the state. why: Slurm's reason for it, or empty.

    code, signal: how its process ended, None if unknown. user: who cancelled it, empty if unknown.
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


def queue(ids: Iterable[str]) -> dict[str, State] | None:
    """The states of those jobs that squeue knows, including jobs that have ended recently; None without an answer."""
    arrays = sorted({id.partition("_")[0] for id in ids})
    command = ("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r")
    answer = _output(*command, f"--jobs={','.join(arrays)}")
    if answer is None:  # for example if there is a single id and Slurm does not know it any more
        answer = _output(*command, "--me")
    if answer is None:
        return None
    rows = (line.split("|") for line in answer.splitlines() if line.count("|") == 2)
    return {id: State(name, "" if why == "None" else why) for id, name, why in rows}


def record(id: str) -> State | None:
    """How a job ended, from the accounting or else from the controller; None if neither knows."""
    return _from_accounting(id) or _from_controller(id)


def cancel(ids: Sequence[str], state: str = "") -> None:
    """Cancel jobs or arrays, or only their jobs in one state (`PENDING`)."""
    if ids:
        _output("scancel", "--quiet", *([f"--state={state}"] if state else []), *ids, timeout=_SENT)


def send_signal(ids: Sequence[str], number: signal.Signals) -> None:
    """Send a signal to the running jobs among jobs or arrays."""
    if ids:
        _output("scancel", "--quiet", "--state=RUNNING", f"--signal={number.name}", *ids, timeout=_SENT)


def _output(*command: str, timeout: float = _ANSWER) -> str | None:
    """The output of a command of Slurm; None if it fails, does not exist or does not answer in time."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _from_accounting(id: str) -> State | None:
    options = ("--noheader", "--allocations", "--parsable2", "--format=JobID,State,ExitCode")
    for line in (_output("sacct", *options, f"--jobs={id}") or "").splitlines():
        listed_id, state, exit_code = (*line.split("|"), "", "")[:3]
        name, _, user = state.partition(" by ")
        if listed_id == id and name in _FINAL:
            return State(name, "", *_code_and_signal(exit_code), _user_name(user))
    return None


def _from_controller(id: str) -> State | None:
    fields = dict(re.findall(r"(JobState|ExitCode)=(\S+)", _output("scontrol", "show", "job", id) or ""))
    if fields.get("JobState") not in _FINAL:
        return None
    return State(fields["JobState"], "", *_code_and_signal(fields.get("ExitCode", "")))


def _code_and_signal(exit_code: str) -> tuple[int | None, int | None]:
    """The two numbers of Slurm's `1:0`."""
    match = re.fullmatch(r"(\d+):(\d+)", exit_code)
    return (int(match[1]), int(match[2])) if match else (None, None)


def _user_name(number: str) -> str:
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, ValueError):
        return f"user {number}" if number else ""
