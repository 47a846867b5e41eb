"""A fold as one table, its document groups, and the features that rankers see, all of which the cache keeps.

With x a feature of a document, and statistics over the documents of its query (sd with divisor n), `normalise` is

    none            x
    query_minmax    (x - min) / (max - min)
    query_zscore    (x - mean) / sd
    global_zscore   (x - mean) / sd, over all documents of the training split

A feature that is constant over these documents becomes 0. Arithmetic is float64, results are float32. Blocks of whole
queries are computed one after the other, so that a table need not fit into memory twice.

Groups, for fairness, follow from a feature or are read from a file. The thresholds of the published experiments are on
per-query min-max features: MSLR in-link number (feature 128) at 0 and PageRank (130) at 0.12, Yahoo feature 471 at 0
and feature 9 at 0.92. Group 0 is their A, group 1 their B.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from ol2r_cli.config.ranges import Count, Range, check_settings
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.parse import ParsedFile, blocks, parse, rounded_off
from ol2r_cli.dataset.table import LARGE_FEATURE, LARGEST_INT8, SPLITS, Dataset
from ol2r_cli.formatting import listed
from ol2r_cli.source import code_hash
from ol2r_cli.tensor.shapes import Bool, Float, Int

log = logging.getLogger(__name__)
Normalisation = Literal["none", "query_minmax", "query_zscore", "global_zscore"]
Transformation = Callable[[np.ndarray, np.ndarray], Iterator[np.ndarray]]  # (features, offsets) -> blocks, float32


def rows_of(queries: Int[np.ndarray, "q"], offsets: Int[np.ndarray, "Q1"]) -> Bool[np.ndarray, "N"]:
    """Return a mark for each document of these queries."""
    return np.repeat(np.isin(np.arange(len(offsets) - 1), queries), np.diff(offsets))


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
    rounded: list[int]  # ids of features that float32 does not hold (`rounded_off`)
    large: list[int]  # ids of features of which a value is above LARGE_FEATURE in size


def dataset_of(
    table: ParsedTable | ParsedFile,
    splits: Mapping[str, Int[np.ndarray, "_"]],
    features: Float[np.ndarray, "N F"],
    group: Int[np.ndarray, "N"] | None = None,
    **facts: Any,
) -> Dataset:
    """Return the documents of a table with the features that rankers see; `facts` are further fields of `Dataset`."""
    return Dataset(
        features=torch.from_numpy(features),
        labels=torch.from_numpy(table.labels),
        offsets=torch.from_numpy(table.offsets),
        query_ids=table.query_ids,
        splits={split: torch.from_numpy(queries) for split, queries in splits.items()},
        group=None if group is None else torch.from_numpy(group),
        **facts,
    )


def parsed_table(
    cache: Cache, files: Mapping[str, Path], features: int | None, overflow: str, missing: float | str
) -> ParsedTable:
    """Return the table of the files of the splits, from the cache where possible; the last three are for `parse`."""

    sha256 = {split: cache.sha256(file) for split, file in files.items()}
    code = code_hash("dataset", "loops"), np.__version__
    identity = {"code": code, "files": sha256, "features": features, "overflow": overflow, "missing": missing}
    key = digest(identity)[:24]
    arrays = cache.open(key, lambda folder: _write_table(folder, _parsed(files, features, overflow, missing), features))
    return ParsedTable(
        key=key,
        features=arrays["features"],
        labels=arrays["labels"],
        offsets=np.array(arrays["offsets"]),
        query_ids=arrays["query_ids"].tolist(),
        counts=np.array(arrays["counts"]),
        largest_id=int(arrays["largest_id"][0]),
        rounded=arrays["rounded"].astype(int).tolist(),
        large=arrays["large"].astype(int).tolist(),
    )


def _parsed(
    files: Mapping[str, Path], features: int | None, overflow: str, missing: float | str
) -> dict[str, ParsedFile]:
    """Return the documents of the file of each split."""
    parts = {}
    for split, file in files.items():
        start = time.perf_counter()
        parts[split] = parse(file, features, overflow, missing)
        log.info("parsed %s: %d documents in %.1f s", file, len(parts[split].labels), time.perf_counter() - start)
    return parts


def _write_table(folder: Path, parts: Mapping[str, ParsedFile], features: int | None) -> None:
    """Write the arrays of one table, a file each, from those of the splits; it has so many features, None as needed."""
    files = parts.values()
    largest_id = max(part.features.shape[1] for part in files)
    width = features or largest_id
    lengths = np.concatenate([np.diff(part.offsets) for part in files])
    large = [large_features(part.features) for part in files]
    arrays = {
        "labels": np.concatenate([part.labels for part in files]),
        "offsets": np.cumsum([0, *lengths], dtype=np.int64),
        "query_ids": np.array(list(chain.from_iterable(part.query_ids for part in files))),
        "counts": np.array([len(parts[split].query_ids) if split in parts else 0 for split in SPLITS]),
        "largest_id": np.array([largest_id]),
        "rounded": np.array(rounded_off(files), np.int64),
        "large": np.unique(list(chain.from_iterable(large))),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    _write_features(folder, (int(lengths.sum()), width), _padded_blocks(files, width))


def _padded_blocks(parts: Iterable[ParsedFile], width: int) -> Iterator[Float[np.ndarray, "n F"]]:
    """Yield the features of all documents, block by block, with zeros beyond those that a file has."""
    for part in parts:
        for rows, _ in blocks(part.offsets):
            yield np.pad(part.features[rows], ((0, 0), (0, width - part.features.shape[1])))


def large_features(features: Float[np.ndarray, "N F"]) -> list[int]:
    """Return the ids of features of which a value is above LARGE_FEATURE in size."""
    size = np.maximum(features.max(0), -features.min(0))
    return (1 + np.flatnonzero(size > LARGE_FEATURE)).tolist()


def feature_warnings(rounded: Sequence[int], large: Sequence[int], normalise: str) -> tuple[str, ...]:
    """Return a line for the features with these ids that float32 does not hold, and one for large ones as they are."""

    lines = []
    if rounded:
        harm = "values that single precision (7 digits) moves by over a thousandth of their range in a query"
        advice = "subtract a constant from them in the file, or multiply tiny ones"
        lines.append(f"features {listed(rounded)} have {harm}: {advice}")
    if large and normalise == "none":
        harm = "scores may leave single precision (3.4e38), and the run fail"
        has = f"features {listed(large)} have values above {LARGE_FEATURE:g}"
        lines.append(f"{has}: {harm}; type dataset.normalise=query_minmax")
    return tuple(lines)


def _write_features(folder: Path, shape: tuple[int, int], parts: Iterable[np.ndarray]) -> None:
    """Write a float32 array of `shape` from blocks of rows, without holding the table in memory."""
    with (folder / "features.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for part in parts:
            np.ascontiguousarray(part, "<f4").tofile(out)


def ranking_features(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> Float[np.ndarray, "N G"]:
    """Return the features that rankers see, after the transformation that `fit_transformation` describes."""
    if method == "none" and zeroed is None and not drop_constant:
        return table.features
    depends = train.tolist() if method == "global_zscore" or drop_constant else None
    identity = {"table": table.key, "train": depends, "method": method, "zeroed": zeroed, "drop": drop_constant}

    def build(folder: Path) -> None:
        training = rows_of(train, table.offsets)
        transform, width = fit_transformation(table.features, table.offsets, training, method, zeroed, drop_constant)
        _write_features(folder, (len(table.labels), width), transform(table.features, table.offsets))

    return cache.open(digest(identity)[:24], build)["features"]


def fit_transformation(
    features: Float[np.ndarray, "N F"],
    offsets: Int[np.ndarray, "Q1"],
    training: Bool[np.ndarray, "N"],
    method: str,
    zeroed: int | None,
    drop_constant: bool,
) -> tuple[Transformation, int]:
    """Return the transformation from the features in files to those that rankers see, and how many these are.

    `method` normalises, then feature `zeroed` (an id from 1) becomes 0, and `drop_constant` leaves out columns that are
    then constant over the documents marked in `training`. What depends on data depends on these documents.
    ValueError when `drop_constant` would leave no column.
    """
    normalise = normaliser(method, features, offsets, training)
    columns = np.ones(features.shape[1], dtype=bool)

    def transform(features: np.ndarray, offsets: np.ndarray) -> Iterator[np.ndarray]:
        for block in normalise(features, offsets):
            if zeroed is not None:
                block[:, zeroed - 1] = 0
            yield block[:, columns]

    if drop_constant:
        transformed = zip(blocks(offsets), transform(features, offsets), strict=True)
        columns = ~constant_columns(block[training[rows]] for (rows, _), block in transformed)  # from now on
        if not columns.any():
            raise ValueError(
                "dataset.drop_constant must be false here: every feature is constant over the training split"
            )
    return transform, int(columns.sum())


def normaliser(
    method: str, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"], train: Bool[np.ndarray, "N"]
) -> Transformation:
    """Return the function that normalises a table, block by block.

    Only `global_zscore` depends on data: on the training rows `train` of the table `features`, which are read in
    several passes for accuracy.
    """

    def inverse(x: Float[np.ndarray, "*q F"]) -> Float[np.ndarray, "*q F"]:
        return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)

    if method == "global_zscore":

        def training() -> Iterator[np.ndarray]:
            return (features[rows][train[rows]].astype(np.float64) for rows, _ in blocks(offsets))

        count, zeros = np.count_nonzero(train), np.zeros(features.shape[1])
        mean = sum((part.sum(0) for part in training()), zeros) / count
        squares = sum((((part - mean) ** 2).sum(0) for part in training()), zeros)
        scale = inverse(np.where(constant_columns(training()), 0.0, np.sqrt(squares / count)))

    def of_block(x: Float[np.ndarray, "n F"], start: Int[np.ndarray, "q"]) -> Float[np.ndarray, "n F"]:
        if method == "none":
            return x
        if method == "global_zscore":
            return (x - mean) * scale
        length = np.diff(start, append=len(x))
        low, high = np.minimum.reduceat(x, start), np.maximum.reduceat(x, start)
        if method == "query_minmax":
            return (x - np.repeat(low, length, 0)) * np.repeat(inverse(high - low), length, 0)
        centred = x - np.repeat(np.add.reduceat(x, start) / length[:, None], length, 0)
        sd = np.sqrt(np.add.reduceat(centred**2, start) / length[:, None])
        return centred * np.repeat(inverse(np.where(low == high, 0.0, sd)), length, 0)

    def normalise(features: np.ndarray, offsets: np.ndarray) -> Iterator[np.ndarray]:
        for rows, start in blocks(offsets):
            yield of_block(features[rows].astype(np.float64), start).astype(np.float32)

    return normalise


def constant_columns(parts: Iterable[Float[np.ndarray, "n F"]]) -> Bool[np.ndarray, "F"]:
    """Return whether each column has a single value over blocks of rows, of which one has a row."""
    ranges = [(part.min(0), part.max(0)) for part in parts if len(part)]
    return np.min([low for low, _ in ranges], 0) == np.max([high for _, high in ranges], 0)


@dataclass(frozen=True)
class GroupRule:
    """The group of a document is the number of thresholds that feature `feature` (an id from 1) does not exceed.

    Either `threshold` has them, or one number, or the values of training documents make `quantiles` groups of about
    equal size: threshold k = 1, 2, .. is the smallest value that at least the share 1 - k / quantiles of them do not
    exceed. So group 0 has the largest values. `on`: compare values before (`raw`) or after normalisation. `zeroed`:
    rankers see 0 in place of the feature, so that they cannot learn the group from it.
    """

    feature: Count
    threshold: float | Sequence[float] | None = None
    quantiles: Annotated[int, Range(2, LARGEST_INT8 + 1)] | None = None
    on: Literal["raw", "normalised"] = "normalised"
    zeroed: bool = True


def group_rule(settings: Mapping[str, Any] | None) -> GroupRule | Path | None:
    """Return the rule of the setting `group`: null, {feature, threshold or quantiles, on, zeroed} or {file}.

    A file has one integer per line, in the order of the documents. ValueError for other settings.
    """
    if settings is None:
        return None
    if set(settings) == {"file"}:
        return expand(str(settings["file"]))
    cuts = settings.get("threshold")
    if "feature" not in settings or (cuts is None) == (settings.get("quantiles") is None):
        raise ValueError(
            f"dataset.group must be null, {{file: FILE}} or {{feature: ID, threshold: X, on: raw|normalised, "
            f"zeroed: true|false}}, with threshold: [X, Y, ..] or quantiles: GROUPS for more groups, and in quotes, as "
            f"in 'dataset.group={{feature: 3, threshold: 0.5}}', got {settings!r}"
        )
    check_settings(GroupRule, settings, "dataset.group")
    if isinstance(cuts, Sequence) and not 1 <= len(set(cuts)) == len(cuts) <= LARGEST_INT8:
        expected = f"a number, or a list of 1 to {LARGEST_INT8} different numbers"
        raise ValueError(f"dataset.group.threshold must be {expected}, got {list(cuts)}")
    return GroupRule(**settings)


def zeroed_feature(rule: GroupRule | Path | None) -> int | None:
    """Return the id of the feature that rankers see as 0, because the groups follow from it; None without one."""
    return rule.feature if isinstance(rule, GroupRule) and rule.zeroed else None


def document_groups(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, rule: GroupRule | Path | None
) -> Int[np.ndarray, "N"] | None:
    """Return the group of every document, int8; None without a rule. `method` is the normalisation of the features.

    ValueError if the feature or the file does not fit the table, or a group by quantiles would be empty.
    """
    if rule is None:
        return None
    if isinstance(rule, Path):
        return _read_groups(rule, len(table.labels))
    if rule.feature > table.features.shape[1]:
        raise ValueError(f"dataset.group.feature must be at most {table.features.shape[1]}, got {rule.feature}")
    column = table.features[:, rule.feature - 1 : rule.feature]
    method = "none" if rule.on == "raw" else method
    depends = train.tolist() if method == "global_zscore" or rule.quantiles else None
    cuts = [rule.feature, rule.threshold, rule.quantiles]
    identity = {"table": table.key, "train": depends, "method": method, "group": cuts}

    def build(folder: Path) -> None:
        training = rows_of(train, table.offsets)
        if method == "none":
            values = column[:, 0]  # in its own precision
        else:
            normalise = normaliser(method, column, table.offsets, training)
            values = np.concatenate(list(normalise(column, table.offsets)))[:, 0]
        not_exceeded = [values <= threshold for threshold in _thresholds(rule, values[training])]
        np.save(folder / "group.npy", np.sum(not_exceeded, axis=0).astype(np.int8))

    return cache.open(digest(identity)[:24], build)["group"]


def _thresholds(rule: GroupRule, training: Float[np.ndarray, "n"]) -> Sequence[float]:
    """Return the thresholds of a rule; `training` has the values of the feature of training documents.

    ValueError if a group by quantiles would be empty.
    """
    if rule.threshold is not None:
        return rule.threshold if isinstance(rule.threshold, Sequence) else [rule.threshold]
    assert rule.quantiles is not None
    ascending, groups = np.sort(training), rule.quantiles
    ranks = [-(-len(ascending) * (groups - number) // groups) for number in range(1, groups)]  # without rounding
    thresholds = [float(ascending[rank - 1]) for rank in ranks]
    if len(set(thresholds)) < len(thresholds) or thresholds[0] >= ascending[-1]:
        listed = ", ".join(f"{threshold:.4g}" for threshold in thresholds)
        raise ValueError(
            f"dataset.group.quantiles must be less, or dataset.group.feature another, as feature "
            f"{rule.feature} has too few values: its quantiles are {listed}, the largest is {ascending[-1]:.4g}"
        )
    return thresholds


def _read_groups(file: Path, documents: int) -> Int[np.ndarray, "N"]:
    """Return the groups in a file; ValueError if it is not one for so many documents."""
    if not file.is_file():
        raise ValueError(f"dataset.group.file must be a file, got {file}")
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) > LARGEST_INT8:
            raise ValueError(f"{file}:{number}: found {line[:40]!r}, expected a whole number from 0 to {LARGEST_INT8}")
    if len(lines) != documents:
        raise ValueError(f"dataset.group.file must have one line per document ({documents}), got {len(lines)} lines")
    return np.array(lines, dtype="U").astype(np.int8)
