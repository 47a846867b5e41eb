"""What a job of Slurm does on its node: it runs the payload in a process of its own and translates signals for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, killed_for_memory, reason, without_force
from ol2r_cli.launcher.slurm_files import is_newer
from ol2r_cli.run import CHECKPOINT
from ol2r_cli.run.exit_status import FAILED, INTERRUPTED

STOP = signal.SIGUSR1  # from the sweep: stop for good
LIMIT = signal.SIGUSR2  # from Slurm, some time before the time limit; submitit configures this signal
END = signal.SIGTERM  # from Slurm: pre-empted, requeued or cancelled
_SIGNALS = (STOP, LIMIT, END)
_RUN = "import sys; from ol2r_cli.launcher.job import run_payload; sys.exit(run_payload(sys.stdin.buffer.read()))"


class Task:
    """A job as submitit calls it on the node; it is pickled on the way.

    cpus: the number of threads of libraries. minutes: the time limit of the job. requeue: how often Slurm may start it
    again. since: when the sweep started, by the clock of the file system.
    """

    def __init__(self, job: Job, cpus: int, minutes: int, requeue: int, since: float):
        self.job, self.cpus, self.minutes, self.requeue, self.since = job, cpus, minutes, requeue, since
        self.received: list[int] = []  # signals

    def __call__(self) -> tuple[int, str]:
        """The code and the reason of the outcome.

        SystemExit, which leaves no result, if the job was requeued or ended by Slurm: only Slurm knows what comes next.
        """
        killed_before = killed_for_memory()
        code = self._run()
        if self.received and code == -signal.SIGINT:  # interrupted before it could handle the signal
            code = INTERRUPTED
        if code == INTERRUPTED and LIMIT in self.received[:1]:
            self._requeue()  # returns only if the job is not requeued
            return FAILED, f"out of time: raise launcher.minutes (now {self.minutes}) or launcher.requeue"
        if code == INTERRUPTED and END in self.received[:1]:
            raise SystemExit(INTERRUPTED)
        return code, reason(self.job, code, out_of_memory=killed_for_memory() > killed_before)

    def payload(self) -> bytes:
        """The payload; after a requeue without force=true, which would start the run from nothing once more."""
        has_begun = is_newer(self.job.directory / CHECKPOINT, self.since)
        return without_force(self.job.payload) if has_begun else self.job.payload

    def _run(self) -> int:
        """Run the payload in a process of its own; returns its exit code, or minus the signal that killed it."""
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        # The new process would inherit that SIGINT is ignored, as after `nohup` or `&`.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # in the new process they stay blocked
        with open(self.job.log, "ab") as log:
            command = [sys.executable, "-P", "-c", _RUN]  # -P: without modules of the working directory
            threads = dict.fromkeys(THREAD_VARIABLES, str(self.cpus))
            environment = {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}  # prints are in the log at once
            run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

        def pass_on(number: int, _: FrameType | None) -> None:
            self.received.append(number)
            if len(self.received) == 1:
                run.send_signal(signal.SIGINT)

        for number in _SIGNALS:
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        run.communicate(self.payload())
        return run.returncode

    def _requeue(self) -> None:
        """Let Slurm start this job again and exit, unless it has been started too often."""
        if int(os.environ.get("SLURM_RESTART_COUNT", 0)) < self.requeue:
            array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
            job = f"{array}_{index}" if array else os.environ["SLURM_JOB_ID"]
            if subprocess.run(["scontrol", "requeue", job]).returncode == 0:
                raise SystemExit(INTERRUPTED)
