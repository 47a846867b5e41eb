"""Handing jobs over to Slurm, as one array, through submitit."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ol2r_cli.launcher.slurm_task import Task


def check_submitit() -> None:
    """Raises ValueError, with what to type, where submitit is not installed."""
    if not all(map(importlib.util.find_spec, ("submitit", "cloudpickle"))):
        raise ValueError("launcher=slurm needs submitit: type pip install 'ol2r[slurm]'")


def hand_over(tasks: Sequence[Task], folder: Path, parameters: Mapping[str, Any], at_once: int) -> list[str]:
    """The ids that Slurm has given to the jobs (`12_0`, `12_1`); ValueError, with what sbatch says, where it refuses.

    `parameters` are those of submitit's executor, `at_once` is how many may run at a time.
    """
    import submitit

    if not all(map(shutil.which, ("sbatch", "srun"))):
        raise ValueError("launcher=slurm needs a machine that has sbatch, a login node: else launcher=processes")
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(**parameters, array_parallelism=at_once)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the same that the error says
            return [job.job_id for job in executor.submit_array(tasks)]
    except submitit.core.utils.FailedJobError as error:
        raise ValueError(f"launcher=slurm: sbatch must take the jobs, got {_complaint(str(error))}") from None


def _complaint(error: str) -> str:
    """What sbatch says is wrong, out of the traceback that submitit makes of it."""
    lines = [" ".join(line.split()) for line in error.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("sbatch: error:")] or lines[-1:]
    return "; ".join(line.removeprefix("sbatch: error: ") for line in said)
