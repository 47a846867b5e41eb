"""Scores, gradients, tangents and first parameters of the models, against the plain network."""

from __future__ import annotations

import re
from math import sqrt

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.random import Streams
from ol2r_cli.ranker.model.mlp import MLP
from tests.networks import weights
from tests.reference.network import antisymmetric, flat, gradient, pair_gradient, scores

B, N, D, F = 2, 3, 5, 4
SHAPES = [
    (init, width, layers)
    for init, width in [("antisymmetric", 2), ("antisymmetric", 6), ("standard", 1), ("standard", 5), ("standard", 6)]
    for layers in (1, 2, 3)
]


def documents(count: int, seed: int = 0, replicas: int = B, features: int = F, dtype=torch.float64) -> torch.Tensor:
    """Features between 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(replicas, count, features, generator=generator, dtype=torch.float64).to(dtype)


def started(model: MLP, features: int = F, members: int = N, seeds=(3, 7), dtype=torch.float64) -> torch.Tensor:
    """The model's own first parameters."""
    return model.initial(Streams(torch.tensor(list(seeds))).at("setup", 0), features, members).to(dtype)


@pytest.mark.parametrize(("init", "width", "layers"), SHAPES)
@pytest.mark.parametrize("moved", [0.0, 0.3])
def test_scores_and_gradients_are_those_of_the_port(init, width, layers, moved):
    """At the start and away from it, for every replica and member; `gradient` is of the weighted sum of the scores."""
    model, x = MLP(width, layers, init), documents(D)
    generator = torch.Generator().manual_seed(1)
    theta = started(model)
    theta += moved * torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
    share = torch.randn(B, N, D, generator=generator, dtype=theta.dtype)
    forward = model.forward(theta, x)
    assert isinstance(model, Model)
    assert isinstance(forward, Forward)
    found = forward.gradient(share)
    assert theta.shape == found.shape == (B, N, model.size(F))
    for b in range(B):
        for n in range(N):
            network = weights(theta[b, n].numpy(), F, width, layers)
            assert forward.scores[b, n].tolist() == pytest.approx(scores(network, x[b].numpy()), rel=1e-7, abs=1e-7)
            expected = sum(float(share[b, n, d]) * gradient(network, x[b, d].numpy()) for d in range(D))
            assert found[b, n].numpy() == pytest.approx(expected, abs=1e-11)
            assert flat(network) == pytest.approx(theta[b, n].numpy(), abs=0), "the same order of parameters"


@pytest.mark.parametrize(("init", "width", "layers"), SHAPES)
def test_tangents_are_the_gradients_of_the_first_member_over_the_root_of_the_width(init, width, layers):
    model, x, others = MLP(width, layers, init), documents(D), documents(2, seed=5)
    theta = started(model)
    forward = model.forward(theta, x)
    tangent = forward.tangent()
    assert forward.tangent() is tangent
    preferences = Preferences(
        torch.tensor([[0, 3], [4, 1]]), torch.tensor([[1, 2], [0, 2]]), torch.tensor([[True, False], [True, True]])
    )
    found, elsewhere = tangent.differences(preferences), tangent.at(others).dense()
    for b in range(B):
        network, root = weights(theta[b, 0].numpy(), F, width, layers), sqrt(width)
        for table, dense in ((x, tangent.dense()), (others, elsewhere)):
            expected = [gradient(network, row) / root for row in table[b].numpy()]
            assert dense[b].numpy() == pytest.approx(np.array(expected), abs=1e-12)
        for m in range(2):
            won, lost = (x[b, side[b, m]].numpy() for side in (preferences.winner, preferences.loser))
            expected = float(preferences.valid[b, m]) * pair_gradient(network, won, lost) / root
            assert found[b, m].numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    ("width", "dtype"),
    [(2, torch.float64), (6, torch.float64), (50, torch.float64), (20, torch.float32), (100, torch.float32)],
)
def test_an_antisymmetric_start_scores_everything_exactly_zero(width, layers, dtype):
    """In float32 where half the width is even: the matrix product treats both halves alike."""
    for features in (5, 46, 136):
        theta = started(MLP(width, layers, "antisymmetric"), features, dtype=dtype)
        assert theta.any()
        for count in (2, 3, 9, 37, 120):
            x = documents(count, features=features, dtype=dtype)
            assert not MLP(width, layers, "antisymmetric").forward(theta, x).scores.any()


