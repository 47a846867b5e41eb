"""BatchRank round by round against the plain port of its algorithms, on the same clicks and random numbers."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

from tests.reference.batchrank import BatchRank as Reference
from tests.rounds import SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

LISTS = [[4, 0, 2, 0, 3], [0, 3]]
ROUNDS = 1500


def batchrank(*overrides, lists=LISTS, total=ROUNDS, **more):
    return simulate(tiny("ranker=batchrank", *overrides), SEEDS, total, handmade(lists), **more)


def state_of(oracle):
    """Of each document that is left: first place and stage of its batch, and its displays and clicks in this stage."""
    return {
        document: [batch.first, batch.stage, batch.displays[document], batch.clicks[document]]
        for batch in oracle.batches
        for document in batch.documents
    }


@pytest.mark.parametrize(("click", "positions", "dropped"), [("perfect", 3, 2), ("informational", 2, 0)])
def test_every_round_is_that_of_the_paper(click, positions, dropped):
    """Lists, batches, stages and counts of every query of every replica, until some were split and dropped."""
    simulation = batchrank(f"click={click}", f"positions={positions}")
    ranker = simulation.ranker
    oracles = [[Reference(len(labels), positions, ROUNDS) for labels in LISTS] for _ in SEEDS]
    for t, one in rounds(simulation):
        chance, place = (fresh().at("judge", t).uniform(5, name).tolist() for name in ("documents", "places"))
        for b, here in replicas(one):
            oracle = oracles[b][int(one.candidates.query[b])]
            assert here.ranking == oracle.display(chance[b], place[b]), (t, b)
            oracle.learn(here.ranking, [int(click) for click in here.clicks])
            rows = one.candidates.document[b, : len(here.features)]
            state = torch.stack([of[b, rows] for of in (ranker.first, ranker.stage, ranker.displays, ranker.clicks)], 1)
            found = {document: own for document, own in enumerate(state.tolist()) if own[0] != positions}
            assert found == state_of(oracle), (t, b)
    happened = np.zeros(3, int)
    for oracle in chain(*oracles):
        further = max(batch.stage for batch in oracle.batches) > 0
        happened += [len(oracle.batches) > 1, further, len(state_of(oracle)) < oracle.documents]
    assert (happened >= [2, 2, dropped]).all(), "split, in a further stage, dropped"


def test_places_agree_with_labels_in_the_end():
    """Perfect users and clear differences: the top places are those of the labels, without a mistake."""
    simulation = batchrank("click=perfect", "positions=2", lists=[[0, 4, 2]], total=3000)
    last = [one.ranking.tolist() for t, one in rounds(simulation) if t > 2900]
    assert all(ranking == [1, 2] for rankings in last for ranking in rankings)
