"""Runs that one process plays together: each as alone, whatever happens to the others."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import torch

from ol2r_cli import source
from ol2r_cli.config.instantiate import build
from ol2r_cli.loops.rounds import RoundsLaunch
from ol2r_cli.plugins.gpu import batch, joint
from ol2r_cli.plugins.gpu.batch import play_together
from ol2r_cli.run import BAD_CONFIGURATION, CHECKPOINT, DONE, FAILED, INTERRUPTED
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.run.run import Run, find_runs, read_checkpoint
from ol2r_cli.run.store import RunDirectory, save_checkpoint
from ol2r_cli.simulation import Simulation
from ol2r_cli.tensor.memory import NotEnoughMemory
from tests.launch import die_before, ended
from tests.moments import at_round
from tests.plugins.gpu.batches import job, left, play, play_alone

LIKE = [f"ranker=pdgd seed={seed} ranker.learning_rate={rate}" for seed in (0, 7) for rate in (0.1, 0.02)]
UNLIKE = [
    LIKE[0],
    "ranker=pairrank seed=1 rounds=90 validation_sessions=20",
    "ranker=toprank seed=2",
    "ranker=pdgd seed=3 save_interactions=true block_rounds=[10]",
    LIKE[3],
    "ranker=olranknet seed=4 rounds=12",
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the runs of all commands leave that are run one after the other."""
    folder = tmp_path_factory.mktemp("alone") / "runs"
    for words in dict.fromkeys([*LIKE, *UNLIKE]):
        assert play_alone(folder, words) == DONE
    return left(folder)


def of(alone: dict[str, object], found: dict[str, object]) -> dict[str, object]:
    """What the same runs have left that were run alone."""
    assert found.keys() <= alone.keys()
    return {name: alone[name] for name in found}


def once(number: int) -> Callable[[], None]:
    """Sends a signal to this process when it is called first."""
    numbers = [number]

    def send() -> None:
        if numbers:
            os.kill(os.getpid(), numbers.pop())

    return send


def the_run(folder: Path, words: str) -> Path:
    """The directory of a command's run."""
    settings, choices, *_ = job(folder, words)
    return Experiment(settings, choices).directory.path


def test_a_run_in_a_batch_leaves_what_it_leaves_alone(tmp_path: Path, alone):
    """In a batch of like settings, and in one of other rankers, numbers of rounds, single rounds, and interactions."""
    for name, commands in {"like": LIKE, "unlike": UNLIKE}.items():
        assert play(tmp_path / name, commands) == [DONE] * len(commands)
        found = left(tmp_path / name)
        assert len([path for path in found if "/" not in path]) == len(commands)
        assert found == of(alone, found), name


def test_runs_of_one_launch_leave_what_they_leave_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone):
    """As on a GPU, where the rounds of all runs with the same stages are one launch."""
    play_jointly, sizes = joint.play_jointly, list[int]()

    def counted(launches: list[RoundsLaunch]) -> None:
        sizes.append(len(launches))
        play_jointly(launches)

    monkeypatch.setattr(joint, "play_jointly", counted)
    monkeypatch.setattr(batch, "JOINT", {"cpu"})
    for name, commands in {"like": LIKE, "unlike": UNLIKE}.items():
        assert play(tmp_path / name, commands) == [DONE] * len(commands)
        found = left(tmp_path / name)
        assert found == of(alone, found), name
    assert max(sizes) == len(LIKE)


def test_a_launch_without_memory_is_played_by_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone):
    play_jointly, sizes, held = joint.play_jointly, list[int](), WeakSet[torch.Tensor]()

    def limited(launches: list[RoundsLaunch]) -> None:
        sizes.append(len(launches))
        assert not len(held), "what an attempt has taken is free before the next one"
        taken = torch.zeros(1)
        held.add(taken)
        if len(launches) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        play_jointly(launches)

    monkeypatch.setattr(joint, "play_jointly", limited)
    monkeypatch.setattr(batch, "JOINT", {"cpu"})
    assert play(tmp_path / "runs", LIKE) == [DONE] * 4
    assert sizes[:7] == [4, 2, 1, 1, 2, 1, 1]
    found = left(tmp_path / "runs")
    assert found == of(alone, found)


def test_a_job_is_run_alone_where_too_many_files_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(directory: RunDirectory) -> RunDirectory:
        error = OSError(errno.EMFILE, "Too many open files", str(directory.path))
        raise ValueError("output_dir must be a folder that can be used") from error

    monkeypatch.setattr(RunDirectory, "__enter__", full)
    assert play(tmp_path / "runs", LIKE[:2]) == [None, None]


def play_on_gpu(folder: Path, commands: Sequence[str], devices: list[str]) -> list[int | None]:
    """Play commands in a batch that shares a GPU, which is the CPU here; notes the devices that were asked for."""

    def make(settings, group):
        if group == "device":
            devices.append(settings["name"])
            settings = {**settings, "name": "cpu"}
        return build(settings, group)

    codes: dict[int, int | None] = {}
    jobs = [job(folder, words, number)._replace(shares_gpu=True) for number, words in enumerate(commands)]
    batch.run_batch(jobs, codes.__setitem__, make)
    return [codes[number] for number in range(len(jobs))]


