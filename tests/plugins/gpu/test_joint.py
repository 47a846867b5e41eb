"""Several runs as one launch: each has the lists and the state that it has alone, whatever settings others have."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from ol2r_cli.plugins.gpu.joint import play_jointly
from ol2r_cli.simulation import Simulation
from tests.choices import simulation, world

ROUNDS = 30
GRIDS = {
    "pdgd": (
        ("ranker.learning_rate=0.1", "click=informational"),
        ("ranker.learning_rate=1.0", "ranker.decay=0.9", "click=perfect"),
        ("ranker.learning_rate=0.01", "click=navigational"),
    ),
    "epsilon_greedy": (("exploration.epsilon=0.9",), ("exploration.epsilon=0.1", "ranker.learning_rate=0.5")),
    "dbgd": (("ranker.delta=2",), ("ranker.delta=0.1",)),
    "nsgd": (("ranker.delta=2", "ranker.window=3"), ("ranker.delta=0.1", "ranker.decay=0.9")),
    "coltr": (("ranker.variance_penalty=0",), ("ranker.variance_penalty=3",)),
    "pairrank": (
        ("ranker.l2=0.1", "exploration.alpha=0.5"),
        ("ranker.l2=0.001", "exploration.alpha=0.01", "click=perfect"),
    ),
    "pepairrank": (
        ("ranker.l2=0.1", "ranker.label_noise_variance=0.01"),
        ("ranker.l2=0.001", "ranker.label_noise_variance=1", "click=perfect"),
    ),
}


shared_world = cache(world)


def runs(ranker: str) -> list[Simulation]:
    """A simulation for each setting of the grid, each with two seeds of its own."""
    made = []
    for number, words in enumerate(GRIDS[ranker]):
        made.append(ready((f"ranker={ranker}", *words), seeds=(7 * number, 7 * number + 3)))
    return made


def ready(overrides: tuple[str, ...], **kind) -> Simulation:
    """A simulation whose rounds are played together."""
    return simulation(overrides, shared_world(), rounds=ROUNDS, regret=False, **kind)


def state(running: Simulation) -> dict[str, torch.Tensor]:
    """What has been learned and recorded."""
    recorded = enumerate(running.measurement.of_rounds)
    return dict(running.state_dict()) | {f"record {number}": values for number, values in recorded}


@pytest.mark.parametrize("ranker", GRIDS)
def test_each_run_of_a_grid_is_as_it_is_alone(ranker: str):
    with torch.inference_mode():
        together, alone = runs(ranker), runs(ranker)
        while int(together[0].round) < ROUNDS:
            launches = [running.prepare(ROUNDS - int(running.round)) for running in together]
            assert len({launch.key() for launch in launches if launch is not None}) == 1
            play_jointly([launch for launch in launches if launch is not None])
            for running, launch in zip(together, launches, strict=True):
                running.launched(launch)
        for running in alone:
            while int(running.round) < ROUNDS:
                running.advance(ROUNDS - int(running.round))
    for joint, single in zip(together, alone, strict=True):
        expected = state(single)
        for name, values in state(joint).items():
            assert torch.equal(values, expected[name]) or values.isnan().any(), name


def test_one_launch_is_played_and_the_largest_room_is_enough():
    with torch.inference_mode():
        together, alone = runs("pdgd"), runs("pdgd")
        launches = [running.prepare(ROUNDS) for running in together]
        play_jointly(launches[:1])
        play_jointly([launches[1]._replace(room=0), launches[2]])
        for running, launch, single in zip(together, launches, alone, strict=True):
            running.launched(launch)
            single.advance(ROUNDS)
            assert int(running.round) == int(single.round) == ROUNDS
            assert torch.equal(running.ranker.theta, single.ranker.theta)


def test_runs_of_other_stages_or_sizes_are_not_one_launch():
    others = ("ranker=pdgd",), ("ranker=sgd_ranknet",), ("ranker=pdgd", "click=position_based")
    with torch.inference_mode():
        launches = [ready(words).prepare(5) for words in others] + [ready(("ranker=pdgd",), positions=3).prepare(5)]
    assert len({launch.key() for launch in launches if launch is not None}) == len(launches)
