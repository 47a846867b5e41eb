"""Lists and costs of all templates at once, against merging and counting one by one, and against brute force."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ol2r_cli.fairness.fairexp import broken_pairs, fillable, group_queues, merge
from tests.reference import violations
from tests.reference.fairexp import lists
from tests.reference.partitions import random_case
from tests.reference.relations import random_relation


class Batch(NamedTuple):
    """Queries of different length. `certain` is indexed by document, everything else by proposed place."""

    certain: torch.Tensor  # [B D D], by document
    order: torch.Tensor  # [B D]
    group: torch.Tensor  # [B D]
    real: torch.Tensor  # [B D]


def batch(relations: list[np.ndarray], groups: list[str]) -> Batch:
    """Places of random documents. Padding is in neither group and certainly below everything above it, as some
    explorations have it."""
    longest = max(map(len, groups))
    certain = torch.ones(len(groups), longest, longest, dtype=torch.bool).triu(1)
    group = torch.full((len(groups), longest), 2, dtype=torch.int8)
    order = torch.rand(group.shape, generator=torch.Generator().manual_seed(longest)).argsort(1)
    for b, (relation, word) in enumerate(zip(relations, groups, strict=True)):
        certain[b, : len(word), : len(word)] = torch.from_numpy(relation)
        certain[b] = certain[b][order[b].argsort()][:, order[b].argsort()]
        group[b, : len(word)] = torch.tensor(["AB".index(letter) for letter in word])
    return Batch(certain, order, group, torch.arange(longest) < torch.tensor([len(word) for word in groups])[:, None])


def drawn(rng: np.random.Generator, of_blocks: bool) -> tuple[np.ndarray, str]:
    """Random certain pairs, across blocks or arbitrary, and the groups of the documents."""
    blocks, groups = random_case(rng, int(rng.integers(1, 10)))
    if of_blocks:
        numbered = np.split(np.arange(len(groups)), np.cumsum([*map(len, blocks)])[:-1])
        return violations.certain_across(numbered), groups
    return random_relation(rng, len(groups), rng.random(), acyclic=False), groups


def number(template: str, positions: int) -> int:
    """A template among those of K places; below a short list stands group 0."""
    return int(template.replace("A", "0").replace("B", "1").ljust(positions, "0"), 2)


def test_costs_and_lists_of_every_template_are_those_of_merging_one_by_one():
    """Thousands of lists, of queries longer and shorter than K and of one group alone."""
    compared = most = 0
    for positions in (1, 4, 7, 11):
        rng = np.random.default_rng(positions)
        cases = [drawn(rng, place % 2 == 0) for place in range(60 if positions < 7 else 12)]
        one = batch([certain for certain, _ in cases], [groups for _, groups in cases])
        length, queue = one.real.sum(1), group_queues(one.group, positions)
        cost = {count: broken_pairs(one.certain, one.order, one.group, queue, count) for count in ("all", "shown")}
        possible = fillable(queue, length)
        for b, (certain, groups) in enumerate(cases):
            arranged = lists(range(len(groups)), groups, positions)
            across = b % 2 == 0 and len(groups) < 6
            fewest = violations.brute_force_minima(certain, groups) if across else {}
            assert possible[b].nonzero()[:, 0].tolist() == [number(template, positions) for template in arranged]
            for template, order in arranged.items():
                chosen = torch.full((len(cases),), number(template, positions))
                if compared % 7 == 0:
                    found = merge(chosen, queue, length, one.real.shape[1])[b]
                    assert tuple(found[: len(groups)].tolist()) == order
                kept = np.triu(certain)
                expected = sum(violations.broken(order, kept, [range(len(groups))]))
                among = sum(violations.broken(order[:positions], kept, [range(len(groups))]))
                assert cost["all"][b, chosen[b]] == expected, (groups, template)
                assert cost["shown"][b, chosen[b]] == among, (groups, template)
                assert expected == fewest.get(template, expected), "theorem 2: no list breaks fewer pairs across blocks"
                compared, most = compared + 1, max(most, expected)
    assert compared > 300
    assert most >= 4
