"""The optimiser of the offline network, and where it starts."""

from __future__ import annotations

import torch

from ol2r_cli.learning.network_fit import Adam, NetworkFit
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.tensor.streams import Streams
from tests.worlds import handmade


def test_steps_are_those_of_adam():
    """Against torch.optim, with gradients of very different sizes."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(7, generator=generator).double()
    expected = torch.nn.Parameter(theta.clone())
    optimiser = torch.optim.Adam([expected], lr=0.01, betas=(Adam.MEAN, Adam.SQUARE), eps=Adam.LEAST)
    adam = Adam(theta)
    for _ in range(50):
        gradient = torch.randn(7, generator=generator).double() * 10.0 ** torch.arange(-6, 1)
        theta -= 0.01 * adam(gradient)
        expected.grad = gradient
        optimiser.step()
        torch.testing.assert_close(theta, expected.detach(), rtol=1e-9, atol=1e-12)


def test_the_fit_starts_from_the_initial_network_of_its_seed():
    world, model = handmade([[4, 0, 1], [0, 3]]), MLP(width=8, hidden_layers=1, init="standard")
    fit = NetworkFit("lambdarank", 0.01, batch=2, epochs=0, patience=1, seed=5)
    initial = model.initial(Streams(torch.tensor([5])).at("offline", 0), 4, 1)
    assert torch.equal(fit(model, world.features, world.oracle()), initial.flatten().to(model.dtype))
