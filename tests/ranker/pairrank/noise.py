"""The noise that `PerturbedOptima` draws in a round."""

from __future__ import annotations

import torch
from torch import Tensor

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.launch import launch
from ol2r_cli.ranker.pairrank.optima import PerturbedOptima
from ol2r_cli.ranker.pairrank.optima_loops import STREAMS, draw_noise
from ol2r_cli.tensor.streams import Random


@compiled
def draws_noise(b, space, seeds, t, table, noise, ranker):
    draw_noise(b, space, seeds[b], t, STREAMS, table, noise[b], ranker)


def noise_of(optima: PerturbedOptima, random: Random) -> Tensor:
    """What the noise of a round adds to the gradients [B, N, F], before the members move to their optima."""
    state = optima.state()
    state = state._replace(factor=state.factor * optima.history.forgetting.discount)
    noise = torch.empty_like(optima.theta)
    seeds = random.draw().seeds
    launch(draws_noise, len(seeds), optima.room(), seeds, random.round, optima.history.features, noise, state)
    return noise
