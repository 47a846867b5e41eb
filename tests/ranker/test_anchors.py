"""The two rankers between which all others lie: random scores, and the true labels."""

from __future__ import annotations

import torch

from tests.rounds import rounds
from tests.worlds import handmade, simulate, tiny

LISTS = [[0, 3, 1, 0, 2], [1, 0], [0, 0, 4]]


def played(name: str, count: int):
    """The simulation after so many rounds, and the predicted scores of each."""
    running = simulate(tiny(f"ranker={name}", "exploration=none"), [0, 1], count, handmade(LISTS))
    scores = [(one.candidates, one.prediction.scores[:, 0]) for _, one in rounds(running)]
    return running, scores


def test_random_scores_are_new_every_round_and_nothing_is_learned():
    running, scores = played("random", 200)
    assert running.ranker.deploy().shape == (2, 0)
    assert len({tuple(row[:2].tolist()) for _, both in scores for row in both}) == 400
    assert abs(float(torch.cat([both.flatten() for _, both in scores]).mean()) - 0.5) < 0.05  # 9 standard errors
    candidates = scores[0][0]
    assert not running.ranker.score(running.ranker.deploy(), candidates).any()


def test_the_oracle_scores_are_the_labels():
    running, scores = played("oracle", 20)
    assert running.ranker.deploy().shape == (2, 0)
    labels = torch.tensor([label for labels in LISTS for label in labels])
    for candidates, both in scores:
        expected = labels[candidates.document].where(candidates.mask, 0)
        assert torch.equal(both.where(candidates.mask, 0).long(), expected)
