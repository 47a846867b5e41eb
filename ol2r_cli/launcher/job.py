"""What a sweep hands to a launcher, and what it gets back. A launcher knows jobs, and nothing of rankers or grids."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, eq=False)
class Job:
    """One run of a sweep.

    number: from 0, in the order of the sweep. name: what tells it from the other jobs (`ranker=pdgd seed=1`). command:
    the line that runs it by itself. payload: what `run_payload` needs, in any process, to run it. directory: where the
    run is written. log: a file for what it prints.
    """

    number: int
    name: str
    command: str
    payload: bytes
    directory: Path
    log: Path


def payload(config: Mapping[str, Any], choices: Mapping[str, str], overrides: Sequence[str]) -> bytes:
    """A run for `run_payload`: its resolved configuration in plain containers, what was chosen, and what was typed.

    The folder that relative paths begin from, and where modules of the user's own are found, go along.
    """
    run = {"config": config, "choices": dict(choices), "overrides": list(overrides)}
    return pickle.dumps(run | {"folder": os.getcwd(), "modules": [os.path.abspath(place) for place in sys.path]})


def run_payload(payload: bytes) -> int:
    """Do one run, in whatever process this is, and return the exit code of `ol2r run`. Never raises."""
    try:
        run = pickle.loads(payload)
        os.chdir(run["folder"])
        sys.path += [place for place in run["modules"] if place not in sys.path]
        from omegaconf import OmegaConf

        from ol2r_cli.run import execute

        return execute(OmegaConf.create(run["config"]), run["choices"], run["overrides"])
    except KeyboardInterrupt:  # a second request to stop, which does not wait for the round
        return 130
    except BaseException:  # not even a mistake in the program may end the process that asked
        traceback.print_exc()
        return 1


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    code: that of `ol2r run` (0 done, 1 failed, 2 bad configuration, 130 interrupted), or minus the number of the signal
    that killed its process (-9). reason: one line for a person, empty when done.
    """

    code: int
    reason: str = ""


@runtime_checkable
class Launcher(Protocol):
    """A choice of the group `launcher`: where the jobs of a sweep run, how many at a time, and how often again.

    retries: how often a job that failed or was killed (not one with a bad configuration) is submitted again.
    fail_fast: whether the first job that has failed for good ends the sweep.
    """

    retries: int
    fail_fast: bool

    def room(self) -> int:
        """How many more jobs may be submitted now."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs, or queue them where they run; a job may be submitted again once it has ended."""

    def ended(self, wait: float) -> list[tuple[Job, Outcome]]:
        """The jobs that have ended since the last call; waits up to `wait` seconds for the first of them."""

    def place(self, job: Job) -> str:
        """Where a submitted job runs or waits, in a word or two: `pid 4711`, `slurm 12_3 pending`."""

    def stop(self) -> None:
        """Ask all submitted jobs to stop; each keeps what it has and ends with code 130. What waits is taken back."""

    def close(self) -> None:
        """Let go of everything: jobs still running are killed. Called once, whatever happened before."""
