"""ranker.model.init=pytorch: the network of torch.nn.Linear, its gradients by autograd, and its initial parameters."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.learning.tangents import layers_of, parameters, written_out
from ol2r_cli.ranker.model.mlp import MLP
from tests.ranker.model.test_mlp import B, D, F, N, documents, started
from tests.reference.authors_fit import Layer, gradient, scores

SHAPES = [(width, layers) for width in (1, 5, 6) for layers in (1, 2, 3)]


def unflat(theta: np.ndarray, width: int, layers: int, features: int = F) -> list[Layer]:
    """Weights and biases of every layer; a bias is the last entry of its unit's row."""
    parts = []
    for inputs, outputs in pairwise([features, *[width] * layers, 1]):
        matrix, theta = np.split(theta, [outputs * (inputs + 1)])
        matrix = matrix.reshape(outputs, inputs + 1)
        parts.append((matrix[:, :-1].copy(), matrix[:, -1].copy()))
    assert not len(theta)
    return parts


def flat(parts: list[Layer]) -> np.ndarray:
    """The inverse of `unflat`."""
    return np.concatenate([np.hstack([weight, bias[:, None]]).ravel() for weight, bias in parts])


def test_scores_gradients_and_tangents_are_those_of_pytorch():
    """For every replica and member; phi is the gradient itself, without a factor 1/sqrt(m)."""
    for width, layers in SHAPES:
        model, x, others = MLP(width, layers, "pytorch"), documents(D) - 0.5, documents(2, seed=5) - 0.5
        generator = torch.Generator().manual_seed(1)
        theta = started(model)
        theta += 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        share = torch.randn(B, N, D, generator=generator, dtype=theta.dtype)
        forward = model.forward(theta, x)
        assert isinstance(model, Model), (width, layers)
        assert isinstance(forward, Forward), (width, layers)
        assert model.width == 1, (width, layers)
        pairs = Preferences(
            torch.tensor([[0, 3], [4, 1]]), torch.tensor([[1, 2], [0, 2]]), torch.tensor([[True, False], [True, True]])
        )
        found, tangent = forward.gradient(share), forward.tangent()
        assert forward.tangent() is tangent, (width, layers)
        dense, differences, elsewhere = tangent.dense(), tangent.differences(pairs), tangent.at(others).dense()
        assert theta.shape == found.shape == (B, N, model.size(F)), (width, layers)
        assert dense.shape == (B, D, model.size(F)), (width, layers)
        assert parameters(layers_of(tangent.factors)) == model.size(F), (width, layers)
        assert torch.equal(written_out(layers_of(tangent.factors)), dense), (width, layers)
        for b in range(B):
            for n in range(N):
                network = unflat(theta[b, n].numpy(), width, layers)
                assert forward.scores[b, n].tolist() == pytest.approx(
                    scores(network, x[b].numpy()), rel=1e-7, abs=1e-7
                ), (width, layers)
                g = np.array([flat(gradient(network, row)) for row in x[b].numpy()])
                assert found[b, n].numpy() == pytest.approx(share[b, n].numpy() @ g, abs=1e-11), (width, layers)
                if n == 0:
                    assert dense[b].numpy() == pytest.approx(g, abs=1e-12), (width, layers)
                    there = [flat(gradient(network, row)) for row in others[b].numpy()]
                    assert elsewhere[b].numpy() == pytest.approx(np.array(there), abs=1e-12), (width, layers)
                    for m in range(2):
                        won, lost = int(pairs.winner[b, m]), int(pairs.loser[b, m])
                        expected = float(pairs.valid[b, m]) * (g[won] - g[lost])
                        assert differences[b, m].numpy() == pytest.approx(expected, abs=1e-12), (width, layers)


def test_first_parameters_are_uniform_within_one_over_the_root_of_the_inputs():
    """Mean and variance within 4 standard errors, and nothing outside; so are those of torch.nn.Linear itself."""
    width, features, members = 40, 30, 20
    theta = started(MLP(width, 2, "pytorch"), features, members).flatten(0, 1).numpy()
    networks = [unflat(row, width, 2, features) for row in theta]
    for number, (inputs, outputs) in enumerate(pairwise([features, width, width, 1])):
        for kind in range(2):
            theirs = [torch.nn.Linear(inputs, outputs) for _ in range(len(networks))]
            own = np.concatenate([network[number][kind].ravel() for network in networks])
            for drawn in own, torch.cat([list(each.parameters())[kind].flatten() for each in theirs]).detach().numpy():
                most = 1 / sqrt(inputs)
                assert np.abs(drawn).max() <= most * (1 + 1e-6)
                assert abs(drawn.mean()) < 4 * most / sqrt(3 * len(drawn))
                assert abs((drawn**2).mean() / (most**2 / 3) - 1) < 4 * sqrt(0.8 / len(drawn))
