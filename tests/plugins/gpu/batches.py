"""Batches of small runs, and what each run has left in its directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ol2r_cli.config.composer import Composer
from ol2r_cli.config.instantiate import build
from ol2r_cli.plugins.gpu.batch import BatchJob, run_batch
from ol2r_cli.run import RESULTS
from ol2r_cli.run.experiment import Make
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.run import find_runs
from ol2r_cli.run.runner import run_experiment
from tests.worlds import TINY

SMALL = [*TINY, "device=cpu", "rounds=60", "evaluate_every=20", "checkpoint_rounds=20", "checkpoint_every=0"]
SMALL += ["data_dir=.", "cache_dir=."]  # not those of the environment, which another process may have had before
# Of run.json: times, the process, and what contains them.
_OF_A_PROCESS = ("started", "ended", "seconds", "cpu_seconds", "peak_memory_gb", "startup_seconds", "rounds_per_second")
_OTHER = ("pid", "checksum", "command", "sittings", "files", "ran", "git")  # other tests hide git from their process

composer = cache(Composer)


def job(folder: Path, words: str, number: int = 0, **more: Any) -> BatchJob:
    """The run of a command, which prints to a file with its number."""
    typed = [*SMALL, *words.split(), f"output_dir={folder}"]
    composition, output = composer()(typed), folder.with_name(f"{folder.name}.{number}")
    return BatchJob(composition.settings, composition.choices, typed, "", output, **more)


def play(folder: Path, commands: Sequence[str], make: Make = build, **more: Any) -> list[int | None]:
    """Run commands in a batch; returns their exit codes. `more`: what else a job has."""
    codes: dict[int, int | None] = {}
    jobs = [job(folder, words, number, **more) for number, words in enumerate(commands)]
    run_batch(jobs, codes.__setitem__, make)
    return [codes[number] for number in range(len(jobs))]


def play_alone(folder: Path, words: str) -> int:
    """Run a command as `ol2r run` does; returns its exit code."""
    settings, choices, typed, *_ = job(folder, words)
    return run_experiment(settings, choices, typed, kind=KIND, render=None)


def left(folder: Path) -> dict[str, object]:
    """The files of all runs by name, and their run.json without what differs between two times of running."""
    found: dict[str, object] = {}
    for path in find_runs(folder):
        names = [name for name in RESULTS if name != "config.yaml" and (path / name).is_file()]
        found |= {f"{path.name}/{name}": (path / name).read_bytes() for name in names}
        found[f"{path.name}/config.yaml"] = (path / "config.yaml").read_text().replace(str(folder), "")
        manifest = json.loads((path / "run.json").read_text())
        assert manifest["status"] == "finished", path.name
        about = {name: value for name, value in manifest.items() if name not in (*_OF_A_PROCESS, *_OTHER)}
        found[path.name] = about | {"names": sorted(file.name for file in path.iterdir())}
    return found
