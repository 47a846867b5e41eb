"""Relevance regression on clicks over exposure, round by round against the plain ports, for both models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Exposure
from tests.networks import NETWORK, WIDTH, weights
from tests.reference import network
from tests.reference.fairco import gradient
from tests.rounds import LISTS, SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

L2 = 0.3
EXPOSED = [1.0, 0.6, 0.5, 0.25, 0.2]


def regression(*overrides: str, total: int = 40, exposed=EXPOSED, **more):
    """A simulation with the regression, where a place is worth what `exposed` says; None: there are no groups."""
    config = tiny("ranker=ips_regression", "click=informational", "positions=5", f"ranker.l2={L2}", *overrides)
    exposure = exposed and Exposure(torch.tensor(exposed, dtype=torch.float64), 1.0)
    return simulate(config, SEEDS, total, handmade(LISTS), exposure=exposure, regret=False, **more)


def shown(here, exposed):
    """Features, clicks and propensities of the documents that a replica was shown."""
    return here.features[here.ranking], here.clicks, exposed[: len(here.clicks)]


@pytest.mark.parametrize(
    ("exposed", "expected", "exploration"),
    [
        (EXPOSED, EXPOSED, "epsilon_greedy"),
        (None, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], "none"),
    ],
)
def test_a_linear_score_is_the_optimum_after_every_round(exposed, expected, exploration):
    """Where the port's gradient over all that was shown, with that of l2 |theta|^2, is zero: the loss is convex."""
    simulation = regression(f"exploration={exploration}", exposed=exposed)
    history, clicked = [[] for _ in SEEDS], 0
    for t, one in rounds(simulation):
        for b, here in replicas(one):
            assert not here.pairs
            history[b].append(shown(here, expected))
            theta = simulation.ranker.deploy()[b].numpy()
            slope = sum(gradient(theta, *some) for some in history[b]) + 2 * L2 * theta
            assert slope == pytest.approx(0, abs=1e-9), (t, b)
            clicked += sum(here.clicks)
    assert clicked > 40


def slope(theta, seen):
    """Of the port's loss over some documents, halved: the sum of (r - c/p) times the gradient of r."""
    layers = weights(theta)
    return sum((network.score(layers, x) - c / p) * network.gradient(layers, x) for x, c, p in seen)


@pytest.mark.parametrize(("batch", "steps", "rate"), [(None, 2, 0.05), (3, 2, 0.2)])
def test_a_network_takes_steps_down_the_same_objective(batch, steps, rate):
    """theta moves by learning_rate/m times the mean slope of the loss, of all n documents so far or of a batch of them,
    document floor(u n) each, and of m l2/2 |theta - theta_0|^2 where a step ends, over n."""
    settings = f"ranker.learning_rate={rate}", f"ranker.batch={batch or 'null'}", f"ranker.steps={steps}"
    simulation = regression("ranker/model=mlp", *NETWORK, *settings, total=12)
    start = simulation.ranker.deploy().numpy().copy()
    theta, history = start.copy(), [[] for _ in SEEDS]
    for t, one in rounds(simulation):
        chance = fresh().at("learn/ranker", t).uniform(steps * (batch or 1), "batch").unflatten(1, (steps, -1))
        for b, here in replicas(one):
            seen = history[b]
            seen += zip(*shown(here, EXPOSED), strict=True)
            for numbers in chance[b].tolist():
                drawn = [seen[int(u * len(seen))] for u in numbers] if batch else seen
                moved = theta[b] - start[b] - rate / WIDTH * slope(theta[b], drawn) / len(drawn)
                theta[b] = start[b] + moved / (1 + rate * L2 / len(seen))
            found = simulation.ranker.deploy()[b].numpy()
            assert found == pytest.approx(theta[b], abs=1e-7), f"round {t}, replica {b}"
    assert np.abs(theta - start).max() > 0.01


def test_a_place_without_exposure_is_refused_where_it_is_shown():
    message = r"^exposure must be above 0 at every rank with ranker=ips_regression, got \[1"
    with pytest.raises(ValueError, match=message):
        regression(exposed=[1.0, 0.5, 0.2, 0.1, 0.0])
    regression("positions=4", exposed=[1.0, 0.5, 0.2, 0.1, 0.0])
