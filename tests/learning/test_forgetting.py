"""What is forgotten, against plain sums over the whole history: weights, the optimum, the gradient at the anchor."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Forgetting
from ol2r_cli.learning.newton import AnchoredNewton
from tests.learning.test_newton import play
from tests.reference import forgetting as reference


def history_of(solver: AnchoredNewton, ends: list[list[int]], replica: int) -> list[np.ndarray]:
    """One replica's pairs by round; `ends` has the number of pairs of every replica after every round."""
    counts = [0, *(end[replica] for end in ends)]
    rows = solver.history.rows[replica].numpy()
    return [rows[start:end] for start, end in itertools.pairwise(counts)]


def oracle(solver: AnchoredNewton, rounds: list[np.ndarray], forgetting: Forgetting) -> reference.ForgetfulPairRank:
    features = rounds[0].shape[1]
    port = reference.ForgetfulPairRank(features, solver.l2, 0.1, "full", solver.reduction, *forgetting)
    port.rounds = rounds
    return port


def test_weights_are_a_window_or_powers_of_the_discount():
    ages = torch.arange(9)
    for forgetting in Forgetting(), Forgetting(window=4), Forgetting(discount=0.7):
        expected = [reference.weight(age, *forgetting) for age in range(9)]
        assert forgetting.weights(ages).tolist() == pytest.approx(expected, rel=1e-15)


def test_a_discount_drops_what_is_below_the_rounding_of_a_number():
    for discount in 0.5, 0.9, 0.999:
        reach = Forgetting(discount=discount).reach
        assert discount**reach <= 2.0**-52 < discount ** (reach - 1)
        assert Forgetting(discount=discount).weights(torch.tensor([reach - 1, reach])).count_nonzero() == 1
    assert (Forgetting().reach, Forgetting(window=7).reach) == (None, 7)


DISCOUNT = Forgetting(discount=0.93)


def test_the_optimum_of_what_counts_is_reached_every_round():
    """Two replicas; rounds without a pair empty a window, and leave next to nothing of a discounted history."""
    settings = ("mean", 0.01, 0.2, Forgetting(window=12)), ("sum", 1e-3, 0.0, DISCOUNT)
    for loops in True, False:
        for reduction, l2, noise, forgetting in (*settings, ("mean", 0.01, 1.0, Forgetting(window=1))):
            case = f"{loops} {reduction} {l2} {noise} {forgetting}"
            solver, ends, worst, exact, empty = AnchoredNewton(l2, reduction), [], 0.0, 0.0, 0
            for t in play(solver, 6, 80, noise, 2, forgetting=forgetting, silent=range(25, 65), loops=loops):
                ends.append(solver.history.count.tolist())
                for replica in range(2) if t % 8 == 4 or t in (24, 26) else ():
                    port = oracle(solver, history_of(solver, ends, replica), forgetting)
                    worst = max(worst, port.excess(solver.theta[replica].numpy()))
                    weights = sum(w for _, w in port.pairs)
                    assert float(solver.history.mass[replica]) == pytest.approx(weights, abs=1e-9), case
                    if ends[-1][replica] > int(solver.history.first[replica]):
                        if loops:
                            slope = reference.gradient(solver.anchor[replica].numpy(), port.pairs, l2, reduction)
                            exact = max(exact, float(np.abs(solver.gradient[replica].numpy() - slope).max()))
                    elif ends[-1][replica]:
                        empty += 1
                        assert solver.theta[replica].abs().max() < 1e-12, case
            assert worst <= 1, case
            assert exact < 1e-9, case
            assert empty > 1 or forgetting == DISCOUNT, case  # which still counts something after 40 rounds


def test_the_gradient_stays_exact_where_the_anchor_does_not_move():
    """Many pairs for each of three features, so that most rounds take the step from the anchor of the round before."""
    for reduction, forgetting in [("sum", Forgetting(window=90)), ("mean", Forgetting(discount=0.99))]:
        solver, ends, still, anchor = AnchoredNewton(0.1, reduction), [], 0, None
        for t in play(solver, 3, 200, 1.0, forgetting=forgetting, silent=range(150, 160)):
            ends.append(solver.history.count.tolist())
            unmoved = anchor is not None and torch.equal(anchor, solver.anchor)
            anchor = solver.anchor.clone()
            if t < 100 or not unmoved or t % 5:
                continue
            port = oracle(solver, history_of(solver, ends, 0), forgetting)
            slope = reference.gradient(anchor[0].numpy(), port.pairs, 0.1, reduction)
            np.testing.assert_allclose(solver.gradient[0].numpy(), slope, atol=1e-10)
            if reduction == "sum":  # with `mean` it takes the change of the penalty over when the anchor moves
                value = reference.objective(anchor[0].numpy(), port.pairs, 0.1, reduction)
                assert float(solver.objective[0]) == pytest.approx(value, rel=1e-10), (reduction, forgetting)
            still += 1
        assert still > 8, (reduction, forgetting)


def test_the_hessian_is_that_of_the_pairs_that_count():
    """Within what a drift of scores by 0.3 and 5 % of outdated pairs leave open."""
    for reduction, forgetting in [("mean", Forgetting(window=20)), ("sum", Forgetting(discount=0.9))]:
        solver, ends = AnchoredNewton(0.1, reduction), []
        for t in play(solver, 4, 200, 0.5, forgetting=forgetting):
            ends.append(solver.history.count.tolist())
            if t < 20 or t % 10:
                continue
            port = oracle(solver, history_of(solver, ends, 0), forgetting)
            theta, found = solver.anchor[0].numpy(), np.linalg.inv(solver.inverse[0].numpy())
            exact = reference.penalty(port.pairs, 0.1, reduction) * np.eye(4)
            for x, w in port.pairs:
                wins = 1 / (1 + np.exp(-float(x @ theta)))
                exact += w * wins * (1 - wins) * np.outer(x, x)
            ratio = np.linalg.eigvals(np.linalg.solve(exact, found)).real
            assert 0.65 < ratio.min() < ratio.max() < 1.55, (reduction, forgetting)


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
