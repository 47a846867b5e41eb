"""What a round begins with, the documents of its queries, and what is recorded of it for the measures."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled


@compiled
def serve(start, length, judged, labels, groups, document, label, group, mask):
    """Write the row of every document, its label and its group of [N], and whether it is real: [B, D] each.

    Replica b has the rows from start[b] on, length[b] of them, and the labels from judged[b] on; padding has the first
    row, and label 0. Without groups, `groups` is empty.
    """
    for b in range(len(start)):
        for d in range(document.shape[1]):
            real = d < length[b]
            mask[b, d] = real
            document[b, d] = start[b] + d if real else start[b]
            label[b, d] = labels[judged[b] + d] if real else 0
            if len(groups):
                group[b, d] = groups[document[b, d]]


@compiled
def record(row, queries, valid, scores, labels, ranking, clicks, groups, query, pairs, total, grades, group, clicked):
    """Write what measures need of a round to row `row` of the last six arrays (`metrics/measurement.py`).

    Query, number of valid pairs [B, M] and sum of all scores [B, N, D] of every replica; label, group and click of the
    shown places [B, K]. `groups` is empty where there are none.
    """
    for b in range(len(ranking)):
        query[row, b], pairs[row, b] = queries[b], 0
        for pair in range(valid.shape[1]):
            pairs[row, b] += valid[b, pair]
        total[row, b] = 0.0
        for n in range(scores.shape[1]):
            for d in range(scores.shape[2]):
                total[row, b] += scores[b, n, d]
        for place in range(ranking.shape[1]):
            grades[row, b, place] = labels[b, ranking[b, place]]
            clicked[row, b, place] = clicks[b, place]
            if len(groups):
                group[row, b, place] = groups[b, ranking[b, place]]


@compiled
def by_place(row, by_document, order, values):
    """Write by_document[order] to values[row]: [B, D] each, of which an order may have fewer places."""
    for b in range(len(order)):
        for place in range(order.shape[1]):
            values[row, b, place] = by_document[b, order[b, place]]


@compiled
def pairs_by_place(row, by_document, order, ranking, pairs, reversed):
    """Write the certain pairs [B, D, D] among the first places of an order to pairs[row], which is False: [B, C, C].

    reversed[row] [B] is how many certain pairs the shown `ranking` [B, K] reverses.
    """
    for b in range(len(order)):
        places = min(pairs.shape[2], order.shape[1])
        for i in range(places):
            for j in range(places):
                pairs[row, b, i, j] = by_document[b, order[b, i], order[b, j]]
        reversed[row, b] = 0
        for i in range(ranking.shape[1]):
            for j in range(i):
                reversed[row, b] += by_document[b, ranking[b, i], ranking[b, j]]
