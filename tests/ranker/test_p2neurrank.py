"""P2NeurRank round by round against the plain port, on the same random numbers: whose noise, and for how long."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.learning.losses import RankNetLoss
from tests.networks import NETWORK, WIDTH, weights
from tests.ranker.refits import PLAIN
from tests.reference import p2neurrank
from tests.reference.network import flat, scores, unflat
from tests.rounds import LISTS, SEEDS, fresh, replicas, rounds
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


def check(simulation, fit):
    """Compare every member after every round with what `fit` (theta, theta_0, pairs, round, replica, member) says."""
    ranker, refits = simulation.ranker, 0
    initial = [[weights(theta.numpy()) for theta in members] for members in ranker.start]
    theta = [[weights(theta.numpy()) for theta in members] for members in ranker.theta]
    pairs = [[] for _ in SEEDS]
    for t, one in rounds(simulation):
        for b, here in replicas(one):
            pairs[b], refits = pairs[b] + here.compared, refits + bool(here.pairs)
            for n in range(N):
                expected = scores(theta[b][n], here.features)
                assert here.scores[n] == pytest.approx(expected, rel=1e-6, abs=1e-6)
                if here.pairs:
                    theta[b][n] = fit(theta[b][n], initial[b][n], pairs[b], t, b, n)
                found = ranker.theta[b, n].numpy()
                assert found == pytest.approx(flat(theta[b][n]), abs=1e-7), f"round {t}, replica {b}, member {n}"
    assert refits > 4
    assert len({tuple(row) for row in ranker.theta.flatten(0, 1).tolist()}) == N * len(SEEDS)


def sides(pairs):
    return (np.array(side) for side in zip(*pairs, strict=True))


@pytest.mark.parametrize(("noise", "restart", "reduction"), [("fresh", True, "mean"), ("fixed", False, "sum")])
def test_every_member_is_fitted_to_labels_of_its_own(monkeypatch, noise, restart, reduction):
    """gamma of a pair and member is the same in all steps; `fresh` in this round alone, `fixed` for ever."""
    monkeypatch.setattr(RankNetLoss, "chunk", 4)
    settings = f"ranker.noise={noise}", f"ranker.restart={restart}", f"ranker.reduction={reduction}"
    streams = fresh()

    def fit(theta, initial, pairs, t, b, n, how=(noise, restart, reduction), streams=streams):
        gamma = gammas(streams, how[0], t, b, len(pairs))[:, n]
        start = initial if how[1] else theta
        return p2neurrank.fit(start, initial, *sides(pairs), gamma, L2, how[2], RATE / WIDTH, 3)

    check(p2neurrank_of(*settings), fit)


@pytest.mark.parametrize("noise", ["fresh", "fixed"])
def test_a_pair_brings_its_noise_along_into_mini_batches(noise):
    """All members learn from the same draw; a pair that is drawn twice has the same noise twice."""
    streams = fresh()

    def fit(theta, initial, pairs, t, b, n, noise=noise, streams=streams):
        gamma = gammas(streams, noise, t, b, len(pairs))[:, n]
        chance = streams.at("learn/ranker", t).uniform(12, "batch")[b].reshape(3, 4)
        for index in (chance * len(pairs)).long().tolist():
            some = sides([pairs[i] for i in index])
            slope = p2neurrank.gradient(theta, *some, gamma[index])
            moved = flat(theta) - flat(initial) - RATE / WIDTH * slope
            theta = unflat(flat(initial) + moved / (1 + RATE * L2), theta)
        return theta

    check(p2neurrank_of("ranker.batch=4", f"ranker.noise={noise}"), fit)


def test_the_guard_is_that_of_the_port():
    """From a margin of 10 on the noise does not pull."""
    simulation = p2neurrank_of()
    next(one for _, one in rounds(simulation) if one.preferences.valid.any(1).all())
    loss = simulation.ranker.loss
    loss.noise = lambda index: torch.full((len(SEEDS), N, index.shape[1]), 0.7, dtype=torch.float64)
    (sample,) = loss.draw(fresh().at("learn/ranker", 0), 1, 1)
    for margin in (0.0, 9.99, 10.0, 10.01, -9.99, -10.0, -50.0):
        found = sample.pull(torch.tensor([margin, 0.0], dtype=torch.float64).expand(len(SEEDS), N, 2))
        expected = -p2neurrank.pull(margin, 0.7)
        assert found.numpy() == pytest.approx(np.broadcast_to([expected, -expected], found.shape), abs=1e-12)
