"""Exposure of groups, cumulative unfairness and broken certain pairs, round by round, against the plain ports."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.interfaces import Exposure, Interaction
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.metrics.measurement import Measurement
from tests.fairness.grouped import grouped, seen
from tests.reference.exposure import group_exposure, largest_disparity, unfairness
from tests.reference.violations import broken
from tests.rounds import SEEDS
from tests.worlds import measured, simulate, tiny

ROUNDS = 36  # more than twice the rounds that are measured together
BETA = 1.3
RUNS = {
    "fair": ("fairness=fairexp", "fairness.epsilon=0.5", "positions=5"),
    "not fair": ("exploration.shuffle=random", "positions=12"),
    "no certain pairs": ("ranker=pdgd", "positions=5"),
}


@pytest.fixture(autouse=True)
def _measure_sixteen_rounds_together(monkeypatch):
    monkeypatch.setattr(Measurement, "ROUNDS", 16)


def running(name: str, dataset=None, beta: float | tuple[float, ...] = BETA):
    config = tiny(*(() if name == "no certain pairs" else ("exploration.alpha=0.1",)), *RUNS[name])
    exposure = Exposure(position_exposure("log", config.positions), beta)
    return simulate(config, SEEDS, ROUNDS, dataset or grouped(), exposure=exposure), config.positions


@pytest.mark.parametrize("name", [*RUNS])
def test_measures_of_groups_are_their_definitions(name):
    """An exploration without certain pairs has unfairness and exposure, but no violations."""
    simulation, positions = running(name)
    measures, happened = measured(simulation)
    p, violated = position_exposure("log", positions).tolist(), 0
    certain = name != "no certain pairs"
    assert ("violations" in measures) == certain
    for b in range(len(SEEDS)):
        shown = ["".join("AB"[g] for g in groups_of(one, b)) for one in happened]
        assert measures["unfairness"][:, b].tolist() == pytest.approx(unfairness(shown, p, BETA), abs=1e-9), name
        for number, letter in enumerate("AB"):
            expected = [group_exposure(word, letter, p) for word in shown]
            assert measures[f"exposure_{number}"][:, b].tolist() == pytest.approx(expected, abs=1e-9), name
        if certain:
            rounds = [seen(interaction, b) for interaction in happened]
            expected = [sum(broken(one.order[:positions], one.certain, one.blocks)) for one in rounds]
            assert measures["violations"][:, b].tolist() == expected, name
            violated += sum(expected)
    assert violated > 5 or not certain


def groups_of(one: Interaction, replica: int) -> list[int]:
    """The groups of the documents shown to a replica, by place."""
    return one.candidates.group.gather(1, one.ranking)[replica, one.shown[replica]].tolist()


def test_measures_of_more_groups_are_their_definitions():
    """The largest pairwise disparity so far, and a column for the exposure of each of four groups."""
    betas, p = (1.3, 0.4, 2.5), position_exposure("log", 5).tolist()
    more = {"exposure": Exposure(position_exposure("log", 5), betas), "dtype": torch.float32}
    config = tiny("ranker=pdgd", "positions=5")
    measures, happened = measured(simulate(config, SEEDS, ROUNDS, grouped(groups=4), **more))
    for b in range(len(SEEDS)):
        shown = ["".join("ABCD"[g] for g in groups_of(one, b)) for one in happened]
        expected = largest_disparity(shown, p, betas)
        assert measures["unfairness"][:, b].tolist() == pytest.approx(expected, abs=1e-9)
        for number, letter in enumerate("ABCD"):
            expected = [group_exposure(word, letter, p) for word in shown]
            assert measures[f"exposure_{number}"][:, b].tolist() == pytest.approx(expected, abs=1e-9)
    assert not {"unfairness", "exposure_0"} & measured(simulate(tiny(), [0], 3, grouped()))[0].keys(), "no groups"
