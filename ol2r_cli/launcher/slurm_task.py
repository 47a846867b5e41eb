"""What a node of the cluster does for one job of a sweep: start the run, tell it to stop in time, requeue it.

The run is a process of its own below the one that Slurm starts, so that somebody is left to say how it died. Slurm
repeats its signals, and sends them to every process of a job, where a run takes a second one for an order to stop at
once. So the run is started with these signals blocked, and hears of the first of them, only once, as SIGINT: it then
finishes its round and writes its checkpoint (`signals.py`).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from types import FrameType

from ol2r_cli.launcher.ending import killed_for_memory, reason
from ol2r_cli.launcher.job import Job
from ol2r_cli.launcher.slurm_files import newer

STOP = signal.SIGUSR1  # from the sweep: stop for good
LIMIT = signal.SIGUSR2  # from Slurm, some time before the time limit: what submitit asks for
END = signal.SIGTERM  # from Slurm: pre-empted, requeued or cancelled by somebody
_HEARD = (STOP, LIMIT, END)

INTERRUPTED = 130
_RUN = "import sys; from ol2r_cli.launcher.job import run_payload; sys.exit(run_payload(sys.stdin.buffer.read()))"
_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Task:
    """A job as submitit calls it on the node; it is pickled on the way.

    cpus: threads that libraries may start. minutes: the job's time limit. again: how often Slurm may start it again.
    since: when the sweep began, by the clock of the file system.
    """

    def __init__(self, job: Job, cpus: int, minutes: int, again: int, since: float):
        self.job, self.cpus, self.minutes, self.again, self.since = job, cpus, minutes, again, since
        self.told: list[int] = []

    def __call__(self) -> tuple[int, str]:
        """Code and reason of the outcome; leaves by SystemExit, without a result, where only Slurm knows what comes."""
        starved = killed_for_memory()
        code = self._run()
        if self.told and code == -signal.SIGINT:  # before it could say so itself
            code = INTERRUPTED
        if code == INTERRUPTED and LIMIT in self.told[:1]:
            self._requeue()  # returns only if Slurm will not
            return 1, f"out of time: raise launcher.minutes (now {self.minutes}) or launcher.requeue"
        if code == INTERRUPTED and END in self.told[:1]:
            raise SystemExit(INTERRUPTED)
        return code, reason(self.job, code, starved=killed_for_memory() > starved)

    def payload(self) -> bytes:
        """With force=true a run begins afresh, but not once more each time that it is requeued."""
        if not newer(self.job.directory / "checkpoint.pt", self.since):
            return self.job.payload
        run = pickle.loads(self.job.payload)
        return pickle.dumps({**run, "config": {**run["config"], "force": False}})

    def _run(self) -> int:
        """Do the run in a process of its own; returns its exit code, or minus the signal that killed it."""
        threads = dict.fromkeys(_LIBRARIES, str(self.cpus))
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # the new process would go on ignoring it: `nohup`, `&`
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)  # which the new process inherits
        with open(self.job.log, "ab") as log:
            command = [sys.executable, "-c", _RUN]
            environment = {**os.environ, **threads}
            run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)

        def pass_on(number: int, _: FrameType | None) -> None:
            self.told.append(number)
            if len(self.told) == 1:
                run.send_signal(signal.SIGINT)

        for number in _HEARD:
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        run.communicate(self.payload())
        return run.returncode

    def _requeue(self) -> None:
        """Have Slurm start this job again, and leave."""
        if int(os.environ.get("SLURM_RESTART_COUNT", 0)) < self.again:
            array, place = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
            job = f"{array}_{place}" if array else os.environ["SLURM_JOB_ID"]
            if subprocess.run(["scontrol", "requeue", job]).returncode == 0:
                raise SystemExit(INTERRUPTED)
