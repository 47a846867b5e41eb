"""What a linear ranker makes of one round: scores, gradient steps, and what is kept of its pairs.

learning/ and the rankers have the same as tensors.
"""

from __future__ import annotations

import numpy as np

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
def differences(table, start, winner, loser, valid, rows):
    """Write the winner's features less the loser's to rows [B, M, F], zeros for a pair that is not valid."""
    for b in range(len(start)):
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                above, below = table[start[b] + winner[b, pair]], table[start[b] + loser[b, pair]]
                for f in range(rows.shape[2]):
                    rows[b, pair, f] = rows.dtype.type(above[f]) - rows.dtype.type(below[f])
            else:
                for f in range(rows.shape[2]):
                    rows[b, pair, f] = 0


@compiled_sums
def step_length(scores, change, weights, slope, bend, flat):
    """Return a > 0 where an objective, as a function of the length a of a step, has a slope of at most `flat`.

    A step changes the scores [n] of pairs with these weights by -change [n] per unit, in learning/perturbed_optima.py.
    This is Newton's method in one dimension, kept between the lengths known to be too short and too long.
    """
    length, short, long = 1.0, 0.0, np.inf
    for _ in range(60):
        rise, curvature = slope + length * bend, bend
        for i in range(len(scores)):
            push = 1 / (1 + np.exp(scores[i] - length * change[i]))
            rise += weights[i] * push * change[i]
            curvature += weights[i] * push * (1 - push) * change[i] * change[i]
        if abs(rise) <= flat:
            break
        if rise < 0:
            short = length
        else:
            long = length
        length -= rise / curvature
        if not short < length < long:
            length = 2 * short if long == np.inf else (short + long) / 2
    return length
