"""olRankNet and olLambdaRank, also where they forget, round by round against the plain ports, on the same random
numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Forgetting
from tests.networks import NETWORK, WIDTH, learned, weights
from tests.ranker.refits import L2, check, refitted
from tests.reference.forgetting import weight
from tests.reference.network import flat, gradient
from tests.rounds import LISTS, SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny


@pytest.mark.parametrize(
    ("ranker", "forgotten", "restart", "reduction", "every", "pairs"),
    [
        ("olranknet", "window=null", False, "sum", 1, "all"),
        ("olranknet", "window=null", True, "mean", 3, "matching"),
        ("olranknet", "window=3", True, "sum", 1, "all"),
        ("olranknet", "discount=0.7", False, "mean", 1, "all"),
        ("ollambdarank", "window=null", True, "sum", 1, "matching"),
        ("ollambdarank", "window=null", False, "mean", 3, "adjacent"),
        ("ollambdarank", "window=4", False, "mean", 2, "all"),
        ("ollambdarank", "discount=0.7", True, "sum", 1, "all"),
    ],
)
def test_every_refit_is_that_of_the_port(ranker, forgotten, restart, reduction, every, pairs):
    """To the history that counts, which is worked on in several parts; also in rounds without a pair, in which others
    count less."""
    settings = f"restart={restart}", f"reduction={reduction}", f"every={every}", "steps=3", f"pairs={pairs}", forgotten
    simulation = refitted(ranker, *(f"ranker.{setting}" for setting in settings))
    simulation.ranker.loss.chunk = 3
    check(simulation, lambda port, t, b, n: port.fit(ranker, L2, reduction, 3, restart), lambda n: n % every == 0)


@pytest.mark.parametrize(
    ("ranker", "init", "restart", "reduction", "every", "size", "steps"),
    [
        ("olranknet", "antisymmetric", False, "sum", 3, 1, 4),
        ("olranknet", "standard", True, "mean", 1, 5, 3),
        ("ollambdarank", "standard", False, "mean", 1, 5, 3),
        ("ollambdarank", "antisymmetric", True, "sum", 1, 8, 2),
    ],
)
def test_mini_batches_are_drawn_from_the_whole_history(ranker, init, restart, reduction, every, size, steps):
    """The port is fed with the pairs or lists at the places that the round's numbers name."""
    settings = f"restart={restart}", f"reduction={reduction}", f"every={every}", f"batch={size}", f"steps={steps}"
    simulation = refitted(ranker, *(f"ranker.{setting}" for setting in settings), f"ranker.model.init={init}")
    streams = fresh()

    def follow(port, t, b, n):
        chance = streams.at("learn/ranker", t).uniform(size * steps, "batch")[b].numpy().reshape(steps, size)
        port.fit_to_draws(ranker, chance, L2, reduction, restart)

    check(simulation, follow, lambda n: n % every == 0)


@pytest.mark.parametrize(
    ("ranker", "restart", "reduction", "damping", "l2"),
    [
        ("olranknet", True, "sum", 0.1, L2),
        ("ollambdarank", True, "sum", 0.3, L2),
        ("olranknet", False, "mean", 0.05, 1e4),
        ("olranknet", True, "sum", None, 4.0),
    ],
)
def test_preconditioned_steps_and_large_penalties(ranker, restart, reduction, damping, l2):
    """The features of all candidates so far decide the matrix; a penalty of any size leads no further than theta_0."""
    settings = f"restart={restart}", f"reduction={reduction}", f"damping={damping or 'null'}", f"l2={l2}", "steps=3"
    simulation = refitted(ranker, *(f"ranker.{setting}" for setting in settings))
    check(simulation, lambda port, t, b, n: port.fit(ranker, l2, reduction, 3, restart, damping))


