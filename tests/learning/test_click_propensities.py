"""alpha and beta by expectation maximisation: what they converge to, and that rounding does no harm."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.counterfactual import CURVES, ClickEM
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.tensor.streams import Streams
from tests.worlds import simulate, tiny

CLICKED, NOT = 1, 0


def made(rounds: int, features: torch.Tensor, **settings) -> ClickEM:
    em = ClickEM(**{"iterations": 1, "steps": 1, "learning_rate": 0.05, "batch": 64, **settings})
    context = RunContext(1, 50, features.shape[1], 3, queries=1, rounds=rounds, grades=2)
    em.setup(context, features)
    return em


def test_clicks_by_place_are_explained():
    """Where the relevant are always clicked at the first place, as the start has it; otherwise r has another scale."""
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(50, 2, generator=generator)
    relevance = torch.sigmoid(features.double() @ torch.tensor([2.0, -1.0], dtype=torch.float64))
    alpha, beta = torch.tensor([0.7, 0.4, 0.2], dtype=torch.float64), torch.tensor([0.3, 0.1, 0.05])
    rounds = 4000
    em = made(rounds, features, iterations=150, steps=5)
    document = torch.rand(rounds, 50, generator=generator).topk(3, dim=1).indices
    clicked = torch.rand(rounds, 3, generator=generator) < alpha * relevance[document] + beta
    em.document[0, :rounds], em.outcome[0, :rounds] = document.int(), clicked.to(torch.int8)
    em.count += rounds
    em.estimate(Linear(), Streams(torch.tensor([0])).at("learn/ranker", rounds - 1))
    found, other = em.propensity[0].unbind(1)
    estimated = torch.sigmoid(em.relevance[0, 0] @ em.features.mT)
    assert (found / found[0]).tolist() == pytest.approx((alpha / alpha[0]).tolist(), abs=0.1)
    explained = found[:, None] * estimated + other[:, None]
    assert (explained - alpha[:, None] * relevance - beta[:, None]).abs().max() < 0.05


def test_a_place_without_a_click_is_not_given_up():
    """alpha = beta = 0 would explain any later click by nothing."""
    em = made(40, torch.zeros(50, 2), iterations=3)
    em.outcome[0, :20] = torch.tensor([CLICKED, NOT, -1])
    em.count += 20
    em.estimate(Linear(), Streams(torch.tensor([0])).at("learn/ranker", 19))
    alpha, beta = em.propensity[0].unbind(1)
    assert (alpha + beta > 0).all()
    assert (beta > 0).all()
    assert [float(alpha[2]), float(beta[2])] == pytest.approx([1 / 4, 1 / 4]), "it was never shown"


def test_rounding_of_certain_clicks_does_no_harm():
    """At the first place P(click | relevant) starts at 1; alpha + beta may be more than that in the last bit."""
    em = made(1, torch.zeros(50, 2))
    em.propensity[0, 0] = torch.tensor([0.7 + 3e-16, 0.3], dtype=torch.float64)
    assert float(em.propensity[0, 0].sum()) > 1
    prior = torch.ones(1, 1, 3, dtype=torch.float64)
    found = em._posterior(prior, torch.full((1, 1, 3), NOT, dtype=torch.int8))
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("user", CURVES)
def test_the_curves_are_those_of_the_users(user):
    """P(click) of every grade and place, as the click model has it."""
    model = simulate(tiny(f"click={user}"), [0], 1).click
    for place, clicks in enumerate(model.probability):
        alpha, beta = CURVES[user](place + 1)
        assert (alpha * model.click_probability + beta).tolist() == pytest.approx(clicks.tolist(), abs=1e-12)
