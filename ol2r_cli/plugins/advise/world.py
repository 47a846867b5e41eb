"""Worlds: data whose documents attract as much as a log leaves possible, as runs play them.

A folder has `documents.npz` (features, queries and how often they are asked) and, for each world, `world_0001.npz` with
the grades of the documents: grade g stands for the g-th attraction of `worlds.GRID`, so that users of every kind click
by it, in compiled loops.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ol2r_cli.config.ranges import Count
from ol2r_cli.dataset.cache import expand
from ol2r_cli.dataset.prepare import Transformation
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.tensor.shapes import Float, Int

DOCUMENTS = "documents.npz"


class WorldDocuments(NamedTuple):
    """The documents of Q queries, those of a query one after the other: features, rank in production from 1, and the
    share of pages of each query."""

    features: Float[np.ndarray, "N F"]
    rank: Int[np.ndarray, "N"]
    offsets: Int[np.ndarray, "Q1"]
    query_ids: list[str]
    shares: Float[np.ndarray, "Q"]


def file_of(world: int) -> str:
    """Return the name of the file of a world, from 1."""
    return f"world_{world:04}.npz"


@dataclass(eq=False)
class World:
    """One world of a folder, all queries for training. `fold` is its number, from 1."""

    name: str
    path: str | None
    fold: Count
    attractions: Count  # number of grades

    def load(self) -> Dataset:
        """Return the table; ValueError where the folder has no such world."""
        folder = expand(self.path) if self.path else Path()
        try:
            with np.load(folder / DOCUMENTS) as arrays:
                features, offsets, shares = (arrays[name] for name in ("features", "offsets", "shares"))
                query_ids = arrays["query_ids"].tolist()
            with np.load(folder / file_of(self.fold)) as arrays:
                grades = arrays["grades"]
        except (OSError, KeyError, ValueError) as error:
            got = f"got {self.path} without world {self.fold} ({error})"
            raise ValueError(f"dataset.path must be a folder of worlds, as `ol2r advise` writes it, {got}") from None
        queries = len(query_ids)
        return Dataset(
            name=self.name,
            fingerprint=_sha256(
                features, offsets, np.asarray(query_ids), shares, grades.astype(np.int8), np.asarray(self.attractions)
            ),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(grades.astype(np.int8)),
            offsets=torch.from_numpy(offsets),
            query_ids=query_ids,
            grades=self.attractions,
            splits={"train": torch.arange(queries)},
            popularity=torch.from_numpy(shares),
        )

    def transformation(self, features: int, fingerprint: str) -> Transformation:
        """Return how features of other documents become those that rankers see: they stay as they are."""
        return Transformation("none", np.ones(features, bool))


def _sha256(*arrays: np.ndarray) -> str:
    """Return a hash of the numbers and texts of arrays."""
    known = hashlib.sha256()
    for array in arrays:
        known.update(f"{array.dtype.str}{array.shape}".encode())
        known.update(np.ascontiguousarray(array).tobytes())
    return known.hexdigest()
