"""Interleaved lists and credit against the plain ports: on the same random numbers, and by counting."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from math import prod

import pytest
import torch

from ol2r_cli.exploration.interleaving import ProbabilisticInterleaving, TeamDraft
from tests.reference.interleaving import all_turns, choice, credit_probabilistic, probabilistic, team_draft
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, propose, ranked, shown, some_scores

LENGTHS = [12, 1, 5, 2, 9, 3]


def scores_of(members: int, kind: str) -> torch.Tensor:
    """Scores [B N D] of members that have nothing, something or nearly everything in common."""
    scores = some_scores(len(LENGTHS), members, 12, seed=members, ties=kind == "ties")
    return {"apart": scores, "ties": scores, "close": scores[:, :1] + 0.1 * scores}[kind]


def preferring(rankings, replicas):
    """Scores [B N D] with which every member has its ranking."""
    scores = [[-float(ranking.index(document)) for document in range(len(ranking))] for ranking in rankings]
    return torch.tensor(scores, dtype=torch.float64).expand(replicas, len(rankings), len(rankings[0]))


def drafted(rankings, random, b, positions, members):
    """List of replica b, and the credit of each document by member."""
    turns = random.uniform(15 * members, "turns").unflatten(1, (15, members)).argsort(2).flatten(1)[b].tolist()
    listed, authors = team_draft(rankings, turns, positions)
    return listed, {d: [float(author == n) for n in range(members)] for d, author in zip(listed, authors, strict=True)}


def drawn(rankings, random, b, positions, members, tau=3.0):
    """The same of probabilistic interleaving."""
    authors = (random.uniform(positions, "author") * members).int()[b].tolist()
    listed = probabilistic(rankings, authors, random.uniform(positions, "document")[b].tolist(), positions, tau)
    credit = {d: credit_probabilistic(rankings, listed, [d == other for other in listed], tau) for d in listed}
    return listed, credit


@pytest.mark.parametrize(("exploration", "port"), [(TeamDraft(), drafted), (ProbabilisticInterleaving(3.0), drawn)])
def test_every_list_and_its_credit_are_those_of_the_definition(exploration, port):
    """Documents that are not shown follow in the order of the first member. A smaller ranking depth changes nothing."""
    for kind, members, positions in product(("apart", "ties", "close"), (1, 2, 10), (1, 5, 15)):
        scores = scores_of(members, kind)
        proposal = propose(exploration, scores, LENGTHS, positions, round=positions)
        random = fresh(range(len(LENGTHS))).at("explore", positions)
        chance = random.uniform(12).tolist()
        for b, length in enumerate(LENGTHS):
            rankings = [ranked(scores[b, n, :length].tolist(), chance[b][:length]) for n in range(members)]
            listed, credit = port(rankings, random, b, positions, members)
            rest = [document for document in rankings[0] if document not in listed]
            assert proposal.order[b, :length].tolist() == listed + rest, (kind, members, positions)
            for document in range(length):
                expected = credit.get(document, [0.0] * members)
                assert proposal.credit[b, :, document].tolist() == pytest.approx(expected, abs=1e-9)
        shorter = propose(exploration, scores, LENGTHS, positions, positions, positions)
        assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :positions], LENGTHS)


def test_drafted_lists_and_authors_have_the_frequencies_of_all_turns():
    for rankings in (
        [(0, 1, 2, 3), (0, 3, 2, 1)],
        [(0, 1, 2, 3), (1, 0, 3, 2), (3, 0, 1, 2)],
        [(2, 1, 0, 3), (2, 0, 1, 3), (2, 1, 3, 0)],
    ):
        members, chances = len(rankings), Counter()
        every = all_turns(members, 4)
        for turns in every:
            listed, authors = team_draft(rankings, turns, 4)
            chances[tuple(listed), tuple(authors)] += 1 / len(every)
        proposal = propose(TeamDraft(), preferring(rankings, REPLICAS), [4] * REPLICAS, 4)
        found = []
        for order, credit in zip(proposal.order.tolist(), proposal.credit.mT.tolist(), strict=True):
            found.append((tuple(order), tuple(credit[d].index(1.0) if any(credit[d]) else None for d in order)))
        assert p_value(found, chances) > LEAST_P, rankings


def test_drawn_lists_are_as_frequent_as_by_definition():
    """A list comes about with a member drawn at every place, uniformly, and a document drawn by that member."""
    rankings = [(0, 1, 2, 3), (0, 3, 1, 2), (2, 0, 1, 3)]
    for tau, places in (3.0, 2), (0.5, 3):
        chances = {
            listed: sum(
                prod(choice(rankings[author], listed[:place], tau)[listed[place]] for place, author in enumerate(each))
                for each in product(range(3), repeat=places)
            )
            / 3**places
            for listed in permutations(range(4), places)
        }
        exploration = ProbabilisticInterleaving(tau)
        lists = propose(exploration, preferring(rankings, REPLICAS), [4] * REPLICAS, places, places)
        assert p_value([tuple(row) for row in lists.order.tolist()], chances) > LEAST_P, tau


def test_real_documents_come_before_padding_however_steep_the_choice():
    scores, lengths = some_scores(40, 2, 12, seed=1), [10, 3, 12, 1] * 10
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    for tau in 1.0, 400.0, 1e6:
        proposal = propose(ProbabilisticInterleaving(tau), scores, lengths, 10)
        assert torch.equal(proposal.order.sort(1).values, torch.arange(12).expand(40, -1)), tau
        assert torch.equal(mask.gather(1, proposal.order), mask), tau
        assert proposal.credit.isfinite().all(), tau


def test_documents_that_all_members_rank_alike_give_equal_credit():
    """Equal to the last bit, because otherwise a click on such a document would decide which member wins."""
    for members in 2, 10:
        scores = some_scores(200, members, 12, seed=members)
        scores[:, :, 4] = 9
        proposal = propose(ProbabilisticInterleaving(3.0), scores, [12] * 200, 10)
        credit = proposal.credit[proposal.order[:, 0] == 4, :, 4]
        assert len(credit) > 100
        assert (credit == credit[:, :1]).all(), members
