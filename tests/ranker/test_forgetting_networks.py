"""Refitted networks that forget, round by round against weighted sums over the whole history."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Forgetting
from ol2r_cli.learning.losses import LambdaRankLoss, RankNetLoss
from tests.choices import seen
from tests.networks import NETWORK, WIDTH, check_resumed, served, weights
from tests.ranker.refits import L2, RATE, ports, refitted
from tests.reference import ollambdarank, olranknet
from tests.reference.forgetting import weight
from tests.reference.network import flat, gradient
from tests.rounds import LISTS, SEEDS, replicas, rounds
from tests.worlds import handmade, simulate, tiny


def word(forgetting: Forgetting) -> str:
    return f"ranker.{'discount' if forgetting.window is None else 'window'}={forgetting.window or forgetting.discount}"


def fitted(port, lists, forgetting, ranker, reduction, steps, restart):
    """`steps` down the mean loss in which a pair counts by its age, from `lists` of all rounds, None without pairs.

    The penalty of `sum` is over the sum of the weights.
    """
    counts = [weight(len(lists) - 1 - t, *forgetting) if one else 0.0 for t, one in enumerate(lists)]
    total = sum(w * len(one.pairs) for w, one in zip(counts, lists, strict=True) if one)

    def slope(here):
        summed = np.zeros(len(flat(here)))
        for w, one in zip(counts, lists, strict=True):
            if not w:
                continue
            if ranker == "ollambdarank":
                summed += w * ollambdarank.gradient(here, port.initial, [one], 0.0, "sum")
            else:
                sides = (one.documents[list(side)] for side in zip(*one.pairs, strict=True))
                summed += w * olranknet.gradient(here, port.initial, *sides, np.ones(len(one.pairs)), 0.0, "sum")
        return summed / (total or 1)

    l2 = L2 / (total or 1) if reduction == "sum" else L2
    start = port.initial if restart else port.theta
    return olranknet.descend(start, port.initial, slope, l2, 1, "mean", RATE / WIDTH, steps)


def test_every_refit_is_of_what_counts(monkeypatch):
    """Also in rounds without a pair, in which others count less; the history is worked on in several parts."""
    for ranker, forgetting, reduction, restart, every in [
        ("olranknet", Forgetting(window=3), "sum", True, 1),
        ("olranknet", Forgetting(discount=0.7), "mean", False, 1),
        ("ollambdarank", Forgetting(window=4), "mean", False, 2),
        ("ollambdarank", Forgetting(discount=0.7), "sum", True, 1),
    ]:
        monkeypatch.setattr(RankNetLoss, "chunk", 4)
        monkeypatch.setattr(LambdaRankLoss, "chunk", 3)
        settings = f"restart={restart}", f"reduction={reduction}", f"every={every}", "steps=3", "pairs=all"
        simulation = refitted(ranker, *(f"ranker.{setting}" for setting in settings), word(forgetting))
        lists, every_port, refits, silent = [[] for _ in SEEDS], ports(simulation.ranker), 0, 0
        for t, one in rounds(simulation):
            for b, here in replicas(one):
                port = every_port[b]
                lists[b].append(served(here) if here.pairs else None)
                age = None if forgetting.window is None else t - forgetting.window
                left = bool(any(lists[b])) if age is None else age >= 0 and lists[b][age] is not None
                port.waiting |= bool(here.pairs) or left
                if port.waiting and (t + 1) % every == 0:
                    port.theta = fitted(port, lists[b], forgetting, ranker, reduction, 3, restart)
                    port.waiting, refits, silent = False, refits + 1, silent + (not here.pairs)
                found = simulation.ranker.theta[b, 0].numpy()
                assert found == pytest.approx(flat(port.theta), abs=1e-7), f"round {t}, replica {b}"
        assert refits > 10, (ranker, forgetting, reduction, restart, every)
        assert silent > 1, (ranker, forgetting, reduction, restart, every)


def test_without_forgetting_every_round_is_that_of_the_base_method():
    """To the last bit, with the exploration that it brings and the default schedule of refits."""

    def trace(ranker, *overrides):
        words = f"ranker={ranker}", *NETWORK, "ranker.steps=3", "click=informational", *overrides
        simulation = simulate(tiny(*words), SEEDS, 20, handmade(LISTS))
        played = [(one, simulation.ranker.theta.clone()) for _, one in rounds(simulation)]
        return seen([one for one, _ in played]), torch.stack([theta for _, theta in played])

    for ranker in "olranknet", "ollambdarank", "p2neurrank":
        shown, learned = trace(ranker)
        other_shown, other_learned = trace(ranker, "ranker.window=20")
        assert other_shown == shown, ranker
        assert torch.equal(other_learned, learned), ranker
        assert not torch.equal(trace(ranker, "ranker.window=5")[1], learned), ranker


def test_the_rounds_that_grow_are_those_that_count():
    for forgetting in "window=10", "discount=0.9":
        words = f"ranker.{forgetting}", "ranker.growth=1.5", "ranker.steps=1"
        simulation, found = refitted("olranknet", *words, total=27), []
        for t, _ in rounds(simulation):
            found += [] if int(simulation.ranker.due) in (1, *found) else [int(simulation.ranker.due)]
            assert t < found[-1], forgetting
        assert found[:8] == [2, 3, 5, 8, 12, 17, 22, 27], forgetting
        assert found[8:] in ([], [32]), forgetting


def test_widths_are_of_what_counts():
    """The diagonals of A and A~ from the gradients of every pair, as its round was served or after the round's fit."""
    for tangent_at, forgetting in product(("serving", "refit"), (Forgetting(window=4), Forgetting(discount=0.8))):
        words = "ranker=olranknet", "ranker/model=mlp", *NETWORK, "ranker.steps=2", "click=perfect", word(forgetting)
        settings = "exploration.l2=0.3", f"exploration.tangent_at={tangent_at}"
        simulation = simulate(tiny(*words, *settings), SEEDS[:2], 16, handmade(LISTS), dtype=torch.float64)
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


def test_a_resumed_run_is_the_undisturbed_one():
    for ranker, forgetting in (("olranknet", "window=4"), ("ollambdarank", "discount=0.8")):
        config = tiny(f"ranker={ranker}", *NETWORK, "ranker.steps=2", "click=perfect", f"ranker.{forgetting}")
        check_resumed(lambda config=config: simulate(config, SEEDS, 20, handmade(LISTS)), 9)
