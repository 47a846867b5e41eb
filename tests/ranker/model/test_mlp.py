"""Scores, gradients, tangents and initial parameters of the network, against the plain port."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.tensor.streams import Streams
from tests.networks import weights
from tests.reference.network import antisymmetric, flat, gradient, pair_gradient, scores
from tests.worlds import tiny

B, N, D, F = 2, 3, 5, 4
SHAPES = [
    (init, width, layers)
    for init, width in [("antisymmetric", 6), ("standard", 1), ("standard", 5)]
    for layers in (1, 2, 3)
]
TIES = {torch.float64: 1e-8, torch.float32: 1e-5}  # float64 scores are rounded to 29 bits


def documents(count: int, seed: int = 0, replicas: int = B, features: int = F, dtype=torch.float64) -> torch.Tensor:
    """Features between 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(replicas, count, features, generator=generator, dtype=torch.float64).to(dtype)


def started(model: MLP, features: int = F, members: int = N, seeds=(3, 7), dtype=torch.float64) -> torch.Tensor:
    """The model's own first parameters."""
    return model.initial(Streams(torch.tensor(list(seeds))).at("setup", 0), features, members).to(dtype)


def test_scores_and_gradients_are_those_of_the_port():
    """Away from the start, for every replica and member; `gradient` is of the weighted sum of the scores."""
    for init, width, layers in SHAPES:
        model, x = MLP(width, layers, init), documents(D)
        generator = torch.Generator().manual_seed(1)
        theta = started(model)
        theta += 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        share = torch.randn(B, N, D, generator=generator, dtype=theta.dtype)
        forward = model.forward(theta, x)
        assert isinstance(model, Model), (init, width, layers)
        assert isinstance(forward, Forward), (init, width, layers)
        found = forward.gradient(share)
        assert theta.shape == found.shape == (B, N, model.size(F)), (init, width, layers)
        for b in range(B):
            for n in range(N):
                network = weights(theta[b, n].numpy(), F, width, layers)
                assert forward.scores[b, n].tolist() == pytest.approx(
                    scores(network, x[b].numpy()), rel=1e-7, abs=1e-7
                ), (init, width, layers)
                expected = sum(float(share[b, n, d]) * gradient(network, x[b, d].numpy()) for d in range(D))
                assert found[b, n].numpy() == pytest.approx(expected, abs=1e-11), (init, width, layers)
                assert flat(network) == pytest.approx(theta[b, n].numpy(), abs=0), "the same order of parameters"


def test_tangents_are_the_gradients_of_the_first_member_over_the_root_of_the_width():
    for init, width, layers in SHAPES:
        model, x, others = MLP(width, layers, init), documents(D), documents(2, seed=5)
        theta = started(model)
        forward = model.forward(theta, x)
        tangent = forward.tangent()
        assert forward.tangent() is tangent, (init, width, layers)
        preferences = Preferences(
            torch.tensor([[0, 3], [4, 1]]), torch.tensor([[1, 2], [0, 2]]), torch.tensor([[True, False], [True, True]])
        )
        found, elsewhere = tangent.differences(preferences), tangent.at(others).dense()
        for b in range(B):
            network, root = weights(theta[b, 0].numpy(), F, width, layers), sqrt(width)
            for table, dense in ((x, tangent.dense()), (others, elsewhere)):
                expected = [gradient(network, row) / root for row in table[b].numpy()]
                assert dense[b].numpy() == pytest.approx(np.array(expected), abs=1e-12), (init, width, layers)
            for m in range(2):
                won, lost = (x[b, side[b, m]].numpy() for side in (preferences.winner, preferences.loser))
                expected = float(preferences.valid[b, m]) * pair_gradient(network, won, lost) / root
                assert found[b, m].numpy() == pytest.approx(expected, abs=1e-12), (init, width, layers)


