"""The generated dataset, `dataset=synthetic`: queries in the likeness of MSLR-WEB10K with a known inside.

docs/reference/datasets.md describes the model. All arithmetic is elementwise in single precision: a matrix product
would round differently on other machines and with other numbers of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.config.ranges import Count, Positive, Range, Share, WholeNumber, check_settings, with_whole_numbers
from ol2r_cli.dataset.cache import digest
from ol2r_cli.dataset.popularity import Popularity, asked_by, checked
from ol2r_cli.dataset.prepare import Transformation
from ol2r_cli.dataset.table import LARGEST_GRADE, LARGEST_INT8, SPLITS, Dataset, Intents
from ol2r_cli.tensor.memory import available_memory
from ol2r_cli.tensor.numpy_streams import DRAWS_OF, other_numbers

_VERSION = 1  # raise with every change of the numbers: it is part of the fingerprint
_STREAMS = (*SPLITS, "borders", "world", "intents")
_BLOCK = 50  # queries drawn together
_SHAPE = 3  # of the gamma distribution of list lengths: standard deviation 0.58 of the mean

QUALITIES = 8  # rows that make a document relevant, independent and standard normal
POPULARITY, LENGTH = QUALITIES, QUALITIES + 1  # further rows, which do not make a document relevant
_LEANING = 0.25  # correlation of popularity with the linear part of the signal
_DIFFICULTY = 0.6  # standard deviation, between queries, of what all documents of a query gain or lose
# Qualities of the interplay of each intent: two that should match (their difference or their sum is small), one with a
# sweet spot, and one that the sign of another makes count for or against. No two interplays are correlated.
_INTERPLAYS = ((0, 1, -1, 2, 3, 4), (0, 1, 1, 3, 5, 6), (4, 5, -1, 6, 7, 0), (4, 5, 1, 7, 1, 2))
_SHARES = {"plain": 0.3, "heavy": 0.25, "saturated": 0.1, "count": 0.2, "query": 0.06, "noise": 0.09}

GroupShare = Annotated[float, Range(0, 1, open_below=True, open_above=True)]
Floats = NDArray[np.float32]
Lengths = NDArray[np.int64]  # documents of each query; their sum is the n of the accompanying arrays


@dataclass(frozen=True)
class SplitSizes:
    """The number of queries of each split."""

    train: Count
    validation: WholeNumber
    test: WholeNumber


@dataclass(frozen=True)
class GeneratedIntents:
    """How many intents users can have, and the correlation of the relevance signals of any two."""

    number: Annotated[int, Range(2, len(_INTERPLAYS))]
    overlap: Annotated[float, Range(-1, 1)]

    def mix(self) -> NDArray[np.float64]:
        """Return how each signal is composed of uncorrelated ones, [I, I]: rows of length 1, products `overlap`.

        ValueError if so many signals cannot be as different. (It is the Cholesky factor, which may be singular.)
        """
        if self.overlap < -1 / (self.number - 1) - 1e-9:
            least = f"{-1 / (self.number - 1):.3g} or more"
            raise ValueError(f"dataset.intents.overlap of {self.number} intents must be {least}, got {self.overlap}")
        mix = np.eye(self.number)
        for row in range(1, self.number):
            for column in range(row):
                left = self.overlap - (mix[row, :column] * mix[column, :column]).sum()
                mix[row, column] = left / mix[column, column] if mix[column, column] > 1e-9 else 0
            mix[row, row] = np.sqrt(max(0.0, 1 - (mix[row, :row] ** 2).sum()))
        return mix


@dataclass(eq=False)
class Synthetic:
    """Generated queries. A larger split begins with the queries of a smaller one, and no split alters another.

    `queries`: how many in train, validation and test. `documents`: mean list length; lengths are gamma distributed and
    clipped to 5 .. 5 times the mean. `features`: how many. `grades`: shares of the grades 0, 1, .., which sum to 1.
    `nonlinearity`: share of the relevance signal's variance beyond any linear function of the hidden qualities.
    `noise`: standard deviation of the assessors' error, up to a million; that of the signal is 1. `group_ratio`: share
    of documents in group 0, the popular ones, or the shares of groups 0, 1, .., the most popular first, which sum to 1.
    `intents`: null, or their number and overlap (`GeneratedIntents`); the first is that of a dataset without intents.
    `intent`: whose labels are those of the dataset; null is the first.
    `seed` decides all numbers, apart from the seed of the run. `popularity`: how often training queries are asked
    (dataset/popularity.py).
    """

    queries: Mapping[str, int]
    documents: Count
    features: Count
    grades: Sequence[Positive]
    nonlinearity: Share
    noise: Annotated[float, Range(0, 1_000_000)]
    group_ratio: GroupShare | Sequence[GroupShare]
    intents: Mapping[str, Any] | None
    intent: Count | None
    seed: WholeNumber
    popularity: Popularity

    def __post_init__(self) -> None:
        """Check the settings, which as `vars(self)` are part of the fingerprint: 1 and 1.0 are the same number."""
        check_settings(SplitSizes, self.queries, "dataset.queries")
        self.queries = dict(self.queries)
        self.nonlinearity, self.noise = float(self.nonlinearity), float(self.noise)
        self.grades = [float(share) for share in self.grades]
        self.group_ratio = [*self.group_ratio] if isinstance(self.group_ratio, Sequence) else float(self.group_ratio)
        shares = self.group_shares()
        if not 2 <= len(shares) <= LARGEST_INT8 + 1 or abs(sum(shares) - 1) >= 1e-6:
            allowed = f"a share, or 2 to {LARGEST_INT8 + 1} shares that sum to 1"
            raise ValueError(f"dataset.group_ratio must be {allowed}, got {shares}")
        if not 2 <= len(self.grades) <= LARGEST_GRADE + 1 or abs(sum(self.grades) - 1) >= 1e-6:
            allowed = f"2 to {LARGEST_GRADE + 1} shares that sum to 1"
            raise ValueError(f"dataset.grades must be {allowed}, got {self.grades}")
        checked(self.popularity)
        if self.intents is not None:
            check_settings(GeneratedIntents, self.intents, "dataset.intents")
            self.intents = with_whole_numbers(self.intents)
            GeneratedIntents(**self.intents).mix()

    def transformation(self, features: int, fingerprint: str) -> Transformation:
        """Return how features of other documents become those that rankers see: they stay as they are."""
        return Transformation("none", np.ones(features, bool))

    def group_shares(self) -> list[float]:
        """Return the share of documents in each group."""
        ratio = self.group_ratio
        return [*ratio] if isinstance(ratio, Sequence) else [ratio, 1 - ratio]

    def load(self) -> Dataset:
        """Draw all splits into one table; equal settings give equal numbers in every process.

        ValueError if the table would not fit into memory.
        """
        self._check_memory()
        blocks_of = {split: self.lengths(split) for split in SPLITS}
        lengths = np.concatenate([blocks_of[split][: self.queries[split]] for split in SPLITS])
        generator = DocumentGenerator(self)
        borders = self._borders(generator)
        documents = int(lengths.sum())
        features = np.empty((documents, self.features), dtype=np.float32)
        labels, group = np.empty((len(borders), documents), dtype=np.int8), np.empty(documents, dtype=np.int8)
        start = 0
        for split in SPLITS:
            for first in range(0, self.queries[split], _BLOCK):
                block = blocks_of[split][first : first + _BLOCK]
                random = self.random(split, 1 + first // _BLOCK)
                quality = generator.qualities(int(block.sum()), random)
                utility = generator.utility(quality, block, random)
                kept = int(block[: self.queries[split] - first].sum())  # blocks are drawn in full and then cut
                rows = slice(start, start + kept)
                features[rows] = generator.features(quality, block, random)[:kept]
                group[rows] = generator.group(quality)[:kept]
                for intent, of_intent in enumerate(utility):
                    labels[intent, rows] = np.searchsorted(borders[intent], of_intent[:kept])
                start += kept
        counts = [self.queries[split] for split in SPLITS]
        numbers = np.split(np.arange(len(lengths)), np.cumsum(counts)[:-1])
        decisive = {name: value for name, value in vars(self).items() if value is not None and name != "popularity"}
        dataset = Dataset(
            name="synthetic",
            fingerprint=digest([_VERSION, decisive, *other_numbers()]),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(labels[0]),
            offsets=torch.from_numpy(np.cumsum([0, *lengths])),
            query_ids=[f"{split}-{number + 1}" for split in SPLITS for number in range(self.queries[split])],
            grades=len(self.grades),
            splits={split: torch.from_numpy(queries) for split, queries in zip(SPLITS, numbers, strict=True)},
            group=torch.from_numpy(group),
            warnings=(f"generated data and ids are not those of numpy {DRAWS_OF}",) if other_numbers() else (),
            intents=None if self.intents is None else Intents(torch.from_numpy(labels), len(self.grades)),
        ).judged_by(self.intent)
        return asked_by(dataset, self.popularity)

    def _check_memory(self) -> None:
        """Raise ValueError if the table would not fit into memory."""
        needed = 4 * sum(self.queries.values()) * self.documents * self.features
        memory = available_memory(torch.device("cpu"))
        if needed > memory:
            raise ValueError(
                f"dataset.queries, dataset.documents and dataset.features must be smaller: they need "
                f"{needed / 2**30:,.0f} GiB, and there are {memory / 2**30:,.0f}"
            )

    def _borders(self, generator: DocumentGenerator) -> Floats:
        """Return the utilities between grades, [I, grades - 1], at which grades have their shares of documents.

        They are quantiles over many short lists, since queries differ most.
        """
        random, short = self.random("borders"), np.full(2000, 30)
        utility = generator.utility(generator.qualities(int(short.sum()), random), short, random)
        shares = np.cumsum(self.grades)[:-1].clip(max=1)
        return np.stack([np.quantile(of_intent, shares) for of_intent in utility]).astype(np.float32)

    def lengths(self, split: str) -> Lengths:
        """Return list lengths of the split, for whole blocks."""
        count = -(-self.queries[split] // _BLOCK) * _BLOCK
        lengths = self.random(split).gamma(_SHAPE, self.documents / _SHAPE, count)
        return np.rint(lengths.clip(min(5, self.documents), 5 * self.documents)).astype(np.int64)

    def random(self, stream: str, block: int = 0) -> np.random.Generator:
        """Return counter-based numbers for one purpose, which do not depend on how many another purpose took."""
        return np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, block, _STREAMS.index(stream)]))


class DocumentGenerator:
    """Draws documents; settings decide once how features, utilities and groups depend on their hidden qualities.

    A feature shows one quality (or popularity), plus a multiple of the document's length, as in term statistics, plus
    noise; then a transform makes it plain, heavy-tailed, saturated, a count, the same for a whole query, or nothing but
    noise. Each further intent has weights of its own, at right angles to the others', and an interplay of its own.
    """

    def __init__(self, settings: Synthetic):
        nonlinearity, features, random = settings.nonlinearity, settings.features, settings.random("world")
        self.linearity, self.interplay = np.sqrt(np.array([1 - nonlinearity, nonlinearity], dtype=np.float32))
        self.noise = np.float32(settings.noise)
        above = np.cumsum(settings.group_shares()[:-1]).tolist()  # share of documents above each border of groups
        self.popular = [np.float32(NormalDist().inv_cdf(1 - share)) for share in above]  # a group ends here
        self.weights = [_unit(random.uniform(0.5, 1.5, QUALITIES))]
        places = (np.arange(features) + 0.5) / features
        numbers = random.permutation(np.searchsorted(np.cumsum(list(_SHARES.values())), places))
        self.transform = {name: numbers == number for number, name in enumerate(_SHARES)}
        self.shown = random.integers(POPULARITY + 1, size=features)
        self.colour = random.uniform(0, 1.5, (features, 1)).astype(np.float32)
        self.blur = random.uniform(0.2, 1.5, (features, 1)).astype(np.float32)
        mix = np.ones((1, 1)) if settings.intents is None else GeneratedIntents(**settings.intents).mix()
        self.mix, random = mix.astype(np.float32), settings.random("intents")
        for _ in mix[1:]:
            weight = random.standard_normal(QUALITIES)
            for earlier in self.weights:
                weight -= (weight * earlier).sum() * earlier
            self.weights.append(_unit(weight))

    def qualities(self, count: int, random: np.random.Generator) -> Floats:
        """Return qualities, popularity and length of n = `count` documents, [10, n]."""
        quality = random.standard_normal((LENGTH + 1, count), dtype=np.float32)
        quality[POPULARITY] *= np.float32(np.sqrt(1 - _LEANING**2))
        quality[POPULARITY] += np.float32(_LEANING) * _weighted(self.weights[0], quality[:QUALITIES])
        return quality

    def utility(self, quality: Floats, lengths: Lengths, random: np.random.Generator) -> Floats:
        """Return what grades cut, [I, n]: signal of variance 1 + difficulty of the query + error of the assessor.

        Difficulty and error are the same for all intents.
        """
        signals = [
            self.linearity * _weighted(weight, quality[:QUALITIES]) + self.interplay * _interplay(quality, of)
            for weight, of in zip(self.weights, _INTERPLAYS, strict=False)
        ]
        difficulty = np.float32(_DIFFICULTY) * random.standard_normal(len(lengths), dtype=np.float32)
        error = self.noise * random.standard_normal(quality.shape[1], dtype=np.float32)
        return np.stack([_weighted(shares, signals) + np.repeat(difficulty, lengths) + error for shares in self.mix])

    def group(self, quality: Floats) -> NDArray[np.int8]:
        """Return the number of borders that a document's popularity is below, [n]: 0 for the most popular group."""
        return np.sum([quality[POPULARITY] < border for border in self.popular], axis=0).astype(np.int8)

    def features(self, quality: Floats, lengths: Lengths, random: np.random.Generator) -> Floats:
        """Return what is observed, [n, features], min-max normalised per query; 0 where a query has a single value."""
        signal = quality[self.shown] + self.colour * quality[LENGTH]
        signal[self.transform["noise"]] = 0
        view = signal + self.blur * random.standard_normal(signal.shape, dtype=np.float32)
        above = np.maximum(view[self.transform["heavy"]] + 1, 0)
        view[self.transform["heavy"]] = above * above * above  # a power function rounds differently on other machines
        view[self.transform["saturated"]] /= 1 + np.abs(view[self.transform["saturated"]])
        view[self.transform["count"]] = np.floor(np.maximum(2 * view[self.transform["count"]] + 1, 0))
        view[self.transform["query"]] = 0  # normalisation makes any value of a whole query 0
        first = lengths.cumsum() - lengths
        low = np.minimum.reduceat(view, first, axis=1)
        span = np.maximum.reduceat(view, first, axis=1) - low
        span[span == 0] = 1
        view -= np.repeat(low, lengths, axis=1)
        view /= np.repeat(span, lengths, axis=1)
        return view.T


