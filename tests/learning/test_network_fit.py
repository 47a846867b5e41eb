"""Where the fit of the offline network starts."""

from __future__ import annotations

import torch

from ol2r_cli.learning.offline_fits import NetworkFit
from ol2r_cli.ranker.model.mlp import MLP
from ol2r_cli.tensor.streams import Streams
from tests.worlds import handmade


def test_the_fit_starts_from_the_initial_network_of_its_seed():
    world, model = handmade([[4, 0, 1], [0, 3]]), MLP(width=8, hidden_layers=1, init="standard")
    fit = NetworkFit("lambdarank", 0.01, batch=2, epochs=0, patience=1, seed=5)
    initial = model.initial(Streams(torch.tensor([5])).at("offline", 0), 4, 1)
    assert torch.equal(fit(model, world.features, world.oracle()), initial.flatten().to(model.dtype))
