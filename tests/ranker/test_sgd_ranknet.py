"""SGD RankNet round by round against the plain port: one step on the round's pairs, and nothing without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference import feedback
from tests.reference.sgd_ranknet import step
from tests.rounds import LISTS, SEEDS, rounds
from tests.worlds import handmade, simulate, tiny


def implied(one, b, pairs):
    """(winner, loser) by document: what the clicks imply, or of all matchings the one that was drawn."""
    length = int(one.candidates.mask[b].sum())
    ranking, clicks = one.ranking[b, :length].tolist(), one.clicks[b, :length].tolist()
    if pairs != "matching":
        by_place = {"all": feedback.all_pairs, "adjacent": feedback.adjacent_pairs}[pairs](clicks)
        return [(ranking[winner], ranking[loser]) for winner, loser in by_place]
    valid = one.preferences.valid[b]
    drawn = list(
        zip(*(side[b][valid].tolist() for side in (one.preferences.winner, one.preferences.loser)), strict=True)
    )
    assert frozenset((ranking.index(w), ranking.index(v)) for w, v in drawn) in feedback.matchings(clicks)
    return drawn


def test_every_round_is_one_step_on_its_pairs():
    """The port gets lists and clicks, and keeps weights and rate of its own."""
    for case in [
        ("sgd_ranknet", "matching", 5, "informational", 0.1, 1.0),
        ("sgd_ranknet", "adjacent", 10, "navigational", 0.5, 0.9),
        ("sgd_ranknet", "all", 5, "perfect", 3.0, 0.999977),
        ("epsilon_greedy", "all", 20, "random", 0.3, 0.99),
    ]:
        ranker, pairs, positions, click, rate, decay = case
        settings = f"ranker.pairs={pairs}", f"ranker.learning_rate={rate}", f"ranker.decay={decay}"
        config = tiny(f"ranker={ranker}", f"click={click}", f"positions={positions}", *settings)
        simulation = simulate(config, SEEDS, 40, handmade(LISTS), trace_regret=False)
        learned, moved = [(np.zeros(4), rate) for _ in SEEDS], 0
        for t, one in rounds(simulation):
            for b in range(len(SEEDS)):
                features = one.candidates.features[b].numpy()
                scores = features @ learned[b][0]
                known = one.candidates.mask[b].numpy()
                assert one.prediction.scores[b, 0].numpy()[known] == pytest.approx(scores[known], abs=1e-9), case
                rows = [features[winner] - features[loser] for winner, loser in implied(one, b, pairs)]
                learned[b] = step(*learned[b], np.array(rows).reshape(-1, 4), decay)
                moved += len(rows) > 0
                assert simulation.ranker.theta[b].tolist() == pytest.approx(learned[b][0], abs=1e-9), f"round {t}"
                assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), case
        assert 0 < moved < 40 * len(SEEDS), case
        assert torch.equal(simulation.ranker.deploy(), simulation.ranker.theta), case


def test_a_pair_far_in_the_right_order_weighs_nothing_and_in_the_wrong_one_a_whole():
    """sigma(-margin), without overflow. Both places are examined, because the pair's winner is the only click."""
    for case in [(1000.0, 0.0), (-1000.0, 1.0)]:
        margin, weight = case
        config = tiny("ranker=sgd_ranknet", "ranker.learning_rate=1", "click=perfect")
        simulation = simulate(config, [0], 1, handmade([[0, 4]]))
        candidates, _ = simulation.train_split.serve(torch.tensor([0]))
        row = candidates.features[0, 1] - candidates.features[0, 0]
        start = margin * row / (row @ row)
        simulation.ranker.theta[0] = start
        ((_, one),) = simulation.play()
        assert (int(one.preferences.winner), int(one.preferences.loser), bool(one.preferences.valid)) == (1, 0, True), (
            case
        )
        torch.testing.assert_close(simulation.ranker.theta[0], start + weight * row, rtol=0, atol=1e-9)
