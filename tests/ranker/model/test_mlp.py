"""Scores, gradients, tangents and initial parameters of the network, against the plain port; with
ranker.model.init=pytorch, against torch.nn.Linear and autograd."""

from __future__ import annotations

from itertools import pairwise, product
from math import sqrt

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from ol2r_cli.config.catalogue import config_dir
from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Preferences
from ol2r_cli.learning.model import Forward, Model
from ol2r_cli.learning.tangents import parameters
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.tensor.streams import Streams
from tests.networks import weights
from tests.reference import network
from tests.reference.network import flat
from tests.worlds import tiny

B, N, D, F = 2, 3, 5, 4
SHAPES = [("antisymmetric", 6), ("standard", 1), ("standard", 5), ("pytorch", 1), ("pytorch", 5)]  # init and width
TIES = {torch.float64: 1e-8, torch.float32: 1e-5}  # float64 scores are rounded to 29 bits


def documents(count: int, seed: int = 0, replicas: int = B, features: int = F, dtype=torch.float64) -> torch.Tensor:
    """Features between 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(replicas, count, features, generator=generator, dtype=torch.float64).to(dtype)


def started(model: MLP, features: int = F, members: int = N, seeds=(3, 7), dtype=torch.float64) -> torch.Tensor:
    """The model's own first parameters."""
    return model.initial(Streams(torch.tensor(list(seeds))).at("setup", 0), features, members).to(dtype)


def scores_by_torch(theta: torch.Tensor, x: torch.Tensor, width: int, layers: int) -> torch.Tensor:
    """The scores [D] by layers of torch with these parameters; a bias is the last entry of its unit's row."""
    for number, (inputs, outputs) in enumerate(pairwise([F, *[width] * layers, 1])):
        matrix, theta = theta.tensor_split([outputs * (inputs + 1)])
        unit = matrix.view(outputs, inputs + 1)
        x = torch.nn.functional.linear(x.relu() if number else x, unit[:, :-1], unit[:, -1])
    return x[:, 0]


def port(theta: torch.Tensor, x: torch.Tensor, init: str, width: int, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores [D] and their gradients [D P], of the paper's network or of that of torch."""
    if init == "pytorch":
        gradients = torch.func.jacrev(scores_by_torch)(theta, x, width, layers)
        return scores_by_torch(theta, x, width, layers).numpy(), gradients.numpy()
    layered = weights(theta.numpy(), F, width, layers)
    gradients = np.array([network.gradient(layered, row) for row in x.numpy()])
    return np.array(network.scores(layered, x.numpy())), gradients


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("init", "width"), SHAPES)
def test_scores_gradients_and_tangents_are_those_of_the_port(init, width, layers):
    """Away from the start, for every replica and member; `gradient` is of the weighted sum of the scores, and tangents
    are the gradients of the first member, of the paper's network over the root of the width."""
    model, x, others = MLP(width, layers, init), documents(D) - 0.2, documents(2, seed=5) - 0.2
    generator = torch.Generator().manual_seed(1)
    theta = started(model)
    theta += 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
    share = torch.randn(B, N, D, generator=generator, dtype=theta.dtype)
    forward = model.forward(theta, x)
    assert isinstance(model, Model)
    assert isinstance(forward, Forward)
    pairs = Preferences(
        torch.tensor([[0, 3], [4, 1]]), torch.tensor([[1, 2], [0, 2]]), torch.tensor([[True, False], [True, True]])
    )
    found, tangent = forward.gradient(share), forward.tangent()
    assert forward.tangent() is tangent
    assert theta.shape == found.shape == (B, N, model.size(F))
    assert parameters(tangent.layers) == model.size(F)
    for b, n in product(range(B), range(N)):
        scores, g = port(theta[b, n], x[b], init, width, layers)
        assert forward.scores[b, n].numpy() == pytest.approx(scores, rel=1e-7, abs=1e-7)
        assert found[b, n].numpy() == pytest.approx(share[b, n].numpy() @ g, abs=1e-11)
    for b in range(B):
        root = 1 if init == "pytorch" else sqrt(width)
        g, there = (port(theta[b, 0], rows[b], init, width, layers)[1] / root for rows in (x, others))
        assert tangent.dense()[b].numpy() == pytest.approx(g, abs=1e-12)
        assert tangent.at(others).dense()[b].numpy() == pytest.approx(there, abs=1e-12)
        expected = pairs.valid[b].numpy()[:, None] * (g[pairs.winner[b]] - g[pairs.loser[b]])
        assert tangent.differences(pairs)[b].numpy() == pytest.approx(expected, abs=1e-12)


WIDTHS = [(2, torch.float64), (6, torch.float64), (50, torch.float64), (50, torch.float32), (100, torch.float32)]


