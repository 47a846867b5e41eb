"""Team draft by hand and over all coin flips; `test_reference_probabilistic_interleaving.py` has the other half."""

from __future__ import annotations

from collections import Counter
from math import factorial

import numpy as np
import pytest

from tests.reference.interleaving import all_turns, common_prefix, credit_team_draft, team_draft

pytestmark = pytest.mark.slow  # tests of the oracle itself

RANKINGS = [(0, 1, 2, 3), (0, 3, 1, 2), (2, 0, 1, 3)]


def random_rankings(seed: int, members: int, documents: int):
    rng = np.random.default_rng(seed)
    return [tuple(rng.permutation(documents).tolist()) for _ in range(members)]


def test_turns_are_random_permutations_one_after_the_other():
    assert set(all_turns(2, 3)) == {(*first, *last) for first in [(0, 1), (1, 0)] for last in [(0,), (1,)]}
    for members, length in [(2, 4), (3, 3), (3, 4), (3, 5), (4, 2)]:
        turns = all_turns(members, length)
        whole, rest = divmod(length, members)
        assert len(set(turns)) == len(turns)
        assert len(turns) == factorial(members) ** whole * factorial(members) // factorial(members - rest)
        for t in turns:
            rounds = [t[start : start + members] for start in range(0, length, members)]
            assert all(len(set(r)) == len(r) for r in rounds)


def test_a_cut_permutation_leaves_the_beginnings_equally_likely():
    cut = Counter(turns[:4] for turns in all_turns(3, 6))
    assert set(cut) == set(all_turns(3, 4))
    assert len(set(cut.values())) == 1


def test_team_draft_by_hand():
    rankings = [(0, 1, 2, 3), (0, 2, 1, 3)]
    assert common_prefix(rankings) == 1
    # 1 places 2; 0 places 1; then 0 and 1 both have only 3 left, and the turn says who it is
    assert team_draft(rankings, (1, 0, 0), 4) == ([0, 2, 1, 3], [None, 1, 0, 0])
    assert team_draft(rankings, (0, 1, 1), 4) == ([0, 1, 2, 3], [None, 0, 1, 1])
    assert team_draft(rankings, (1, 0), 2) == ([0, 2], [None, 1])
    assert team_draft(rankings, (1, 0, 0, 1), 10) == ([0, 2, 1, 3], [None, 1, 0, 0])


def test_team_draft_of_three_by_hand():
    # 2 places 2, 0 places 0, 1 (0 is gone) places 3; then 1, its 0 and 3 gone, places 1
    assert team_draft(RANKINGS, (2, 0, 1, 1), 4) == ([2, 0, 3, 1], [2, 0, 1, 1])


def test_a_document_that_only_some_have_on_top_ends_the_prefix():
    assert common_prefix([(0, 1, 2), (0, 1, 2), (0, 2, 1)]) == 1
    assert common_prefix([(0, 1, 2), (1, 0, 2)]) == 0  # 2 is in the same place, but not from the top
    assert common_prefix([(0, 1, 2)] * 3) == 3


def test_equal_members_get_no_credit_whatever_is_clicked():
    for turns in all_turns(2, 3):
        shown, authors = team_draft([(2, 0, 1)] * 2, turns, 3)
        assert shown == [2, 0, 1]
        assert credit_team_draft(authors, (True, True, True), 2) == [0, 0]


def test_credit_of_team_draft_by_hand():
    assert credit_team_draft([None, 1, 0, 1], (True, True, False, True), 3) == [0, 2, 0]


@pytest.mark.parametrize("seed", range(10))
def test_team_draft_over_all_turns(seed):
    members, documents, length = 3, 6, 5
    rankings = random_rankings(seed, members, documents)
    placed = Counter()
    for turns in all_turns(members, length):
        shown, authors = team_draft(rankings, turns, length)
        assert len(set(shown)) == len(shown) == length
        assert set(authors[: common_prefix(rankings)]) <= {None}
        for place, author in enumerate(authors):
            if author is not None:
                best = min(set(range(documents)) - set(shown[:place]), key=rankings[author].index)
                assert shown[place] == best
        placed.update(authors)
        own = [authors.count(member) for member in range(members)]
        assert max(own) - min(own) <= 1
    # users who click anywhere alike give all members the same credit
    assert len({placed[member] for member in range(members)}) == 1


def test_a_relevant_document_ranked_higher_earns_more_by_team_draft():
    # Member 0 has the relevant 2 first, member 1 has it last: of the two places, member 0 always fills one with it.
    rankings = [(2, 0, 1), (0, 1, 2)]
    total = np.zeros(2)
    for turns in all_turns(2, 2):
        shown, authors = team_draft(rankings, turns, 2)
        total += credit_team_draft(authors, [document == 2 for document in shown], 2)
    assert total.tolist() == [2, 0]
