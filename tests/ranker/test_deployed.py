"""What every ranker deploys: a copy, which later rounds leave alone, with the scores that it serves by."""

from __future__ import annotations

import pytest
import torch

from tests.choices import LISTS, SEEDS, rankers, simulation
from tests.rounds import rounds

FIRST = ("ranker=dbgd",), ("ranker=mgd",), ("ranker=nsgd",)  # of the members that are served; others deploy their mean
FIRST += ("ranker=pepairrank", "ranker.deploy=first"), ("ranker=p2neurrank", "ranker.deploy=first")
UNPERTURBED = "ranker=pepairrank", "ranker.deploy=unperturbed"
# Where served scores are bounds, drawn, random, or divided by a temperature.
OTHER = ("ranker=cascade_linucb",), ("ranker=cascade_lints",), ("ranker=random",), ("ranker=coltr",)


@pytest.mark.parametrize("overrides", dict.fromkeys([*rankers(), *FIRST, UNPERTURBED]), ids=" ".join)
def test_it_is_a_copy_with_the_scores_that_are_served(overrides):
    with torch.inference_mode():
        running = simulation(overrides)
        ranker = running.ranker
        kept = [(deployed, deployed.clone()) for deployed in (ranker.deploy() for _ in rounds(running))]
        assert all(torch.equal(deployed, copy) for deployed, copy in kept)
        if not ranker.generalises or overrides in OTHER:
            return
        for query in range(len(LISTS)):
            candidates, _ = running.train_split.serve(torch.full((len(SEEDS),), query))
            served = ranker.predict(candidates, running.streams.at("judge", 99)).scores
            expected = served[:, 0] if overrides in FIRST else served.mean(1)
            if overrides == UNPERTURBED:
                expected = torch.einsum("bdf,bf->bd", candidates.features, ranker.solver.theta)
            found = ranker.score(ranker.deploy(), candidates).diagonal(dim1=0, dim2=1).T
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            assert served.shape[1] > 1 or overrides not in FIRST
