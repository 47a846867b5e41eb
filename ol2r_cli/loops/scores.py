"""Linear scores, straight from the document table: no row is copied and no list is padded."""

from __future__ import annotations

from ol2r_cli.loops.compile import compiled, compiled_sums


@compiled_sums
def linear(weights, table, start, length, scores):
    """Write weights[b, n] . table[start[b] + d] to scores [B, N, D] for the length[b] documents of every replica.

    What is below the end of a shorter list stays as it is. `table` may be of single precision.
    """
    replicas, members, features = weights.shape
    for b in range(replicas):
        for d in range(length[b]):
            row = table[start[b] + d]
            for n in range(members):
                total = 0.0
                for f in range(features):
                    total += weights[b, n, f] * row[f]
                scores[b, n, d] = total


@compiled
def gathered(table, rows, features):
    """Write the features of these rows of the table [N, F] to features [d, F], in its precision."""
    for d in range(len(rows)):
        for f in range(features.shape[1]):
            features[d, f] = table[rows[d], f]


@compiled_sums
def add_rows(theta, table, rows, weights):
    """Add the sum of weights[p] table[rows[p]] to theta [F]."""
    for p in range(len(rows)):
        if weights[p] != 0:
            row = table[rows[p]]
            for f in range(len(theta)):
                theta[f] += weights[p] * row[f]
