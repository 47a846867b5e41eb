"""BatchRank round by round against the plain port of its algorithms, on the same clicks and random numbers."""

from __future__ import annotations

from collections import Counter

from tests.reference.batchrank import BatchRank as Reference
from tests.rounds import SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

LISTS = [[4, 0, 2, 0, 3], [0, 3]]
ROUNDS = 1500


def batchrank(*overrides, lists=LISTS, total=ROUNDS, **more):
    return simulate(tiny("ranker=batchrank", *overrides), SEEDS, total, handmade(lists), **more)


def test_every_round_is_that_of_the_paper():
    """Lists, batches, stages and counts of every query of every replica, until some were split and dropped."""
    happened = Counter[str]()
    for click, positions in (("perfect", 3), ("informational", 2)):
        simulation = batchrank(f"click={click}", f"positions={positions}")
        ranker = simulation.ranker
        oracles = [[Reference(len(labels), positions, ROUNDS) for labels in LISTS] for _ in SEEDS]
        for t, one in rounds(simulation):
            chance, place = (fresh().at("judge", t).uniform(5, name).tolist() for name in ("documents", "places"))
            for b, here in replicas(one):
                query = int(one.candidates.query[b])
                oracle, n = oracles[b][query], len(here.features)
                assert here.ranking == oracle.display(chance[b], place[b]), (click, t, b)
                oracle.learn(here.ranking, [int(click) for click in here.clicks])
                rows = one.candidates.document[b, :n]
                owned = {document: batch for batch in oracle.batches for document in batch.documents}
                for document, row in enumerate(rows.tolist()):
                    first = int(ranker.first[b, row])
                    if batch := owned.get(document):
                        found = first, *(int(of[b, row]) for of in (ranker.stage, ranker.displays, ranker.clicks))
                        counts = batch.displays[document], batch.clicks[document]
                        assert found == (batch.first, batch.stage, *counts), (click, t, b, document)
                    else:
                        assert first == positions, (click, t, b, document)
        for oracle in (each for replica in oracles for each in replica):
            happened["split"] += len(oracle.batches) > 1
            happened["further"] += max(batch.stage for batch in oracle.batches) > 0
            happened["dropped"] += sum(len(batch.documents) for batch in oracle.batches) < oracle.documents
    assert min(happened[name] for name in ("split", "further", "dropped")) >= 2, happened


def test_places_agree_with_labels_in_the_end():
    """Perfect users and clear differences: the top places are those of the labels, without a mistake."""
    simulation = batchrank("click=perfect", "positions=2", lists=[[0, 4, 2]], total=3000)
    last = [one.ranking.tolist() for t, one in rounds(simulation) if t > 2900]
    assert all(ranking == [1, 2] for rankings in last for ranking in rankings)
