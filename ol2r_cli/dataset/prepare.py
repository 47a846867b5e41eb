"""A fold as one table, and the features that rankers see, which the cache keeps.

With x a feature of a document, and statistics over the documents of its query (sd with divisor n), `normalise` is

    none            x
    query_minmax    (x - min) / (max - min)
    query_zscore    (x - mean) / sd
    global_zscore   (x - mean) / sd, over all documents of the training split

A feature that is constant over these documents becomes 0. Arithmetic is float64, results are float32. Blocks of whole
queries are computed one after the other, so that a table need not fit into memory twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ol2r_cli.dataset.cache import Cache, code_hash, digest, write_rows
from ol2r_cli.dataset.parse import blocks, parse
from ol2r_cli.dataset.table import SPLITS, setting
from ol2r_cli.tensor.shapes import Bool, Float, Int

log = logging.getLogger(__name__)
Normalisation = Literal["none", "query_minmax", "query_zscore", "global_zscore"]
Normaliser = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (block of rows, starts of its queries) -> block
Transformation = Callable[[np.ndarray, np.ndarray], Iterator[np.ndarray]]  # (features, offsets) -> blocks of rows
_ROWS = 8192  # padded at a time


@dataclass(frozen=True)
class ParsedTable:
    """The files of one fold as one table; queries are numbered through train, validation and test."""

    key: str  # of its entry in the cache: depends on the content of the files, and on the code that prepares them
    features: Float[np.ndarray, "N F"]
    labels: Int[np.ndarray, "N"]
    offsets: Int[np.ndarray, "Q1"]
    query_ids: list[str]
    counts: Int[np.ndarray, "3"]  # queries of train, validation, test; 0 where there is no file
    largest_id: int  # of the features in the files; a declared number of features may be larger

    def rows_of(self, queries: Int[np.ndarray, "q"]) -> Bool[np.ndarray, "N"]:
        """Return a mark for each document of these queries."""
        selected = np.zeros(len(self.query_ids), dtype=bool)
        selected[queries] = True
        return np.repeat(selected, np.diff(self.offsets))


def parsed_table(
    cache: Cache,
    files: Mapping[str, Path],
    sha256: Mapping[str, str],
    features: int | None,
    overflow: str,
    missing: float | str,
) -> ParsedTable:
    """Return the table of these files, from the cache where possible; the last three are those of `parse`."""

    def build(folder: Path) -> None:
        parts = {}
        for split, file in files.items():
            start = time.perf_counter()
            parts[split] = parse(file, features, overflow, missing)
            log.info("parsed %s: %d documents in %.1f s", file, len(parts[split].labels), time.perf_counter() - start)
        largest_id = max(part.features.shape[1] for part in parts.values())
        labels = np.concatenate([part.labels for part in parts.values()])
        shape = len(labels), features or largest_id
        write_rows(folder / "features.npy", shape, _padded([part.features for part in parts.values()], shape[1]))
        lengths = np.concatenate([np.diff(part.offsets) for part in parts.values()])
        counts = [len(parts[split].query_ids) if split in parts else 0 for split in SPLITS]
        arrays = {
            "labels": labels,
            "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            "query_ids": np.array([query_id for part in parts.values() for query_id in part.query_ids]),
            "counts": np.array(counts, dtype=np.int64),
            "largest_id": np.array([largest_id]),
        }
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)

    code = code_hash("dataset", "loops"), np.__version__
    identity = {"code": code, "files": dict(sha256), "features": features, "overflow": overflow}
    key = digest(identity | stated(missing))[:24]
    arrays = cache.open(key, build)
    offsets, counts = np.array(arrays["offsets"]), np.array(arrays["counts"])
    ids, largest_id = arrays["query_ids"].tolist(), int(arrays["largest_id"][0])
    return ParsedTable(key, arrays["features"], arrays["labels"], offsets, ids, counts, largest_id)


def stated(missing: float | str) -> dict[str, float | str]:
    """Return what says in an identity how NULL is read; empty for `error`, where no file has NULL."""
    return {} if missing == "error" else {"missing": missing if missing == "minimum" else float(missing)}


def _padded(parts: Iterable[np.ndarray], width: int) -> Iterator[np.ndarray]:
    """Yield blocks of rows with zero columns appended, for files that do not contain the last features."""
    for features in parts:
        for start in range(0, len(features), _ROWS):
            yield np.pad(features[start : start + _ROWS], ((0, 0), (0, width - features.shape[1])))


def ranking_features(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> Float[np.ndarray, "N G"]:
    """Return the features that rankers see, after the transformation that `fit_transformation` describes."""
    if method == "none" and zeroed is None and not drop_constant:
        return table.features
    depends = train.tolist() if method == "global_zscore" or drop_constant else None
    identity = {"table": table.key, "train": depends, "method": method, "zeroed": zeroed, "drop": drop_constant}

    def build(folder: Path) -> None:
        transform, width = fit_transformation(table, train, method, zeroed, drop_constant)
        write_rows(folder / "features.npy", (len(table.labels), width), transform(table.features, table.offsets))

    return cache.open(digest(identity)[:24], build)["features"]


def fit_transformation(
    table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> tuple[Transformation, int]:
    """Return the transformation from the features in files to those that rankers see, and how many these are.

    `method` normalises, then feature `zeroed` (an id from 1) becomes 0, and `drop_constant` leaves out columns that are
    then constant over the training queries `train`. What depends on data depends on these queries of `table`.
    ValueError when `drop_constant` would leave no column.
    """
    training = table.rows_of(train)
    normalise = normaliser(method, table.features, table.offsets, training)
    columns = np.ones(table.features.shape[1], dtype=bool)

    def transform(features: np.ndarray, offsets: np.ndarray) -> Iterator[np.ndarray]:
        for rows, start in blocks(offsets):
            block = normalise(features[rows].astype(np.float64), start).astype(np.float32)
            if zeroed is not None:
                block[:, zeroed - 1] = 0
            yield block[:, columns]

    if drop_constant:
        transformed = zip(blocks(table.offsets), transform(table.features, table.offsets), strict=True)
        low, high = column_ranges((block[training[rows]] for (rows, _), block in transformed), len(columns))
        columns = low < high  # from now on
        if not columns.any():
            name = setting("drop_constant")
            raise ValueError(f"{name} must be false here: every feature is constant over the training split")
    return transform, int(columns.sum())


def normaliser(
    method: str, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> Normaliser:
    """Return the function that normalises a block of rows (float64) of whole queries.

    Only `global_zscore` depends on data: on the training rows `train` of the table `features`.
    """
    if method == "none":
        return lambda x, start: x
    if method == "global_zscore":
        mean, scale = _training_statistics(features, offsets, train)
        return lambda x, start: (x - mean) * scale
    return lambda x, start: _within_queries(x, start, method)


def _within_queries(x: Float[np.ndarray, "n F"], start: Int[np.ndarray, "q"], method: str) -> Float[np.ndarray, "n F"]:
    """Normalise by the statistics of each query; query i begins at row start[i], and start[0] is 0."""
    length = np.diff(start, append=len(x))
    low, high = np.minimum.reduceat(x, start), np.maximum.reduceat(x, start)
    if method == "query_minmax":
        return (x - np.repeat(low, length, 0)) * np.repeat(_inverse(high - low), length, 0)
    centred = x - np.repeat(np.add.reduceat(x, start) / length[:, None], length, 0)
    sd = np.sqrt(np.add.reduceat(centred**2, start) / length[:, None])
    return centred * np.repeat(_inverse(np.where(low == high, 0.0, sd)), length, 0)


def column_ranges(
    parts: Iterable[Float[np.ndarray, "n F"]], width: int
) -> tuple[Float[np.ndarray, "F"], Float[np.ndarray, "F"]]:
    """Return the least and the largest value of each of `width` columns over blocks of rows; inf, -inf without rows."""
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for part in parts:
        low, high = np.minimum(low, part.min(0, initial=np.inf)), np.maximum(high, part.max(0, initial=-np.inf))
    return low, high


def _training_statistics(
    features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> tuple[Float[np.ndarray, "F"], Float[np.ndarray, "F"]]:
    """Return mean and inverse standard deviation of the training rows, in two passes for accuracy."""

    def training() -> Iterator[np.ndarray]:
        for rows, _ in blocks(offsets):
            if train[rows].any():
                yield features[rows][train[rows]].astype(np.float64)

    rows, width = np.count_nonzero(train), features.shape[1]
    mean = sum((block.sum(0) for block in training()), np.zeros(width)) / rows
    squares = np.zeros(width)
    for block in training():
        squares += ((block - mean) ** 2).sum(0)
    low, high = column_ranges(training(), width)
    return mean, _inverse(np.where(low == high, 0.0, np.sqrt(squares / rows)))


def _inverse(x: Float[np.ndarray, "*q F"]) -> Float[np.ndarray, "*q F"]:
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)
