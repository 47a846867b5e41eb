"""Click logs of users that are known, and what they would click on other lists."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from ol2r_cli.plugins.advise.worlds import GRID, WorldUser

QUERIES, DOCUMENTS = 12, 6


class Shop(NamedTuple):
    """Attractions [Q, D], the order of production [Q, D], examination by rank, and how often queries are asked."""

    attraction: np.ndarray
    production: np.ndarray
    examination: np.ndarray
    shares: np.ndarray

    def clicks(self, order: np.ndarray) -> float:
        """Expected clicks a page with these orders."""
        shown = np.take_along_axis(self.attraction, order, 1) * self.examination
        return float(self.shares @ shown.sum(1))


def shop(seed: int = 3, queries: int = QUERIES, documents: int = DOCUMENTS, noise: float = 0.25) -> Shop:
    random = np.random.default_rng(seed)
    grades = random.choice(5, (queries, documents), p=[0.5, 0.25, 0.15, 0.07, 0.03])
    attraction = (0.03 + 0.17 * grades + 0.05 * random.normal(size=grades.shape)).clip(0.01, 0.95)
    production = np.argsort(-(attraction + noise * random.normal(size=grades.shape)), axis=1)
    shares = 1 / np.arange(1.0, queries + 1)
    return Shop(attraction, production, 1 / np.arange(1.0, documents + 1), shares / shares.sum())


def pages(of: Shop, number: int, swap: float = 1.0, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The query, documents and clicks of pages; on a share `swap` of them neighbours change places by chance."""
    random = np.random.default_rng(seed)
    query = random.choice(len(of.shares), number, p=of.shares)
    order, places = of.production[query].copy(), of.production.shape[1]
    first, chosen = random.integers(0, 2, number), random.random(number) < swap
    for rank in range(places - 1):
        moved = chosen & (rank >= first) & ((rank - first) % 2 == 0) & (random.random(number) < 0.5)
        order[moved, rank], order[moved, rank + 1] = order[moved, rank + 1], order[moved, rank].copy()
    clicks = random.random(order.shape) < of.examination * np.take_along_axis(of.attraction[query], order, 1)
    return query, order, clicks


def write(file: Path, query: np.ndarray, order: np.ndarray, clicks: np.ndarray) -> Path:
    """A log with a row for each document of a page; documents are called by query and number."""
    number, places = order.shape
    rows = {
        "session": np.repeat(np.arange(number), places),
        "query": [f"q{one}" for one in np.repeat(query, places)],
        "document": [f"q{q}d{d}" for q, d in zip(np.repeat(query, places), order.ravel(), strict=True)],
        "place": np.tile(np.arange(1, places + 1), number),
        "click": clicks.ravel().astype(int),
    }
    pl.DataFrame(rows).write_csv(file)
    return file


def clicks_of(user: WorldUser, attraction: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """What users click on pages [S K], by the definitions of the models; attraction is nan where nothing is shown."""
    clicks = np.zeros(attraction.shape, bool)
    for page, row in enumerate(attraction):
        last, reads = -1, True
        for place, attracts in enumerate(row[~np.isnan(row)]):
            examined = reads
            if user.kind == "pbm":
                examined = random.random() < user.values[place]
            elif user.kind == "ubm":
                examined = random.random() < user.values[place, place - last - 1]
            clicked = examined and random.random() < attracts
            if clicked:
                clicks[page, place], last = True, place
            if user.kind == "dbn":
                reads = reads and random.random() < np.interp(attracts, GRID, user.values[int(clicked)])
    return clicks
