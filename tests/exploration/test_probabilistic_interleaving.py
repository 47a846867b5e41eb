"""Probabilistic interleaving against the plain port: on the same random numbers, and by counting."""

from __future__ import annotations

from itertools import permutations, product
from math import prod

import pytest
import torch
from ol2r_cli.exploration.interleaving import ProbabilisticInterleaving

from ol2r_cli.config.instantiate import build
from tests.reference.interleaving import choice, credit_probabilistic, probabilistic
from tests.rounds import LEAST_P, REPLICAS, fresh, p_value, propose, ranked, shown, some_scores
from tests.worlds import tiny

LENGTHS = [12, 1, 5, 2, 9, 3]
RANKINGS = [(0, 1, 2, 3), (0, 3, 1, 2), (2, 0, 1, 3)]


def preferring(rankings, replicas):
    """Scores [B N D] with which every member has its ranking."""
    scores = [[-float(ranking.index(document)) for document in range(len(ranking))] for ranking in rankings]
    return torch.tensor(scores, dtype=torch.float64).expand(replicas, len(rankings), len(rankings[0]))


@pytest.mark.parametrize("tau", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("positions", [1, 5, 15])
@pytest.mark.parametrize("members", [1, 2, 10])
def test_every_list_and_its_credit_are_those_of_the_definition(members, positions, ties, tau):
    """Documents that are not shown follow in the order of the first member. A smaller ranking depth changes nothing."""
    scores = some_scores(len(LENGTHS), members, 12, seed=members, ties=ties)
    for round in range(4):
        proposal = propose(ProbabilisticInterleaving(tau), scores, LENGTHS, positions, round=round)
        random = fresh(range(len(LENGTHS))).at("explore", round)
        chance, uniforms = random.uniform(12).tolist(), random.uniform(positions, "document").tolist()
        authors = (random.uniform(positions, "author") * members).int().tolist()
        for b, length in enumerate(LENGTHS):
            rankings = [ranked(scores[b, n, :length].tolist(), chance[b][:length]) for n in range(members)]
            listed = probabilistic(rankings, authors[b], uniforms[b], positions, tau)
            rest = [document for document in rankings[0] if document not in listed]
            assert proposal.order[b, :length].tolist() == listed + rest
            for document in range(length):
                clicks = [document == shown_document for shown_document in listed]
                expected = credit_probabilistic(rankings, listed, clicks, tau)
                assert proposal.credit[b, :, document].tolist() == pytest.approx(expected, abs=1e-9)
        shorter = propose(ProbabilisticInterleaving(tau), scores, LENGTHS, positions, positions, round)
        assert shown(shorter.order, LENGTHS) == shown(proposal.order[:, :positions], LENGTHS)


@pytest.mark.parametrize("tau", [1.0, 70.0, 400.0, 1e6])
def test_real_documents_come_before_padding_however_steep_the_choice(tau):
    scores, lengths = some_scores(40, 2, 12, seed=1), [10, 3, 12, 1] * 10
    proposal = propose(ProbabilisticInterleaving(tau), scores, lengths, 10)
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    assert torch.equal(proposal.order.sort(1).values, torch.arange(12).expand(40, -1))
    assert torch.equal(mask.gather(1, proposal.order), mask)
    assert proposal.credit.isfinite().all()


@pytest.mark.parametrize("members", [2, 3, 10])
def test_documents_that_all_members_rank_alike_give_equal_credit(members):
    """Equal to the last bit, because otherwise a click on such a document would decide which member wins."""
    scores = some_scores(200, members, 12, seed=members)
    scores[:, :, 4] = 9
    proposal = propose(ProbabilisticInterleaving(3.0), scores, [12] * 200, 10)
    first = proposal.order[:, 0] == 4
    credit = proposal.credit[first, :, 4]
    assert len(credit) > 100
    assert (credit == credit[:, :1]).all()


@pytest.mark.parametrize(("tau", "places"), [(3.0, 2), (1.0, 4), (0.5, 3)])
def test_lists_are_as_frequent_as_by_definition(tau, places):
    """A list comes about with a member drawn at every place, uniformly, and a document drawn by that member."""
    chances = {
        listed: sum(
            prod(choice(RANKINGS[author], listed[:place], tau)[listed[place]] for place, author in enumerate(authors))
            for authors in product(range(3), repeat=places)
        )
        / 3**places
        for listed in permutations(range(4), places)
    }
    assert sum(chances.values()) == pytest.approx(1)
    lists = propose(ProbabilisticInterleaving(tau), preferring(RANKINGS, REPLICAS), [4] * REPLICAS, places, places)
    assert p_value([tuple(row) for row in lists.order.tolist()], chances) > LEAST_P


def test_equal_scores_are_in_uniformly_random_order():
    scores = torch.zeros(REPLICAS, 3, 4, dtype=torch.float64)
    proposal = propose(ProbabilisticInterleaving(3.0), scores, [4] * REPLICAS, 4)
    chances = dict.fromkeys(permutations(range(4)), 1 / 24)
    assert p_value([tuple(row) for row in proposal.order.tolist()], chances) > LEAST_P
    assert torch.allclose(proposal.credit, torch.full_like(proposal.credit, 1 / 3)), "all break the tie alike"


@pytest.mark.parametrize("tau", [0, -1, float("nan")])
def test_bad_settings_are_refused(tau):
    with pytest.raises(ValueError, match=f"exploration.tau must be above 0, got {tau}"):
        build(tiny("exploration=probabilistic_interleaving", f"exploration.tau={tau}").exploration)
