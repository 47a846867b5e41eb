"""Runs that one process plays together: each as alone, whatever happens to the others."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from weakref import WeakSet

import pytest
import torch

from ol2r_cli import source
from ol2r_cli.config.instantiate import build
from ol2r_cli.loops import clock
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
DIVERGING = "ranker=pdgd seed=5 ranker.learning_rate=1e300"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the runs of all commands leave that are run one after the other."""
    folder = tmp_path_factory.mktemp("alone") / "runs"
    for words in dict.fromkeys([*LIKE, *UNLIKE]):
        assert play_alone(folder, words) == DONE
    return left(folder)


@pytest.fixture
def jointly(monkeypatch):
    """As on a GPU, the rounds of all runs with the same stages are one launch."""
    monkeypatch.setattr(batch, "JOINT", {"cpu"})


@pytest.fixture
def runs(tmp_path) -> Path:
    """The folder of the runs of a test; beside it is what job 3 prints, in `runs.3`."""
    return tmp_path / "runs"


def differing(runs: Path, alone: dict[str, object]) -> list[str]:
    """The files of runs, and the runs themselves, that are not as those which were run alone."""
    return [name for name, content in left(runs).items() if alone.get(name) != content]


def once(number: int) -> Callable[[], None]:
    """Sends a signal to this process when it is called first."""
    numbers = [number]

    def send() -> None:
        if numbers:
            os.kill(os.getpid(), numbers.pop())

    return send


def the_run(runs: Path, words: str) -> Path:
    """The directory of a command's run."""
    settings, choices, *_ = job(runs, words)
    return Experiment(settings, choices).directory.path


def saved_round(path: Path) -> int:
    """The round of the checkpoint of a run."""
    return int(read_checkpoint(path)["state"]["simulation"]["round"])


@pytest.mark.parametrize("commands", [LIKE, UNLIKE], ids=["like", "unlike"])
@pytest.mark.parametrize("launches", ["one_by_one", "jointly"])
def test_a_run_in_a_batch_leaves_what_it_leaves_alone(commands, launches, runs, alone, request):
    """In a batch of like settings, and in one of other rankers, numbers of rounds, single rounds, and interactions."""
    if launches == "jointly":
        request.getfixturevalue(launches)
    assert play(runs, commands) == [DONE] * len(commands)
    assert len(list(find_runs(runs))) == len(commands)
    assert differing(runs, alone) == []


@pytest.mark.usefixtures("jointly")
def test_a_launch_without_memory_is_played_by_halves(runs, monkeypatch, alone):
    play_jointly, sizes, held = joint.play_jointly, list[int](), WeakSet[torch.Tensor]()

    def limited(launches):
        sizes.append(len(launches))
        assert not len(held), "what an attempt has taken is free before the next one"
        taken = torch.zeros(1)
        held.add(taken)
        if len(launches) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        play_jointly(launches)

    monkeypatch.setattr(joint, "play_jointly", limited)
    assert play(runs, LIKE) == [DONE] * 4
    assert sizes[:7] == [4, 2, 1, 1, 2, 1, 1]
    assert differing(runs, alone) == []


def test_a_job_is_run_alone_where_too_many_files_are_open(runs, monkeypatch):
    def full(directory: RunDirectory) -> RunDirectory:
        error = OSError(errno.EMFILE, "Too many open files", str(directory.path))
        raise ValueError("output_dir must be a folder that can be used") from error

    monkeypatch.setattr(RunDirectory, "__enter__", full)
    assert play(runs, LIKE[:2]) == [None, None]


def on_cpu(devices: list[str]):
    """Makes a CPU of every device, and notes which were asked for."""

    def make(settings, group):
        if group == "device":
            devices.append(settings["name"])
            settings = {**settings, "name": "cpu"}
        return build(settings, group)

    return make


@pytest.mark.usefixtures("jointly")
def test_a_batch_that_shares_a_gpu_takes_it(runs):
    """With device=auto, and with device=cuda; the id does not say so, and each log names the number of replicas."""
    devices: list[str] = []
    commands = [f"{LIKE[0]} device=auto", f"{LIKE[1]} device=auto replicas=2"]
    assert play(runs, commands, on_cpu(devices), shares_gpu=True) == [DONE] * 2
    assert set(devices) == {"cuda"}
    logs = [(path / "log.txt").read_text() for path in find_runs(runs)]
    assert all("device: cuda, with 3 replicas in one batch" in log for log in logs)
    assert the_run(runs, LIKE[0]).is_dir()


