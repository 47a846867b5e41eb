"""The precision of a run is `device.dtype` or the one its ranker needs; auto takes the faster device."""

from __future__ import annotations

import json
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.commands.run import main
from ol2r_cli.config.composer import Composer, compose
from ol2r_cli.device import HISTORY, NETWORKS, ONE_STEP, BreakEven, Device
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.run.experiment import Experiment
from ol2r_cli.sweep.plan import Plan
from tests.worlds import TINY

# OmegaConf annotates its DictConfig in a way that the checker of annotations calls old-fashioned.
pytestmark = pytest.mark.filterwarnings("ignore::beartype.roar.BeartypeDecorHintPep585DeprecationWarning")

LINEAR = ("ranker=pdgd",)
NETWORK = ("ranker=pdgd", "ranker/model=mlp", "ranker.model.width=4")
PAGE = (Path(__file__).parents[1] / "docs" / "explanation/performance.md").read_text().partition("## On a GPU")[2]


@pytest.fixture
def gpu(request, monkeypatch):
    """Three GPUs, on which nothing is computed, and what compiles loops for them, unless a test says what lacks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(loops, "gpu_is_missing", lambda: getattr(request, "param", ""))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def set_up(request, monkeypatch):
    """Parts that nothing allocates on the GPUs, and that fit each other, or are refused there with what a test says."""
    error = getattr(request, "param", "")
    monkeypatch.setattr(Experiment, "setup_error", lambda self: error if self.needs_gpu else "")


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)


def experiment(*overrides: str) -> Experiment:
    composition = compose([*TINY, "device=cpu", *overrides])
    return Experiment(composition.settings, composition.choices)


@pytest.mark.parametrize(
    ("words", "own", "other"),
    [(LINEAR, "float64", "float32"), (NETWORK, "float32", "float64")],
    ids=["linear", "network"],
)
def test_all_parts_of_a_run_have_its_precision(words, own, other):
    """And its id names it."""
    ids = {}
    for setting, name in ("auto", own), (own, own), (other, other):
        made = experiment(*words, f"device.dtype={setting}")
        simulation, ids[setting] = made.simulation(), made.id
        _, interaction = next(simulation.play())
        found = (
            simulation.context.dtype,
            interaction.prediction.scores.dtype,
            *(each.split.dtype for each in made.evaluators()),
        )
        assert {*found} == {getattr(torch, name)}, setting
    assert ids["auto"] == ids[own] != ids[other]


def tables() -> list[list[list[str]]]:
    """The cells of the lines that begin with a ranker: of the table of loops, and of that of networks."""
    tables = []
    for part in PAGE.split("### Networks"):
        lines = [line for line in part.splitlines() if line.startswith("| `")]
        tables.append([[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines])
    return tables


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def test_where_a_gpu_overtakes_a_core_is_that_of_the_table():
    """A replica of a GPU is as fast as where it is fastest in the table; compilation takes as long as the page says."""
    seconds = {"pairrank": 50, "pepairrank": 50}
    needed: dict[BreakEven, list[tuple[float, float]]] = {ONE_STEP: [], HISTORY: []}
    fastest: dict[str, float] = {}
    core: dict[str, float] = {}
    for name, _, *rates in tables()[0]:
        core[name], *of_gpu = (number(rate.partition(" / ")[0]) for rate in rates)
        fastest[name] = max(rate / replicas for rate, replicas in zip(of_gpu, (1, 10, 100, 1000, 10_000), strict=True))
    for name in core:
        kind = HISTORY if name in seconds else ONE_STEP
        needed[kind].append((core[name] / fastest[name], core[name] * seconds.get(name, 18)))
    assert sorted(core) == ["dbgd", "epsilon_greedy", "mgd", "pairrank", "pdgd", "pepairrank", "sgd_ranknet"]
    for kind, of_rankers in needed.items():
        replicas, rounds = (max(column) for column in zip(*of_rankers, strict=True))
        assert kind == BreakEven(math.ceil(replicas), math.ceil(rounds / 10_000) * 10_000)


def test_where_a_gpu_overtakes_a_core_for_networks():
    """Between one and ten replicas logarithms of rates are straight lines."""
    crossings = []
    for _, *cells in tables()[1]:
        rates = [number(cell) for cell in cells if cell]
        core, gpu = np.log(rates[:2]), np.log(rates[2:4])
        behind, gains = core[0] - gpu[0], (gpu[1] - gpu[0]) - (core[1] - core[0])
        crossings.append(10 ** max(0.0, behind / gains))
    assert len(crossings) == 3
    assert BreakEven(math.ceil(max(crossings)), 0) == NETWORKS


@pytest.mark.parametrize(
    "words",
    ["ranker=toprank", "measures=[regret]", "save_interactions=true", "ranker.window=5"],
)
def test_auto_takes_no_gpu_for_linear_rankers_in_single_rounds(words, gpu):
    made = experiment(words, "replicas=100000", "rounds=10000000", "device=auto")
    assert not made.plays_together
    assert (made.device.torch.type, made.needs_gpu) == ("cpu", False)
    assert made.reason_of_device == "device: cpu, for rounds that are played one by one (or type device=cuda)"
    assert not experiment(words, "device=cuda").warnings()


# Of these it is known only once the roles are set up.
SINGLE = [
    "ranker=pairrank exploration.alpha=theory",
    "ranker=coltr ranker.renormalise=true",
    "ranker=nsgd update_every=5",
]


@pytest.mark.parametrize("words", SINGLE)
def test_auto_takes_no_gpu_for_single_rounds(words, gpu, two_cores):
    jobs = [*words.split(), "replicas=100000", "rounds=10000", "device=auto"]
    made = experiment(*jobs)
    assert (made.device.torch.type, made.needs_gpu) == ("cpu", False)
    assert made.reason_of_device == "device: cpu, for rounds that are played one by one (or type device=cuda)"
    planned = Plan([[*TINY, *jobs[:-2], "replicas=1000", f"seed={seed}"] for seed in range(0, 10000, 1000)], Composer())
    assert not planned.bad
    assert planned.share_gpus(planned.sweep_jobs) == ""
    assert not any(job.shares_gpu for job in planned.sweep_jobs)


@pytest.mark.parametrize(("words", "least"), [(LINEAR, 14 + 182), (["ranker=pairrank"], 5 + 12), (NETWORK, 2)])
def test_auto_takes_a_gpu_from_so_many_replicas_on(words, least, gpu):
    """One line says which device it is and why; `device=cuda` does as it says. The id does not say the device."""

    def made(name: str, replicas: int) -> Experiment:
        return experiment(*words, "rounds=10000", f"replicas={replicas}", f"device={name}")

    few, many = made("auto", least - 1), made("auto", least)
    assert (few.device.torch.type, few.needs_gpu) == ("cpu", False)
    assert few.id == made("cpu", least - 1).id == made("cuda", least - 1).id
    assert few.reason_of_device.startswith(f"device: cpu, faster than a GPU below {least} replicas")
    assert (many.device.torch.type, many.needs_gpu) == ("cuda", True)
    assert many.reason_of_device.startswith(f"device: cuda, faster than a core from {least} replicas on")
    assert max(len(each.reason_of_device) for each in (few, many)) <= 80
    assert not few.warnings() + many.warnings() + made("cuda", least).warnings()


class OwnNetwork(MLP):
    """One whose loops are not of ol2r."""


def test_auto_takes_a_gpu_for_an_own_network(gpu):
    devices = [
        experiment(*NETWORK, *words, "device=auto").device.torch.type
        for words in ([], [f"ranker.model._target_={__name__}.OwnNetwork"])
    ]
    assert devices == ["cpu", "cuda"]


@pytest.mark.parametrize("words", [LINEAR, NETWORK], ids=["linear", "network"])
def test_without_a_gpu_auto_takes_the_cpu_and_says_nothing(words):
    made = experiment(*words, "replicas=1000", "device=auto")
    assert (made.device.torch.type, made.reason_of_device, made.needs_gpu) == ("cpu", "", False)


def test_a_run_on_the_cpu_beside_a_gpu_says_why_once(gpu, tmp_path, capsys):
    """And is found again."""
    words = [*TINY, *LINEAR, "rounds=2", f"output_dir={tmp_path}"]
    assert main(words) == 0
    output = capsys.readouterr()
    assert output.err.count("device: cpu, faster than a GPU in so few rounds (or type device=cuda)\n") == 1
    assert main([*words, "device=cpu"]) == main(words) == 0
    assert "device: " not in capsys.readouterr().err
    (run,) = tmp_path.glob("*/*/run.json")
    assert json.loads(run.read_text())["device"] == "cpu"


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("jobs", "slots"),
    [
        ([["device=auto"], ["device=auto", "seed=1"]], CORES),
        ([["device=auto"], [*NETWORK, "device=auto", "replicas=2"]], 3),
        ([["device=cuda"]], 3),
        ([["device=cpu"]], CORES),
    ],
)
def test_a_sweep_gives_gpus_to_runs_that_use_them(gpu, set_up, tmp_path, jobs, slots):
    jobs = [[*TINY, *LINEAR, f"output_dir={tmp_path}", *words] for words in jobs]
    planned = Plan(jobs, Composer())
    assert not planned.bad
    assert planned.launcher.free_slots() == slots
    alone = [Experiment(composed.settings, composed.choices).directory.path for composed in map(compose, jobs)]
    assert [job.directory for job in planned.sweep_jobs] == alone


@pytest.mark.parametrize("set_up", ["not there"], indirect=True)
def test_a_sweep_checks_each_device_that_auto_takes(gpu, set_up):
    planned = Plan([[*TINY, *NETWORK, "device=auto", f"replicas={replicas}"] for replicas in (1, 100, 1)], Composer())
    assert [(sweep_job.number, sweep_job.reason) for sweep_job in planned.bad] == [(1, "not there")]


GRID = [[*TINY, *LINEAR, "device=auto", "rounds=1500", "replicas=1000", f"seed={seed}"] for seed in (0, 5000, 10000)]


def test_a_sweep_takes_gpus_where_they_are_faster(gpu, two_cores):
    """Two cores are as fast as 2 (14 + 1,820,000 / 1,500) = 2,456 replicas; three jobs have 3,000, two have 2,000."""
    planned = Plan(GRID, Composer())
    assert planned.launcher.free_slots() == 2
    reason = "device: cuda, with 3,000 replicas faster than 2 cores (or type device=cpu)"
    assert planned.share_gpus(planned.sweep_jobs) == reason
    assert planned.launcher.free_slots() == 3
    assert [pickle.loads(job.job.payload).get("shares_gpu") for job in planned.sweep_jobs] == [True] * 3
    planned = Plan(GRID, Composer())
    assert planned.share_gpus(planned.sweep_jobs[:2]) == "", "one of them is finished"
    assert planned.launcher.free_slots() == 2
    assert not any(job.shares_gpu for job in planned.sweep_jobs)


@pytest.mark.parametrize("more", ["launcher.batch=1", "launcher.batch=2", "launcher.jobs=2", "launcher.gpus=[]"])
def test_a_sweep_takes_no_gpu_against_what_was_typed(more, gpu, two_cores):
    planned = Plan([[*words, more] for words in GRID], Composer())
    assert planned.share_gpus(planned.sweep_jobs) == ""
    assert planned.launcher.free_slots() == 2


@pytest.mark.parametrize("other", ["ranker=toprank", "device=cpu", "rounds=30", "replicas=2000"])
def test_a_sweep_takes_gpus_for_all_of_its_jobs_or_none(other, gpu, set_up, two_cores):
    """Another job plays single rounds, is to be on the CPU, or is too small or alone large enough."""
    planned = Plan([*GRID, [*GRID[0], "seed=1", other]], Composer())
    assert planned.share_gpus(planned.sweep_jobs) == ""
    assert [job.shares_gpu for job in planned.sweep_jobs] == [False, False, False, other == "replicas=2000"]


def test_jobs_share_a_gpu_where_they_play_rounds_together(gpu, set_up):
    words = [[*TINY, "device=cuda", ranker] for ranker in ("ranker=pdgd", "ranker=toprank", "ranker=olranknet")]
    planned = Plan(words, Composer())
    assert planned.share_gpus(planned.sweep_jobs) == ""
    assert [job.shares_gpu for job in planned.sweep_jobs] == [True, False, False]


@pytest.mark.parametrize("gpu", ["numba-cuda is not installed"], indirect=True)
def test_a_gpu_without_what_compiles_its_loops_is_not_taken(gpu):
    with pytest.raises(ValueError, match=r"numba-cuda is not installed: type pip install 'ol2r\[gpu\]'$"):
        Device("cuda", "auto", 1)
    made = experiment(*LINEAR, "replicas=1000", "device=auto")
    assert (made.device.torch.type, made.reason_of_device.partition(",")[0]) == ("cpu", "device: cpu")


def test_a_device_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match=r"^device\.name must be auto, cpu, cuda or cuda:N, got 'tpu9'$"):
        Device("tpu9", "auto", 1)
