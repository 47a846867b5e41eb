"""COLTR round by round against a plain port, and what must not win."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.ranker.counterfactual import counterfactual_risks
from tests.reference import coltr, dueling
from tests.reference.plackett_luce import order_of
from tests.rounds import LISTS, SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

FEATURES, CANDIDATES = 4, 20
SETTINGS = "ranker.learning_rate=0.4", "ranker.decay=0.9", "ranker.floor=0.3", f"ranker.candidates={CANDIDATES}"


@pytest.mark.parametrize(
    "case",
    [
        (("ranker.renormalise=false", "ranker.temperature=0.5"), 5, "informational"),
        (("ranker.renormalise=true", "ranker.variance_penalty=0"), 20, "random"),
        (("ranker.delta=0.3", "ranker.variance_penalty=3"), 5, "navigational"),
    ],
    ids=str,
)
def test_every_round_is_that_of_the_definition(case):
    """The port draws, lists, evaluates and moves; we only show it the clicks."""
    words, positions, click = case
    config = tiny("ranker=coltr", *SETTINGS, *words, f"click={click}", f"positions={positions}")
    own, dataset, streams = config.ranker, handmade(LISTS, FEATURES), fresh()
    simulation = simulate(config, SEEDS, 60, dataset, blocks=False, regret=False)
    learned, happened = [(np.zeros(FEATURES), 0.4) for _ in SEEDS], Counter[str]()
    for t, one in rounds(simulation):
        clocks = streams.at("explore", t).exponential(one.candidates.mask.shape[1]).numpy()
        normals = streams.at("learn/ranker", t).normal(CANDIDATES * FEATURES).unflatten(1, (CANDIDATES, -1)).numpy()
        for b, here in replicas(one):
            documents, place = dataset.features[one.candidates.document[b]].double().numpy(), (case, t, b)
            documents = documents[: len(here.features)]
            theta, rate = learned[b]
            scores = [float(x @ theta) / own.temperature for x in documents]
            assert here.scores[0] == pytest.approx(scores, abs=1e-9), place
            assert here.ranking == list(order_of(scores, clocks[b, : len(scores)]))[:positions], place
            directions = [dueling.unit(normal) for normal in normals[b]]
            members = dueling.members(theta, own.delta, directions)
            penalty = own.variance_penalty, own.renormalise
            risks = coltr.risks(members, documents, here.ranking, here.clicks, *penalty)
            learned[b] = coltr.step(theta, rate, directions, risks, own.decay, 0.3 * 0.4)
            assert simulation.ranker.theta[b].numpy() == pytest.approx(learned[b][0], abs=1e-9), place
            assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), place
            moved, lost = learned[b][0] is not theta, any(coltr.losses(here.clicks))
            happened["moved"] += moved
            happened["a loss, but nothing moved"] += not moved and lost
            happened["moved without a loss"] += moved and not lost
            happened["rate at its floor"] += moved and rate == 0.3 * 0.4
    assert happened["moved"] > 15, case
    assert happened["rate at its floor"] > 2, case
    assert not happened["moved without a loss"], "nor without a click"


def lists(clicks):
    """Two queries of 9 and 5 documents, six places, and these clicks at each of them."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(9) < torch.tensor([9, 5])[:, None]
    ranking = torch.stack([torch.randperm(9, generator=generator)[:6], torch.tensor([3, 0, 4, 1, 2, 7])])
    shown = mask[:, :6]
    scores = torch.randn(2, 30, 9, generator=generator, dtype=torch.float64)
    return scores, mask, ranking, shown, torch.tensor([clicks, clicks]) & shown


def test_scores_far_apart_do_not_overflow():
    """Weights differ by far more than a float can hold: the risk is that of the document with the largest one."""
    for renormalise in [False, True]:
        scores, mask, *shown = lists([False, True, False, False, False, False])
        risk = counterfactual_risks(1e4 * scores, mask, *shown, 0.0, renormalise)
        assert risk.isfinite().all(), renormalise
        likely = scores[0, 1:] - scores[0, :1]
        if not renormalise:  # then the largest weight is that of the largest difference of scores
            ranking = shown[0][0]
            best = likely[:, ranking].argmax(1)
            torch.testing.assert_close(risk[0, 1:], (best == 0).double())