@pytest.mark.parametrize("init", ["antisymmetric", "standard"])
@pytest.mark.parametrize(
    ("width", "dtype"), [(6, torch.float64), (50, torch.float64), (20, torch.float32), (100, torch.float32)]
)
def test_equal_documents_tie_to_the_last_bit(init, width, dtype):
    """Wherever in the list they stand. Products of float32 matrices of two or three rows are added up otherwise."""
    model = MLP(width, 2, init)
    for features in (5, 46, 136):
        theta = started(model, features, dtype=dtype)
        theta += 0.1 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
        for count in (4, 9, 14, 37, 120):
            x = documents(count, features=features, dtype=dtype)
            x[:, ::2] = x[:, :1]
            found = model.forward(theta, x).scores
            assert torch.equal(found[..., ::2], found[..., :1].expand_as(found[..., ::2]))
            assert (found[..., 1] != found[..., 0]).any(), "a small network may be dead, but not every one is"


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_antisymmetric_start_is_that_of_the_port(layers):
    """From the numbers drawn for a whole network, of which it takes the upper left of every layer."""
    width, half = 6, 3
    theta, size = started(MLP(width, layers, "antisymmetric")), F * width + (layers - 1) * width**2 + width
    normal = Streams(torch.tensor([3, 7])).at("setup", 0).normal(N * size, "network").numpy().reshape(B, N, size)
    for b in range(B):
        for n in range(N):
            first, *inner, last = weights(normal[b, n], F, width, layers)
            halves = [first[:half], *(layer[:half, :half] for layer in inner), last[:half]]
            assert theta[b, n].numpy() == pytest.approx(flat(antisymmetric(halves)), abs=1e-15)


@pytest.mark.parametrize(("init", "hidden", "last"), [("antisymmetric", 4, 2), ("standard", 2, 1)])
def test_first_parameters_are_normal_with_the_stated_variances(init, hidden, last):
    """Over the width; within 4 standard errors, both halves of an antisymmetric network being one draw."""
    width, features, members = 40, 30, 20
    theta = started(MLP(width, 2, init), features, members)
    parts = theta.split([features * width, width**2, width], dim=-1)
    for part, variance in zip(parts, (hidden / width, hidden / width, last / width), strict=True):
        drawn = part[part != 0]
        independent = len(drawn) / (2 if init == "antisymmetric" else 1)
        assert abs(float(drawn.mean())) < 4 * (variance / independent) ** 0.5
        assert abs(float(drawn.square().mean()) / variance - 1) < 4 * (2 / independent) ** 0.5
    across = parts[1].unflatten(-1, (width, width))[..., : width // 2, width // 2 :]
    assert bool(across.any()) == (init == "standard")


@pytest.mark.parametrize("init", ["antisymmetric", "standard"])
def test_every_member_and_seed_has_a_network_of_its_own_whatever_is_beside_it(init):
    model = MLP(6, 2, init)
    together = started(model, members=3, seeds=(3, 7, 11))
    assert len({tuple(row) for row in together.flatten(0, 1).tolist()}) == 9
    assert torch.equal(started(model, members=3, seeds=(7,))[0], together[1])
    assert torch.equal(started(model, members=1, seeds=(11, 3))[:, 0], together[[2, 0], 0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 2, "standard"), "ranker.model.width must be 1 or more, got 0"),
        ((4, 0, "standard"), "ranker.model.hidden_layers must be 1 or more, got 0"),
        ((4, 2, "zero"), "ranker.model.init must be 'antisymmetric' or 'standard', got 'zero'"),
        ((5, 2, "antisymmetric"), "ranker.model.width must be even with init=antisymmetric, got 5"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        MLP(*settings)
