"""Algorithm 4 as printed, against its plain port with the same permutation, and the paper's figure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
import torch

from ol2r_cli.fairness.fairexp import FairSwap, broken_pairs, calibrated, group_queues
from ol2r_cli.interfaces import Candidates, Proposal
from tests.reference import fairswap as reference
from tests.reference.exposure import letters
from tests.reference.fairexp import templates as words
from tests.reference.fairswap import Blocks
from tests.reference.partitions import random_case
from tests.reference.relations import random_relation
from tests.reference.violations import broken as counted
from tests.reference.violations import brute_force_minimum, certain_across
from tests.rounds import fresh

# Figure 3.1 of the dissertation, with x4 before x3, as fetching x4 asks for: see test_reference_fairness.py.
FIGURE_BLOCKS, FIGURE_GROUPS, FIGURE_TEMPLATE = [[0, 1], [3, 2, 4]], "ABAAB", "AABAB"


class Round(NamedTuple):
    """One query for several replicas, with padding, and the FairSwap that fills its templates."""

    proposal: Proposal
    candidates: Candidates
    shuffle: list[list[int]]  # the permutation of every replica
    swap: FairSwap


def proposed(blocks: Blocks, groups: str, certain: np.ndarray, replicas: int, padding: int = 2) -> Round:
    """One query for replicas that are seeded 0, 1, .."""
    documents = len(groups) + padding
    order = [d for block in blocks for d in block]
    number = [next(n for n, block in enumerate(blocks) if d in block) for d in range(len(groups))]
    above = np.zeros((documents, documents), dtype=bool)
    above[: len(groups), : len(groups)], above[: len(groups), len(groups) :] = certain, True
    every = torch.arange(documents)
    proposal = Proposal(
        torch.tensor([order + list(range(len(groups), documents))]).repeat(replicas, 1),
        torch.zeros(replicas, documents),
        torch.tensor([number + [len(blocks)] * padding]).repeat(replicas, 1),
        torch.from_numpy(above).repeat(replicas, 1, 1),
    )
    group = torch.tensor([["AB".index(letter) for letter in groups] + [0] * padding]).repeat(replicas, 1)
    mask = (every < len(groups)).repeat(replicas, 1)
    candidates = Candidates(torch.zeros(replicas).long(), group, torch.zeros(replicas, documents, 1), mask, group)
    clocks = fresh(range(replicas)).at("arrange", 0).uniform(documents)
    shuffle = [sorted(range(len(groups)), key=clock.__getitem__) for clock in clocks.tolist()]
    swap = FairSwap(proposal, candidates, fresh(range(replicas)).at("arrange", 0))
    return Round(proposal, candidates, shuffle, swap)


def numbers(template: str) -> list[int]:
    return ["AB".index(letter) for letter in template]


def test_the_figure_ends_with_added_regret_2_where_1_is_possible():
    certain = certain_across(FIGURE_BLOCKS)
    one = proposed(FIGURE_BLOCKS, FIGURE_GROUPS, certain, replicas=200)
    assert calibrated(FIGURE_BLOCKS, numbers(FIGURE_GROUPS), numbers(FIGURE_TEMPLATE)) == [[0, 3], [1], [2, 4]]
    template = torch.full((200,), int("00101", 2))
    orders, regret = one.swap.rerank(template, 5), Counter()
    for order, shuffle in zip(orders.tolist(), one.shuffle, strict=True):
        expected = reference.paper(FIGURE_BLOCKS, FIGURE_GROUPS, FIGURE_TEMPLATE, shuffle)
        assert tuple(order[:5]) == expected
        regret[expected] = sum(counted(expected, certain, FIGURE_BLOCKS))
    # x4 is shuffled with x1, whose block it joins: above x1 it breaks a pair more, as in print
    assert regret == {(3, 0, 1, 2, 4): 2, (0, 3, 1, 2, 4): 1}
    asked = torch.nn.functional.one_hot(template, 32).bool()
    cost = one.swap.broken_pairs(asked, 5, "all")
    assert sorted({*cost[asked].tolist()}) == [1, 2]
    assert cost[~asked].isinf().all()
    group = one.candidates.group.masked_fill(~one.candidates.mask, 2).gather(1, one.proposal.order)
    merging = broken_pairs(one.proposal.certain, one.proposal.order, group, group_queues(group, 5), "all")
    assert merging[0, int("00101", 2)] == brute_force_minimum(FIGURE_BLOCKS, FIGURE_GROUPS, FIGURE_TEMPLATE) == 1


@pytest.mark.parametrize("positions", [2, 6])
def test_lists_and_costs_are_those_of_the_plain_port_with_the_same_permutation(positions):
    rng = np.random.default_rng(positions)
    compared = above_minimum = 0
    for _ in range(25):
        blocks, groups = random_case(rng, int(rng.integers(1, 9)))
        certain = certain_across(blocks)
        inside = random_relation(rng, len(groups), rng.random())  # also in blocks, where the shuffle breaks them
        certain |= inside & ~certain.T
        one, length = proposed(blocks, groups, certain, replicas=3), min(positions, len(groups))
        there = {word: word.ljust(positions, "A") for word in words(positions, len(groups))}
        there = {word: full for word, full in there.items() if reference.is_fillable(word, groups)}
        number = [int(full.replace("A", "0").replace("B", "1"), 2) for full in there.values()]
        allowed = torch.zeros(3, 2**positions, dtype=torch.bool)
        allowed[:, number] = True
        cost = {count: one.swap.broken_pairs(allowed, positions, count) for count in ("all", "shown")}
        assert all(values.isfinite().equal(allowed) for values in cost.values())
        for replica, shuffle in enumerate(one.shuffle):
            for template, which in zip(there, number, strict=True):
                expected = reference.paper(blocks, groups, template, shuffle)
                found = one.swap.rerank(torch.full((3,), which), positions)[replica]
                assert tuple(found.tolist()) == (*expected, len(groups), len(groups) + 1)
                assert letters(one.candidates.group[replica, found[:length]].tolist()) == template
                regret = sum(counted(expected, certain, blocks))
                assert cost["all"][replica, which] == regret
                assert cost["shown"][replica, which] == sum(counted(expected[:positions], certain, blocks))
                compared += 1
                if len(groups) < 6:
                    above_minimum += counted(expected, certain, blocks).across > brute_force_minimum(
                        blocks, groups, template
                    )
    assert compared > 50
    assert above_minimum > 0 or positions < 6


def test_a_template_that_a_query_cannot_fill_is_refused():
    with pytest.raises(ValueError, match=r"^template must have no more documents of group 1 than the query$"):
        calibrated([[0, 1]], [0, 1], [1, 1])
