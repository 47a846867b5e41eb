"""Optima under perturbed labels: a draw that is that of a noise for every pair, and the guarantee where curvature
fades; tests/ranker/test_pairrank.py has the optima of every round."""

from __future__ import annotations

import numpy as np
import torch

from ol2r_cli.interfaces import Preferences, RunContext
from ol2r_cli.learning.history import PairHistory
from ol2r_cli.learning.newton import AnchoredNewton
from ol2r_cli.learning.perturbed_optima import PerturbedOptima, inverse_hessian, quasi_newton
from ol2r_cli.tensor.streams import Streams
from tests.reference.objective import equal, objective, optimum


def test_the_noise_is_a_factor_of_old_pairs_and_a_number_for_every_new_one():
    """Three features: 4 pairs make a factor, 8 a new one, and of 11 pairs the last 3 are still new. Two pairs a round,
    the same for both replicas; then one, and then none."""
    rows = torch.randn(11, 3, generator=torch.Generator().manual_seed(4))
    table, history, solver = torch.cat([rows, torch.zeros(1, 3)]), PairHistory(), AnchoredNewton(0.1, "sum")
    rows, optima = rows.double(), PerturbedOptima(2, 0.3)
    context = RunContext(2, 12, 3, 10, 1, 7, 5, loops=True)
    history.setup(context, table, 2)
    solver.setup(context, history)
    optima.setup(context, solver, 2)
    optima._optima = lambda replica, count, noise: noise
    held, factor = 0, torch.zeros(2, 3, 3).double()
    for t, portion in enumerate([*torch.arange(11).split(2), torch.arange(0)]):
        winner = torch.zeros(2, 2, dtype=torch.int64)
        winner[:, : len(portion)] = portion
        valid = (torch.arange(2) < len(portion)).expand(2, -1)
        pairs = Preferences(winner, torch.full_like(winner, 11), valid)
        history.append(rows[winner] * valid[:, :, None], torch.arange(12).repeat(2, 1), pairs)
        random, count = Streams(torch.arange(2)).at("learn", t), min(2 * t + 2, 11)
        optima.update(random)
        known = random.normal(2 * 3, "factor").unflatten(1, (2, 3))
        new = random.normal(optima.waiting * 2, "pairs").unflatten(1, (-1, 2))[:, : count - held]
        torch.testing.assert_close(optima.theta, 0.3**0.5 * (known @ factor + new.mT @ rows[held:count]))
        held, factor = [0, 4, 4, 8, 8, 8, 8][t], optima.factor.clone()
        assert optima.factored.tolist() == [held, held]
        torch.testing.assert_close(factor.mT @ factor, (rows[:held].T @ rows[:held]).expand(2, 3, 3))


def test_the_gap_is_reached_from_the_optimum_without_noise():
    """From the inverse of the Hessian there, for pairs that a linear user agrees with; too few steps are reported."""
    for pairs, features, l2, variance, seed in (
        (33, 10, 1e-3, 1, 0),
        (150, 10, 0.1, 0.1, 0),
        (6, 2, 1e-3, 0.3, 57),  # here and in the next the decrement of BFGS is far too small
        (6, 2, 1e-4, 0.3, 35),
    ):
        rng = np.random.default_rng(seed)
        rows, truth = rng.uniform(-1, 1, size=(pairs, features)), rng.normal(size=features)
        rows *= np.where(rows @ truth > 0, 1, -1)[:, None]
        gamma = rng.normal(0, variance**0.5, size=pairs)
        start = torch.from_numpy(optimum(equal(rows), l2, "sum", features))
        x, noise, ones = torch.from_numpy(rows), torch.from_numpy(rows.T @ gamma), torch.ones(pairs).double()
        inverse = inverse_hessian(x, x @ start, l2, ones)
        theta, reached = quasi_newton(x, start, inverse, noise, l2, 1e-3, 300, ones)
        assert reached
        best = optimum(equal(rows), l2, "sum", features, gamma)
        found, least = (objective(each, equal(rows), l2, "sum", gamma) for each in (theta.numpy(), best))
        assert found - least <= 1e-3, (pairs, l2, seed)
        if seed == 0:
            assert not quasi_newton(x, start, inverse, noise, l2, 1e-3, 1, ones)[1]
