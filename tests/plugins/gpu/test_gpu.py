"""On a GPU, lists and clicks are those of a CPU: `make gpu`, on a machine that has one."""

from __future__ import annotations

import pytest
import torch

from tests.choices import ROUNDS, SEEDS, each_choice, names, play, seen, simulation

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CHOICES = [*each_choice(), *((f"click={name}",) for name in names("click"))]


@pytest.mark.parametrize("overrides", CHOICES, ids=",".join)
def test_lists_are_those_of_a_cpu(overrides):
    with torch.inference_mode():
        expected = play(simulation(overrides, seeds=SEEDS))
        lists = play(simulation(overrides, seeds=SEEDS, device="cuda"))
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
