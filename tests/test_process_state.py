"""A run has the same numbers in every process: what a program sets in torch neither reaches a run nor is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli.device import Device, restored
from ol2r_cli.run.runner import Runner
from tests.worlds import TINY

RANKERS = (
    "pairrank", "pepairrank", "pdgd", "sgd_ranknet", "epsilon_greedy", "dbgd", "mgd", "nsgd", "random", "olranknet",
    "toprank",
)  # fmt: skip
ROUNDS = 60
NETWORK = [*TINY, "ranker=pdgd", "ranker/model=mlp", "device=cpu", f"rounds={ROUNDS}"]


def flushes() -> bool:
    """Whether this process takes subnormal numbers as zero."""
    return sys.float_info.min / 2 == 0


@pytest.fixture(autouse=True)
def _restored():
    with restored():
        yield


def numbers(ranker: str, flush: bool) -> dict[str, float]:
    """Online NDCG of a short run, its discounted sum, and NDCG before it; the mode is set after what resets it."""
    words = [f"ranker={ranker}", "device=cpu", f"rounds={ROUNDS}", "click=informational"]
    with torch.inference_mode():
        experiment = ol2r.experiment([*TINY, *words])
        torch.set_flush_denormal(flush)
        simulation = experiment.simulation()
        untrained = experiment.evaluators()[0](simulation.ranker, simulation.ranker.deploy()[None])["ndcg_10"].item()
        for _ in simulation.play_until(lambda t: t == ROUNDS):
            assert flushes() == flush
        measures = simulation.measurement.measures()[1]
    online, cumulative = measures["online_ndcg"].mean().item(), measures["cumulative_ndcg"][-1].item()
    return {"online": online, "cumulative": cumulative, "untrained": untrained}


@pytest.mark.parametrize("rankers", [("sgd_ranknet", "nsgd"), pytest.param(RANKERS, marks=pytest.mark.slow)])
def test_ties_are_broken_alike_where_small_numbers_are_zero(rankers: tuple[str, ...]):
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    for ranker in rankers:
        usual, flushed = (numbers(ranker, flush) for flush in (False, True))
        assert flushed == usual, f"{ranker}: with flush-to-zero {flushed}, without {usual}"


def test_a_run_computes_with_small_numbers():
    torch.set_flush_denormal(True)
    Device("cpu", "auto", 1).prepare()
    small = torch.tensor([sys.float_info.min], dtype=torch.float64) / 2
    assert small * 2 > 0
    assert numba.njit(lambda number: number / 2)(sys.float_info.min) * 2 > 0


def test_threads_of_torch_that_compute_otherwise_are_refused():
    program = (
        "import torch; from ol2r_cli.device import Device; torch.set_num_threads(2); torch.set_flush_denormal(True); "
        "torch.ones(2**20).sum(); [Device('cpu', 'auto', threads).prepare() for threads in (1, 2)]"
    )
    root = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | root, capture_output=True, text=True)
    assert (
        done.stderr.strip().splitlines()[-1].startswith("ValueError: device.threads must be 1 where threads take small")
    )


STATES: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "TF32": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "bfloat16": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "flush to zero": lambda: torch.set_flush_denormal(True),
}


def state() -> tuple[object, ...]:
    """What the program has set."""
    matmul = [torch.backends.cuda.matmul.allow_tf32]
    if hasattr(torch.backends.mkldnn, "matmul"):
        matmul += [torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision]
    return torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), flushes(), *matmul


def test_settings_of_torch_do_not_reach_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What a program sets in torch does not reach a run and is restored."""
    play, seen = Runner.run, []
    monkeypatch.setattr(Runner, "run", lambda runner: (seen.append(state()), play(runner))[1])
    usual = ol2r.run(NETWORK, output_dir=tmp_path / "usual")
    for name, change in STATES.items():
        if name == "bfloat16" and not hasattr(torch.backends.mkldnn, "matmul"):
            continue  # before torch 2.9
        with restored():
            change()
            outer = state()
            found = ol2r.run(NETWORK, output_dir=tmp_path / name)
            assert state() == outer != seen[0], f"{name}: {outer}"
        assert found.id == usual.id
        weights = [torch.load(run.path / "ranker.pt", weights_only=True)["deployed"] for run in (usual, found)]
        assert torch.equal(*weights), f"{name}: parameters differ by {(weights[0] - weights[1]).abs().max()}"
        assert found.trace.equals(usual.trace), name
        full = {value for value in seen[-1] if isinstance(value, str)} <= {"ieee", "none"}
        assert (full, *seen[-1][:4]) == (True, torch.float32, False, False, False), f"{name}: {seen[-1]}"


@pytest.mark.parametrize("runs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_without_docstrings_every_help_text_works_and_a_run(runs: bool, tmp_path: Path):
    program = (
        "from ol2r_cli.cli import commands, main\n"
        "for command in commands().values():\n"
        "    try: command.main()(['--help'])\n"
        "    except SystemExit as end: assert not end.code\n"
        f"raise SystemExit({runs} and main(['run', *{[*TINY, '-m', 'seed=range(0,2)', 'rounds=20', 'device=cpu']}]))"
    )
    settings = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
