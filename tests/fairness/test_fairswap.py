"""Algorithm 4 as printed, against its plain port with the same permutation, and the paper's figure."""

from __future__ import annotations

import numpy as np

from ol2r_cli.fairness.fairexp import fair_swap
from tests.reference import fairswap as reference
from tests.reference.fairexp import templates as words
from tests.reference.fairswap import Blocks
from tests.reference.partitions import random_case


def swapped(blocks: Blocks, groups: str, template: str, shuffle: list[int]) -> tuple[int, ...]:
    """The list of `fair_swap`, whose chances are such that documents are shuffled in this order."""
    order, chance = [d for block in blocks for d in block], np.argsort(shuffle).tolist()
    block = [next(n for n, block in enumerate(blocks) if d in block) for d in range(len(groups))]
    group, segment = (["AB".index(letter) for letter in text] for text in (groups, template))
    return tuple(fair_swap(order, block, group, chance, segment))


def test_lists_are_those_of_the_plain_port_with_the_same_permutation():
    rng, compared = np.random.default_rng(0), 0
    for _ in range(40):
        blocks, groups = random_case(rng, int(rng.integers(1, 9)))
        shuffle = rng.permutation(len(groups)).tolist()
        for template in [*words(2, len(groups)), *words(6, len(groups))]:
            if reference.is_fillable(template, groups):
                found = swapped(blocks, groups, template, shuffle)
                assert found == reference.paper(blocks, groups, template, shuffle), (blocks, groups, template)
                compared += 1
    assert compared > 100
