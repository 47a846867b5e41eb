"""The guarantee of both forms of Newton's method in every round, against an exact solver, and the authors' fit."""

from __future__ import annotations

import numpy as np
import torch

from ol2r_cli.interfaces import Forgetting, Preferences, RunContext
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.newton import AnchoredNewton, RestartedLBFGS
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.streams import Streams
from tests.reference import objective as reference

PER_ROUND = 5


def play(
    solver,
    features: int,
    rounds: int,
    noise: float,
    replicas: int = 1,
    seed: int = 0,
    forgetting: Forgetting = Forgetting(),  # noqa: B008
    silent: range = range(0),
    loops: bool = True,
):
    """Feed random preferences of a linear user; yields after every round. `noise` 0 makes them separable.

    Rounds in `silent` bring no pair.
    """
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(400, features, generator=generator)
    truth = torch.randn(features, generator=generator)
    history = PairHistory()
    context = RunContext(replicas, 10, features, 10, 1, rounds, 5, forgetting=forgetting, loops=loops)
    history.setup(context, table, PER_ROUND)
    solver.setup(context, history)
    for t in range(rounds):
        document = torch.randint(400, (replicas, 10), generator=generator)
        x = table[document].double()
        utility = x @ truth.double() + noise * torch.randn(replicas, 10, generator=generator)
        upper, lower = torch.arange(5).expand(replicas, -1), torch.arange(5, 10).expand(replicas, -1)
        wins = utility.gather(1, upper) > utility.gather(1, lower)
        valid = (torch.rand(replicas, 5, generator=generator) < 0.5) & (t not in silent)
        pairs = Preferences(torch.where(wins, upper, lower), torch.where(wins, lower, upper), valid)
        added = LinearTangent(x).differences(pairs)
        history.append(added, document, pairs)
        solver.update(added, valid, Streams(torch.arange(replicas)).at("learn", t))
        yield t


def excess(solver: AnchoredNewton, replica: int = 0) -> float:
    """How far a replica's theta is above the least value, in units of what is tolerated."""
    rows = solver.history.rows[replica, : int(solver.history.count[replica])].numpy()
    if not len(rows):
        assert not solver.theta[replica].any()
        return 0.0
    ones, settings = np.ones(len(rows)), (solver.l2, solver.reduction)
    scale = 1 if solver.reduction == "sum" else len(rows)  # the guarantee is about the sum form
    least = scale * reference.objective(reference.optimum(rows, ones, *settings), rows, ones, *settings)
    reached = scale * reference.objective(solver.theta[replica].numpy(), rows, ones, *settings)
    return (reached - least) / (1e-3 + 1e-5 * reached)


def test_the_optimum_is_reached_every_round():
    for loops in [True, False]:
        for reduction, l2, features, rounds, noise in [
            ("sum", 1e-4, 30, 100, 0.2),
            ("mean", 0.1, 6, 200, 1.0),
            ("sum", 1e-4, 6, 60, 0.0),
        ]:
            solver = AnchoredNewton(l2, reduction)
            for t in play(solver, features, rounds if loops else min(rounds, 80), noise, replicas=2, loops=loops):
                if t <= 10 or t % 20 == 19:
                    assert max(excess(solver, replica) for replica in range(2)) <= 1, f"round {t}"


def test_the_authors_fit_ends_near_the_optimum():
    for reduction in "sum", "mean":
        solver = RestartedLBFGS(0.01, reduction)
        for _ in play(solver, 6, 40, 1.0):
            pass
        rows = solver.history.rows[0, : int(solver.history.count[0])].numpy()
        labels = np.ones(len(rows))
        least = reference.objective(reference.optimum(rows, labels, 0.01, reduction), rows, labels, 0.01, reduction)
        reached = reference.objective(solver.theta[0].numpy(), rows, labels, 0.01, reduction)
        assert 0 <= reached - least < 1e-3 * least, reduction
