"""What a ranker keeps of a round's pairs, pair by pair; learning/ has it as tensors."""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums


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
                rows[b, pair] = 0


@compiled
def append(document, winner, loser, valid, count, pairs):
    """Append the valid pairs to pairs [B, capacity, 2] as document numbers, and add them to count [B]."""
    for b in range(len(count)):
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                pairs[b, count[b], 0] = document[b, winner[b, pair]]
                pairs[b, count[b], 1] = document[b, loser[b, pair]]
                count[b] += 1


@compiled
def append_rows(added, valid, count, rows):
    """Append the valid ones of added [B, M, F] to rows [B, capacity, F], whose first count[b] include them."""
    for b in range(len(count)):
        place = count[b] - valid[b].sum()
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                rows[b, place] = added[b, pair]
                place += 1


@compiled_sums
def add_outer_products(matrix, inverse, rows, valid):
    """Add rows^T rows of the valid rows [B, M, F] to matrix, and bring its inverse up to date: [B, F, F] each.

    Woodbury's identity as in learning/covariance.py: W^T W is subtracted from the inverse, with L W = rows A^-1 and
    L L^T = I + rows A^-1 rows^T.
    """
    features = matrix.shape[1]
    for b in range(len(matrix)):
        chosen = np.flatnonzero(valid[b])
        count = len(chosen)
        if count == 0:
            continue
        projected, small = np.zeros((count, features), rows.dtype), np.zeros((count, count), rows.dtype)
        for f in range(features):
            for r in range(count):
                factor = rows[b, chosen[r], f]
                if factor != 0:
                    for g in range(features):
                        projected[r, g] += factor * inverse[b, f, g]
                        matrix[b, f, g] += factor * rows[b, chosen[r], g]
        for r in range(count):
            for c in range(r + 1):
                total = 0.0
                for f in range(features):
                    total += projected[r, f] * rows[b, chosen[c], f]
                small[r, c] = total + (r == c)
        for r in range(count):  # the triangle L in place, and W in place of what is projected
            for c in range(r):
                for k in range(c):
                    small[r, c] -= small[r, k] * small[c, k]
                small[r, c] /= small[c, c]
                small[r, r] -= small[r, c] * small[r, c]
                for f in range(features):
                    projected[r, f] -= small[r, c] * projected[c, f]
            small[r, r] = np.sqrt(small[r, r])
            for f in range(features):
                projected[r, f] /= small[r, r]
        for f in range(features):
            for r in range(count):
                factor = projected[r, f]
                for g in range(features):
                    inverse[b, f, g] -= factor * projected[r, g]


@compiled_sums
def newton_step(added, valid, l2, mean, count, anchor, gradient, objective, inverse, scores, step):
    """Add a round's pairs at the anchor of `AnchoredNewton`, and write the step [B, F]; return q [B] of every step.

    `added` [B, M, F], of which `valid` [B, M] are pairs; count[b] includes them. `mean` is whether the penalty grows
    with the pairs.
    """
    features = anchor.shape[1]
    q = np.empty(len(anchor))
    for b in range(len(anchor)):
        new = 0
        for pair in range(valid.shape[1]):
            new += valid[b, pair]
        place = count[b] - new
        for pair in range(valid.shape[1]):
            if valid[b, pair]:
                score = 0.0
                for f in range(features):
                    score += added[b, pair, f] * anchor[b, f]
                scores[b, place] = score
                place += 1
                slope = 1 / (1 + np.exp(score))
                for f in range(features):
                    gradient[b, f] -= slope * added[b, pair, f]
                objective[b] += np.log1p(np.exp(-score)) if score > -30 else -score
        if mean:
            for f in range(features):
                gradient[b, f] += 2 * l2 * new * anchor[b, f]
        total = 0.0
        for f in range(features):
            moved = 0.0
            for g in range(features):
                moved += inverse[b, f, g] * gradient[b, g]
            step[b, f] = -moved
            total += moved * gradient[b, f]
        q[b] = total
    return q


@compiled
def is_poor(q, objective, features):
    """Return whether the step from the anchor may miss the guarantee, as `AnchoredNewton` says."""
    evidence = objective / (3 * features)
    return q > min(max(20 * evidence * evidence, 1.0), 100.0) * (1e-3 + 1e-5 * objective)


@compiled_sums
def step_length(scores, change, slope, bend, flat):
    """Return the length of a step that changes scores [n] by -change [n] per unit (learning/quasi_newton.py)."""
    length, short, long = 1.0, 0.0, np.inf
    for _ in range(60):
        rise, curvature = slope + length * bend, bend
        for i in range(len(scores)):
            push = 1 / (1 + np.exp(scores[i] - length * change[i]))
            rise += push * change[i]
            curvature += push * (1 - push) * change[i] * change[i]
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
