"""A run has the same numbers in every process: what a program sets in torch neither reaches a run nor is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import numba
import pytest
import torch

from ol2r_cli import api as ol2r
from ol2r_cli.device import Device, restored
from ol2r_cli.ranker.pdgd import PDGD
from tests.program import python
from tests.worlds import TINY

OTHERS = ("pairrank", "pepairrank", "pdgd", "epsilon_greedy", "dbgd", "mgd", "random", "olranknet", "toprank")
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


@pytest.mark.parametrize(
    "ranker", ["sgd_ranknet", "nsgd", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
)
def test_ties_are_broken_alike_where_small_numbers_are_zero(ranker):
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    assert numbers(ranker, flush=True) == numbers(ranker, flush=False)


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
    last = python("-c", program).stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: device.threads must be 1 where threads take small")


STATES = {  # what a program may set, as it is typed
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "matmul precision": "torch.set_float32_matmul_precision('medium')",
    "TF32": "torch.backends.cuda.matmul.allow_tf32 = True",
    "bfloat16": "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
    "autocast": "torch.set_autocast_enabled('cpu', True)",
    "flush to zero": "torch.set_flush_denormal(True)",
}
SINCE_2_9 = hasattr(torch.backends.mkldnn, "matmul")


def state() -> list[object]:
    """What the program has set."""
    matmul = [torch.backends.cuda.matmul.allow_tf32]
    if SINCE_2_9:
        matmul += [torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision]
    return [torch.get_default_dtype(), torch.is_autocast_enabled("cpu"), flushes(), *matmul]


SEEN: list[list[object]] = []  # the state in each run


class Watching(PDGD):
    """Keeps the state in which it is set up."""

    def setup(self, *arguments):
        SEEN.append(state())
        super().setup(*arguments)


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> ol2r.Run:
    """A run in a program that has set nothing."""
    return watched(tmp_path_factory.mktemp("usual"))


def watched(folder: Path) -> ol2r.Run:
    return ol2r.run([*NETWORK, f"ranker._target_={__name__}.Watching"], output_dir=folder)


@pytest.mark.parametrize("name", [name for name in STATES if SINCE_2_9 or name != "bfloat16"])
def test_settings_of_torch_do_not_reach_a_run(name, usual, tmp_path):
    """And are as they were, after it."""
    exec(STATES[name], {"torch": torch})
    outer = state()
    found = watched(tmp_path)
    assert state() == outer != SEEN[0]
    assert found.id == usual.id
    weights = [torch.load(run.path / "ranker.pt", weights_only=True)["deployed"] for run in (usual, found)]
    assert torch.equal(*weights)
    assert found.trace.equals(usual.trace)
    assert SEEN[-1][:4] == [torch.float32, False, False, False]
    assert {*SEEN[-1][4:]} <= {"ieee", "none"}


@pytest.mark.parametrize("runs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_without_docstrings_every_help_text_works_and_a_run(runs, tmp_path):
    program = (
        "from ol2r_cli.cli import commands, main\n"
        "for command in commands().values():\n"
        "    try: command.main()(['--help'])\n"
        "    except SystemExit as end: assert not end.code\n"
        f"raise SystemExit({runs} and main(['run', *{[*TINY, '-m', 'seed=range(0,2)', 'rounds=20', 'device=cpu']}]))"
    )
    done = python("-c", program, folder=tmp_path, PYTHONOPTIMIZE="2", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stderr
