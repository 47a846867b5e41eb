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
    ("words", "positions", "click"),
    [
        (("ranker.renormalise=false", "ranker.temperature=0.5"), 5, "informational"),
        (("ranker.renormalise=true", "ranker.variance_penalty=0"), 20, "random"),
        (("ranker.delta=0.3", "ranker.variance_penalty=3"), 5, "navigational"),
    ],
)
def test_every_round_is_that_of_the_definition(words, positions, click):
    """The port draws, lists, evaluates and moves; we only show it the clicks."""
    config = tiny("ranker=coltr", *SETTINGS, *words, f"click={click}", f"positions={positions}")
    own, streams = config.ranker, fresh()
    simulation = simulate(config, SEEDS, 60, handmade(LISTS, FEATURES), blocks=False, regret=False)
    learned, happened = [(np.zeros(FEATURES), 0.4) for _ in SEEDS], Counter[str]()
    for t, one in rounds(simulation):
        clocks = streams.at("explore", t).exponential(one.candidates.mask.shape[1]).numpy()
        normals = streams.at("learn/ranker", t).normal(CANDIDATES * FEATURES).unflatten(1, (CANDIDATES, -1)).numpy()
        for b, here in replicas(one):
            documents, (theta, rate), place = here.features.astype(float), learned[b], (t, b)
            scores = (documents @ theta / own.temperature).tolist()
            assert here.scores[0] == pytest.approx(scores, abs=1e-9), place
            assert here.ranking == list(order_of(scores, clocks[b, : len(scores)]))[:positions], place
            directions = list(map(dueling.unit, normals[b]))
            members = dueling.members(theta, own.delta, directions)
            penalty = own.variance_penalty, own.renormalise
            risks = coltr.risks(members, documents, here.ranking, here.clicks, *penalty)
            learned[b] = coltr.step(theta, rate, directions, risks, own.decay, 0.3 * 0.4)
            assert simulation.ranker.theta[b].numpy() == pytest.approx(learned[b][0], abs=1e-9), place
            assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), place
            moved = learned[b][0] is not theta
            assert not moved or any(coltr.losses(here.clicks)), "nor without a click"
            happened["moved"] += moved
            happened["rate at its floor"] += moved and rate == 0.3 * 0.4
    assert happened["moved"] > 15
    assert happened["rate at its floor"] > 2


@pytest.mark.parametrize("renormalise", [False, True])
def test_scores_far_apart_do_not_overflow(renormalise):
    """Weights differ by far more than a float can hold: the risk is that of the document with the largest one. Two
    queries of 9 and 5 documents, six places, and a click on the second."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(9) < torch.tensor([9, 5])[:, None]
    ranking = torch.stack([torch.randperm(9, generator=generator)[:6], torch.tensor([3, 0, 4, 1, 2, 7])])
    scores = torch.randn(2, 30, 9, generator=generator, dtype=torch.float64)
    clicks = (torch.arange(6) == 1).expand(2, -1)
    risk = counterfactual_risks(1e4 * scores, mask, ranking, mask[:, :6], clicks, 0.0, renormalise)
    assert risk.isfinite().all()
    if not renormalise:  # then the largest weight is that of the largest difference of scores
        best = (scores[0, 1:] - scores[0, :1])[:, ranking[0]].argmax(1)
        torch.testing.assert_close(risk[0, 1:], (best == 0).double())
