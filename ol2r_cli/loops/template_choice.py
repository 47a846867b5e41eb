"""FairExp, one list after the other (Jia and Wang, 2021, section 4.2): broken pairs of all templates, and the choice.

fairness/fairexp.py has the same as tensors, and says what a template is. Templates of some places are nodes of a
binary tree, in which node n has the children 2n, which takes a document of group 0, and 2n + 1. The root is 1.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled


@compiled
def rerank(order, mask, group, certain, unfairness, added, epsilon, only_shown, level, served):
    """Write to served [B, D] the list of the best template: its documents at the top, the others as proposed.

    `order` [B, D] is by place, `mask`, `group` [B, D] and `certain` [B, D, D] are by document. added [K + 1, 2^K] has
    the unfairness that a template of K places adds to `unfairness` [B] if its first 0, 1, .., K places are filled.
    Pairs count among all documents or, with `only_shown`, among those of the template. Values of unfairness that are
    the same multiple of `level` are equal.
    """
    positions = len(added) - 1
    queue, size = np.empty((2, positions), dtype=np.int64), np.empty(2, dtype=np.int64)
    above = np.zeros((2, positions, positions + 1), dtype=np.int64)
    broken, ones = np.empty(2 << positions, dtype=np.int64), np.empty(2 << positions, dtype=np.int64)
    for b in range(len(order)):
        length = mask[b].sum()
        places = min(length, positions)
        group_queues(order[b, :length], group[b], queue, size)
        certainly_above(order[b], group[b], certain[b], queue, size, above)
        broken_pairs(above, places, only_shown, broken, ones)
        best = choose(broken, ones, places, size, unfairness[b], added[places], epsilon, level)
        merge(best, places, queue, order[b], group[b], served[b])


@compiled
def group_queues(order, group, queue, size):
    """Write to queue [2, K] the places of the first K documents of each group, and to size [2] how many it has."""
    size[:] = 0
    for place in range(len(order)):
        g = group[order[place]]
        if size[g] < queue.shape[1]:
            queue[g, size[g]] = place
        size[g] += 1


@compiled
def certainly_above(order, group, certain, queue, size, above):
    """Write to above [2, K, K + 1] how many documents of the other group are certainly above each one of a queue.

    Only those count that are proposed above it: of the first 0, 1, .., K - 1 of the other queue, and of all.
    """
    positions = queue.shape[1]
    for g in range(2):
        for number in range(min(size[g], positions)):
            document, others, count = order[queue[g, number]], 0, 0
            above[g, number, 0] = 0
            for place in range(queue[g, number]):
                other = order[place]
                if group[other] != g:
                    others += 1
                    count += certain[other, document]
                    if others < positions:
                        above[g, number, others] = count
            above[g, number, min(others + 1, positions) :] = count


@compiled
def broken_pairs(above, places, only_shown, broken, ones):
    """Write how many pairs every node breaks that fills all places, and to `ones` how many documents of group 1 it has.

    A document keeps the pairs with those of the other group that the node takes before it. All others break that are
    certainly above it, or, with `only_shown`, those that the node takes after it. Nodes for which a group has too few
    documents get any number.
    """
    broken[1], ones[1] = 0, 0  # of a node above the last level, the pairs that it keeps
    for filled in range(places):
        for node in range(1 << filled, 2 << filled):
            second = ones[node]
            first = filled - second
            ones[2 * node], ones[2 * node + 1] = second, second + 1
            broken[2 * node] = broken[node] + above[0, first, second]
            broken[2 * node + 1] = broken[node] + above[1, second, first]
    counted = np.zeros(places + 1, dtype=np.int64)
    for second in range(places + 1):
        for number in range(places - second):
            counted[second] += above[0, number, second if only_shown else -1]
        for number in range(second):
            counted[second] += above[1, number, places - second if only_shown else -1]
    for node in range(1 << places, 2 << places):
        broken[node] = counted[ones[node]] - broken[node]


@compiled
def choose(broken, ones, places, size, unfairness, added, epsilon, level):
    """Return the best node that fills all places with documents of groups of these sizes.

    Of those that keep |unfairness + added| within epsilon it is the one that breaks the fewest pairs, then the least
    unfair one; if there are none, the least unfair one, then the one that breaks the fewest pairs; then the first.
    """
    best, is_within, fewest, least = 0, False, 0, 0.0
    below = len(added) >> places  # templates of K places that begin with the same node
    for node in range(1 << places, 2 << places):
        if ones[node] > size[1] or places - ones[node] > size[0]:
            continue
        unfair = abs(unfairness + added[(node - (1 << places)) * below])
        within, pairs, steps = unfair <= epsilon, broken[node], np.rint(unfair / level)
        if within != is_within:
            better = within
        elif within:
            better = pairs < fewest or (pairs == fewest and steps < least)
        else:
            better = steps < least or (steps == least and pairs < fewest)
        if better or best == 0:
            best, is_within, fewest, least = node, within, pairs, steps
    return best


@compiled
def merge(node, places, queue, order, group, served):
    """Write the list of a node that fills so many places; all other documents, and padding, follow as proposed."""
    taken = np.zeros(2, dtype=np.int64)
    for filled in range(places):
        g = (node >> (places - 1 - filled)) & 1
        served[filled] = order[queue[g, taken[g]]]
        taken[g] += 1
    for place in range(len(order)):
        g = group[order[place]]
        if taken[g] > 0:  # the first of each group have been written
            taken[g] -= 1
        else:
            served[places] = order[place]
            places += 1


@compiled
def add_unfairness(group, ranking, shown, added, unfairness):
    """Add to unfairness [B] that of the shown documents [B, W], looked up in added [W + 1, 2^W]; groups are [B, D]."""
    for b in range(len(ranking)):
        template, filled = 0, 0
        for place in range(ranking.shape[1]):
            template *= 2
            if shown[b, place]:
                template += group[b, ranking[b, place]]
                filled += 1
        unfairness[b] += added[filled, template]
