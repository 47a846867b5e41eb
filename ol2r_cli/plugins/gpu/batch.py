"""Plays several runs in one process: all play rounds, then each measures, evaluates and writes, until all have ended.

A run of a batch has the directory, the files and the exit code that it has alone, and an error in it ends no other.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from ol2r_cli.dataset.table import DatasetSource
from ol2r_cli.interfaces import Interaction
from ol2r_cli.loops import clock
from ol2r_cli.loops.rounds import RoundsLaunch
from ol2r_cli.plugins.gpu import joint
from ol2r_cli.run import DONE, stop_signals
from ol2r_cli.run.experiment import Experiment, Make
from ol2r_cli.run.kind import KIND
from ol2r_cli.run.lifecycle import EXPLAINED
from ol2r_cli.run.runner import Runner, explain_error, prepare_run
from ol2r_cli.simulation import Simulation
from ol2r_cli.source import check_unchanged
from ol2r_cli.tensor.memory import NotEnoughMemory

_MEMORY = MemoryError, torch.OutOfMemoryError, NotEnoughMemory
_TOO_MANY_FILES = errno.EMFILE, errno.ENFILE


class BatchJob(NamedTuple):
    """A run of a batch: its composition, the words that were typed, its id, the file for what it prints, and whether
    the batch is played on a GPU."""

    settings: Mapping[str, Any]
    choices: Mapping[str, str]
    overrides: Sequence[str]
    id: str
    output: Path
    shares_gpu: bool = False


# Receives the number of a job in its batch and its exit code; None: it must be run alone, as memory ran out.
Ended = Callable[[int, int | None], object]


def run_batch(jobs: Sequence[BatchJob], ended: Ended, make: Make) -> None:
    """Run jobs together unless they are finished, and call `ended` as soon as one of them has ended.

    Never raises, except after Ctrl-C before the first round.
    """
    make = _sharing_data(make)
    with torch.inference_mode(), ExitStack() as opened:
        replicas = sum(job.settings["replicas"] for job in jobs if job.shares_gpu)
        members = [_Member(number, job, ended, replicas) for number, job in enumerate(jobs)]
        for member in members:
            opened.enter_context(member)
            member.attempt(member.prepare, make)
        stop = opened.enter_context(stop_signals())
        check = cache(check_unchanged)  # once for all, unless it raises
        for member in _playing(members):
            member.attempt(member.start, stop, check)
        playing = _playing(members)
        while playing:
            try:
                _play_step(playing)
            except KeyboardInterrupt as second:  # in a round, which has no end then
                for member in _playing(members):
                    member.attempt(member.record, second)
            playing = _playing(members)


JOINT = {"cuda"}  # devices on which one launch of several runs is faster than several

Played = Interaction | Exception | None  # what `Simulation.advance` returns, or the error in it


def play_together(simulations: Sequence[Simulation], rounds: Sequence[int]) -> list[Played]:
    """Let each simulation play up to so many rounds; returns what `Simulation.advance` does, or the error in it.

    On a GPU, simulations with the same stages, sizes and queries play their rounds in one launch.
    """
    played: dict[int, Played] = {}
    for launches in _launches(simulations, rounds):
        for number in _played_jointly(launches):
            played[number] = _attempt(simulations[number].launched, launches[number])
    for number, (simulation, most) in enumerate(zip(simulations, rounds, strict=True)):
        if number not in played:
            played[number] = _attempt(simulation.advance, most)
    return [played[number] for number in range(len(simulations))]


def _played_jointly(launches: Mapping[int, RoundsLaunch]) -> list[int]:
    """Play launches as one, by halves where memory runs out; returns the numbers of those that were played."""
    numbers = list(launches)
    try:
        joint.play_jointly(list(launches.values()))
    except _MEMORY:  # what it has taken is free after this block
        half = len(numbers) // 2
    except Exception:  # no round has been played: each is played alone, and its error is its own
        return []
    else:
        return numbers
    if half == 0:
        return []
    halves = numbers[:half], numbers[half:]
    return [number for part in halves for number in _played_jointly({number: launches[number] for number in part})]


def _launches(simulations: Sequence[Simulation], rounds: Sequence[int]) -> list[dict[int, RoundsLaunch]]:
    """Return the launches of simulations on a GPU, by number of the simulation, those together that can be one."""
    groups: dict[Any, dict[int, RoundsLaunch]] = {}
    devices = [simulation.context.device.type for simulation in simulations]
    on_gpu = [number for number, device in enumerate(devices) if device in JOINT]
    most = min((rounds[number] for number in on_gpu), default=0)
    for number in on_gpu:
        launch = _attempt(simulations[number].prepare, most)
        if isinstance(launch, RoundsLaunch):  # otherwise it is played alone, and its error is its own
            groups.setdefault(launch.key(), {})[number] = launch
    return list(groups.values())


def _attempt(part: Callable[[Any], Any], argument: Any) -> Any:
    """Return what a function returns, or the error in it."""
    try:
        return part(argument)
    except Exception as error:
        return error


def _sharing_data(make: Make) -> Make:
    """Return `make`, but equal data are loaded only once."""
    sources: dict[str, Any] = {}

    def made(settings: Mapping[str, Any], group: str) -> Any:
        if group != "dataset":
            return make(settings, group)
        key = json.dumps(settings, sort_keys=True)
        if key not in sources:
            source = make(settings, group)
            sources[key] = SimpleNamespace(load=cache(source.load)) if isinstance(source, DatasetSource) else source
        return sources[key]

    return made


class _Member:
    """A job of a batch, from its preparation to its end; a context manager around both.

    `runner` is None before it is prepared and after its end.
    """

    def __init__(self, number: int, job: BatchJob, ended: Ended, replicas_of_batch: int):
        self.number, self.job, self.ended = number, job, ended
        self.replicas_of_batch = replicas_of_batch
        self.runner: Runner | None = None
        self._opened = ExitStack()

    def __enter__(self) -> _Member:
        self._output = os.open(self.job.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._opened.callback(os.close, self._output)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def prepare(self, make: Make) -> None:
        """Set the run up, without writing anything."""
        settings, choices, overrides, id, *_ = self.job
        experiment = Experiment(settings, choices, make, replicas_of_batch=self.replicas_of_batch)
        runner = prepare_run(experiment, overrides, KIND, id)  # prints no progress
        assert runner is None or isinstance(runner, Runner)
        self.runner = runner
        self._prepared = time.monotonic()
        if self.runner is None:
            self._end(DONE)

    def start(self, stop: list[int], check: Callable[[], None]) -> None:
        """Take the directory, and begin to write; `check` is that of `Runner`."""
        assert self.runner is not None
        self.runner.check = check
        self.runner.experiment.began += time.monotonic() - self._prepared  # without the set-up of other jobs
        self._opened.enter_context(self.runner.directory)
        self.runner.start(stop)
        self._work(lambda: None)

    def record(self, played: Interaction | BaseException | None) -> None:
        """Do what is due after rounds; `played` is what `play_together` has returned: an error in it ends the run."""
        runner = self.runner
        assert runner is not None

        def part() -> None:
            if isinstance(played, BaseException):
                raise played
            runner.record(played)

        self._work(part)

    def _work(self, part: Callable[[], object]) -> None:
        """Do a part of the run, and finish it where no round is left; a run that has ended is left."""
        runner = self.runner
        assert runner is not None
        if runner.code is None:
            with runner.working():
                runner.attempt(part)
                if runner.code is None and not runner.rounds_now():
                    runner.attempt(runner.finish)
        if runner.code is None:
            return
        if runner.code == DONE:
            runner.clean_up()
        self._end(None if self._is_of_batch(runner.error) else runner.code)

    def attempt(self, part: Callable[..., object], *arguments: object) -> None:
        """Do a part of the job, which prints to its file. An error in it ends the job."""
        with _printing_to(self._output):
            try:
                part(*arguments)
            except Exception as error:
                if self._is_of_batch(error):
                    print(error, file=sys.stderr)
                    self._end(None)
                else:
                    self._end(explain_error(error, self.job.settings, KIND))

    def _is_of_batch(self, error: Exception | None) -> bool:
        """Return whether the run may not fail with this error when it is alone: memory has run out, too many files are
        open, or a GPU may have failed, which then does nothing more for this process."""
        if error is None:
            return False
        if isinstance(error, _MEMORY) or _has_too_many_files(error):
            return True
        return self.job.shares_gpu and not isinstance(error, (*EXPLAINED, ValueError))

    def _end(self, code: int | None) -> None:
        """Leave the directory before it is said that the job has ended: it may be run again at once."""
        self.runner = None
        self._opened.close()
        self.ended(self.number, code)


def _has_too_many_files(error: BaseException | None) -> bool:
    """Return whether an error, or what has caused it, is that too many files are open."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _TOO_MANY_FILES:
            return True
        error = error.__cause__ or error.__context__
    return False


def _playing(members: Sequence[_Member]) -> list[_Member]:
    return [member for member in members if member.runner is not None]


def _play_step(members: Sequence[_Member]) -> None:
    """Play rounds of all members, and do what is due after them."""
    runners = [member.runner for member in members if member.runner is not None]
    simulations = [runner.simulation for runner in runners]
    before = [int(simulation.round) for simulation in simulations]
    wall, cpu = clock.read()
    played = play_together(simulations, [runner.rounds_now() for runner in runners])
    wall_now, cpu_now = clock.read()
    counts = [int(simulation.round) - first for simulation, first in zip(simulations, before, strict=True)]
    check = cache(check_unchanged)
    for member, runner, count, happened in zip(members, runners, counts, played, strict=True):
        runner.check = check
        runner.manifest.runs = len(runners)
        share = count / max(1, sum(counts))
        runner.time.add((share * (wall_now - wall), share * (cpu_now - cpu)))
        member.attempt(member.record, happened)


@contextmanager
def _printing_to(descriptor: int) -> Iterator[None]:
    """Let everything that this process prints go to a file during the block."""
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    _flush()
    for stream in kept:
        os.dup2(descriptor, stream)
    try:
        yield
    finally:
        _flush()
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