def broken() -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def test_a_gpu_that_fails_ends_no_run(runs, monkeypatch):
    """After an error of CUDA a process can do nothing more on it: all runs of its batch are to be run alone."""
    at_round(monkeypatch, 40, broken)
    commands = [f"{words} device=auto" for words in LIKE[:2]]
    assert play(runs, commands, on_cpu([]), shares_gpu=True) == [None, None]


def test_an_error_of_cuda_on_a_cpu_ends_the_run(runs, monkeypatch):
    at_round(monkeypatch, 40, broken)
    assert play(runs, LIKE[:1]) == [FAILED]


def test_a_run_that_diverges_on_a_gpu_fails(runs):
    assert play(runs, [f"{DIVERGING} device=auto"], on_cpu([]), shares_gpu=True) == [FAILED]


def test_equal_data_are_loaded_once(runs):
    loaded = []

    def make(settings, group):
        made = build(settings, group)
        if group != "dataset":
            return made
        return SimpleNamespace(load=lambda: loaded.append(settings["seed"]) or made.load())

    assert play(runs, [*LIKE, f"{LIKE[0]} dataset.seed=5"], make) == [DONE] * 5
    assert sorted(loaded) == [0, 5]


def test_a_run_that_fails_ends_no_other(runs, tmp_path, alone, capfd):
    """One diverges, one is finished, one has the checkpoint of another run, and one belongs to another process."""
    other_run, elsewhere = "ranker=pdgd seed=8", "ranker=pdgd seed=9"
    assert play_alone(runs, LIKE[1]) == DONE
    finished = (the_run(runs, LIKE[1]) / "run.json").read_bytes()
    save_checkpoint(RunDirectory(the_run(runs, other_run)), {}, "the id of another run")
    with RunDirectory(the_run(runs, elsewhere)), capfd.disabled():
        codes = play(runs, [LIKE[0], DIVERGING, LIKE[1], other_run, elsewhere, LIKE[2]])
    assert codes == [DONE, FAILED, DONE, BAD_CONFIGURATION, BAD_CONFIGURATION, DONE]
    assert (the_run(runs, LIKE[1]) / "run.json").read_bytes() == finished
    printed = {number: text for number in range(6) if (text := (tmp_path / f"runs.{number}").read_text().strip())}
    assert printed.keys() == {1, 3, 4}
    assert "ranker.learning_rate must be smaller, got 1e+300" in printed[1]
    assert "another process" in printed[4]
    assert Run.read(the_run(runs, DIVERGING)).state == "failed"
    logs = [(the_run(runs, words) / "log.txt").read_text() for words in (DIVERGING, LIKE[0])]
    assert ["ERROR" in log for log in logs] == [True, False], "the log of each run is its own"
    for words in DIVERGING, other_run:
        shutil.rmtree(the_run(runs, words))
    assert differing(runs, alone) == []


def test_a_damaged_run_starts_afresh_and_others_do_not(runs, tmp_path, monkeypatch, alone, capfd):
    with monkeypatch.context() as patch:
        at_round(patch, 40, once(signal.SIGTERM))
        assert play(runs, LIKE[:2]) == [INTERRUPTED] * 2
    damaged = the_run(runs, LIKE[0]) / CHECKPOINT
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with capfd.disabled():
        assert play(runs, LIKE[:2]) == [DONE] * 2
    assert (tmp_path / "runs.0").read_text().startswith("starts afresh: ")
    assert "starts afresh" not in (tmp_path / "runs.1").read_text()
    assert differing(runs, alone) == []
    assert [Run.read(the_run(runs, words)).manifest["sittings"] for words in LIKE[:2]] == [1, 2]


def test_a_signal_stops_all_runs_of_a_batch_with_a_checkpoint(runs, tmp_path, monkeypatch, alone, capfd):
    commands = [LIKE[0], LIKE[3], UNLIKE[2]]
    for round, number in (20, signal.SIGTERM), (40, signal.SIGINT):
        with monkeypatch.context() as patch, capfd.disabled():
            at_round(patch, round, once(number))
            assert play(runs, commands) == [INTERRUPTED] * 3
        for run in map(Run.read, find_runs(runs)):
            assert (run.state, run.round) == ("interrupted", saved_round(run.path))
            assert run.round > 0
    printed = (tmp_path / "runs.0").read_text().splitlines()
    assert printed[-1] == "interrupted after round 40: the same command goes on from there"
    assert play(runs, commands) == [DONE] * 3
    assert differing(runs, alone) == []


