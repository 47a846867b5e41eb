"""What tests of networks share: the port's weights, pairs and lists of a round, and a world that needs a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from tests.reference.network import Weights, unflat
from tests.reference.ollambdarank import Round, from_clicks
from tests.rounds import Shown, rounds
from tests.worlds import handmade, offline_ndcg, simulate, tiny

WIDTH, LAYERS = 6, 2
NETWORK = (f"ranker.model.width={WIDTH}", f"ranker.model.hidden_layers={LAYERS}")


def weights(theta: Sequence[float], features: int = 4, width: int = WIDTH, layers: int = LAYERS) -> Weights:
    """The layers of a network with these parameters."""
    inner = [np.zeros((width, width))] * (layers - 1)
    return unflat(np.asarray(theta, dtype=float), [np.zeros((width, features)), *inner, np.zeros(width)])


def served(here: Shown) -> Round:
    """The list of a replica as it was shown, with its clicks and pairs."""
    pairs = [(here.ranking.index(winner), here.ranking.index(loser)) for winner, loser in here.pairs]
    return from_clicks(here.features[here.ranking], here.clicks, pairs)


def learned(*overrides: str, total: int = 100) -> tuple[list[float], list[float]]:
    """NDCG@10 of three replicas before and after so many rounds in a world where a document is good that has a large
    or a small first feature: nothing that is linear can rank it."""
    lists = handmade([[0, 0, 0, 0, 1, 1, 2, 3, 4]] * 20)
    features = lists.features.clone()
    features[:, 0] = torch.where(features[:, 0] < 0.5, -1, 1) * lists.labels / 4
    dataset, seeds = dataclasses.replace(lists, features=features), [0, 1, 2]
    simulation = simulate(tiny("click=perfect", *overrides), seeds, total, dataset)
    evaluate = offline_ndcg(dataset, "test", torch.tensor(seeds))
    before = evaluate(simulation.ranker, simulation.ranker.deploy()[None])[0, :, -1]
    for _ in rounds(simulation):
        pass
    return before.tolist(), evaluate(simulation.ranker, simulation.ranker.deploy()[None])[0, :, -1].tolist()
