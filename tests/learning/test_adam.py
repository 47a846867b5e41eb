"""The optimiser against that of PyTorch."""

from __future__ import annotations

import torch

from ol2r_cli.learning.refit import Adam


def test_steps_are_those_of_adam():
    """Against torch.optim, with gradients of very different sizes: from far below to far above epsilon."""
    for epsilon in [1e-8, 1e-12]:
        generator = torch.Generator().manual_seed(0)
        theta = torch.randn(11, generator=generator).double()
        expected = torch.nn.Parameter(theta.clone())
        optimiser = torch.optim.Adam([expected], lr=0.01, betas=(0.9, 0.999), eps=epsilon)
        adam = Adam(theta, epsilon)
        for _ in range(50):
            gradient = torch.randn(11, generator=generator).double() * 10.0 ** torch.arange(-10, 1)
            theta -= 0.01 * adam(gradient)
            expected.grad = gradient
            optimiser.step()
            torch.testing.assert_close(theta, expected.detach(), rtol=1e-9, atol=1e-12)
