"""Certain pairs of an ensemble: those that every member orders alike (P2NeurRank, SIGIR 2022, section 3.3)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ol2r_cli.exploration.confidence.interval_loops import serve, sort_by_score
from ol2r_cli.exploration.divide_and_conquer.certain_pair_loops import take_bits, write_pairs
from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes
from ol2r_cli.loops.rounds import Sizes
from ol2r_cli.loops.workspace import mark, release, take, take_integers, take_matrix


class Agreement(NamedTuple):
    """What an ensemble explores by: `Intervals` without the intervals. The relation is transitive by itself."""

    is_transitive: int
    is_conservative: int
    places: int
    blocks: Any
    certain: Any


def room_of_agreement(sizes: Sizes, documents: int) -> int:
    """Return how many numbers of the workspace `arranges_by_agreement` takes."""
    words = (documents + 63) // 64
    return documents * (words + sizes.members + 20) + 16 * words + 1024


@compiled
def arranges_by_agreement(b, space, round, queries, exploration):
    """Arrange blocks in the order that all members agree on, each at random."""
    before = mark(space)
    members, documents = round.scores.shape
    score_order, ranked = take_integers(space, documents), take(space, documents)
    bits = take_bits(space, documents)
    scores = take_matrix(space, members, documents)
    sort_by_score(round.scores, score_order, ranked, space)
    for n in range(members):
        for rank in range(lane(), documents, lanes()):
            scores[n, rank] = round.scores[n, score_order[rank]]
    barrier()
    find_agreement(scores, bits)
    serve(b, space, round, score_order, bits, exploration)
    release(space, before)


@compiled
def find_agreement(scores, bits):
    """Write to bits whether every member, of scores [N, d], scores document i above j, for i < j: rounding may order a
    mean against all members."""
    members, documents = scores.shape
    words = bits.shape[1]
    for cell in range(lane(), documents * words, lanes()):
        i, word, left = cell // words, cell % words, np.uint64(0)
        for j in range(max(64 * word, i + 1), min(64 * word + 64, documents)):
            is_certain = 1
            for n in range(members):
                is_certain &= scores[n, i] > scores[n, j]
            left |= np.uint64(is_certain) << np.uint64(j - 64 * word)
        bits[i, word] = left
    barrier()


@compiled
def compares_members(b, space, scores, certain):
    """Write to certain [B, d, d] which pairs of lists are certain whose scores [B, N, d] are in score order."""
    before = mark(space)
    documents = scores.shape[2]
    bits = take_bits(space, documents)
    find_agreement(scores[b], bits)
    write_pairs(bits, certain[b])
    release(space, before)
