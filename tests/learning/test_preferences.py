"""Preferences from clicks, against the definitions written out in tests/reference."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.learning.preferences import examined, infer_preferences, most_pairs
from ol2r_cli.tensor.streams import Streams
from tests.reference import feedback as reference

click_lists = st.lists(st.booleans(), min_size=1, max_size=12)


def pairs_of(clicks: list[bool], pairs: str, round: int = 0, shown: int | None = None) -> set[tuple[int, int]]:
    """(winner, loser) by place."""
    places = torch.arange(len(clicks))[None]
    visible = places < (len(clicks) if shown is None else shown)
    random = Streams(torch.tensor([0])).at("pairs", round)
    found = infer_preferences(places, torch.tensor([clicks]), visible, pairs, random)
    assert found.valid.shape[1] <= max(1, most_pairs(pairs, len(clicks)))
    listed = [(int(w), int(v)) for w, v, ok in zip(found.winner[0], found.loser[0], found.valid[0], strict=True) if ok]
    assert len(set(listed)) == len(listed)
    return set(listed)


@given(click_lists, st.integers(0, 1000))
def test_pairs_are_those_of_the_definition(clicks, round):
    """Examined places end one after the last click; all pairs, places (1, 2), (3, 4), .., or a possible matching."""
    seen = examined(torch.tensor([clicks]), torch.ones(1, len(clicks), dtype=torch.bool))[0].tolist()
    count = reference.examined(clicks)
    assert seen == [True] * count + [False] * (len(clicks) - count)
    assert pairs_of(clicks, "all") == reference.all_pairs(clicks)
    assert pairs_of(clicks, "adjacent") == reference.adjacent_pairs(clicks)
    assert frozenset(pairs_of(clicks, "matching", round)) in reference.matchings(clicks)


def test_matchings_are_equally_likely():
    from scipy.stats import chisquare

    clicks = [True, False, True, False, False]  # 2 winners, 2 examined losers (place 4) + the first after: places 2, 4
    expected = reference.matchings(clicks)
    drawn = Counter(frozenset(pairs_of(clicks, "matching", round)) for round in range(600))
    assert set(drawn) == set(expected)
    counts, shares = zip(*((drawn[m], float(p) * 600) for m, p in expected.items()), strict=True)
    assert chisquare(counts, shares).pvalue > 0.01


def test_a_short_list_and_candidates_that_are_not_places():
    assert pairs_of([True, False, False], "all", shown=1) == set(), "places below its end are not examined"
    random = Streams(torch.tensor([0])).at("pairs", 0)
    shown = torch.ones(1, 2, dtype=torch.bool)
    found = infer_preferences(torch.tensor([[7, 3]]), torch.tensor([[False, True]]), shown, "adjacent", random)
    assert (int(found.winner[0, 0]), int(found.loser[0, 0])) == (3, 7)