def test_a_batch_that_shares_a_gpu_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone):
    """With device=auto, and with device=cuda; the id does not say so, and each log names the number of replicas."""
    monkeypatch.setattr(batch, "JOINT", {"cpu"})
    devices: list[str] = []
    commands = [f"{LIKE[0]} device=auto", f"{LIKE[1]} device=auto replicas=2"]
    assert play_on_gpu(tmp_path / "runs", commands, devices) == [DONE] * 2
    assert set(devices) == {"cuda"}
    logs = [(path / "log.txt").read_text() for path in find_runs(tmp_path / "runs")]
    assert all("device: cuda, with 3 replicas in one batch" in log for log in logs)
    assert the_run(tmp_path / "runs", LIKE[0]).is_dir()


def test_a_gpu_that_fails_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After an error of CUDA a process can do nothing more on it: all runs of its batch are to be run alone."""

    def broken() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with monkeypatch.context() as patch:
        at_round(patch, 40, broken)
        assert play_on_gpu(tmp_path / "runs", [f"{words} device=auto" for words in LIKE[:2]], []) == [None, None]
    with monkeypatch.context() as patch:
        at_round(patch, 40, broken)
        assert play(tmp_path / "cpu", LIKE[:1]) == [FAILED]
    diverging = "ranker=pdgd seed=5 ranker.learning_rate=1e300 device=auto"
    assert play_on_gpu(tmp_path / "runs", [diverging], []) == [FAILED]


def test_equal_data_are_loaded_once(tmp_path: Path):
    loaded = []

    def make(settings, group):
        made = build(settings, group)
        if group != "dataset":
            return made
        return SimpleNamespace(load=lambda: loaded.append(settings["seed"]) or made.load())

    assert play(tmp_path / "runs", [*LIKE, f"{LIKE[0]} dataset.seed=5"], make) == [DONE] * 5
    assert sorted(loaded) == [0, 5]


def test_a_run_that_fails_ends_no_other(tmp_path: Path, alone, capfd):
    """One diverges, one has the checkpoint of another run, one is finished, and one belongs to another process."""
    folder = tmp_path / "runs"
    diverging = "ranker=pdgd seed=5 ranker.learning_rate=1e300"
    other_run, elsewhere = "ranker=pdgd seed=8", "ranker=pdgd seed=9"
    assert play_alone(folder, LIKE[1]) == DONE
    before = (the_run(folder, LIKE[1]) / "run.json").stat().st_mtime_ns
    other = the_run(folder, other_run)
    save_checkpoint(RunDirectory(other), {}, "the id of another run")
    settings, choices, *_ = job(folder, elsewhere)
    with Experiment(settings, choices).directory, capfd.disabled():
        codes = play(folder, [LIKE[0], diverging, LIKE[1], other_run, elsewhere, LIKE[2]])
    assert codes == [DONE, FAILED, DONE, BAD_CONFIGURATION, BAD_CONFIGURATION, DONE]
    assert (the_run(folder, LIKE[1]) / "run.json").stat().st_mtime_ns == before, "it was finished"
    printed = [(tmp_path / f"runs.{number}").read_text().strip() for number in range(6)]
    assert [bool(text) for text in printed] == [False, True, False, True, True, False]
    assert "ranker.learning_rate must be smaller, got 1e+300" in printed[1]
    assert "another process" in printed[4]
    failed = Run.read(the_run(folder, diverging))
    assert failed is not None
    assert failed.state == "failed"
    assert "ERROR" in (failed.path / "log.txt").read_text()
    assert "ERROR" not in (the_run(folder, LIKE[0]) / "log.txt").read_text(), "the log of each run is its own"
    for path in (failed.path, other):
        for file in path.iterdir():
            file.unlink()
    found = left(folder)
    assert found == of(alone, found)


def test_a_damaged_run_starts_afresh_and_others_do_not(tmp_path: Path, monkeypatch, alone, capfd):
    folder = tmp_path / "runs"
    with monkeypatch.context() as patch:
        at_round(patch, 40, once(signal.SIGTERM))
        assert play(folder, LIKE[:2]) == [INTERRUPTED] * 2
    damaged = the_run(folder, LIKE[0]) / CHECKPOINT
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with capfd.disabled():
        assert play(folder, LIKE[:2]) == [DONE] * 2
    assert (tmp_path / "runs.0").read_text().startswith("starts afresh: ")
    assert "starts afresh" not in (tmp_path / "runs.1").read_text()
    found = left(folder)
    assert found == of(alone, found)
    assert sorted(run.manifest["sittings"] for run in map(Run.read, find_runs(folder)) if run) == [1, 2]


def test_a_signal_stops_all_runs_of_a_batch_with_a_checkpoint(tmp_path: Path, monkeypatch, alone, capfd):
    folder = tmp_path / "runs"
    commands = [LIKE[0], LIKE[3], UNLIKE[2]]
    for number in signal.SIGTERM, signal.SIGINT:
        with monkeypatch.context() as patch, capfd.disabled():
            at_round(patch, 20 if number == signal.SIGTERM else 40, once(number))
            assert play(folder, commands) == [INTERRUPTED] * 3
        for path in find_runs(folder):
            run, saved = Run.read(path), read_checkpoint(path)
            assert run is not None
            assert saved is not None
            assert (run.state, run.round) == ("interrupted", int(saved["state"]["simulation"]["round"]))
            assert run.round > 0
    printed = (tmp_path / "runs.0").read_text().splitlines()
    assert printed[-1] == "interrupted after round 40: the same command goes on from there"
    assert play(folder, commands) == [DONE] * 3
    found = left(folder)
    assert found == of(alone, found)


def test_a_second_signal_ends_all_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone):
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted(simulation: Simulation, rounds: int) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "runs"
    with monkeypatch.context() as patch:
        at_round(patch, 40, twice)
        assert play(folder, LIKE[:2]) == [INTERRUPTED] * 2
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "advance", interrupted)
        assert play(folder, LIKE[:2]) == [INTERRUPTED] * 2, "in a round"
    assert [run.state for run in map(Run.read, find_runs(folder)) if run] == ["interrupted"] * 2
    assert play(folder, LIKE[:2]) == [DONE] * 2
    found = left(folder)
    assert found == of(alone, found)


def test_a_run_without_memory_is_to_be_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What others of the batch need may be what it lacks: when it is set up, and when it plays."""
    simulation = Experiment.simulation

    def limited(experiment: Experiment):
        if experiment.settings["seed"] == 0:
            raise NotEnoughMemory("rounds=60 need more memory than there is")
        return simulation(experiment)

    monkeypatch.setattr(Experiment, "simulation", limited)

    def full() -> None:
        raise MemoryError

    at_round(monkeypatch, 40, full)
    assert play(tmp_path / "runs", [LIKE[0], LIKE[2], f"{LIKE[2]} rounds=30"]) == [None, None, DONE]