def _unit(weights: NDArray[np.float64]) -> Floats:
    """Return weights of the same direction and length 1."""
    return (weights / np.sqrt((weights**2).sum())).astype(np.float32)


def _weighted(weights: Floats, rows: Iterable[Floats]) -> Floats:
    """Return the weighted sum of the rows, [n]."""
    return sum((weight * row for weight, row in zip(weights, rows, strict=True)), np.zeros(1, np.float32))


def _interplay(quality: Floats, of: tuple[int, ...]) -> Floats:
    """Return what no weighted sum can express, mean 0, variance 1, [n]: two qualities that should match, a sweet spot,
    a gate.

    `of` is one of `_INTERPLAYS`. |z| of a standard normal z has mean sqrt(2/pi) and variance 1 - 2/pi; all three are
    uncorrelated with every quality.
    """
    first, second, sign, sweet, counted, gate = of
    mean, deviation = np.float32(np.sqrt(2 / np.pi)), np.float32(np.sqrt(1 - 2 / np.pi))
    match = mean - np.abs(quality[first] + np.float32(sign) * quality[second]) * np.float32(np.sqrt(0.5))
    sweet_spot = mean - np.abs(quality[sweet])
    gated = quality[counted] * np.sign(quality[gate])
    return ((match + sweet_spot) / deviation + gated) * np.float32(np.sqrt(1 / 3))
