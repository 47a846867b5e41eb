"""Team-draft lists and credit against the plain port: on the same turns, and over all turns by counting."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
import torch
from ol2r_cli.exploration.interleaving import TeamDraft

from tests.reference.interleaving import all_turns, common_prefix, credit_team_draft, team_draft
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, propose, ranked, shown, some_scores

LENGTHS = [12, 1, 5, 2, 9, 3]


def some_rankings(members: int, kind: str) -> torch.Tensor:
    """Scores [B N D] of members that have nothing, something or nearly everything in common."""
    scores = some_scores(len(LENGTHS), members, 12, seed=members, ties=kind == "ties")
    return {"apart": scores, "ties": scores, "close": scores[:, :1] + 0.1 * scores}[kind]


@pytest.mark.parametrize("kind", ["apart", "ties", "close"])
@pytest.mark.parametrize("positions", [1, 5, 10, 15])
@pytest.mark.parametrize("members", [1, 2, 3, 10])
def test_every_list_and_its_credit_are_those_of_the_definition(members, positions, kind):
    """Documents that are not shown follow in the order of the first member. A smaller ranking depth changes nothing."""
    scores = some_rankings(members, kind)
    for round in range(4):
        proposal = propose(TeamDraft(), scores, LENGTHS, positions, round=round)
        random = fresh(range(len(LENGTHS))).at("explore", round)
        chance = random.uniform(12).tolist()
        turns = random.uniform(15 * members, "turns").unflatten(1, (15, members)).argsort(2).flatten(1).tolist()
        for b, length in enumerate(LENGTHS):
            rankings = [ranked(scores[b, n, :length].tolist(), chance[b][:length]) for n in range(members)]
            listed, authors = team_draft(rankings, turns[b], positions)
            rest = [document for document in rankings[0] if document not in listed]
            assert proposal.order[b, :length].tolist() == listed + rest
            for member in range(members):
                owned = {d: float(author == member) for d, author in zip(listed, authors, strict=True)}
                assert proposal.credit[b, member, :length].tolist() == [owned.get(d, 0.0) for d in range(length)]
            assert proposal.scores[b].tolist() == scores[b, 0].tolist()
        shorter = propose(TeamDraft(), scores, LENGTHS, positions, positions, round)
        assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :positions], LENGTHS)


def test_a_common_prefix_gives_no_credit_and_every_other_shown_document_gives_one():
    """Clicks on the common prefix count for no member."""
    scores = torch.tensor([[9.0, 8.0, 3.0, 2.0, 1.0, 0.0], [9.0, 8.0, 0.0, 1.0, 2.0, 3.0]]).double().expand(50, 2, 6)
    for round in range(5):
        proposal = propose(TeamDraft(), scores, [6] * 50, 5, round=round)
        assert proposal.order[:, :2].tolist() == [[0, 1]] * 50
        assert proposal.credit[:, :, :2].sum() == 0
        assert (proposal.credit.gather(2, proposal.order[:, None, 2:5].expand(-1, 2, -1)).sum(1) == 1).all()
        assert (proposal.credit.gather(2, proposal.order[:, None, 5:].expand(-1, 2, -1)) == 0).all(), "not shown"
    rankings = [(0, 1, 2, 3, 4, 5), (0, 1, 5, 4, 3, 2)]
    _, authors = team_draft(rankings, [0, 1, 0], 5)
    assert credit_team_draft(authors, [True, True, False, False, False], 2) == [0, 0]


@pytest.mark.parametrize("identical", [True, False])
def test_identical_members_earn_nothing(identical):
    scores = some_scores(40, 1, 7, seed=5).expand(40, 3, 7).clone()
    scores[:, 2] *= 1 if identical else -1
    credit = propose(TeamDraft(), scores, [7] * 40, 10).credit
    assert bool((credit == 0).all()) is identical


@pytest.mark.parametrize(
    "rankings",
    [
        [(0, 1, 2, 3), (0, 3, 2, 1)],
        [(2, 0, 1, 3), (3, 1, 0, 2)],
        [(0, 1, 2, 3), (1, 0, 3, 2), (3, 0, 1, 2)],
        [(2, 1, 0, 3), (2, 0, 1, 3), (2, 1, 3, 0)],
    ],
)
def test_lists_and_authors_have_the_frequencies_of_all_turns(rankings):
    members, places = len(rankings), 4
    chances: Counter = Counter()
    every = all_turns(members, places)
    for turns in every:
        listed, authors = team_draft(rankings, turns, places)
        chances[tuple(listed), tuple(authors)] += 1 / len(every)
    scores = torch.tensor([[-float(ranking.index(d)) for d in range(4)] for ranking in rankings], dtype=torch.float64)
    proposal = propose(TeamDraft(), scores.expand(REPLICAS, members, 4), [4] * REPLICAS, places)
    drawn = []
    for order, credit in zip(proposal.order.tolist(), proposal.credit.mT.tolist(), strict=True):
        drawn.append((tuple(order), tuple(credit[d].index(1.0) if any(credit[d]) else None for d in order)))
    assert max(authors.count(None) for _, authors in chances) == common_prefix(rankings)
    assert p_value(drawn, chances) > LEAST_P


def test_equal_scores_are_in_uniformly_random_order():
    proposal = propose(TeamDraft(), torch.zeros(REPLICAS, 3, 4, dtype=torch.float64), [4] * REPLICAS, 4)
    chances = dict.fromkeys(permutations(range(4)), 1 / 24)
    assert p_value([tuple(row) for row in proposal.order.tolist()], chances) > LEAST_P
    assert (proposal.credit == 0).all(), "all break the tie alike, so that nobody is to be credited"
