"""Products of matrices, in the form of a CPU; `Launching` has others for a GPU.

These are the only loops of which a CPU and a GPU have different ones: BLAS and sums along rows, or tiles. All lanes
call them, and the result is there when they return.
"""

from __future__ import annotations

import numpy as np

from ol2r_cli.loops.compile import compiled, compiled_sums, part_of_caller
from ol2r_cli.loops.lanes import lane, lane_sum, lanes


@compiled_sums
def dot(one, other):
    """Return the sum of products of two vectors [F], which one lane computes."""
    total = 0.0
    for f in range(len(one)):
        total += one[f] * other[f]
    return total


@compiled_sums
def dot_of_lanes(one, other, space):
    """Return the sum of products of two vectors [F], of which each lane has a share, to all lanes."""
    total = 0.0
    for f in range(lane(), len(one), lanes()):
        total += one[f] * other[f]
    return lane_sum(total, space)


@compiled
def times(left, symmetric, out, space):
    """Write left [m, k] symmetric [k, k] to out [m, k]."""
    np.dot(left, symmetric, out)


@compiled
def times_transposed(left, right, out, space):
    """Write left [m, k] right [n, k]^T to out [m, n], of which only what is right of the diagonal, or on it, counts."""
    np.dot(left, right.T, out)


@compiled_sums
def few_times(rows, matrix, out):
    """Write rows [r, k] matrix [k, n] to out [r, n], for a few rows."""
    count, depth = rows.shape
    for r in range(count):
        total = out[r]
        for g in range(matrix.shape[1]):
            total[g] = 0.0
        for k in range(0, depth - 3, 4):
            first, second, third, fourth = rows[r, k], rows[r, k + 1], rows[r, k + 2], rows[r, k + 3]
            for g in range(matrix.shape[1]):
                upper = first * matrix[k, g] + second * matrix[k + 1, g]
                total[g] += upper + (third * matrix[k + 2, g] + fourth * matrix[k + 3, g])
        for k in range(depth // 4 * 4, depth):
            factor = rows[r, k]
            for g in range(matrix.shape[1]):
                total[g] += factor * matrix[k, g]


@compiled_sums
def add_products(left, right, sign, out, is_upper, space):
    """Add sign left [k, n]^T right [k, n] to out [n, n], which is symmetric; with `is_upper`, only what is right of the
    diagonal, or on it, counts."""
    depth, size = left.shape
    for f in range(size):
        row, begin = out[f], f if is_upper else 0
        for k in range(0, depth - 3, 4):
            first, second = sign * left[k, f], sign * left[k + 1, f]
            third, fourth = sign * left[k + 2, f], sign * left[k + 3, f]
            for g in range(begin, size):
                upper = first * right[k, g] + second * right[k + 1, g]
                row[g] += upper + (third * right[k + 2, g] + fourth * right[k + 3, g])
        for k in range(depth // 4 * 4, depth):
            factor = sign * left[k, f]
            for g in range(begin, size):
                row[g] += factor * right[k, g]


@part_of_caller
def difference(history, b, table, pair, f):
    """Return feature f of the winner of a pair in a history, less that of the loser. Where rows are kept, they say it;
    a GPU looks at the table, because rows of all rounds would fill its memory."""
    return history.rows[b, pair, f]


@part_of_caller
def keep_difference(history, b, pair, f, value):
    """Keep what `difference` returns."""
    history.rows[b, pair, f] = value
