"""The generated dataset: MSLR-like queries that need no download, with a relevance that no linear ranker fully learns.

Number of features, list lengths and grades follow MSLR-WEB10K (Qin and Liu, arXiv 1306.2597): 136; 120 documents on
average; 52, 32, 13, 1.8 and 0.7 % of grades 0 to 4.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.dataset.world import Floats, World

_VERSION = 1  # raise with every change of the numbers: it is part of the fingerprint
_SPLITS = ("train", "validation", "test")
_STREAMS = (*_SPLITS, "borders", "world")
_BLOCK = 50  # queries drawn together
_SHAPE = 3  # of the gamma distribution of list lengths: standard deviation 0.58 of the mean


class Synthetic:
    """Queries of a seeded world. A larger split begins with the queries of a smaller one, and no split alters another.

    `queries`: how many in train (1 or more), validation and test (0 or more).
    `documents`: mean list length, 1 or more; lengths are gamma distributed and kept within 5 .. 5 times the mean.
    `features`: how many, 1 or more. `grades`: shares of the grades 0, 1, .., each above 0, summing to 1.
    `nonlinearity`: share of the relevance signal's variance beyond any linear function of the hidden qualities, 0 .. 1.
    `noise`: standard deviation of the judges' error, 0 or more; the signal's is 1.
    `group_ratio`: share of documents in group 0, the popular ones, between 0 and 1. `seed`: of everything, 0 or more.
    """

    def __init__(
        self,
        queries: Mapping[str, int],
        documents: int,
        features: int,
        grades: Sequence[float],
        nonlinearity: float,
        noise: float,
        group_ratio: float,
        seed: int,
    ):
        self.queries, self.documents, self.features, self.seed = dict(queries), documents, features, seed
        self.grades = [float(share) for share in grades]
        self.nonlinearity, self.noise, self.group_ratio = float(nonlinearity), float(noise), float(group_ratio)
        self._check()

    def load(self) -> Dataset:
        """Draw all splits into one table; equal settings give equal numbers in every process."""
        world = World(self.features, self.nonlinearity, self.noise, self.group_ratio, self._random("world"))
        counts = [self.queries[split] for split in _SPLITS]
        lengths = np.concatenate([self._lengths(split)[:count] for split, count in zip(_SPLITS, counts, strict=True)])
        offsets = np.concatenate([[0], lengths.cumsum()])
        features, labels, group = self._table(world, int(offsets[-1]))
        numbers = np.split(np.arange(len(lengths)), np.cumsum(counts)[:-1])
        return Dataset(
            name="synthetic",
            fingerprint=hashlib.sha256(json.dumps([_VERSION, vars(self)], sort_keys=True).encode()).hexdigest(),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(labels),
            offsets=torch.from_numpy(offsets),
            query_ids=[f"{split}-{number + 1}" for split in _SPLITS for number in range(self.queries[split])],
            grades=len(self.grades),
            splits={split: torch.from_numpy(queries) for split, queries in zip(_SPLITS, numbers, strict=True)},
            group=torch.from_numpy(group),
        )

    def _table(self, world: World, rows: int) -> tuple[Floats, NDArray[np.int8], NDArray[np.int8]]:
        """Features [rows, features], labels [rows] and groups [rows] of all splits, one after the other."""
        borders = self._borders(world)
        features = np.empty((rows, self.features), dtype=np.float32)
        labels, group = np.empty((2, rows), dtype=np.int8)
        start = 0
        for split in _SPLITS:
            for drawn, utility, groups in self._blocks(world, split):
                end = start + len(utility)
                features[start:end], group[start:end] = drawn, groups
                labels[start:end] = np.searchsorted(borders, utility)
                start = end
        return features, labels, group

    def _blocks(self, world: World, split: str) -> Iterator[tuple[Floats, Floats, NDArray[np.int8]]]:
        """Features, utilities and groups of the split's queries; the last block is drawn whole and then cut."""
        lengths = self._lengths(split)
        for first in range(0, self.queries[split], _BLOCK):
            block = lengths[first : first + _BLOCK]
            random = self._random(split, 1 + first // _BLOCK)
            quality = world.qualities(int(block.sum()), random)
            utility = world.utility(quality, block, random)
            kept = block[: self.queries[split] - first].sum()
            yield world.features(quality, block, random)[:kept], utility[:kept], world.group(quality)[:kept]

    def _lengths(self, split: str) -> NDArray[np.int64]:
        """List lengths of the split, for whole blocks."""
        count = -(-self.queries[split] // _BLOCK) * _BLOCK
        lengths = self._random(split).gamma(_SHAPE, self.documents / _SHAPE, count)
        return np.rint(lengths.clip(min(5, self.documents), 5 * self.documents)).astype(np.int64)

    def _borders(self, world: World) -> Floats:
        """Utilities that part the grades: quantiles of a sample of many short lists, since queries differ most."""
        random, lengths = self._random("borders"), np.full(2000, 30)
        utility = world.utility(world.qualities(int(lengths.sum()), random), lengths, random)
        return np.quantile(utility, np.cumsum(self.grades)[:-1].clip(max=1)).astype(np.float32)

    def _random(self, stream: str, block: int = 0) -> np.random.Generator:
        """Counter-based numbers of their own for each purpose, so that none depends on how many another took."""
        return np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, block, _STREAMS.index(stream)]))

    def _check(self) -> None:
        """Raise ValueError for the first setting out of its range."""
        _require(set(self.queries) == set(_SPLITS), "queries", "given for train, validation, test", list(self.queries))
        for setting, least, given in [
            ("queries.train", 1, self.queries["train"]),
            ("queries.validation", 0, self.queries["validation"]),
            ("queries.test", 0, self.queries["test"]),
            ("documents", 1, self.documents),
            ("features", 1, self.features),
            ("seed", 0, self.seed),
        ]:
            _require(isinstance(given, int) and given >= least, setting, f"a whole number of {least} or more", given)
        shares = min(self.grades, default=0) > 0 and abs(sum(self.grades) - 1) < 1e-6
        _require(
            shares and 2 <= len(self.grades) <= 127, "grades", "2 to 127 shares above 0 that sum to 1", self.grades
        )
        _require(0 <= self.nonlinearity <= 1, "nonlinearity", "in 0 .. 1", self.nonlinearity)
        _require(0 <= self.noise < np.inf, "noise", "0 or more", self.noise)
        _require(0 < self.group_ratio < 1, "group_ratio", "between 0 and 1", self.group_ratio)


def _require(met: bool, setting: str, allowed: str, given: Any) -> None:
    if not met:
        raise ValueError(f"dataset.{setting} must be {allowed}, got {given}")
