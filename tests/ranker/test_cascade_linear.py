"""CascadeLinUCB and CascadeLinTS round by round against the plain ports, on the same clicks and random numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference.cascade_bandits import observed
from tests.reference.cascade_linear import CascadeLinear
from tests.rounds import LISTS, SEEDS, fresh, ranked, rounds
from tests.worlds import handmade, simulate, tiny

RANKERS = ["cascade_linucb", "cascade_lints"]


def bandits(ranker, *overrides, total=60, lists=LISTS, **more):
    return simulate(tiny(f"ranker={ranker}", *overrides), SEEDS, total, handmade(lists), **more)


def test_every_round_is_that_of_the_paper():
    """Scores, lists and theta of every replica, with users who may click several documents."""
    for case in [
        ("cascade_linucb", "first_click", 1.0),
        ("cascade_lints", "last_click", 0.5),
        ("cascade_linucb", "all", 2.0),
    ]:
        ranker, feedback, sigma = case
        settings = f"ranker.sigma={sigma}", f"ranker.feedback={feedback}", "click=informational", "positions=4"
        alpha = ("ranker.alpha=0.3",) if ranker == "cascade_linucb" else ()
        simulation = bandits(ranker, *settings, *alpha, loops=True)
        oracles = [CascadeLinear(4, sigma, feedback) for _ in SEEDS]
        partly = 0
        for t, one in rounds(simulation):
            chance = fresh().at("explore", t).uniform(12)
            normal = fresh().at("judge", t).normal(4).numpy()
            for b, oracle in enumerate(oracles):
                documents = list(one.candidates.features[b][one.candidates.mask[b]].numpy())
                scores = oracle.bounds(documents, 0.3) if alpha else oracle.drawn(documents, normal[b])
                assert one.prediction.scores[b, 0, : len(scores)].tolist() == pytest.approx(
                    scores, rel=1e-9, abs=1e-11
                ), case
                shown = ranked(np.round(scores, 9), chance[b].tolist())[:4]
                assert one.ranking[b, : len(shown)].tolist() == shown, f"round {t}, replica {b}"
                clicks = one.clicks[b, : len(shown)].int().tolist()
                partly += observed(clicks, feedback) < len(clicks)
                oracle.learn([documents[document] for document in shown], clicks)
                assert simulation.ranker.deploy()[b].numpy() == pytest.approx(oracle.theta(), rel=1e-9, abs=1e-11), case
        assert (partly > 60) == (feedback != "all"), case


def test_bounds_above_one_are_equal_and_in_random_order():
    """With alpha so large that every bound is 1, all orders are equally likely: each document comes first sometimes."""
    simulation = bandits("cascade_linucb", "ranker.alpha=1e6", lists=[[0, 1, 2]], total=40)
    first = set()
    for _, one in rounds(simulation):
        assert (one.prediction.scores == 1).all()
        first.update(one.ranking[:, 0].tolist())
    assert first == {0, 1, 2}


def test_the_evaluation_is_that_of_theta():
    """Without the width and without a draw: scores of queries that were never served are theta.x."""
    for ranker in RANKERS:
        simulation = bandits(ranker, "click=perfect", total=30)
        candidates = [one.candidates for _, one in rounds(simulation)][-1]
        theta = simulation.ranker.deploy()
        scores = simulation.ranker.score(theta, candidates)
        expected = torch.einsum("sf,bdf->sbd", theta, candidates.features)
        torch.testing.assert_close(scores, expected)
