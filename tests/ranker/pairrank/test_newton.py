"""The guarantee of Newton's method in every round, also where pairs are forgotten, against an exact solver and plain
sums over the whole history."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.interfaces import Forgetting, Preferences, RunContext
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.ranker.pairrank.newton import AnchoredNewton
from tests.reference import objective as plain
from tests.reference.forgetting import ForgetfulPairRank

PER_ROUND = 5


def play(
    solver,
    features: int,
    rounds: int,
    noise: float,
    replicas: int = 1,
    forgetting: Forgetting = Forgetting(),  # noqa: B008
    silent: range = range(0),
):
    """Feed random preferences of a linear user; yields after every round. `noise` 0 makes them separable.

    Rounds in `silent` bring no pair.
    """
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(400, features, generator=generator)
    truth = torch.randn(features, generator=generator)
    history = PairHistory()
    context = RunContext(replicas, 10, features, 10, 1, rounds, 5, forgetting=forgetting)
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
        history.remember(document, pairs, added)
        solver.update(added, valid)
        yield t


CASES = [  # reduction, l2, features, rounds, noise, what is forgotten, and the rounds without a pair
    ("sum", 1e-4, 30, 100, 0.2, Forgetting(), range(0)),
    ("mean", 0.1, 6, 200, 1.0, Forgetting(), range(0)),
    ("sum", 1e-4, 6, 60, 0.0, Forgetting(), range(0)),
    ("mean", 0.01, 6, 80, 0.2, Forgetting(window=12), range(25, 65)),
    ("mean", 0.01, 6, 80, 1.0, Forgetting(window=1), range(25, 65)),
    ("sum", 1e-3, 6, 80, 0.0, Forgetting(discount=0.93), range(25, 65)),
]


@pytest.mark.parametrize(("reduction", "l2", "features", "rounds", "noise", "forgetting", "silent"), CASES, ids=str)
def test_the_optimum_of_what_counts_is_reached_every_round(reduction, l2, features, rounds, noise, forgetting, silent):
    """Two replicas, against an exact solver, and the gradient at the anchor. Rounds without a pair empty a
    window, and leave next to nothing of a discounted history."""
    solver, ends, empty = AnchoredNewton(l2, reduction), [0, 0], 0
    ports = [ForgetfulPairRank(features, l2, 0.1, "full", reduction, *forgetting) for _ in range(2)]
    for t in play(solver, features, rounds, noise, 2, forgetting, silent):
        for replica, port in enumerate(ports):
            count, first = int(solver.history.count[replica]), int(solver.history.first[replica])
            port.rounds.append(solver.history.rows[replica, ends[replica] : count].numpy().copy())
            ends[replica] = count
            if not (t <= 10 or t % 20 == 19 or t in (24, 26, 44)):
                continue
            if count == first:
                empty += count > 0
                assert solver.theta[replica].abs().max() < 1e-12
                continue
            assert port.excess(solver.theta[replica].numpy()) <= 1, f"round {t}"
            if forgetting != Forgetting():
                assert float(solver.history.mass[replica]) == pytest.approx(sum(w for _, w in port.pairs), abs=1e-9)
            slope = plain.gradient(solver.anchor[replica].numpy(), port.pairs, l2, reduction)
            assert solver.gradient[replica].numpy() == pytest.approx(slope, abs=1e-9), f"round {t}"
    assert bool(empty) is (forgetting.window is not None)


def test_rounding_does_not_add_up():
    """Many pairs have left a window of about 20: the gradient still is that of the pairs in it."""
    solver = AnchoredNewton(1e-3, "sum")
    for _ in play(solver, 5, 150, 0.3, forgetting=Forgetting(window=8)):
        pass
    first, count = int(solver.history.first[0]), int(solver.history.count[0])
    assert count > 300 > 100 > count - first
    assert int(solver.cleared[0]) > 150
    rows = solver.history.rows[0, first:count]
    slope = 1e-3 * solver.anchor[0] - torch.sigmoid(-(rows @ solver.anchor[0])) @ rows
    torch.testing.assert_close(solver.gradient[0], slope, atol=1e-10, rtol=0)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.999])
def test_a_discount_drops_what_is_below_the_rounding_of_a_number(discount):
    reach = Forgetting(discount=discount).reach
    assert discount**reach <= 2.0**-52 < discount ** (reach - 1)
    assert Forgetting(discount=discount).weights(torch.tensor([reach - 1, reach])).count_nonzero() == 1


def test_a_window_reaches_as_far_as_it_says():
    assert (Forgetting().reach, Forgetting(window=7).reach) == (None, 7)