def test_errors_in_a_simulation_stand_in_the_place_of_its_rounds():
    class Playing:
        context = SimpleNamespace(device=SimpleNamespace(type="cpu"))

        def advance(self, rounds: int) -> None:
            if rounds == 2:
                raise ZeroDivisionError("two")

    first, second, third = play_together([Playing()] * 3, [1, 2, 3])  # type: ignore[list-item]
    assert (first, third) == (None, None)
    assert isinstance(second, ZeroDivisionError)


def test_a_run_counts_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of two equal runs each has about half of the time in which both were played, and none that of the other."""

    class Times:
        """A clock that advances a second whenever it is read."""

        def __init__(self) -> None:
            self.now = 0.0

        def read(self) -> tuple[float, float]:
            self.now += 1.0
            return self.now, self.now / 2

    clock = Times()
    monkeypatch.setattr("ol2r_cli.plugins.gpu.batch.clock", clock)
    monkeypatch.setattr("ol2r_cli.run.own_time.clock", clock)
    assert play(tmp_path / "runs", LIKE) == [DONE] * 4
    manifests = [json.loads((path / "run.json").read_text()) for path in find_runs(tmp_path / "runs")]
    seconds = [manifest["seconds"] for manifest in manifests]
    assert sum(seconds) < clock.now
    assert max(seconds) - min(seconds) < 0.1 * sum(seconds)
    assert [manifest["cpu_seconds"] for manifest in manifests] == [pytest.approx(value / 2) for value in seconds]


def _play_and_die(folder: Path, count: int) -> None:
    die_before(count, 2**22)
    play(folder, LIKE[:2])


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_in_a_batch_damages_no_run(tmp_path: Path, alone, step: int):
    """In place of any file operation: runs of the batch are killed or finished, and go on to the same files."""
    for count in range(step, 1000, step):
        folder = tmp_path / f"{count}"
        code = ended(_play_and_die, folder, count)
        assert code in (0, -signal.SIGKILL)
        for path in find_runs(folder):
            run = Run.read(path, thorough=True)
            assert run is not None
            assert run.state in ("killed", "finished"), count
        assert play(folder, LIKE[:2]) == [DONE] * 2
        found = left(folder)
        assert found == of(alone, found), count
        if code == 0:
            break
    assert count > 60, "the batch has fewer operations than it is killed in"


def test_no_run_of_a_batch_is_of_two_versions_of_ol2r(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """None begins when a file was changed before, and none goes on when one is changed meanwhile."""
    changed = dict.fromkeys(source.IN_MEMORY, "another hash")
    with monkeypatch.context() as patch:
        patch.setattr(source, "IN_MEMORY", changed)
        assert play(tmp_path / "runs", LIKE[:2]) == [BAD_CONFIGURATION] * 2
        assert not list(find_runs(tmp_path / "runs"))
    at_round(monkeypatch, 40, lambda: monkeypatch.setattr(source, "IN_MEMORY", changed))
    assert play(tmp_path / "runs", LIKE[:2]) == [FAILED] * 2
    rounds = [int(read_checkpoint(path)["state"]["simulation"]["round"]) for path in find_runs(tmp_path / "runs")]
    assert rounds == [20, 20]
