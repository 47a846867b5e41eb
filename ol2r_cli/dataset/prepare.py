"""What the cache keeps of a fold: the parsed files as one table, the features that rankers see, and document groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ol2r_cli.dataset.cache import Arrays, Cache, code_hash, digest, write_rows
from ol2r_cli.dataset.document_groups import GroupFile, GroupQuantiles, GroupThreshold
from ol2r_cli.dataset.normalise import Normaliser, blocks, column_ranges, normaliser
from ol2r_cli.dataset.parse import parse
from ol2r_cli.dataset.table import SPLITS, setting
from ol2r_cli.tensor.shapes import Bool, Float, Int

log = logging.getLogger(__name__)
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


def parsed_table(
    cache: Cache,
    files: Mapping[str, Path],
    sha256: Mapping[str, str],
    features: int | None,
    overflow: str,
    missing: float | str,
) -> ParsedTable:
    """The table of these files, from the cache where possible; the last three are those of `parse`."""
    code = code_hash("dataset", "loops"), np.__version__
    identity = {"code": code, "files": dict(sha256), "features": features, "overflow": overflow}
    key = digest(identity | stated(missing))[:24]
    arrays = cache.open(key, lambda folder: _write_table(folder, files, features, overflow, missing))
    return ParsedTable(
        key,
        arrays["features"],
        arrays["labels"],
        np.array(arrays["offsets"]),
        arrays["query_ids"].tolist(),
        np.array(arrays["counts"]),
        int(arrays["largest_id"][0]),
    )


def stated(missing: float | str) -> dict[str, float | str]:
    """The part of an identity that says how NULL is read; empty for `error`, where no file has NULL."""
    return {} if missing == "error" else {"missing": missing if missing == "minimum" else float(missing)}


def _write_table(
    folder: Path, files: Mapping[str, Path], features: int | None, overflow: str, missing: float | str
) -> None:
    parts = {}
    for split, file in files.items():
        start = time.perf_counter()
        parts[split] = parse(file, features, overflow, missing)
        log.info("parsed %s: %d documents in %.1f s", file, len(parts[split].labels), time.perf_counter() - start)
    largest_id = max(part.features.shape[1] for part in parts.values())
    width = features or largest_id
    lengths = [np.diff(part.offsets) for part in parts.values()]
    query_ids = [query_id for part in parts.values() for query_id in part.query_ids]
    counts = [len(parts[split].query_ids) if split in parts else 0 for split in SPLITS]
    labels = np.concatenate([part.labels for part in parts.values()])
    padded = (block for part in parts.values() for block in _padded(part.features, width))
    write_rows(folder / "features.npy", (len(labels), width), padded)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64))
    np.save(folder / "query_ids.npy", np.array(query_ids))
    np.save(folder / "counts.npy", np.array(counts, dtype=np.int64))
    np.save(folder / "largest_id.npy", np.array([largest_id]))


def _padded(features: Float[np.ndarray, "n F"], width: int) -> Iterator[Float[np.ndarray, "m G"]]:
    """Blocks of rows with zero columns appended, for files that do not contain the last features."""
    for start in range(0, len(features), _ROWS):
        yield np.pad(features[start : start + _ROWS], ((0, 0), (0, width - features.shape[1])))


def ranking_features(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> Float[np.ndarray, "N G"]:
    """The features that rankers see, after the transformation that `fit_transformation` describes."""
    if method == "none" and zeroed is None and not drop_constant:
        return table.features
    depends = train.tolist() if method == "global_zscore" or drop_constant else None
    identity = {"table": table.key, "train": depends, "method": method, "zeroed": zeroed, "drop": drop_constant}

    def build(folder: Path) -> None:
        transform = fit_transformation(table, train, method, zeroed, drop_constant)
        shape = (len(table.labels), int(transform.columns.sum()))
        write_rows(folder / "features.npy", shape, transform(table.features, table.offsets))

    return cache.open(digest(identity)[:24], build)["features"]


@dataclass(frozen=True)
class FeatureTransformation:
    """Normalises features, then sets feature `zeroed` (an id from 1) to 0, then keeps the marked `columns`.

    A call takes features [N, F] and offsets [Q + 1] of queries and gives blocks of whole queries, float32.
    """

    normalise: Normaliser
    zeroed: int | None
    columns: Bool[np.ndarray, "F"]

    def __call__(
        self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]
    ) -> Iterator[Float[np.ndarray, "n G"]]:
        for rows, start in blocks(offsets):
            block = self.normalise(features[rows].astype(np.float64), start).astype(np.float32)
            if self.zeroed is not None:
                block[:, self.zeroed - 1] = 0
            yield block[:, self.columns]


def fit_transformation(
    table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> FeatureTransformation:
    """The transformation from the features in files to those that rankers see.

    `method` normalises, `zeroed` is the id of the feature that becomes 0, and `drop_constant` leaves out columns that
    are then constant over the training queries `train`. What depends on data depends on these queries of `table`.
    Raises ValueError when `drop_constant` would leave no column.
    """
    rows = _rows_of(table, train)
    every = np.ones(table.features.shape[1], dtype=bool)
    transform = FeatureTransformation(normaliser(method, table.features, table.offsets, rows), zeroed, every)
    if not drop_constant:
        return transform
    varying = _varying_columns(transform, table, rows)
    if not varying.any():
        name = setting("drop_constant")
        raise ValueError(f"{name} must be false here: every feature is constant over the training split")
    return replace(transform, columns=varying)


def _rows_of(table: ParsedTable, queries: Int[np.ndarray, "q"]) -> Bool[np.ndarray, "N"]:
    selected = np.zeros(len(table.query_ids), dtype=bool)
    selected[queries] = True
    return np.repeat(selected, np.diff(table.offsets))


def _varying_columns(
    transform: FeatureTransformation, table: ParsedTable, train: Bool[np.ndarray, "N"]
) -> Bool[np.ndarray, "F"]:
    """Marks the features that have more than one value over the training rows."""
    transformed = zip(blocks(table.offsets), transform(table.features, table.offsets), strict=True)
    low, high = column_ranges((block[train[rows]] for (rows, _), block in transformed), table.features.shape[1])
    return low < high


def document_groups(
    cache: Cache,
    table: ParsedTable,
    train: Int[np.ndarray, "q"],
    method: str,
    rule: GroupThreshold | GroupQuantiles | GroupFile | None,
) -> Int[np.ndarray, "N"] | None:
    """The group of every document by a rule; None without a rule. `method` is the normalisation of the features."""
    if rule is None:
        return None
    if isinstance(rule, GroupFile):
        return rule.read(len(table.labels))
    if rule.feature > table.features.shape[1]:
        name = setting("group.feature")
        raise ValueError(f"{name} must be at most {table.features.shape[1]}, got {rule.feature}")
    column = table.features[:, rule.feature - 1 : rule.feature]
    method = "none" if rule.on == "raw" else method
    depends = train.tolist() if method == "global_zscore" or isinstance(rule, GroupQuantiles) else None
    cuts: Any = {"quantiles": rule.quantiles} if isinstance(rule, GroupQuantiles) else rule.threshold
    identity = {"table": table.key, "train": depends, "method": method, "group": [rule.feature, cuts]}

    def build(folder: Path) -> None:
        training = _rows_of(table, train)
        normalise = normaliser(method, column, table.offsets, training)
        parts = (normalise(column[rows].astype(np.float64), start)[:, 0] for rows, start in blocks(table.offsets))
        values = np.concatenate([part.astype(np.float32) for part in parts])
        by_threshold = rule.thresholds(values[training]) if isinstance(rule, GroupQuantiles) else rule
        np.save(folder / "group.npy", by_threshold.divide(values))

    arrays: Arrays = cache.open(digest(identity)[:24], build)
    return arrays["group"]
