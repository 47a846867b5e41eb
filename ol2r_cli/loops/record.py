"""What the measures of a round need."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled


@compiled
def record(row, scores, labels, ranking, clicks, total, grades, clicked):
    """Write the sum of all scores [B, N, D] to total[row] [B], and labels and clicks of the shown places [B, K]."""
    for b in range(len(ranking)):
        total[row, b] = 0.0
        for n in range(scores.shape[1]):
            for d in range(scores.shape[2]):
                total[row, b] += scores[b, n, d]
        for place in range(ranking.shape[1]):
            grades[row, b, place] = labels[b, ranking[b, place]]
            clicked[row, b, place] = clicks[b, place]


@compiled
def by_place(row, by_document, order, values):
    """Write by_document[order] to values[row]: [B, D] each, of which an order may have fewer places."""
    for b in range(len(order)):
        for place in range(order.shape[1]):
            values[row, b, place] = by_document[b, order[b, place]]
