"""Feature normalisation, by blocks of whole queries, so that a table need not fit into memory twice.

With x a feature of a document, and statistics over the documents of its query (sd with divisor n):

    none            x
    query_minmax    (x - min) / (max - min)
    query_zscore    (x - mean) / sd
    global_zscore   (x - mean) / sd, over all documents of the training split

A feature that is constant over these documents becomes 0. Arithmetic is float64, results are float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np

from ol2r_cli.tensor.shapes import Bool, Float, Int

Normalisation = Literal["none", "query_minmax", "query_zscore", "global_zscore"]
Normaliser = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (block of rows, starts of its queries) -> block
BLOCK = 8192  # documents, or one query if that is longer


def normaliser(
    method: str, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> Normaliser:
    """The function that normalises a block of rows (float64) of whole queries.

    Only `global_zscore` depends on data: on the training rows `train` of the table `features`.
    """
    if method == "none":
        return lambda x, start: x
    if method == "query_minmax":
        return query_minmax
    if method == "query_zscore":
        return query_zscore
    mean, scale = _training_statistics(features, offsets, train)
    return lambda x, start: (x - mean) * scale


def query_minmax(x: Float[np.ndarray, "n F"], start: Int[np.ndarray, "q"]) -> Float[np.ndarray, "n F"]:
    """Scales to 0 .. 1 within each query; query i begins at row start[i], and start[0] is 0."""
    length = np.diff(start, append=len(x))
    low = np.minimum.reduceat(x, start)
    span = np.maximum.reduceat(x, start) - low
    return (x - np.repeat(low, length, 0)) * np.repeat(_inverse(span), length, 0)


def query_zscore(x: Float[np.ndarray, "n F"], start: Int[np.ndarray, "q"]) -> Float[np.ndarray, "n F"]:
    """Mean 0 and standard deviation 1 within each query."""
    length = np.diff(start, append=len(x))
    constant = np.minimum.reduceat(x, start) == np.maximum.reduceat(x, start)
    centred = x - np.repeat(np.add.reduceat(x, start) / length[:, None], length, 0)
    sd = np.sqrt(np.add.reduceat(centred**2, start) / length[:, None])
    return centred * np.repeat(_inverse(np.where(constant, 0.0, sd)), length, 0)


def blocks(offsets: Int[np.ndarray, "Q1"]) -> Iterator[tuple[slice, Int[np.ndarray, "q"]]]:
    """Ranges of about BLOCK rows with whole queries, each with the starts of its queries relative to the range."""
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + BLOCK, "right")) - 1)
        yield slice(int(offsets[first]), int(offsets[last])), offsets[first:last] - offsets[first]
        first = last


def column_ranges(
    parts: Iterable[Float[np.ndarray, "n F"]], width: int
) -> tuple[Float[np.ndarray, "F"], Float[np.ndarray, "F"]]:
    """The smallest and the largest value of each of `width` columns over blocks of rows; inf and -inf without rows."""
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for part in parts:
        low, high = np.minimum(low, part.min(0, initial=np.inf)), np.maximum(high, part.max(0, initial=-np.inf))
    return low, high


def _training_statistics(
    features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> tuple[Float[np.ndarray, "F"], Float[np.ndarray, "F"]]:
    """Mean and inverse standard deviation of the rows of the training split, in two passes for accuracy."""
    rows, width = np.count_nonzero(train), features.shape[1]
    mean = sum((block.sum(0) for block in _training_blocks(features, offsets, train)), np.zeros(width)) / rows
    squares = np.zeros(width)
    for block in _training_blocks(features, offsets, train):
        squares += ((block - mean) ** 2).sum(0)
    low, high = column_ranges(_training_blocks(features, offsets, train), width)
    return mean, _inverse(np.where(low == high, 0.0, np.sqrt(squares / rows)))


def _training_blocks(
    features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> Iterator[Float[np.ndarray, "n F"]]:
    for rows, _ in blocks(offsets):
        if train[rows].any():
            yield features[rows][train[rows]].astype(np.float64)


def _inverse(x: Float[np.ndarray, "*q F"]) -> Float[np.ndarray, "*q F"]:
    """1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)
