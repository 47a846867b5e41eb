"""P2NeurRank round by round against the plain port, on the same random numbers: whose noise, and for how long."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.networks import NETWORK, WIDTH
from tests.ranker import refits
from tests.ranker.refits import PLAIN
from tests.reference import p2neurrank
from tests.reference.network import flat, unflat
from tests.rounds import LISTS, SEEDS, fresh, rounds
from tests.worlds import handmade, simulate, tiny

RATE, L2, VARIANCE, N = 0.5, 0.01, 0.3, 3


def p2neurrank_of(*overrides):
    """A few small networks, in float64."""
    own = f"ranker.members={N}", f"ranker.label_noise_variance={VARIANCE}", "ranker.steps=3", *PLAIN
    small = "ranker=p2neurrank", "click=informational", "positions=5", *NETWORK, *own
    config = tiny(*small, f"ranker.learning_rate={RATE}", f"ranker.l2={L2}", *overrides)
    return simulate(config, SEEDS, 10, handmade(LISTS))


def gammas(streams, noise, t, b, count):
    """[pair, member]: noise of replica b from the numbers of the round, or from those of before the first."""
    source = streams.at("learn/ranker", t) if noise == "fresh" else streams.at("setup", 0)
    return VARIANCE**0.5 * source.normal(count * N, "noise")[b].numpy().reshape(count, N)


def check(simulation, follow):
    """Compare every member after every round; no two of them are alike."""
    refits.check(simulation, follow)
    assert len(simulation.ranker.theta.flatten(0, 1).unique(dim=0)) == N * len(SEEDS)


def sides(pairs):
    return (np.array(side) for side in zip(*pairs, strict=True))


@pytest.mark.parametrize(("noise", "restart", "reduction"), [("fresh", True, "mean"), ("fixed", False, "sum")])
def test_every_member_is_fitted_to_labels_of_its_own(noise, restart, reduction):
    """gamma of a pair and member is the same in all steps; `fresh` in this round alone, `fixed` for ever."""
    settings = f"ranker.noise={noise}", f"ranker.restart={restart}", f"ranker.reduction={reduction}"
    streams = fresh()

    def follow(port, t, b, n):
        gamma, start = gammas(streams, noise, t, b, len(port.pairs))[:, n], port.initial if restart else port.theta
        port.theta = p2neurrank.fit(start, port.initial, *sides(port.pairs), gamma, L2, reduction, RATE / WIDTH, 3)

    simulation = p2neurrank_of(*settings)
    simulation.ranker.loss.chunk = 4
    check(simulation, follow)


@pytest.mark.parametrize("noise", ["fresh", "fixed"])
def test_a_pair_brings_its_noise_along_into_mini_batches(noise):
    """All members learn from the same draw; a pair that is drawn twice has the same noise twice."""
    streams = fresh()

    def follow(port, t, b, n):
        gamma = gammas(streams, noise, t, b, len(port.pairs))[:, n]
        chance = streams.at("learn/ranker", t).uniform(12, "batch")[b].reshape(3, 4)
        for index in (chance * len(port.pairs)).long().tolist():
            slope = p2neurrank.gradient(port.theta, *sides([port.pairs[i] for i in index]), gamma[index])
            moved = flat(port.theta) - flat(port.initial) - RATE / WIDTH * slope
            port.theta = unflat(flat(port.initial) + moved / (1 + RATE * L2), port.theta)

    check(p2neurrank_of("ranker.batch=4", f"ranker.noise={noise}"), follow)


def test_the_guard_is_that_of_the_port():
    """From a margin of 10 on the noise does not pull."""
    simulation, margins = p2neurrank_of(), [0.0, 9.99, 10.0, 10.01, -9.99, -10.0, -50.0]
    next(one for _, one in rounds(simulation) if one.preferences.valid.any(1).all())
    loss = simulation.ranker.loss
    loss.noise = lambda index: torch.full((len(SEEDS), N, index.shape[1]), 0.7, dtype=torch.float64)
    (sample,) = loss.draw(fresh().at("learn/ranker", 0), 1, 1)
    pairs = torch.tensor([[margin, 0.0] for margin in margins], dtype=torch.float64)
    found = np.array([sample.pull(pair.expand(len(SEEDS), N, 2)).numpy() for pair in pairs])
    expected = np.array([[-p2neurrank.pull(margin, 0.7), p2neurrank.pull(margin, 0.7)] for margin in margins])
    assert found == pytest.approx(np.broadcast_to(expected[:, None, None], found.shape), abs=1e-12)
