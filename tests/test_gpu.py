"""On a GPU, lists and clicks are those of tensors on a CPU, and no round of a linear ranker waits: `make gpu`, on a
machine that has one.

CUDA itself reports what waits. `tests/test_synchronisation.py` looks for it without a GPU.
"""

from __future__ import annotations

import pytest
import torch

from tests.choices import ROUNDS, SEEDS, each_choice, names, play, seen, simulation
from tests.test_synchronisation import READ_ON_THE_HOST, SETTINGS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
CHOICES = [*each_choice(), *((f"click={name}",) for name in names("click")), *SETTINGS]


@pytest.mark.parametrize("overrides", CHOICES, ids=",".join)
def test_lists_are_those_of_a_cpu_and_nothing_waits(overrides):
    with torch.inference_mode():
        expected = play(simulation(overrides, seeds=SEEDS))
        play(simulation(overrides, seeds=SEEDS, device="cuda"))  # constants that are kept are copied once
        running = simulation(overrides, seeds=SEEDS, device="cuda")
        if overrides[0].removeprefix("ranker=") not in READ_ON_THE_HOST:
            torch.cuda.set_sync_debug_mode("error")
        try:
            lists = play(running)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len(lists) == len(expected) == ROUNDS
    assert seen(lists) == seen(expected)


@pytest.mark.parametrize("overrides", [("ranker=pairrank",), ("ranker=pdgd",), ("ranker=p2neurrank",)], ids=",".join)
def test_a_checkpoint_moves_between_a_gpu_and_a_cpu(overrides):
    """Half of the rounds there, the others here: the lists are those of a CPU."""
    with torch.inference_mode():
        expected = play(simulation(overrides))
        there, here = simulation(overrides, device="cuda"), simulation(overrides)
        first = play(there, ROUNDS // 2)
        here.load_state_dict({name: value.cpu() for name, value in there.state_dict().items()})
        assert seen(first) + seen(play(here, ROUNDS)) == seen(expected)
