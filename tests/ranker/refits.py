"""Refits on all feedback, by the plain ports of olRankNet and olLambdaRank, beside a run that makes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Ranker
from ol2r_cli.simulation import Simulation
from tests.networks import NETWORK, WIDTH, served, weights
from tests.reference import ollambdarank, olranknet
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
    """One replica as the port sees it: theta_0, theta, and all it was shown of the pairs and the lists."""

    initial: Weights
    theta: Weights
    lists: list[ollambdarank.Round] = field(default_factory=list)
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    queries: list[np.ndarray] = field(default_factory=list)  # the candidates of each round
    waiting: bool = False

    def see(self, here: Shown) -> None:
        """Remember the candidates and pairs of a round, and its list if it had any."""
        self.queries.append(here.features)
        self.pairs += here.compared
        self.lists += [served(here)] * bool(here.pairs)
        self.waiting |= bool(here.pairs)

    def fit(
        self, ranker: str, l2: float, reduction: str, steps: int, restart: bool, damping: float | None = None
    ) -> None:
        """On all of it."""
        start, matrix = self.initial if restart else self.theta, None
        if damping is not None:
            matrix = preconditioner(start, second_moment(self.queries), damping)
        how = l2, reduction, RATE / WIDTH, steps
        if ranker == "ollambdarank":
            self.theta = ollambdarank.fit(start, self.initial, self.lists, *how, precondition=matrix)
        else:
            sides = (np.array(side) for side in zip(*self.pairs, strict=True))
            self.theta = olranknet.fit(start, self.initial, *sides, np.ones(len(self.pairs)), *how, matrix)

    def fit_to_draws(self, ranker: str, chance: np.ndarray, l2: float, reduction: str, restart: bool) -> None:
        """On what these numbers [steps, size] pick: the mean over it, with the penalty of all there is."""
        here = self.initial if restart else self.theta
        weight = l2 / (len(self.pairs) if reduction == "sum" else 1)
        for step in chance:
            if ranker == "ollambdarank":
                drawn = [self.lists[int(u * len(self.lists))] for u in step]
                slope = ollambdarank.gradient(here, self.initial, drawn, 0.0, "mean")
            else:
                picked = [self.pairs[int(u * len(self.pairs))] for u in step]
                sides = (np.array(side) for side in zip(*picked, strict=True))
                slope = olranknet.gradient(here, self.initial, *sides, np.ones(len(step)), 0.0, "mean")
            moved = flat(here) - flat(self.initial) - RATE / WIDTH * slope
            here = unflat(flat(self.initial) + moved / (1 + RATE * weight), here)
        self.theta = here


def ports(ranker: Ranker) -> list[Port]:
    """The replicas at their start."""
    return [Port(weights(theta[0].numpy()), weights(theta[0].numpy())) for theta in ranker.theta]


def check(
    simulation: Simulation, follow: Callable[[Port, int, int], None], due: Callable[[int], bool] = lambda rounds: True
) -> None:
    """Let the ports `follow` (port, round, replica) where a refit is `due` after so many rounds, and compare."""
    ranker, refits, idle = simulation.ranker, 0, 0
    every = ports(ranker)
    for t, one in rounds(simulation):
        for b, here in replicas(one):
            port = every[b]
            assert here.scores[0] == pytest.approx(scores(port.theta, here.features), rel=1e-6, abs=1e-6)
            port.see(here)
            if due(t + 1) and port.waiting:
                follow(port, t, b)
                port.waiting, refits = False, refits + 1
            else:
                idle += 1
            found = ranker.theta[b, 0].numpy()
            assert found == pytest.approx(flat(port.theta), abs=1e-7), f"round {t}, replica {b}"
    assert refits > 4
    assert idle > 4
    assert torch.equal(ranker.start, torch.stack([torch.from_numpy(flat(port.initial))[None] for port in every]))
