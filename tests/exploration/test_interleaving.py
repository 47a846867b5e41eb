"""Interleaved lists and credit against the plain ports on the same random numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from ol2r_cli.exploration.interleaving import ProbabilisticInterleaving, TeamDraft
from tests.exploration.interleaved import by_chance, by_team_draft
from tests.rounds import fresh, propose, ranked, shown, some_scores

LENGTHS = [12, 1, 5, 2, 9, 3]


def scores_of(members: int, kind: str) -> torch.Tensor:
    """Scores [B N D] of members that have nothing, something or nearly everything in common."""
    scores = some_scores(len(LENGTHS), members, 12, seed=members, ties=kind == "ties")
    return {"apart": scores, "ties": scores, "close": scores[:, :1] + 0.1 * scores}[kind]


KINDS = list(product(("apart", "ties", "close"), (1, 2, 10), (1, 5, 15)))


@pytest.mark.parametrize(
    ("exploration", "port"), [(TeamDraft(), by_team_draft), (ProbabilisticInterleaving(3.0), by_chance)]
)
@pytest.mark.parametrize(("kind", "members", "positions"), KINDS)
def test_every_list_and_its_credit_are_those_of_the_definition(exploration, port, kind, members, positions):
    """Documents that are not shown follow in the order of the first member. A smaller ranking depth changes nothing."""
    scores = scores_of(members, kind)
    proposal = propose(exploration, scores, LENGTHS, positions, round=positions)
    random = fresh(range(len(LENGTHS))).at("explore", positions)
    chance = random.uniform(12).tolist()
    for b, length in enumerate(LENGTHS):
        rankings = [ranked(scores[b, n, :length].tolist(), chance[b][:length]) for n in range(members)]
        listed, credit = port(random, b, rankings, positions)
        rest = [document for document in rankings[0] if document not in listed]
        assert proposal.order[b, :length].tolist() == listed + rest
        expected = [credit([document == other for other in listed]) for document in range(length)]
        assert proposal.credit[b, :, :length].T.numpy() == pytest.approx(np.array(expected), abs=1e-9)
    shorter = propose(exploration, scores, LENGTHS, positions, positions, positions)
    assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :positions], LENGTHS)


@pytest.mark.parametrize("tau", [1.0, 400.0, 1e6])
def test_real_documents_come_before_padding(tau):
    """However steep the choice."""
    lengths = [10, 3, 12, 1] * 10
    proposal = propose(ProbabilisticInterleaving(tau), some_scores(40, 2, 12, seed=1), lengths, 10)
    for order, length in zip(proposal.order.tolist(), lengths, strict=True):
        assert sorted(order[:length]) == [*range(length)]
        assert sorted(order[length:]) == [*range(length, 12)]
    assert proposal.credit.isfinite().all()


@pytest.mark.parametrize("members", [2, 10])
def test_documents_that_all_members_rank_alike_give_equal_credit(members):
    """Equal to the last bit, because otherwise a click on such a document would decide which member wins."""
    scores = some_scores(200, members, 12, seed=members)
    scores[:, :, 4] = 9
    proposal = propose(ProbabilisticInterleaving(3.0), scores, [12] * 200, 10)
    credit = proposal.credit[proposal.order[:, 0] == 4, :, 4]
    assert len(credit) > 100
    assert (credit == credit[:, :1]).all()
