"""Exposure of groups, cumulative unfairness and broken certain pairs, round by round, against the plain ports."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
import torch

from ol2r_cli.interfaces import Exposure
from ol2r_cli.metrics.exposure import position_exposure
from tests.fairness.grouped import grouped, seen
from tests.reference.exposure import group_exposure, largest_disparity, letters, unfairness
from tests.reference.violations import broken
from tests.rounds import SEEDS
from tests.worlds import measured, simulate, tiny

ROUNDS = 36  # more than twice the rounds that are measured together
BETAS = {2: 1.3, 4: (1.3, 0.4, 2.5)}
RUNS = {
    "fair": ("exploration.alpha=0.1", "fairness=fairexp", "fairness.epsilon=0.5", "positions=5"),
    "not fair": ("exploration.alpha=0.1", "exploration.shuffle=random", "positions=12"),
    "no certain pairs": ("ranker=pdgd", "positions=5"),
}


@cache
def played(name: str, groups: int = 2):
    """Measures of all rounds, what happened, and the exposure of each place."""
    config, dtype = tiny(*RUNS[name]), torch.float64 if groups == 2 else torch.float32
    exposure = Exposure(position_exposure("log", config.positions), BETAS[groups])
    running = simulate(config, SEEDS, ROUNDS, grouped(groups=groups), exposure=exposure, dtype=dtype)
    return *measured(running), exposure.position.tolist()


@pytest.mark.parametrize(("name", "groups"), [*((name, 2) for name in RUNS), ("no certain pairs", 4)])
@pytest.mark.parametrize("b", range(len(SEEDS)))
def test_measures_of_groups_are_their_definitions(name, groups, b):
    """Of two groups the signed unfairness, of more the largest pairwise disparity so far; the exposure of each."""
    measures, happened, p = played(name, groups)
    of_places = (one.candidates.group.gather(1, one.ranking)[b, one.shown[b]] for one in happened)
    shown = [letters(numbers.tolist()) for numbers in of_places]
    unfair = unfairness if groups == 2 else largest_disparity
    assert measures["unfairness"][:, b].tolist() == pytest.approx(unfair(shown, p, BETAS[groups]), abs=1e-9)
    for number in range(groups):
        expected = [group_exposure(word, letters([number]), p) for word in shown]
        assert measures[f"exposure_{number}"][:, b].tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["fair", "not fair"])
def test_violations_are_certain_pairs_that_are_broken(name):
    measures, happened, p = played(name)
    for t, b in product(range(ROUNDS), range(len(SEEDS))):
        one = seen(happened[t], b)
        expected = sum(broken(one.order[: len(p)], one.certain, one.blocks))
        assert int(measures["violations"][t, b]) == expected, (t, b)
    assert measures["violations"].sum() > 5


def test_what_does_not_apply_is_not_measured():
    assert "violations" not in played("no certain pairs")[0]
    assert not {"unfairness", "exposure_0"} & measured(simulate(tiny(), [0], 3, grouped()))[0].keys(), "no groups"
