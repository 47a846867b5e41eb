"""Refits on all feedback, by the plain ports of olRankNet and olLambdaRank, beside a run that makes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Forgetting, Ranker
from ol2r_cli.simulation import Simulation
from tests.networks import NETWORK, WIDTH, served, weights
from tests.reference import ollambdarank, olranknet
from tests.reference.forgetting import weight
from tests.reference.network import Weights, flat, scores, unflat
from tests.reference.preconditioner import preconditioner, second_moment
from tests.rounds import LISTS, SEEDS, Shown, replicas, rounds
from tests.worlds import handmade, simulate, tiny

RATE, L2 = 0.5, 0.01
PLAIN = "ranker.restart=false", "ranker.reduction=mean", "ranker.growth=1", "ranker.damping=null", "ranker.batch=null"


def refitted(ranker: str, *overrides: str, total: int = 12) -> Simulation:
    """A small network that explores by itself, in float64; by default it takes plain steps from where it is."""
    settings = f"ranker={ranker}", "exploration=epsilon_greedy", "click=informational", "positions=5", *NETWORK
    config = tiny(*settings, f"ranker.learning_rate={RATE}", f"ranker.l2={L2}", *PLAIN, *overrides)
    return simulate(config, SEEDS, total, handmade(LISTS))


@dataclass
class Port:
    """One member of one replica as the port sees it: theta_0, theta, and all it was shown."""

    initial: Weights
    theta: Weights
    forgetting: Forgetting
    lists: list[ollambdarank.Round] = field(default_factory=list)  # of every round
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # of all rounds
    queries: list[np.ndarray] = field(default_factory=list)  # the candidates of each round
    waiting: bool = False

    def see(self, here: Shown) -> None:
        """Remember the list, the pairs and the candidates of a round; pairs that come or leave a window call for a
        refit, and with a discount every round that is not the first with a pair."""
        self.queries.append(here.features)
        self.pairs += here.compared
        self.lists.append(served(here))
        if self.forgetting.discount < 1:
            self.waiting |= any(one.pairs for one in self.lists)
        else:
            leaving = len(self.lists) - 1 - self.forgetting.window if self.forgetting.window else -1
            self.waiting |= bool(here.pairs or (leaving >= 0 and self.lists[leaving].pairs))

    def fit(
        self, ranker: str, l2: float, reduction: str, steps: int, restart: bool, damping: float | None = None
    ) -> None:
        """On all of it: down the mean loss in which a pair counts by its age. The penalty of `sum` is over the sum of
        the weights."""
        start, matrix, last = self.initial if restart else self.theta, None, len(self.lists) - 1
        counted = [(weight(last - t, *self.forgetting), one) for t, one in enumerate(self.lists) if one.pairs]
        total = sum(w * len(one.pairs) for w, one in counted) or 1

        def slope(here: Weights) -> np.ndarray:
            summed = np.zeros(len(flat(here)))
            for w, one in counted:
                summed += w * of_list(ranker, here, one)
            return summed / total

        if damping is not None:
            matrix = preconditioner(start, second_moment(self.queries), damping)
        penalty = l2 / total if reduction == "sum" else l2
        self.theta = olranknet.descend(start, self.initial, slope, penalty, 1, "mean", RATE / WIDTH, steps, matrix)

    def fit_to_draws(self, ranker: str, chance: np.ndarray, l2: float, reduction: str, restart: bool) -> None:
        """On what these numbers [steps, size] pick: the mean over it, with the penalty of all there is."""
        here, lists = self.initial if restart else self.theta, [one for one in self.lists if one.pairs]
        penalty = l2 / (len(self.pairs) if reduction == "sum" else 1)
        for step in chance:
            if ranker == "ollambdarank":
                drawn = [lists[int(u * len(lists))] for u in step]
                slope = ollambdarank.gradient(here, drawn) / sum(len(one.pairs) for one in drawn)
            else:
                picked = [self.pairs[int(u * len(self.pairs))] for u in step]
                sides = (np.array(side) for side in zip(*picked, strict=True))
                slope = olranknet.gradient(here, *sides) / len(step)
            moved = flat(here) - flat(self.initial) - RATE / WIDTH * slope
            here = unflat(flat(self.initial) + moved / (1 + RATE * penalty), here)
        self.theta = here


def of_list(ranker: str, here: Weights, one: ollambdarank.Round) -> np.ndarray:
    """The slope of the sum of the losses of the pairs of one list."""
    if ranker == "ollambdarank":
        return ollambdarank.gradient(here, [one])
    return olranknet.gradient(here, *(one.documents[list(side)] for side in zip(*one.pairs, strict=True)))


def ports(ranker: Ranker, forgetting: Forgetting) -> list[list[Port]]:
    """The members of each replica at their start."""
    starts = [[weights(theta.numpy()) for theta in members] for members in ranker.theta]
    return [[Port(start, start, forgetting) for start in members] for members in starts]


def check(
    simulation: Simulation,
    follow: Callable[[Port, int, int, int], None],
    due: Callable[[int], bool] = lambda rounds: True,
) -> None:
    """Let each port `follow` (round, replica, member) where a refit is `due` after so many rounds, and compare."""
    ranker, refits, idle, before = simulation.ranker, 0, 0, simulation.ranker.start.clone()
    forgetting = simulation.context.forgetting
    every = ports(ranker, forgetting)
    for t, one in rounds(simulation):
        for (b, here), n in product(replicas(one), range(len(every[0]))):
            port, place = every[b][n], f"round {t}, replica {b}, member {n}"
            assert here.scores[n] == pytest.approx(scores(port.theta, here.features), rel=1e-6, abs=1e-6), place
            port.see(here)
            if due(t + 1) and port.waiting:
                follow(port, t, b, n)
                port.waiting, refits = False, refits + 1
            else:
                idle += 1
                assert torch.equal(ranker.theta[b, n], before[b, n]), "to the last bit, although other replicas learn"
            assert ranker.theta[b, n].numpy() == pytest.approx(flat(port.theta), abs=1e-7), place
        before = ranker.theta.clone()
    assert refits > 4
    assert idle > 4 or forgetting != Forgetting()
    starts = [[flat(port.initial) for port in members] for members in every]
    assert torch.equal(ranker.start, torch.from_numpy(np.array(starts)))
