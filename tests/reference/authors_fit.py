"""The fit of the released code of olRankNet and olLambdaRank, with PyTorch's own layers, gradients and optimiser.

HCDM/OnlineLearningToRank at bfb9d70. The network is `torch.nn.Linear` layers with biases and ReLU between them. Every
refit starts at fresh weights and takes Adam's steps over random partitions of all pairs so far; the loss of a batch is
the mean binary cross-entropy of its pairs, and Adam adds l2/n theta to its gradient, n being the number of all pairs.

olLambdaRank multiplies the loss of a pair by |1/log2(1 + r_i) - 1/log2(1 + r_j)| over the ideal DCG of the list's
clicks, where a list ends with the place after its last click and r are ranks in it, by the scores before the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import torch
from torch import Tensor

from ol2r_cli.tensor.shapes import Float

Layer = tuple[np.ndarray, np.ndarray]  # weights [outputs inputs] and biases [outputs] of one layer
Batches = Sequence[Sequence[Sequence[int]]]  # for each epoch its batches, each the numbers of its pairs


@dataclass(frozen=True)
class ClickedList:
    """A list as it was shown, with its clicks."""

    documents: Float[np.ndarray, "K F"]
    clicks: tuple[bool, ...]

    def examined(self) -> int:
        """Number of documents down to the place after the last click."""
        return min(len(self.clicks), max(place for place, click in enumerate(self.clicks) if click) + 2)


@dataclass(frozen=True)
class Pair:
    """A preference: the number of its list in the history, and the places of winner and loser in it, from 0."""

    number: int
    winner: int
    loser: int


def network(layers: Sequence[Layer]) -> torch.nn.Sequential:
    """The network with these parameters, in float64."""
    modules: list[torch.nn.Module] = []
    for weight, bias in layers:
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def layers_of(model: torch.nn.Sequential) -> list[Layer]:
    """The parameters of a network."""
    linears = [module for module in model if isinstance(module, torch.nn.Linear)]
    return [(linear.weight.detach().numpy().copy(), linear.bias.detach().numpy().copy()) for linear in linears]


def scores(layers: Sequence[Layer], documents: Float[np.ndarray, "D F"]) -> list[float]:
    """The score of each document."""
    with torch.inference_mode(False), torch.no_grad():
        return network(layers)(torch.from_numpy(documents).double())[:, 0].tolist()


def gradient(layers: Sequence[Layer], document: Float[np.ndarray, "F"]) -> list[Layer]:
    """The derivative of a document's score with respect to weights and biases."""
    with torch.inference_mode(False), torch.enable_grad():
        model = network(layers)
        model(torch.from_numpy(document.copy()).double()).sum().backward()
        linears = [module for module in model if isinstance(module, torch.nn.Linear)]
        return [(linear.weight.grad.numpy(), linear.bias.grad.numpy()) for linear in linears]


def batches(order: Sequence[int], size: int, lambdarank: bool) -> list[list[int]]:
    """One epoch's pairs, in a random order, cut into batches. olLambdaRank leaves out the last one if it has fewer than
    half of `size` pairs and is not the only one."""
    cut = [list(order[at : at + size]) for at in range(0, len(order), size)]
    return cut[:-1] if lambdarank and len(cut) > 1 and len(cut[-1]) < size / 2 else cut


def swap_weight(each: ClickedList, values: Sequence[float], pair: Pair) -> float:
    """|delta NDCG| of the pair in the examined part of its list, whose scores are `values`; ties as shown."""
    end = each.examined()
    ranking = sorted(range(end), key=lambda place: (-values[place], place))
    ideal = sum(1 / log2(2 + place) for place in range(sum(each.clicks)))
    winner, loser = (1 / log2(2 + ranking.index(place)) for place in (pair.winner, pair.loser))
    return abs(winner - loser) / ideal


def fit(
    layers: Sequence[Layer],
    lists: Sequence[ClickedList],
    pairs: Sequence[Pair],
    epochs: Batches,
    rate: float,
    l2: float,
    lambdarank: bool,
) -> list[Layer]:
    """The parameters after a refit that starts at `layers` and goes through these batches."""

    def documents(side: str, batch: Sequence[int]) -> Tensor:
        rows = [lists[pairs[number].number].documents[getattr(pairs[number], side)] for number in batch]
        return torch.from_numpy(np.stack(rows)).double()

    with torch.inference_mode(False), torch.enable_grad():
        model = network(layers)
        optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=l2 / len(pairs))
        for batch in (batch for epoch in epochs for batch in epoch):
            weight = torch.ones(len(batch), dtype=torch.float64)
            if lambdarank:
                now = layers_of(model)
                chosen = [(lists[pairs[number].number], pairs[number]) for number in batch]
                weight = torch.tensor([swap_weight(each, scores(now, each.documents), pair) for each, pair in chosen])
            margin = model(documents("winner", batch)) - model(documents("loser", batch))
            ones = torch.ones(len(batch), dtype=torch.float64)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(margin[:, 0], ones, weight.double())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return layers_of(model)
