"""The linear model: theta.x from theta = 0, whose gradient is x."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.ranker.model.linear import Linear


def test_scores_gradients_and_tangents_are_those_of_theta_x():
    generator = torch.Generator().manual_seed(0)
    theta, x, share = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in [(2, 3, 4), (2, 5, 4), (2, 3, 5)]
    )
    model = Linear()
    forward = model.forward(theta, x)
    assert isinstance(model, Model)
    assert isinstance(forward, Forward)
    assert forward.scores.numpy() == pytest.approx(np.einsum("bnf,bdf->bnd", theta, x), abs=1e-14)
    assert forward.gradient(share).numpy() == pytest.approx(np.einsum("bnd,bdf->bnf", share, x), abs=1e-14)
    assert torch.equal(forward.tangent().dense(), x)
    won, lost, valid = torch.tensor([[0], [4]]), torch.tensor([[3], [1]]), torch.tensor([[True], [False]])
    found = forward.tangent().differences(Preferences(won, lost, valid))
    assert torch.equal(found, torch.stack([x[0, :1] - x[0, 3:4], torch.zeros(1, 4, dtype=torch.float64)]))


def test_it_starts_at_zero_with_a_weight_for_every_feature():
    model = Linear()
    assert model.size(7) == 7
    assert torch.equal(model.initial(None, 7, 2), torch.zeros(2, 7, dtype=torch.float64))
    assert model.width == 1, "learning rates of networks are divided by the width"
