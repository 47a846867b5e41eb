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
from tests.reference import authors_fit, network
from tests.reference.authors_fit import Layer
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


class Port:
    """A network with these parameters: the paper's, or with `pytorch` that of torch.nn.Linear, whose gradient is taken
    as it is, without a factor 1/sqrt(m) in tangents."""

    def __init__(self, theta: np.ndarray, init: str, width: int, layers: int):
        self.biased = init == "pytorch"
        self.root = 1.0 if self.biased else sqrt(width)
        self.network = with_biases(theta, width, layers) if self.biased else weights(theta, F, width, layers)

    def scores(self, x: np.ndarray) -> list[float]:
        return authors_fit.scores(self.network, x) if self.biased else network.scores(self.network, x)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """[D, P]"""
        if self.biased:
            return np.array([in_one_row(authors_fit.gradient(self.network, row)) for row in x])
        return np.array([network.gradient(self.network, row) for row in x])


def with_biases(theta: np.ndarray, width: int, layers: int, features: int = F) -> list[Layer]:
    """Weights and biases of every layer; a bias is the last entry of its unit's row."""
    parts = []
    for inputs, outputs in pairwise([features, *[width] * layers, 1]):
        matrix, theta = np.split(theta, [outputs * (inputs + 1)])
        matrix = matrix.reshape(outputs, inputs + 1)
        parts.append((matrix[:, :-1].copy(), matrix[:, -1].copy()))
    assert not len(theta)
    return parts


def in_one_row(parts: list[Layer]) -> np.ndarray:
    """The inverse of `with_biases`."""
    return np.concatenate([np.hstack([weight, bias[:, None]]).ravel() for weight, bias in parts])


def test_scores_gradients_and_tangents_are_those_of_the_port():
    """Away from the start, for every replica and member; `gradient` is of the weighted sum of the scores, and tangents
    are the gradients of the first member over the root of the width."""
    for (init, width), layers in product(SHAPES, (1, 2, 3)):
        case = f"{init}, {layers} layers of {width}"
        model, x, others = MLP(width, layers, init), documents(D) - 0.2, documents(2, seed=5) - 0.2
        generator = torch.Generator().manual_seed(1)
        theta = started(model)
        theta += 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        share = torch.randn(B, N, D, generator=generator, dtype=theta.dtype)
        forward = model.forward(theta, x)
        assert isinstance(model, Model), case
        assert isinstance(forward, Forward), case
        pairs = Preferences(
            torch.tensor([[0, 3], [4, 1]]), torch.tensor([[1, 2], [0, 2]]), torch.tensor([[True, False], [True, True]])
        )
        found, tangent = forward.gradient(share), forward.tangent()
        assert forward.tangent() is tangent, case
        assert theta.shape == found.shape == (B, N, model.size(F)), case
        dense, differences, elsewhere = tangent.dense(), tangent.differences(pairs), tangent.at(others).dense()
        assert parameters(tangent.layers) == model.size(F), case
        for b, n in product(range(B), range(N)):
            port = Port(theta[b, n].numpy(), init, width, layers)
            assert forward.scores[b, n].tolist() == pytest.approx(port.scores(x[b].numpy()), rel=1e-7, abs=1e-7), case
            g = port.gradients(x[b].numpy())
            assert found[b, n].numpy() == pytest.approx(share[b, n].numpy() @ g, abs=1e-11), case
            if n == 0:
                g = g / port.root
                there = port.gradients(others[b].numpy()) / port.root
                assert dense[b].numpy() == pytest.approx(g, abs=1e-12), case
                assert elsewhere[b].numpy() == pytest.approx(there, abs=1e-12), case
                expected = pairs.valid[b].numpy()[:, None] * (g[pairs.winner[b]] - g[pairs.loser[b]])
                assert differences[b].numpy() == pytest.approx(expected, abs=1e-12), case


@pytest.mark.parametrize(
    ("width", "dtype"),
    [
        (2, torch.float64),
        (6, torch.float64),
        (50, torch.float64),
        (50, torch.float32),
        (100, torch.float32),
    ],
)
def test_an_antisymmetric_start_scores_everything_zero(width, dtype):
    """An antisymmetric start scores everything zero up to rounding.

    Whether the two halves of a matrix product are rounded alike depends on the processor.
    """
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


@pytest.mark.parametrize("init", ["antisymmetric", "standard", "pytorch"])
def test_equal_documents_tie_up_to_rounding(init):
    """Wherever in the list they stand. Whether the rows of a matrix product are rounded alike depends on the processor
    and the shape."""
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


@pytest.mark.parametrize(("layers", "init"), [*product([1, 2, 3], ["antisymmetric", "standard"])])
def test_the_start_is_that_of_the_port(layers, init):
    """From the normal numbers drawn for a whole network: an antisymmetric one takes the upper left of every layer, and
    the standard one all of them, with the variances 2/m of hidden layers and 1/m of the last."""
    width, half = 6, 3
    theta, size = started(MLP(width, layers, init)), F * width + (layers - 1) * width**2 + width
    normal = Streams(torch.tensor([3, 7])).at("setup", 0).normal(N * size, "network").numpy().reshape(B, N, size)
    for b, n in product(range(B), range(N)):
        first, *inner, last = weights(normal[b, n], F, width, layers)
        expected = flat([*(layer * sqrt(2 / width) for layer in (first, *inner)), last / sqrt(width)])
        if init == "antisymmetric":
            halves = [first[:half], *(layer[:half, :half] for layer in inner), last[:half]]
            expected = flat(network.antisymmetric(halves))
        assert theta[b, n].numpy() == pytest.approx(expected, abs=1e-15), (init, layers)


def test_the_start_of_pytorch_is_uniform():
    """Within one over the root of the inputs of a layer."""
    model = MLP(6, 2, "pytorch")
    uniform = Streams(torch.tensor([3, 7])).at("setup", 0).uniform(N * model.size(F), "network").numpy()
    for b, n in product(range(B), range(N)):
        parts = with_biases(2 * uniform.reshape(B, N, -1)[b, n] - 1, 6, 2)
        expected = in_one_row(
            [(weight / sqrt(weight.shape[1]), bias / sqrt(weight.shape[1])) for weight, bias in parts]
        )
        assert started(model)[b, n].numpy() == pytest.approx(expected, abs=1e-15)


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
