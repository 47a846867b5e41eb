"""A job on a node of a Slurm cluster: it runs its payload, and passes on what Slurm and the sweep ask of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from ol2r_cli.launcher.job import THREAD_VARIABLES, Job, reason
from ol2r_cli.run import FAILED, INTERRUPTED

STOP = signal.SIGUSR1  # from the sweep: stop for good
LIMIT = signal.SIGUSR2  # from Slurm, some time before the time limit; submitit configures this signal
END = signal.SIGTERM  # from Slurm: pre-empted, requeued or cancelled
_RUN = "import sys; from ol2r_cli.launcher.job import run_payload; sys.exit(run_payload(sys.stdin.buffer.read()))"


class Task:
    """A job as submitit calls it on the node; it is pickled on the way. It runs the payload in a process of its own.

    cpus: the number of threads of libraries. minutes: the time limit of the job. requeue: how often Slurm may start it
    again.
    """

    def __init__(self, job: Job, cpus: int, minutes: int, requeue: int):
        self.job, self.cpus, self.minutes, self.requeue = job, cpus, minutes, requeue
        self.received: list[int] = []  # signals

    def __call__(self) -> tuple[int, str]:
        """Run the payload and return the code and the reason of the outcome.

        SystemExit, which leaves no result, if the job was requeued or ended by Slurm: only Slurm knows what comes next.
        """
        code = self._run()
        if self.received and code == -signal.SIGINT:  # interrupted before it could handle the signal
            code = INTERRUPTED
        if code == INTERRUPTED and LIMIT in self.received[:1]:
            array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
            id = f"{array}_{index}" if array else os.environ["SLURM_JOB_ID"]
            may_start = int(os.environ.get("SLURM_RESTART_COUNT", 0)) < self.requeue
            if may_start and subprocess.run(["scontrol", "requeue", id]).returncode == 0:
                raise SystemExit(INTERRUPTED)
            return FAILED, f"out of time: raise launcher.minutes (now {self.minutes}) or launcher.requeue"
        if code == INTERRUPTED and END in self.received[:1]:
            raise SystemExit(INTERRUPTED)
        return code, reason(self.job, code)

    def _run(self) -> int:
        """Run the payload in a process of its own; returns its exit code, or minus the signal that killed it."""
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        # The new process would inherit that SIGINT is ignored, as after `nohup` or `&`.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_BLOCK, (STOP, LIMIT, END))  # in the new process they stay blocked
        with open(self.job.log, "ab") as log:
            command = [sys.executable, "-P", "-c", _RUN]  # -P: without modules of the working directory
            threads = dict.fromkeys(THREAD_VARIABLES, str(self.cpus))
            environment = {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}  # prints are in the log at once
            run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

        def pass_on(number: int, _: FrameType | None) -> None:
            self.received.append(number)
            if len(self.received) == 1:
                run.send_signal(signal.SIGINT)

        for number in (STOP, LIMIT, END):
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (STOP, LIMIT, END))
        run.communicate(self.job.payload_now())  # of a job that was requeued, the run has begun
        return run.returncode
