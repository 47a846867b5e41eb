"""MCFair against the plain port in every round of whole runs."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Exposure
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import grouped
from tests.reference import mcfair as reference
from tests.rounds import SEEDS, rounds
from tests.worlds import simulate, tiny

BETAS = {2: 0.7, 3: (0.7, 1.6)}  # not used by MCFair


def fair(*overrides: str, groups: int) -> Simulation:
    """A simulation with MCFair on seven queries; without groups if there are 0."""
    config = tiny("fairness=mcfair", "click=position_based", *overrides)
    dataset: Dataset = grouped(groups=groups or 2)
    exposure = Exposure(position_exposure("log", config.positions), BETAS[groups]) if groups else None
    if not groups:
        dataset = dataclasses.replace(dataset, group=None)
    return simulate(config, SEEDS, 30, dataset, exposure=exposure, regret=False)


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


class Port:
    """One replica: the exposure and the clicks of every row of the table, and the settings of MCFair."""

    def __init__(self, fairness, rows):
        self.fairness, self.exposed, self.clicked, self.moved, self.owed = fairness, [0.0] * rows, [0] * rows, 0, 0

    def check(self, rows, group, estimates, proposal, order):
        """Documents go by their sums; equal sums keep the proposed order."""
        own, exposed = self.fairness, [self.exposed[row] for row in rows]
        relevance = [self.clicked[row] / max(self.exposed[row], 1e-5) for row in rows]
        relevance = estimates if own.relevance == "ranker" else relevance
        between = group if own.between == "groups" else None
        sums = reference.scores(exposed, relevance, own.gain, own.certainty, between)
        expected = sorted(proposal, key=lambda document: -sums[document])
        assert sorted(order) == sorted(proposal)
        assert [sums[d] for d in order] == pytest.approx([sums[d] for d in expected], abs=1e-5)
        for first, second in pairwise(order):
            assert sums[first] != sums[second] or proposal.index(first) < proposal.index(second)
        self.moved += order != proposal
        self.owed += any(reference.owed(exposed, [max(value, 0) for value in relevance]))

    def see(self, rows, clicks, exposure):
        for row, click, value in zip(rows, clicks, exposure, strict=False):
            self.exposed[row] += value
            self.clicked[row] += click


@pytest.mark.parametrize(("settings", "positions", "groups"), CASES)
def test_every_list_is_the_ports(settings, positions, groups):
    """The port keeps exposure and clicks of every row by itself."""
    simulation = fair(*settings, f"positions={positions}", groups=groups)
    fairness, exposure = simulation.fairness, position_exposure("log" if groups else "reciprocal", positions).tolist()
    ports = [Port(fairness, fairness.exposed.shape[1]) for _ in SEEDS]
    for _, one in rounds(simulation):
        for b, (port, length) in enumerate(zip(ports, one.candidates.mask.sum(1).tolist(), strict=True)):
            group = one.candidates.group[b, :length].tolist() if groups else None
            values = one.candidates.document, one.proposal.scores, one.proposal.order, one.order
            rows, estimates, proposal, order = (each[b, :length].tolist() for each in values)
            port.check(rows, group, estimates, proposal, order)
            port.see([rows[d] for d in order], one.clicks[b].int().tolist(), exposure)
    assert min(sum(port.moved for port in ports), sum(port.owed for port in ports)) > 20
    found = torch.stack([fairness.exposed.double(), fairness.clicked.double()], 1)
    assert found.numpy() == pytest.approx(np.array([[port.exposed, port.clicked] for port in ports]))
