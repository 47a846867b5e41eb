"""Products of matrices (loops/dense.py) on a GPU: tiles of both factors are copied to the fast memory of a block, and
every thread adds up `ROWS` x `COLUMNS` places of the result.

Indices are unsigned, because numba tests every signed one for being negative: three integer instructions for each
multiplication.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numba import types

cuda: Any = import_module("numba.cuda")
float64, uint64, int64 = (getattr(types, name) for name in ("float64", "uint64", "int64"))

DEPTH = 8  # of a tile
ROWS, COLUMNS = 8, 3  # places of the result that a thread adds up
SIDE = 16  # threads side by side
WIDTH = SIDE * COLUMNS
THREADS = 128  # of a block
REGISTERS = 128  # of a thread, so that four blocks are on a multiprocessor
MOST_ROWS = THREADS // SIDE * ROWS
LEFT_STRIDE, RIGHT_STRIDE = MOST_ROWS + 2, WIDTH + 2
LEFT, RIGHT = DEPTH * LEFT_STRIDE, DEPTH * RIGHT_STRIDE
TILES = LEFT + RIGHT  # numbers of a block's fast memory


@cuda.jit(device=True)
def _copy_rows(matrix, first, start, rows, depth, tile, stride):
    """Copy matrix[first + i, start + q] to tile[q, i]."""
    threads, me = uint64(cuda.blockDim.x), uint64(cuda.threadIdx.x)
    height = uint64(matrix.shape[0])
    cell = me
    while cell < rows * uint64(DEPTH):
        i, q = cell // uint64(DEPTH), cell % uint64(DEPTH)
        value = 0.0
        if first + i < height and start + q < depth:
            value = matrix[first + i, start + q]
        tile[q * uint64(stride) + i] = value
        cell += threads


@cuda.jit(device=True)
def _copy_columns(matrix, first, start, rows, depth, tile, stride):
    """Copy matrix[start + q, first + i] to tile[q, i]."""
    threads, me = uint64(cuda.blockDim.x), uint64(cuda.threadIdx.x)
    width = uint64(matrix.shape[1])
    cell = me
    while cell < rows * uint64(DEPTH):
        i, q = cell % rows, cell // rows
        value = 0.0
        if first + i < width and start + q < depth:
            value = matrix[start + q, first + i]
        tile[q * uint64(stride) + i] = value
        cell += threads


def _products(copy: Any) -> Any:
    """Return what computes out[i, j] = sign sum_q left_i[q] right_j[q], added to what is there or not, where `copy`
    says whether these vectors are rows or columns."""

    @cuda.jit(device=True)
    def products(left, right, depth, sign, out, is_added, is_upper, tiles):
        left_tile, right_tile = tiles[:LEFT], tiles[LEFT : LEFT + RIGHT]
        me, rows = uint64(cuda.threadIdx.x), uint64(cuda.blockDim.x) // uint64(SIDE) * uint64(ROWS)
        x, y = me % uint64(SIDE), me // uint64(SIDE) * uint64(ROWS)
        height, width, depth = uint64(out.shape[0]), uint64(out.shape[1]), uint64(depth)
        top = uint64(0)
        while top < height:
            first = uint64(0)
            while first < width:
                if not (is_upper and first + uint64(WIDTH) <= top):
                    total = cuda.local.array((ROWS, COLUMNS), float64)
                    for i in range(ROWS):  # what is added to is read first, all at once
                        for j in range(COLUMNS):
                            total[i, j] = 0.0
                            row, column = top + y + uint64(i), first + x + uint64(j * SIDE)
                            if is_added and row < height and column < width:
                                total[i, j] = sign * out[row, column]
                    start = uint64(0)
                    while start < depth:
                        copy(left, top, start, rows, depth, left_tile, LEFT_STRIDE)
                        copy(right, first, start, uint64(WIDTH), depth, right_tile, RIGHT_STRIDE)
                        cuda.syncthreads()
                        # Warps without rows, or below the diagonal, rest.
                        if top + y < height and not (is_upper and first + uint64(WIDTH) <= top + y):
                            for q in range(DEPTH):
                                at, beside = uint64(q * LEFT_STRIDE) + y, uint64(q * RIGHT_STRIDE) + x
                                one, two = right_tile[beside], right_tile[beside + uint64(SIDE)]
                                three = right_tile[beside + uint64(2 * SIDE)]
                                for i in range(ROWS):
                                    value = left_tile[at + uint64(i)]
                                    total[i, 0] += value * one
                                    total[i, 1] += value * two
                                    total[i, 2] += value * three
                        cuda.syncthreads()
                        start += uint64(DEPTH)
                    for i in range(ROWS):
                        for j in range(COLUMNS):
                            row, column = top + y + uint64(i), first + x + uint64(j * SIDE)
                            if row < height and column < width:
                                out[row, column] = sign * total[i, j]
                first += uint64(WIDTH)
            top += rows
        cuda.syncthreads()

    return products


_of_rows, _of_columns = _products(_copy_rows), _products(_copy_columns)


@cuda.jit(device=True)
def times(left, symmetric, out, space):
    """Write left [m, k] symmetric [k, k] to out [m, k]."""
    _of_rows(left, symmetric, left.shape[1], 1.0, out, False, False, space.tiles)


@cuda.jit(device=True)
def times_transposed(left, right, out, space):
    """Write what is right of the diagonal, or on it, of left [m, k] right [n, k]^T to out [m, n]."""
    _of_rows(left, right, left.shape[1], 1.0, out, False, True, space.tiles)


@cuda.jit(device=True)
def add_products(left, right, sign, out, is_upper, space):
    """Add sign left [k, n]^T right [k, n] to out [n, n]."""
    _of_columns(left, right, left.shape[0], sign, out, True, is_upper, space.tiles)


@cuda.jit(device=True)
def few_times(rows, matrix, out):
    """Write rows [r, k] matrix [k, n] to out [r, n]: a thread adds up a column, in four sums that do not wait for each
    other."""
    depth, width, count = uint64(matrix.shape[0]), uint64(matrix.shape[1]), uint64(rows.shape[0])
    column = uint64(cuda.threadIdx.x)
    while column < width:
        r = uint64(0)
        while r < count:
            one, two, three, four = 0.0, 0.0, 0.0, 0.0
            q = uint64(0)
            while q + uint64(4) <= depth:
                one += rows[r, q] * matrix[q, column]
                two += rows[r, q + uint64(1)] * matrix[q + uint64(1), column]
                three += rows[r, q + uint64(2)] * matrix[q + uint64(2), column]
                four += rows[r, q + uint64(3)] * matrix[q + uint64(3), column]
                q += uint64(4)
            while q < depth:
                one += rows[r, q] * matrix[q, column]
                q += uint64(1)
            out[r, column] = (one + two) + (three + four)
            r += uint64(1)
        column += uint64(cuda.blockDim.x)
    cuda.syncthreads()


@cuda.jit(device=True, inline="always")
def difference(history, b, table, pair, f):
    """Return feature f of the winner of a pair in a history, less that of the loser, from the table."""
    return float64(table[history.pairs[b, pair, 0], f]) - float64(table[history.pairs[b, pair, 1], f])


@cuda.jit(device=True, inline="always")
def keep_difference(history, b, pair, f, value):
    """Keep nothing: `difference` looks at the table."""