def test_an_antisymmetric_start_scores_everything_zero_up_to_rounding():
    """Whether the two halves of a matrix product are rounded alike depends on the processor."""
    for width, dtype in [
        (2, torch.float64),
        (6, torch.float64),
        (50, torch.float64),
        (50, torch.float32),
        (100, torch.float32),
    ]:
        alive = False
        for layers, features in product((1, 2, 3), (5, 136)):
            model = MLP(width, layers, "antisymmetric")
            theta = started(model, features, dtype=dtype)
            half = theta.clone()
            half[..., -width // 2 :] = 0  # the scores of the first half alone, as a scale
            for count in (2, 9, 37, 120):
                x = documents(count, features=features, dtype=dtype)
                scale = float(model.forward(half, x).scores.abs().max())
                assert float(model.forward(theta, x).scores.abs().max()) <= TIES[dtype] * scale, (width, dtype)
                alive |= scale > 0
        assert alive, "a small network may be dead, but not every one is"


def test_equal_documents_tie_up_to_rounding():
    """Wherever in the list they stand. Whether the rows of a matrix product are rounded alike depends on the processor
    and the shape."""
    for init in ["antisymmetric", "standard", "pytorch"]:
        for width, dtype in [(6, torch.float64), (50, torch.float64), (100, torch.float32)]:
            model = MLP(width, 2, init)
            for features in (5, 136):
                theta = started(model, features, dtype=dtype)
                theta += 0.1 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
                for count in (4, 9, 37, 120):
                    x = documents(count, features=features, dtype=dtype)
                    x[:, ::2] = x[:, :1]
                    scores = model.forward(theta, x).scores
                    apart = (scores[..., ::2] - scores[..., :1]).abs().max()
                    assert float(apart) <= TIES[dtype] * float(scores.abs().max()), (init, width, dtype)
                    assert (scores[..., 1] != scores[..., 0]).any(), "a small network may be dead, but not every one is"


def test_the_antisymmetric_start_is_that_of_the_port():
    """From the numbers drawn for a whole network, of which it takes the upper left of every layer."""
    for layers in [1, 2, 3]:
        width, half = 6, 3
        theta, size = started(MLP(width, layers, "antisymmetric")), F * width + (layers - 1) * width**2 + width
        normal = Streams(torch.tensor([3, 7])).at("setup", 0).normal(N * size, "network").numpy().reshape(B, N, size)
        for b in range(B):
            for n in range(N):
                first, *inner, last = weights(normal[b, n], F, width, layers)
                halves = [first[:half], *(layer[:half, :half] for layer in inner), last[:half]]
                assert theta[b, n].numpy() == pytest.approx(flat(antisymmetric(halves)), abs=1e-15), layers


def test_first_parameters_are_normal_with_the_stated_variances():
    """Over the width; within 4 standard errors, both halves of an antisymmetric network being one draw."""
    for init, hidden, last in [("antisymmetric", 4, 2), ("standard", 2, 1)]:
        width, features, members = 40, 30, 20
        theta = started(MLP(width, 2, init), features, members)
        parts = theta.split([features * width, width**2, width], dim=-1)
        for part, variance in zip(parts, (hidden / width, hidden / width, last / width), strict=True):
            drawn = part[part != 0]
            independent = len(drawn) / (2 if init == "antisymmetric" else 1)
            assert abs(float(drawn.mean())) < 4 * (variance / independent) ** 0.5, (init, hidden, last)
            assert abs(float(drawn.square().mean()) / variance - 1) < 4 * (2 / independent) ** 0.5, (init, hidden, last)
        across = parts[1].unflatten(-1, (width, width))[..., : width // 2, width // 2 :]
        assert bool(across.any()) == (init == "standard"), (init, hidden, last)


def test_every_member_and_seed_has_a_network_of_its_own_whatever_is_beside_it():
    for init in ["antisymmetric", "standard", "pytorch"]:
        model = MLP(6, 2, init)
        together = started(model, members=3, seeds=(3, 7, 11))
        assert len({tuple(row) for row in together.flatten(0, 1).tolist()}) == 9, init
        assert torch.equal(started(model, members=3, seeds=(7,))[0], together[1]), init
        assert torch.equal(started(model, members=1, seeds=(11, 3))[:, 0], together[[2, 0], 0]), init


def test_mlp1_is_mlp_with_one_hidden_layer():
    """In every setting but this, and with the same words about the others."""
    folder = config_dir() / "ranker" / "model"
    deep, shallow = (OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml")) for name in ("mlp", "mlp1"))
    assert deep.pop("hidden_layers") == 2
    assert shallow.pop("hidden_layers") == 1
    assert shallow == deep


def test_depth_by_default_is_that_of_the_papers():
    for ranker, layers in [("olranknet", 1), ("ollambdarank", 1), ("p2neurrank", 2)]:
        assert build(tiny(f"ranker={ranker}").ranker).model.hidden_layers == layers, (ranker, layers)
