"""Certain pairs of an ensemble against the paper's definition, the blocks they form, and the order served."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ol2r_cli.exploration.confidence import Ensemble
from ol2r_cli.exploration.divide_and_conquer import similar_lengths

from ol2r_cli.config.instantiate import build
from tests.reference.blocks import partition, transitive_closure
from tests.reference.ensemble import certain as unanimous
from tests.reference.relations import from_edges
from tests.reference.shuffles import order_by_clocks
from tests.rounds import LISTS, SEEDS, fresh, propose, rounds, some_scores
from tests.worlds import handmade, simulate, tiny


def check_round(proposal, scores, lengths, clocks, shuffle) -> int:
    """Pairs, blocks and order of every replica, by the oracles; how many pairs are certain."""
    found = 0
    for b, length in enumerate(lengths):
        certain = from_edges(length, unanimous(scores[b, :, :length].tolist()))
        assert (proposal.certain[b, :length, :length].numpy() == certain).all()
        blocks = [set(np.flatnonzero(proposal.block[b, :length].numpy() == n)) for n in range(length)]
        assert [block for block in blocks if block] == partition(certain)
        served = order_by_clocks(certain, partition(certain), clocks[b].tolist(), shuffle)
        assert tuple(proposal.order[b, :length].tolist()) == served
        found += int(certain.sum())
    return found


@pytest.mark.parametrize(
    ("members", "shuffle", "click"),
    [
        (2, "conservative", "informational"),
        (2, "random", "perfect"),
        (5, "conservative", "perfect"),
        (5, "random", "navigational"),
    ],
)
def test_every_round_explores_where_the_members_disagree(members, shuffle, click):
    """Three replicas with lists of different length; the oracles get the members' scores."""
    overrides = f"ranker.members={members}", f"exploration.shuffle={shuffle}", f"click={click}"
    config, clocks = tiny("ranker=pepairrank", *overrides), fresh()
    found = pairs = 0
    for t, one in rounds(simulate(config, SEEDS, 12, handmade(LISTS))):
        lengths = one.candidates.mask.sum(1).tolist()
        drawn = clocks.at("explore", t).exponential(one.candidates.mask.shape[1])
        found += check_round(one.proposal, one.prediction.scores, lengths, drawn, shuffle)
        pairs += sum(length * (length - 1) // 2 for length in lengths)
        torch.testing.assert_close(one.proposal.scores, one.prediction.scores.mean(1))
    assert 0.1 * pairs < found < 0.9 * pairs


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_opinions(members, seed, ties, alike):
    """With equal scores, which are never certain, and with members that mostly agree."""
    lengths = [12, 1, 5, 2, 9]
    scores = some_scores(len(lengths), members, 12, seed, ties)
    scores = scores[:, :1] + 0.3 * scores if alike else scores
    clocks = fresh(range(len(lengths))).at("explore", 0).exponential(12)
    for shuffle in "conservative", "random":
        check_round(propose(Ensemble(shuffle), scores, lengths, 10), scores, lengths, clocks, shuffle)


def test_long_lists_are_worked_on_in_groups_of_similar_length():
    lengths = [90, 20, 110, 3, 60, 100]
    assert len(similar_lengths(torch.arange(110) < torch.tensor(lengths)[:, None])) > 2
    scores = some_scores(len(lengths), 1, 110, 0) + 0.1 * some_scores(len(lengths), 3, 110, 1)
    clocks = fresh(range(len(lengths))).at("explore", 0).exponential(110)
    assert check_round(propose(Ensemble("conservative"), scores, lengths, 10), scores, lengths, clocks, "conservative")


@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_there_is_nothing_to_close(members, seed, ties):
    proposal = propose(Ensemble("random"), some_scores(1, members, 12, seed, ties), [12], 10)
    certain = proposal.certain[0].numpy()
    assert (transitive_closure(certain) == certain).all()


def test_before_the_first_pair_nothing_is_certain_and_any_order_may_come():
    """All members are equal and so are all scores: one block."""
    config = tiny("ranker=pepairrank")
    _, one = next(simulate(config, list(range(50)), 1, handmade([[0, 1, 2]])).play())
    assert not one.proposal.certain.any()
    assert not one.proposal.block.any()
    assert len({tuple(order) for order in one.order.tolist()}) == 6


def test_an_ensemble_of_one_is_refused():
    words = r"^the exploration Ensemble needs .* use ranker=pepairrank with ranker.members=2 or more$"
    with pytest.raises(ValueError, match=words):
        simulate(tiny("ranker=pepairrank", "ranker.members=1"), [0], 1)
    simulate(tiny("ranker=pepairrank", "ranker.members=1", "exploration=none"), [0], 1)


def test_settings_outside_their_range_are_refused():
    with pytest.raises(ValueError, match=r"exploration.shuffle must be one of conservative, random, got 'x'"):
        build(tiny("ranker=pepairrank", "exploration.shuffle=x").exploration)
