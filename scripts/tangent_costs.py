"""What confidence intervals on a network's tangents cost per round, in CPU milliseconds on one thread.

    python scripts/tangent_costs.py [--pairs 1000 5000 10000] [--documents 120] [--features 136] [--width 100]

A history of so many pairs is made up (the triangle of the dual form is filled with plausible numbers: its cost does not
depend on them), then queries are asked: `full` in both precisions, `diagonal` beside it. `pruned` keeps 15 documents,
about what is left after the first hundred rounds, from the first time it is asked on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from ol2r_cli.learning.covariance import STRIP, DualInverse, Strip
from ol2r_cli.learning.tangents import (
    Layers,
    chosen,
    gram,
    kernel,
    layers_of,
    parameters,
    rows,
    squared_distances,
    to_first,
    weights,
)
from ol2r_cli.ranker.model.mlp import MLP

SURVIVORS = 15


def main() -> None:
    """Print one line per number of pairs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000, 5_000, 10_000])
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--width", type=int, default=100)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    network = Network(asked.width, asked.features)
    print(f"{asked.documents} documents, {network.parameters} parameters; CPU ms per round")
    print(f"{'':10}{'pairs':>8}{'unpruned':>10}{'kernel':>8}{'Gflop/s':>9}{'pruned':>8}{'append':>8}{'MB':>7}")
    with torch.inference_mode():
        diagonal(network, asked.documents)
        for dtype in torch.float64, torch.float32:
            for pairs in asked.pairs:
                full(network, pairs, asked.documents, dtype)


class Network:
    """Random documents at random parameters."""

    def __init__(self, width: int, features: int):
        self.dice, self.features = torch.Generator().manual_seed(0), features
        self.model = MLP(width, 2, "standard")
        self.parameters = self.model.size(features)
        self.theta = torch.randn(1, 1, self.parameters, generator=self.dice) * width**-0.5

    def layers(self, documents: int, dtype: torch.dtype) -> Layers:
        """Gradients of so many documents."""
        features = torch.rand(1, documents, self.features, generator=self.dice)
        return layers_of(self.model.forward(self.theta, features).tangent().factors, dtype)


def full(network: Network, pairs: int, documents: int, dtype: torch.dtype) -> None:
    """One line of the table."""
    dual = history(network, pairs, dtype)
    layers = network.layers(documents, dtype)
    unpruned = cost(lambda: squared_distances(dual.solve(layers).residual))
    against = cost(lambda: [kernel(layers, strip.history()) for strip in dual.strips])
    pruned = cost(lambda: squared_distances(dual.solve(layers, lambda residual: SURVIVORS).residual))
    solved, pair = dual.solve(layers, lambda residual: SURVIVORS), torch.arange(10)[None]
    below = solved.projected[:, 0:10:2] - solved.projected[:, 1:10:2]
    block = torch.eye(5, dtype=dtype)[None]
    append = cost(lambda: dual.append(below[:, :, :pairs].clone(), block, chosen(layers, pair)), 1, warm=False)
    kept = [tensor for s in dual.strips for tensor in (s.earlier, s.inverse, *(v for layer in s.pairs for v in layer))]
    megabytes = sum(tensor.nbytes for tensor in kept) / 1e6
    speed = pairs**2 * documents / max(unpruned - against, 1e-9) / 1e6
    name = "full " + str(dtype).removeprefix("torch.float")
    line = f"{name:10}{pairs:8}{unpruned:10.1f}{against:8.1f}{speed:9.0f}{pruned:8.1f}{append:8.2f}{megabytes:7.0f}"
    print(line, flush=True)


def history(network: Network, pairs: int, dtype: torch.dtype) -> DualInverse:
    """A dual form with so many rows."""
    dual = DualInverse(0.1)
    for start in range(0, pairs, STRIP):
        count = min(STRIP, pairs - start)
        some = network.layers(2 * count, dtype)
        strip = Strip(start, STRIP, some)
        below = torch.randn(1, count, start, generator=network.dice, dtype=dtype) * 0.01
        strip.append(below, torch.eye(count, dtype=dtype)[None].contiguous(), some)
        dual.strips.append(strip)
    dual.rows = pairs
    return dual


def diagonal(network: Network, documents: int) -> None:
    """The first line: it does not depend on how many pairs there are."""
    layers = network.layers(documents, torch.float32)
    values = torch.rand(1, parameters(layers), generator=network.dice, dtype=torch.float64) + 0.1
    inverse = weights(layers, values)
    few = rows(layers, slice(None), slice(SURVIVORS))
    unpruned = cost(lambda: squared_distances(gram(layers, inverse)))
    pruned = cost(lambda: (weights(layers, values), to_first(layers, inverse), squared_distances(gram(few, inverse))))
    print(f"{'diagonal':10}{'any':>8}{unpruned:10.1f}{'':17}{pruned:8.1f}")


def cost(action: Callable[[], object], times: int = 5, warm: bool = True) -> float:
    """CPU milliseconds, on average."""
    if warm:
        action()
    start = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - start) / times * 1e3


if __name__ == "__main__":
    main()