@pytest.mark.parametrize(
    ("growth", "every", "due"), [(1.5, 1, {1, 2, 3, 5, 8, 12}), (1.5, 3, {3, 6, 9}), (1, 4, {4, 8, 12})]
)
def test_a_refit_waits_until_the_rounds_have_grown(growth, every, due):
    """By the factor, and by `every` at least; what is fitted is all of the history so far."""
    simulation = refitted("olranknet", f"ranker.growth={growth}", f"ranker.every={every}", "ranker.steps=2")
    check(simulation, lambda port, t, b, n: port.fit("olranknet", L2, "mean", 2, False), due.__contains__)


@pytest.mark.parametrize("forgetting", ["window=10", "discount=0.9"])
def test_where_rounds_are_forgotten_those_grow_that_count(forgetting):
    """In the end by none."""
    simulation = refitted("olranknet", f"ranker.{forgetting}", "ranker.growth=1.5", "ranker.steps=1", total=27)
    due = [int(simulation.ranker.due) for _ in rounds(simulation)]
    assert all(t < each for t, each in enumerate(due))
    found = sorted({*due} - {1})
    assert found[:8] == [2, 3, 5, 8, 12, 17, 22, 27]
    assert found[8:] in ([], [32])


@pytest.mark.parametrize(("tangent_at", "forgotten"), [*product(("serving", "refit"), ("window=4", "discount=0.8"))])
def test_widths_are_of_what_counts(tangent_at, forgotten):
    """The diagonals of A and A~ from the gradients of every pair, as its round was served or after the round's fit."""
    words = "ranker=olranknet", "ranker/model=mlp", *NETWORK, "ranker.steps=2", f"ranker.{forgotten}"
    settings = "exploration.l2=0.3", f"exploration.tangent_at={tangent_at}", "click=perfect"
    simulation = simulate(tiny(*words, *settings), SEEDS[:2], 16, handmade(LISTS), dtype=torch.float64)
    forgetting: Forgetting = simulation.context.forgetting
    added: list[list[np.ndarray]] = [[], []]
    before, covariance = simulation.ranker.theta.clone(), simulation.exploration.tangents
    for _, one in rounds(simulation):
        after = simulation.ranker.theta.clone()
        for b, here in replicas(one):
            theta = weights((after if tangent_at == "refit" else before)[b, 0].numpy())
            total = np.zeros(len(flat(theta)))
            for winner, loser in here.compared:
                total += (gradient(theta, winner) - gradient(theta, loser)) ** 2 / WIDTH
            known = added[b] + ([] if tangent_at == "refit" else [total])  # A has these pairs in the next round
            for power, kept in enumerate(covariance.kept[: 2 if forgetting.window is None else 1], 1):
                each = (weight(len(known) - 1 - t, *forgetting) ** power * row for t, row in enumerate(known))
                expected = 0.3 + sum(each, 0 * total)
                np.testing.assert_allclose(kept[b].numpy() + 0 * total, expected, rtol=1e-6)
            added[b].append(total)
        if forgetting.window is None and tangent_at == "refit":
            norm = torch.cat([part.flatten(1) for part in covariance.weights], 1)
            torch.testing.assert_close(norm, (covariance.kept[1] / covariance.kept[0] ** 2).to(norm.dtype))
        before = after


@pytest.mark.parametrize("ranker", ["olranknet", "ollambdarank"])
def test_history_is_document_numbers_and_no_features(ranker):
    """What grows with the rounds is whole numbers and truths; features are looked up in the one table there is."""
    loss = refitted(ranker).ranker.loss
    kept = list(loss.buffers())
    assert len(kept) >= 3
    assert not any(buffer.dtype.is_floating_point for buffer in kept)
    assert loss.features.shape == handmade(LISTS).features.shape


def test_it_learns_what_no_linear_ranker_can():
    """With the default steps; on so few queries without noise little has to be held back."""
    settings = "exploration=none", "ranker.model.width=20"
    before, after = learned("ranker=olranknet", *settings, "ranker.l2=0.01", total=40)
    assert max(before) < 0.7
    assert min(after) > 0.8
