"""`sweep(jobs)`: many runs from Python, and what the command line, `ol2r reproduce` and notebooks do the same way."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ol2r_cli.compose import build, own_folders
from ol2r_cli.launcher.job import Launcher
from ol2r_cli.sweep.board import Board, Terminal
from ol2r_cli.sweep.cell import BAD, FAILED, FINISHED, SKIPPED, Cell
from ol2r_cli.sweep.compositions import Composer, split_launcher
from ol2r_cli.sweep.drive import Drive
from ol2r_cli.sweep.plan import Plan
from ol2r_cli.sweep.reasons import BadJobs, told

PATIENCE = 10.0  # seconds of checking, after which it says how far it is


@dataclass(frozen=True)
class SweepResult:
    """cells: the jobs, in order, with `directory`, `ending` and `reason`; those that are the same run are there once.

    directories: where the finished run of every job is, in the order they were given; None where there is none.
    code: 0 when all are finished, 130 when stopped, else 3; of a sweep of one job that of the run. seconds: it took.
    """

    cells: list[Cell]
    directories: list[Path | None]
    code: int
    seconds: float

    @property
    def failed(self) -> list[Cell]:
        """Those that went wrong, or could not begin."""
        return [cell for cell in self.cells if cell.ending in (FAILED, BAD)]


def sweep(
    jobs: Sequence[Sequence[str]],
    launcher: Sequence[str] = (),
    *,
    keep_going: bool = False,
    terminal: Terminal | None = None,
) -> SweepResult:
    """Do all these runs, each given by what one would type behind `ol2r run`; they need not resemble each other.

    launcher: words that say where they run, such as `launcher=slurm` or `launcher.jobs=4`; they may also stand among
    those of every job. terminal: where to show how they fare; None for silence. Finished runs are not run again. Raises
    `BadJobs`, a ValueError, before anything is run when a job's configuration is bad, unless `keep_going`.

        sweep([["ranker=pdgd", f"seed={seed}"] for seed in range(3)], ["launcher.jobs=2"], terminal=sys.stderr)
    """
    options = [word for job in jobs for word in _options(job)]
    composer = Composer.alone(list(dict.fromkeys(options)))
    words = [[*own_folders(list(job))[0], *launcher] for job in jobs]
    return run_sweep(words, composer, keep_going=keep_going, terminal=terminal)


def run_sweep(
    jobs: Sequence[Sequence[str]], composer: Composer, *, keep_going: bool = False, terminal: Terminal | None = None
) -> SweepResult:
    """Likewise, with the command line's way of composing."""
    began = time.monotonic()
    plan, launcher = planned(jobs, composer, terminal)
    if plan.bad and not keep_going:
        raise BadJobs(plan.bad, len(jobs))
    for cell in plan.bad:
        cell.ending = BAD
    for cell in plan.good:
        if cell.state()[0] == FINISHED:
            cell.ending = SKIPPED
    todo = [cell for cell in plan.cells if not cell.ending]
    _check_folders(todo)
    board = Board(plan.cells, terminal)
    _announce(plan, board, len(jobs))
    stopped = Drive(todo, launcher, board).run() if todo and launcher is not None else False
    finished = {cell.number: cell.directory for cell in plan.cells if cell.well}
    directories = [finished.get(plan.merged.get(number, number)) for number in range(len(jobs))]
    return SweepResult(plan.cells, directories, _code(plan.cells, stopped), time.monotonic() - began)


def _check_folders(cells: Sequence[Cell]) -> None:
    """ValueError where runs cannot be written; the folders are made."""
    for folder in {Path(str(cell.settings["output_dir"])).expanduser() for cell in cells}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ValueError(f"output_dir must be a folder that can be used, got {folder} ({error.strerror})") from None


def planned(
    jobs: Sequence[Sequence[str]], composer: Composer, terminal: Terminal | None = None
) -> tuple[Plan, Launcher | None]:
    """What would be run and where; nothing is written or started. No launcher where no job is good.

    ValueError when the settings of the launcher are bad, or not the same for all jobs.
    """
    words, where = zip(*map(split_launcher, jobs), strict=True) if jobs else ((), ())
    if any(set(one) != set(where[0]) for one in where):
        raise ValueError("launcher must be the same for all jobs of a sweep: type one value for each of its settings")
    plan = Plan(words, composer, _Patience(len(jobs), terminal))
    return plan, _launcher(plan.good, where[0], composer) if plan.good else None


def _announce(plan: Plan, board: Board, jobs: int) -> None:
    """What is not going to be run, and why."""
    if plan.merged:
        same = ", ".join(f"#{number} is #{first}" for number, first in list(plan.merged.items())[:5])
        more = ", .." if len(plan.merged) > 5 else ""
        board.say(f"{len(plan.merged)} jobs are the same run as another and are left out: {same}{more}")
    for line in told(plan.bad, jobs):
        board.say(f"bad: {line}")


def _launcher(cells: Sequence[Cell], where: Sequence[str], composer: Composer) -> Launcher:
    """The one that the words name; with the CPU it has no use for GPUs that `auto` would find."""
    config: Any = composer([*cells[0].words, *where]).config
    if config.launcher.get("gpus") == "auto" and not any(cell.on_gpu for cell in cells):
        OmegaConf.update(config, "launcher.gpus", [])
    return build(config.launcher)


def _options(job: Sequence[str]) -> list[str]:
    return [f"--config-dir={folder}" for folder in own_folders(list(job))[1]]


def _code(cells: Sequence[Cell], stopped: bool) -> int:
    if stopped:
        return 130
    wrong = [cell for cell in cells if not cell.well]
    if len(cells) == 1 and wrong:
        return 2 if wrong[0].ending == BAD else 1
    return 3 if wrong else 0


class _Patience:
    """Says how far the checking is, where it takes long: a large dataset is parsed on its first use."""

    def __init__(self, jobs: int, terminal: Terminal | None):
        self.jobs, self.terminal, self.last = jobs, terminal, time.monotonic()

    def __call__(self, checked: int) -> None:
        if self.terminal is not None and checked < self.jobs and time.monotonic() - self.last > PATIENCE:
            self.last = time.monotonic()
            print(f"checking: {checked} of {self.jobs} jobs", file=self.terminal, flush=True)
