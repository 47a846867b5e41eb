"""The world behind the generated dataset: what documents are, what of it shows in features, what users make of it.

All arithmetic is elementwise in single precision: a matrix product would round by machine and by number of threads.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

QUALITIES = 8  # what a document is relevant for, independent and standard normal, as are its
POPULARITY, LENGTH = QUALITIES, QUALITIES + 1  # further rows, which do not matter to users
_LEANING = 0.25  # correlation of popularity with the linear part of the signal
_DIFFICULTY = 0.6  # standard deviation, between queries, of what all documents of a query gain or lose
_SHARES = {"plain": 0.3, "heavy": 0.25, "saturated": 0.1, "count": 0.2, "query": 0.06, "noise": 0.09}

Floats = NDArray[np.float32]
Lengths = NDArray[np.int64]  # documents of each query, summing to the n of the arrays that come along


class World:
    """Draws documents whose features, utilities and groups hang together; `random` settles how they do.

    Settings as in `Synthetic`. A feature shows one quality (or popularity), coloured by the document's length, as term
    statistics are, and blurred by noise; then its kind bends it: plain, heavy-tailed, saturated, a count, the same for
    a whole query, or nothing but noise.
    """

    def __init__(
        self, features: int, nonlinearity: float, noise: float, group_ratio: float, random: np.random.Generator
    ):
        self.linearity, self.interplay = np.sqrt(np.array([1 - nonlinearity, nonlinearity], dtype=np.float32))
        self.noise = np.float32(noise)
        self.popular = np.float32(NormalDist().inv_cdf(1 - group_ratio))  # a document is popular from here on
        weight = random.uniform(0.5, 1.5, QUALITIES)
        self.weight = (weight / np.sqrt((weight**2).sum())).astype(np.float32)
        places = (np.arange(features) + 0.5) / features
        kinds = random.permutation(np.searchsorted(np.cumsum(list(_SHARES.values())), places))
        self.kind = {kind: kinds == number for number, kind in enumerate(_SHARES)}
        self.shown = random.integers(POPULARITY + 1, size=features)
        self.colour = random.uniform(0, 1.5, (features, 1)).astype(np.float32)
        self.blur = random.uniform(0.2, 1.5, (features, 1)).astype(np.float32)

    def qualities(self, count: int, random: np.random.Generator) -> Floats:
        """Qualities, popularity and length of n = `count` documents, [10, n]."""
        quality = random.standard_normal((LENGTH + 1, count), dtype=np.float32)
        quality[POPULARITY] *= np.float32(np.sqrt(1 - _LEANING**2))
        quality[POPULARITY] += np.float32(_LEANING) * self._linear(quality)
        return quality

    def utility(self, quality: Floats, lengths: Lengths, random: np.random.Generator) -> Floats:
        """What judges cut into grades, [n]: a signal of variance 1, difficulty of the query, error of the judge."""
        signal = self.linearity * self._linear(quality) + self.interplay * _interplay(quality)
        difficulty = np.float32(_DIFFICULTY) * random.standard_normal(len(lengths), dtype=np.float32)
        error = self.noise * random.standard_normal(len(signal), dtype=np.float32)
        return signal + np.repeat(difficulty, lengths) + error

    def group(self, quality: Floats) -> NDArray[np.int8]:
        """0 for popular documents, 1 for the others, [n]."""
        return (quality[POPULARITY] < self.popular).astype(np.int8)

    def features(self, quality: Floats, lengths: Lengths, random: np.random.Generator) -> Floats:
        """What is observed, [n, features], in 0 .. 1: min-max normalised per query, 0 where a query has one value."""
        signal = quality[self.shown] + self.colour * quality[LENGTH]
        signal[self.kind["noise"]] = 0
        view = signal + self.blur * random.standard_normal(signal.shape, dtype=np.float32)
        above = np.maximum(view[self.kind["heavy"]] + 1, 0)
        view[self.kind["heavy"]] = above * above * above  # a power function would round by machine
        view[self.kind["saturated"]] /= 1 + np.abs(view[self.kind["saturated"]])
        view[self.kind["count"]] = np.floor(np.maximum(2 * view[self.kind["count"]] + 1, 0))
        view[self.kind["query"]] = 0  # whatever the query has, the normalisation makes it 0
        return _normalised(view, lengths).T

    def _linear(self, quality: Floats) -> Floats:
        """The weighted sum of the qualities, variance 1, [n]."""
        total = np.zeros(quality.shape[1], dtype=np.float32)
        for weight, row in zip(self.weight, quality[:QUALITIES], strict=True):
            total += weight * row
        return total


def _interplay(quality: Floats) -> Floats:
    """What no weighted sum can say, mean 0, variance 1, [n]: two qualities that should match, a sweet spot, a gate.

    |z| of a standard normal z has mean sqrt(2/pi) and variance 1 - 2/pi; all three are uncorrelated with every quality.
    """
    mean, deviation = np.float32(np.sqrt(2 / np.pi)), np.float32(np.sqrt(1 - 2 / np.pi))
    match = mean - np.abs(quality[0] - quality[1]) * np.float32(np.sqrt(0.5))
    sweet_spot = mean - np.abs(quality[2])
    gated = quality[3] * np.sign(quality[4])
    return ((match + sweet_spot) / deviation + gated) * np.float32(np.sqrt(1 / 3))


def _normalised(view: Floats, lengths: Lengths) -> Floats:
    """`view` [features, n] scaled in place to 0 .. 1 within each query."""
    first = lengths.cumsum() - lengths
    low = np.minimum.reduceat(view, first, axis=1)
    span = np.maximum.reduceat(view, first, axis=1) - low
    span[span == 0] = 1
    view -= np.repeat(low, lengths, axis=1)
    view /= np.repeat(span, lengths, axis=1)
    return view