def test_a_second_signal_ends_all_runs_at_once(runs, monkeypatch, alone):
    """After a round, and in a round."""

    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted(simulation: Simulation, rounds: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        at_round(patch, 40, twice)
        assert play(runs, LIKE[:2]) == [INTERRUPTED] * 2
        patch.setattr(Simulation, "advance", interrupted)
        assert play(runs, LIKE[:2]) == [INTERRUPTED] * 2
    assert [run.state for run in map(Run.read, find_runs(runs))] == ["interrupted"] * 2
    assert play(runs, LIKE[:2]) == [DONE] * 2
    assert differing(runs, alone) == []


def test_a_run_without_memory_is_to_be_run_alone(runs, monkeypatch):
    """What others of the batch need may be what it lacks: when it is set up, and when it plays."""

    def make(settings, group):
        if settings.get("learning_rate") == 0.02:
            raise NotEnoughMemory("rounds=60 need more memory than there is")
        return build(settings, group)

    def full() -> None:
        raise MemoryError

    at_round(monkeypatch, 40, full)
    assert play(runs, [LIKE[1], LIKE[2], f"{LIKE[2]} rounds=30"], make) == [None, None, DONE]


def test_errors_in_a_simulation_stand_in_the_place_of_its_rounds():
    class Playing:
        context = SimpleNamespace(device=SimpleNamespace(type="cpu"))

        def advance(self, rounds: int) -> None:
            if rounds == 2:
                raise ZeroDivisionError("two")

    first, second, third = play_together([Playing()] * 3, [1, 2, 3])
    assert (first, third) == (None, None)
    assert isinstance(second, ZeroDivisionError)


def test_a_run_counts_its_own_time(runs, monkeypatch):
    """Of equal runs each has about its share of the time in which all were played, and none that of another.

    The clock advances a second whenever it is read, and a thousand while runs play.
    """
    times = [0]

    def read() -> tuple[float, float]:
        times.append(times[-1] + 1)
        return times[-1], times[-1] / 2

    def play_slowly(*given):
        times.append(times[-1] + 1000)
        return play_together(*given)

    monkeypatch.setattr(clock, "read", read)
    monkeypatch.setattr(batch, "play_together", play_slowly)
    assert play(runs, LIKE) == [DONE] * 4
    manifests = [json.loads((path / "run.json").read_text()) for path in find_runs(runs)]
    seconds = [manifest["seconds"] for manifest in manifests]
    assert sum(seconds) < times[-1]
    assert max(seconds) - min(seconds) < 0.1 * sum(seconds)
    assert [manifest["cpu_seconds"] for manifest in manifests] == [pytest.approx(value / 2) for value in seconds]


def _play_and_die(folder: Path, count: int) -> None:
    die_before(count, 2**22)
    play(folder, LIKE[:2])


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_in_a_batch_damages_no_run(tmp_path, alone, step: int):
    """In place of any file operation: runs of the batch are killed or finished, and go on to the same files."""
    for count in range(step, 1000, step):
        folder = tmp_path / f"{count}"
        code = ended(_play_and_die, folder, count)
        assert code in (0, -signal.SIGKILL)
        states = {Run.read(path, thorough=True).state for path in find_runs(folder)}
        assert states <= {"killed", "finished"}, count
        assert play(folder, LIKE[:2]) == [DONE] * 2
        assert differing(folder, alone) == [], count
        if code == 0:
            break
    assert count > 60, "the batch has fewer operations than it is killed in"


@pytest.fixture
def change(monkeypatch) -> Callable[[], None]:
    """What lets the files of ol2r be others than those of this process from now on."""
    changed = dict.fromkeys(source.IN_MEMORY, "another hash")
    return lambda: monkeypatch.setattr(source, "IN_MEMORY", changed)


def test_no_run_begins_with_a_changed_version_of_ol2r(runs, change):
    change()
    assert play(runs, LIKE[:2]) == [BAD_CONFIGURATION] * 2
    assert not list(find_runs(runs))


def test_no_run_goes_on_with_a_changed_version_of_ol2r(runs, change, monkeypatch):
    at_round(monkeypatch, 40, change)
    assert play(runs, LIKE[:2]) == [FAILED] * 2
    assert [saved_round(path) for path in find_runs(runs)] == [20, 20]