@pytest.mark.parametrize(("width", "dtype"), WIDTHS)
def test_an_antisymmetric_start_scores_everything_zero(width, dtype):
    """Up to rounding: whether the two halves of a matrix product are rounded alike depends on the processor."""
    scales = []
    for layers, features, count in product((1, 2, 3), (5, 136), (2, 9, 37, 120)):
        model, x = MLP(width, layers, "antisymmetric"), documents(count, features=features, dtype=dtype)
        theta = started(model, features, dtype=dtype)
        half = theta.clone()
        half[..., -width // 2 :] = 0  # the scores of the first half alone, as a scale
        scales += [float(model.forward(half, x).scores.abs().max())]
        assert float(model.forward(theta, x).scores.abs().max()) <= TIES[dtype] * scales[-1]
    assert any(scales), "a small network may be dead, but not every one is"


@pytest.mark.parametrize("init", ["antisymmetric", "standard", "pytorch"])
@pytest.mark.parametrize(("width", "dtype"), [WIDTHS[1], WIDTHS[2], WIDTHS[4]])
def test_equal_documents_tie_up_to_rounding(init, width, dtype):
    """Wherever in the list they stand. Whether the rows of a matrix product are rounded alike depends on the processor
    and the shape."""
    model = MLP(width, 2, init)
    for features, count in product((5, 136), (4, 9, 37, 120)):
        theta = started(model, features, dtype=dtype)
        theta += 0.1 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
        x = documents(count, features=features, dtype=dtype)
        x[:, ::2] = x[:, :1]
        scores = model.forward(theta, x).scores
        apart = (scores[..., ::2] - scores[..., :1]).abs().max()
        assert float(apart) <= TIES[dtype] * float(scores.abs().max())
        assert (scores[..., 1] != scores[..., 0]).any(), "a small network may be dead, but not every one is"


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("init", ["antisymmetric", "standard"])
def test_the_start_is_that_of_the_port(layers, init):
    """From the normal numbers drawn for a whole network: an antisymmetric one takes the upper left of every layer, and
    the standard one all of them, with the variances 2/m of hidden layers and 1/m of the last."""
    width, half = 6, 3
    theta, size = started(MLP(width, layers, init)), F * width + (layers - 1) * width**2 + width
    normal = Streams(torch.tensor([3, 7])).at("setup", 0).normal(N * size, "network").numpy().reshape(B, N, size)
    for b, n in product(range(B), range(N)):
        first, *inner, last = weights(normal[b, n], F, width, layers)
        expected = [*(layer * sqrt(2 / width) for layer in (first, *inner)), last / sqrt(width)]
        if init == "antisymmetric":
            expected = network.antisymmetric([first[:half], *(layer[:half, :half] for layer in inner), last[:half]])
        assert theta[b, n].numpy() == pytest.approx(flat(expected), abs=1e-15)


def test_the_start_of_pytorch_is_uniform():
    """Within one over the root of the inputs of a layer."""
    model = MLP(6, 2, "pytorch")
    uniform = Streams(torch.tensor([3, 7])).at("setup", 0).uniform(N * model.size(F), "network").view(B, N, -1)
    bound = torch.cat([torch.full((n * (m + 1),), m**-0.5) for m, n in pairwise([F, 6, 6, 1])])
    torch.testing.assert_close(started(model), (2 * uniform - 1) * bound, rtol=0, atol=1e-7)


def test_mlp1_is_mlp_with_one_hidden_layer():
    """In every setting but this, and with the same words about the others."""
    folder = config_dir() / "ranker" / "model"
    deep, shallow = (OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml")) for name in ("mlp", "mlp1"))
    assert deep.pop("hidden_layers") == 2
    assert shallow.pop("hidden_layers") == 1
    assert shallow == deep


def test_depth_by_default_is_that_of_the_papers():
    depths = {"olranknet": 1, "ollambdarank": 1, "p2neurrank": 2}
    assert {name: build(tiny(f"ranker={name}").ranker).model.hidden_layers for name in depths} == depths


def test_a_matrix_acts_on_the_features_of_every_member():
    """On all parameters of a linear score, and on W_1 of a network, but for its last column, biases."""
    direction, matrix = torch.rand(2, 3, F).double(), torch.rand(2, F, F).double()
    assert torch.equal(Linear().on_features(direction, matrix), direction @ matrix)
    for init in "standard", "pytorch":
        model = MLP(4, 1, init)
        direction, matrix = torch.rand(2, 3, model.size(F)), torch.rand(2, F, F)
        first, last = model.matrices(model.on_features(direction, matrix), F)
        before, unchanged = model.matrices(direction, F)
        torch.testing.assert_close(first[..., :F], before[..., :F] @ matrix[:, None])
        assert torch.equal(first[..., F:], before[..., F:])
        assert torch.equal(last, unchanged)
