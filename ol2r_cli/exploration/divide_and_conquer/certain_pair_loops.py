"""Divide and conquer of one list (PairRank, WWW 2021, section 3.2.3): the closure of certain pairs, blocks, an order.

Documents are in score order, so that certain pairs only point down the list: bit j of row i of `bits` [d, words], with
64 documents in a word, is whether document i is certainly above j. exploration/divide_and_conquer/ has the same as
tensors, and the reasons.
"""

from __future__ import annotations

import math

import numpy as np

from ol2r_cli.loops.compile import compiled, part_of_caller
from ol2r_cli.loops.lanes import barrier, lane, lanes, of_many_lanes
from ol2r_cli.loops.workspace import mark, release, take, take_integers

_ZERO, _ONE, _ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)
_GATHER, _TOP = np.uint64(0x0102040810204080), np.uint64(56)  # byte k of a product with it is bit k of the top byte
# The place of a word's only bit: a de Bruijn sequence moves six bits to the top that no other place has.
_SEQUENCE, _FIRST_SIX = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)
_PLACE = np.zeros(64, np.int64)
for _place in range(64):
    _PLACE[(int(_SEQUENCE) << _place) % 2**64 >> 58] = _place


def room_of_lists(documents: int) -> int:
    """Return how many numbers of the workspace `proposes` takes for lists of at most so many documents."""
    return documents * ((documents + 63) // 64 + 10) + documents // 64 + 64


@compiled
def words_of(documents):
    """Return how many words have a bit for every document."""
    return (documents + 63) // 64


@part_of_caller
def take_bits(space, documents):
    """Return bits [d, words] from a workspace."""
    words = words_of(documents)
    return take(space, documents * words).view(np.uint64).reshape((documents, words))


@compiled
def pack(truths, bits):
    """Write truth values, bytes [64 words], of which the last ones are false, to bits [words]: on a CPU."""
    eights = truths.view(np.uint64)
    for word in range(len(bits)):
        left = _ZERO
        for byte in range(8):  # eight truth values become eight bits
            left |= ((eights[8 * word + byte] * _GATHER) >> _TOP) << np.uint64(8 * byte)
        bits[word] = left


@compiled
def bits_of(certain, bits):
    """Write the certain pairs [d, d] to bits [d, words]."""
    documents, words = bits.shape
    for cell in range(lane(), documents * words, lanes()):
        i, word, left = cell // words, cell % words, _ZERO
        for j in range(max(64 * word, i + 1), min(64 * word + 64, documents)):
            if certain[i, j]:
                left |= _ONE << np.uint64(j - 64 * word)
        bits[i, word] = left
    barrier()


@compiled
def has(bits, i, j):
    """Return whether document i is certainly above j."""
    return (bits[i, j // 64] >> np.uint64(j % 64)) & _ONE != _ZERO


@compiled
def write_pairs(bits, certain):
    """Write to certain [d, d] which pairs are certain."""
    documents = len(bits)
    for cell in range(lane(), documents * documents, lanes()):
        i, j = cell // documents, cell % documents
        certain[i, j] = i < j and has(bits, i, j)
    barrier()


@compiled
def close(bits, space):
    """Close the certain pairs transitively.

    From the last document up: what i reaches is what it is certainly above, and what these reach. The first of them
    reaches most of the others, which then add nothing.
    """
    before = mark(space)
    documents, words = bits.shape
    row = take(space, words).view(np.uint64)
    for i in range(documents - 1, -1, -1):
        for word in range(i // 64, words):
            row[word], bits[i, word] = bits[i, word], _ZERO
        for word in range(i // 64, words):
            left = row[word] & ~bits[i, word]
            while left != _ZERO:
                lowest = left & (~left + _ONE)
                j = 64 * word + _PLACE[(lowest * _SEQUENCE) >> _FIRST_SIX]
                bits[i, word] |= lowest
                for other in range(word, words):
                    bits[i, other] |= bits[j, other]
                left &= ~bits[i, word]
    release(space, before)


@of_many_lanes(close)
@compiled
def close_together(bits, space):
    """Close the certain pairs transitively: what k reaches is complete before those above it take it over."""
    documents, words = bits.shape
    for k in range(documents - 1, 0, -1):
        for i in range(lane(), k, lanes()):
            if has(bits, i, k):
                for word in range(k // 64, words):
                    bits[i, word] |= bits[k, word]
        barrier()


@compiled
def partition(bits, block, edges, space):
    """Write the block of every document, and the first document of every block, and their number, to edges [d + 1].

    A block ends after k if no document up to k has an uncertain one below k.
    """
    before = mark(space)
    documents = len(bits)
    last = take_integers(space, documents)
    for i in range(lane(), documents, lanes()):
        last[i] = _last_uncertain(bits, i)
    barrier()
    if lane() == 0:
        end, number = 0, 0
        edges[0] = 0
        for i in range(documents):
            end = max(end, last[i])
            block[i] = number
            if end <= i:
                number += 1
                edges[number] = i + 1
    barrier()
    release(space, before)


@compiled
def _last_uncertain(bits, i):
    """Return the last document that i is not certainly above: i or a later one."""
    documents, words = bits.shape
    for word in range(words - 1, i // 64, -1):
        uncertain = ~bits[i, word]
        if documents < 64 * word + 64:  # beyond the last document
            uncertain &= (_ONE << np.uint64(documents - 64 * word)) - _ONE
        if uncertain != _ZERO:
            return 64 * word + _last_bit(uncertain)
    word = i // 64
    uncertain = ~bits[i, word]
    if documents < 64 * word + 64:
        uncertain &= (_ONE << np.uint64(documents - 64 * word)) - _ONE
    return 64 * word + _last_bit(uncertain)


@compiled
def _last_bit(word):
    """Return the place of the last bit of a word that has one."""
    place = 0
    for power in range(5, -1, -1):
        width = 1 << power
        if word >> np.uint64(width) != _ZERO:
            word >>= np.uint64(width)
            place += width
    return place


@compiled
def shuffle(bits, block, edges, rings, is_conservative, places, order, space):
    """Fill order [d] with a random order that respects the blocks, and, if `is_conservative`, the certain pairs inside.

    `rings` [d] has exponential numbers, when the clock of a document rings. Conservative: a document's clock starts
    when the last document certainly above it has rung; only in blocks that reach into the first `places`.
    """
    before = mark(space)
    documents = len(block)
    if is_conservative:
        latest = take(space, documents)
        for i in range(lane(), documents, lanes()):
            latest[i] = 0.0
        barrier()
        for i in range(documents):
            stop = edges[block[i] + 1]
            if edges[block[i]] >= places:
                break
            if i + 1 < stop:
                _wait_for(bits, i, stop, rings[i] + latest[i], latest)
        for i in range(lane(), documents, lanes()):
            rings[i] += latest[i]
        barrier()
    for i in range(lane(), documents, lanes()):
        first, stop = edges[block[i]], edges[block[i] + 1]
        ring, place = rings[i], first
        for other in range(first, i):
            place += rings[other] <= ring
        for other in range(i + 1, stop):
            place += rings[other] < ring
        order[place] = i
    barrier()
    release(space, before)


@compiled
def _wait_for(bits, i, stop, ring, latest):
    """Let the documents before `stop` that i is certainly above wait until it has rung."""
    for word in range((i + 1) // 64, (stop + 63) // 64):
        below = bits[i, word]
        begin, end = max(i + 1, 64 * word), min(stop, 64 * word + 64)
        for j in range(begin + lane(), end, lanes()):
            waits = (below >> np.uint64(j - 64 * word)) & _ONE
            latest[j] = max(latest[j], ring if waits != _ZERO else 0.0)
    barrier()


@compiled
def divide(bits, score_order, chance, transitive, conservative, places, order, block, space):
    """Fill order [d], the rank in the score order of the document at each place, and block [d] of every rank.

    `score_order` [d] are the documents at each rank, chance [d] has uniform numbers by document. With `transitive`,
    bits are closed.
    """
    before = mark(space)
    documents = len(bits)
    edges, rings = take_integers(space, documents + 1), take(space, documents)
    if transitive:
        close(bits, space)
    for rank in range(lane(), documents, lanes()):
        rings[rank] = -math.log(chance[score_order[rank]])
    partition(bits, block, edges, space)
    shuffle(bits, block, edges, rings, conservative, places, order, space)
    release(space, before)


@compiled
def keep_reasons(bits, order, block, blocks, certain):
    """Write the block of every place to blocks [D], and the certain pairs of the first places to certain [c, c]."""
    for place in range(lane(), len(order), lanes()):
        blocks[place] = block[order[place]]
    most = min(len(certain), len(order))
    for cell in range(lane(), most * most, lanes()):
        above, below = cell // most, cell % most
        certain[above, below] = has(bits, order[above], order[below])
    barrier()


@compiled
def proposes(b, space, certain, compared, lengths, score_order, chance, how, order, block, pairs, by_place):
    """Fill order and block [B, D] of lists, of which the first s = `compared` [B] have certain pairs [B, S, S].

    `score_order` [B, D] are the documents from the highest score, chance [B, D] has uniform numbers by document;
    `how` is whether pairs are closed, whether shuffles are conservative, and the places that are used. Documents below
    the first s stay in score order, in the block of the last of them. `pairs` [B, c, c], which is False, is by place of
    the order if `by_place`, otherwise by document; padding is below all.
    """
    before = mark(space)
    s, documents, most = compared[b], lengths[b], pairs.shape[1]
    transitive, conservative, places = how
    bits = take_bits(space, s)
    number, ordered = take_integers(space, s), take_integers(space, s)
    bits_of(certain[b], bits)
    divide(bits, score_order[b], chance[b], transitive, conservative, places, ordered, number, space)
    for rank in range(lane(), documents, lanes()):
        block[b, score_order[b, rank]] = number[min(rank, s - 1)]
        order[b, rank] = score_order[b, ordered[rank] if rank < s else rank]
    for d in range(documents + lane(), order.shape[1], lanes()):
        block[b, d], order[b, d] = number[s - 1] + 1, d
    if by_place:
        for cell in range(lane(), min(most, s) * min(most, s), lanes()):
            p, q = cell // min(most, s), cell % min(most, s)
            pairs[b, p, q] = has(bits, ordered[p], ordered[q])
    else:
        for i in range(lane(), s, lanes()):
            for j in range(i + 1, s):  # certain pairs only point down the list
                pairs[b, score_order[b, i], score_order[b, j]] = has(bits, i, j)
            for d in range(documents, most):
                pairs[b, score_order[b, i], d] = True
    barrier()
    release(space, before)
