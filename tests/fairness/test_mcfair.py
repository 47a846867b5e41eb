"""MCFair against the plain port in every round of whole runs, and the properties of its gradient."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.fairness.by_merit import gradient
from ol2r_cli.interfaces import Exposure
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import grouped
from tests.reference import mcfair as reference
from tests.rounds import SEEDS, rounds
from tests.worlds import simulate, tiny

BETAS = {2: 0.7, 3: (0.7, 1.6)}  # not used by MCFair


def fair(*overrides: str, total: int = 30, groups: int = 2) -> Simulation:
    """A simulation with MCFair on seven queries; without groups if there are 0."""
    config = tiny("fairness=mcfair", "click=position_based", "positions=5", *overrides)
    dataset: Dataset = grouped(groups=groups or 2)
    exposure = Exposure(position_exposure("log", config.positions), BETAS[groups]) if groups else None
    if not groups:
        dataset = dataclasses.replace(dataset, group=None)
    return simulate(config, SEEDS, total, dataset, exposure=exposure, regret=False)


ESTIMATED = ("ranker=ips_regression", "fairness.relevance=ranker")


CASES = [
    ((), 5, 2),
    ((), 5, 0),
    (("fairness.gain=30", "fairness.certainty=0.5"), 3, 2),
    (("fairness.gain=2", "fairness.certainty=0", "ranker=pdgd"), 20, 0),
    (("fairness.between=groups", "fairness.gain=3", "fairness.certainty=0.2"), 4, 3),
    ((*ESTIMATED, "fairness.certainty=0.1", "fairness.gain=1"), 5, 2),
    ((*ESTIMATED, "fairness.between=groups", "fairness.certainty=0", "fairness.gain=0.3"), 2, 3),
]


@pytest.mark.parametrize(("settings", "positions", "groups"), [*CASES])
def test_every_list_is_the_ports(settings, positions, groups):
    """The port keeps exposure and clicks of every row by itself; equal sums keep the proposed order."""
    simulation = fair(*settings, f"positions={positions}", groups=groups)
    fairness = simulation.fairness
    model = position_exposure("log" if groups else "reciprocal", positions).tolist()
    exposed, clicked = ([{} for _ in SEEDS] for _ in range(2))
    moved = owed = 0
    for t, one in rounds(simulation):
        for b in range(len(SEEDS)):
            length = int(one.candidates.mask[b].sum())
            rows = one.candidates.document[b, :length].tolist()
            e = [exposed[b].get(row, 0.0) for row in rows]
            r = [clicked[b].get(row, 0) / max(exposed[b].get(row, 0.0), 1e-5) for row in rows]
            if fairness.relevance == "ranker":
                r = one.proposal.scores[b, :length].tolist()
            group = one.candidates.group[b, :length].tolist() if fairness.between == "groups" else None
            sums = reference.scores(e, r, fairness.gain, fairness.certainty, group)
            proposal, order = one.proposal.order[b, :length].tolist(), one.order[b, :length].tolist()
            expected = sorted(proposal, key=lambda d, sums=sums: -sums[d])
            assert sorted(order) == list(range(length))
            assert [sums[d] for d in order] == pytest.approx([sums[d] for d in expected], abs=1e-5), f"round {t}"
            place = {d: k for k, d in enumerate(proposal)}
            for first, second in pairwise(order):
                assert sums[first] != sums[second] or place[first] < place[second], f"round {t}"
            moved += order != proposal
            owed += any(value != 0 for value in reference.owed(e, [max(value, 0) for value in r]))
            for k, d in enumerate(order[:positions]):
                exposed[b][rows[d]] = exposed[b].get(rows[d], 0.0) + model[k]
                clicked[b][rows[d]] = clicked[b].get(rows[d], 0) + int(one.clicks[b, k])
    assert moved > 20, settings
    assert owed > 20, settings
    for b in range(len(SEEDS)):
        for row, value in exposed[b].items():
            assert float(fairness.exposed[b, row]) == pytest.approx(value)
            assert float(fairness.clicked[b, row]) == clicked[b][row]


def test_it_is_a_quarter_of_the_gradient_of_disparity():
    """The result is a quarter of the falling gradient of the disparity."""
    generator = torch.Generator().manual_seed(0)
    exposed, relevance = torch.rand(2, 6, generator=generator, dtype=torch.float64)
    for d in range(6):
        ahead, behind = exposed.tolist(), exposed.tolist()
        ahead[d] += 1e-6
        behind[d] -= 1e-6
        both = (reference.disparity(values, relevance.tolist()) for values in (ahead, behind))
        slope = next(both) - next(both)
        assert float(gradient(exposed[None], relevance[None])[0, d]) == pytest.approx(-slope / 2e-6 / 4, rel=1e-5)
