"""ranker.fit=authors round by round against the fit of the released code, on the same random numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.simulation import Simulation
from tests.ranker.model.test_mlp import in_one_row as flat
from tests.ranker.model.test_mlp import with_biases as unflat
from tests.reference import authors_fit as reference
from tests.reference.authors_fit import ClickedList, Pair
from tests.rounds import LISTS, SEEDS, Shown, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

WIDTH = 6
RATE, L2, EPOCHS = 0.05, 0.3, 3
AUTHORS = ("ranker.fit=authors", f"ranker.authors.learning_rate={RATE}", f"ranker.authors.l2={L2}")


def fitted(ranker: str, *overrides: str, layers: int = 1, epochs: int = EPOCHS, total: int = 14) -> Simulation:
    """Three replicas with a small network, in float64."""
    small = f"ranker.model.width={WIDTH}", f"ranker.model.hidden_layers={layers}", f"ranker.authors.epochs={epochs}"
    config = tiny(f"ranker={ranker}", "click=informational", "positions=5", *AUTHORS, *small, *overrides)
    return simulate(config, SEEDS, total, handmade(LISTS))


@dataclass
class History:
    """What one replica has been shown: lists with a pair, and pairs in the order in which they came."""

    lists: list[ClickedList] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    waiting: bool = False

    def see(self, here: Shown) -> None:
        """Remember a round, if it has a pair."""
        if here.pairs:
            self.lists.append(ClickedList(here.features[here.ranking], tuple(here.clicks)))
            places = [(here.ranking.index(winner), here.ranking.index(loser)) for winner, loser in here.pairs]
            self.pairs += [Pair(len(self.lists) - 1, *place) for place in places]
            self.waiting = True

    def epochs(self, chance: np.ndarray, epochs: int, batch: int, lambdarank: bool) -> list[list[list[int]]]:
        """The partitions that these numbers make: pair p of epoch e has number p x epochs + e."""
        n = len(self.pairs)
        orders = [sorted(range(n), key=lambda p, e=e: chance[p * epochs + e]) for e in range(epochs)]
        return [reference.batches(order, batch, lambdarank) for order in orders]


def initial(uniform: np.ndarray, layers: int) -> np.ndarray:
    """Fresh parameters from uniform numbers: within 1/sqrt(inputs) of 0."""
    parts = unflat(2 * uniform - 1, WIDTH, layers)
    return flat([(weight / sqrt(weight.shape[1]), bias / sqrt(weight.shape[1])) for weight, bias in parts])


@pytest.mark.parametrize(
    ("ranker", "layers", "batch", "pairs", "every"),
    [
        ("olranknet", 1, 4, "matching", 1),
        ("olranknet", 2, 1024, "all", 3),
        ("ollambdarank", 1, 4, "matching", 1),
        ("ollambdarank", 2, 1024, "all", 3),
    ],
)
def test_every_refit_is_that_of_the_released_code(ranker, layers, batch, pairs, every):
    """Replicas have histories of different lengths, so they take different numbers of steps."""
    settings = f"ranker.authors.batch={batch}", f"ranker.pairs={pairs}", f"ranker.every={every}"
    simulation = fitted(ranker, *settings, "exploration=epsilon_greedy", layers=layers)
    theta, streams, weighed = simulation.ranker.theta, fresh(), ranker == "ollambdarank"
    before, histories, lengths, kept = theta.clone(), [History() for _ in SEEDS], set(), 0
    for t, one in rounds(simulation):
        random = streams.at("learn/ranker", t)
        most = max(len(history.pairs) for history in histories) + 12
        uniform = random.uniform(theta.shape[2], "network").numpy()
        chance = random.uniform(most * EPOCHS, "partition").numpy()
        for b, here in replicas(one):
            history, case = histories[b], f"{ranker}, {layers} layers, round {t}, replica {b}"
            expected = reference.scores(unflat(before[b, 0].numpy(), WIDTH, layers), here.features)
            assert here.scores[0] == pytest.approx(expected, rel=1e-6, abs=1e-6), case
            history.see(here)
            if history.waiting and (t + 1) % every == 0:
                partitions = history.epochs(chance[b], EPOCHS, batch, weighed)
                start = unflat(initial(uniform[b], layers), WIDTH, layers)
                parts = reference.fit(start, history.lists, history.pairs, partitions, RATE, L2, weighed)
                assert theta[b, 0].numpy() == pytest.approx(flat(parts), abs=1e-6), case
                lengths.add(sum(map(len, partitions)))
                history.waiting = False
            else:
                assert torch.equal(theta[b], before[b]), case
                kept += bool(history.pairs)
        before = theta.clone()
    assert len(lengths) > 2 or batch > 1000, ranker
    assert kept > 3, ranker


def test_the_network_is_that_of_pytorch_whatever_init_says():
    for init in ["antisymmetric", "standard", "pytorch"]:
        ranker = build(tiny("ranker=olranknet", "ranker.fit=authors", f"ranker.model.init={init}").ranker)
        assert (ranker.model.init, ranker.model.units, ranker.model.hidden_layers) == ("pytorch", 100, 1), init
        assert ranker.model.width == 1, "m, by which other fits and intervals divide"
        descending = build(tiny("ranker=olranknet", f"ranker.model.init={init}").ranker)
        assert descending.model.init == init, init
