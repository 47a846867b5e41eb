"""olRankNet and olLambdaRank round by round against the plain ports, on the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.learning.losses import LambdaRankLoss, RankNetLoss
from tests.networks import check_resumed, learned, weights
from tests.ranker.refits import L2, check, refitted
from tests.reference.network import scores
from tests.rounds import LISTS, SEEDS, fresh, rounds
from tests.worlds import handmade


@pytest.mark.parametrize(
    ("ranker", "restart", "reduction", "every", "steps", "pairs"),
    [
        ("olranknet", False, "sum", 1, 3, "all"),
        ("olranknet", True, "mean", 3, 3, "matching"),
        ("ollambdarank", True, "sum", 1, 3, "matching"),
        ("ollambdarank", False, "mean", 3, 3, "adjacent"),
    ],
)
def test_every_refit_is_that_of_the_port(ranker, restart, reduction, every, steps, pairs, monkeypatch):
    """To the whole history, which is worked on in several parts."""
    monkeypatch.setattr(RankNetLoss, "chunk", 4)
    monkeypatch.setattr(LambdaRankLoss, "chunk", 3)
    settings = f"restart={restart}", f"reduction={reduction}", f"every={every}", f"steps={steps}", f"pairs={pairs}"
    simulation = refitted(ranker, *(f"ranker.{setting}" for setting in settings))
    check(simulation, lambda port, t, b: port.fit(ranker, L2, reduction, steps, restart), lambda n: n % every == 0)


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

    def follow(port, t, b):
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
    check(simulation, lambda port, t, b: port.fit(ranker, l2, reduction, 3, restart, damping))


def test_a_refit_waits_until_the_rounds_have_grown():
    """By the factor, and by `every` at least; what is fitted is all of the history so far."""
    for growth, every, due in ((1.5, 1, {1, 2, 3, 5, 8, 12}), (1.5, 3, {3, 6, 9}), (1, 4, {4, 8, 12})):
        simulation = refitted("olranknet", f"ranker.growth={growth}", f"ranker.every={every}", "ranker.steps=2")
        check(simulation, lambda port, t, b: port.fit("olranknet", L2, "mean", 2, False), due.__contains__)


def test_a_round_without_a_pair_changes_nothing():
    """To the last bit, although other replicas learn in it; with restart it would go back otherwise."""
    for ranker, batch in [("olranknet", "16"), ("ollambdarank", "null")]:
        simulation = refitted(ranker, f"ranker.batch={batch}", "ranker.restart=true", total=24)
        before, without = simulation.ranker.theta.clone(), 0
        for _, one in rounds(simulation):
            for b, some in enumerate(one.preferences.valid.any(1).tolist()):
                assert torch.equal(simulation.ranker.theta[b], before[b]) is not some, (ranker, batch)
                without += not some and bool((before[b] != simulation.ranker.start[b]).any())
            before = simulation.ranker.theta.clone()
        assert without > 5, (ranker, batch)


def test_what_is_deployed_is_a_copy_of_theta_and_scores_as_the_network_does():
    for ranker in ["olranknet", "ollambdarank"]:
        simulation, kept = refitted(ranker), []
        candidates, _ = simulation.train_split.serve(torch.arange(len(LISTS)))
        for _ in rounds(simulation):
            deployed = simulation.ranker.deploy()
            kept.append((deployed, deployed.clone()))
            assert torch.equal(deployed, simulation.ranker.theta[:, 0]), ranker
        found = simulation.ranker.score(deployed, candidates)
        assert found.shape == (len(SEEDS), *candidates.mask.shape), ranker
        for b, theta in enumerate(deployed):
            for q, x in enumerate(candidates.features):
                assert found[b, q].numpy() == pytest.approx(
                    np.array(scores(weights(theta.numpy()), x.numpy())), abs=1e-6
                ), ranker
        assert all(torch.equal(deployed, copy) for deployed, copy in kept), "later rounds must not change it"
        assert not torch.equal(kept[0][0], kept[-1][0]), ranker


def test_a_resumed_run_is_the_undisturbed_one():
    """Also between two refits, when lists wait for the next."""
    settings = "ranker.batch=16", "ranker.every=3", "click=perfect", "ranker.damping=0.1", "ranker.growth=1.1"
    stopped = check_resumed(lambda: refitted("ollambdarank", *settings), 6)
    assert bool(stopped["ranker.waiting"].any())


def test_history_is_document_numbers_and_no_features():
    """What grows with the rounds is whole numbers and truths; features are looked up in the one table there is."""
    for ranker in ["olranknet", "ollambdarank"]:
        simulation = refitted(ranker, total=30)
        kept = [buffer for name, buffer in simulation.ranker.named_buffers() if name.startswith("loss.")]
        assert len(kept) >= 3, ranker
        assert not any(buffer.dtype.is_floating_point for buffer in kept), ranker
        assert simulation.ranker.loss.features.shape == handmade(LISTS).features.shape, ranker


def test_it_learns_what_no_linear_ranker_can():
    """With the default steps; on so few queries without noise little has to be held back."""
    settings = "exploration=none", "ranker.model.width=20"
    for words in ("ranker.l2=0.01",), ("ranker/model=mlp", "ranker.fit=authors"):
        before, after = learned("ranker=olranknet", *settings, *words, total=40)
        assert max(before) < 0.7, words
        assert min(after) > 0.8, words
