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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from ol2r_cli.config.ranges import Count, Range, check_settings, with_whole_numbers
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.parse import ParsedFile, blocks, fill_with_minima, parse, rounded_off
from ol2r_cli.dataset.table import LARGE_FEATURE, LARGEST_INT8, SPLITS, Dataset
from ol2r_cli.source import code_hash
from ol2r_cli.tensor.shapes import Bool, Float, Int
from ol2r_cli.text.formatting import listed, nearest
from ol2r_cli.text.terminal import share_shown

log = logging.getLogger(__name__)
Normalisation = Literal["none", "query_minmax", "query_zscore", "global_zscore"]


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
    arrays = cache.open(key, lambda folder: _write_table(folder, files, features, overflow, missing))
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


def _write_table(
    folder: Path, files: Mapping[str, Path], features: int | None, overflow: str, missing: float | str
) -> None:
    """Write the arrays of one table, a file each, from the file of each split, without holding it in memory."""
    parts = {}
    with _FeatureFile(folder / "features.npy", features or 0) as table:
        for split, file in files.items():
            start = time.perf_counter()
            parts[split] = parse(file, features, overflow, missing, keep=table.add)
            log.info("parsed %s: %d documents in %.1f s", file, len(parts[split].labels), time.perf_counter() - start)
    read = parts.values()
    offsets = np.cumsum([0, *chain.from_iterable(np.diff(part.offsets) for part in read)], dtype=np.int64)
    if missing == "minimum":
        written = np.load(folder / "features.npy", mmap_mode="r+")
        fill_with_minima(written, offsets)
        written.flush()
    arrays = {
        "labels": np.concatenate([part.labels for part in read]),
        "offsets": offsets,
        "query_ids": np.array(list(chain.from_iterable(part.query_ids for part in read))),
        "counts": np.array([len(parts[split].query_ids) if split in parts else 0 for split in SPLITS]),
        "largest_id": np.array([max(part.features.shape[1] for part in read)]),
        "rounded": np.array(rounded_off(read), np.int64),
        "large": 1 + np.flatnonzero(table.size > LARGE_FEATURE),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


class _FeatureFile:
    """A float32 array in a file, to which blocks of rows are added; columns that a block does not have are 0.

    It has so many columns, or as many as the widest block. `size` is the largest absolute value of each, NaN left out.
    """

    def __init__(self, file: Path, columns: int = 0):
        self.file, self.size = file, np.zeros(columns)
        self.blocks: list[tuple[int, int]] = []  # rows and columns of each as it was written

    def __enter__(self) -> _FeatureFile:
        self._out = self.file.open("wb")
        self._out.write(_header(1, 1))  # the space for it
        return self

    def add(self, block: Float[np.ndarray, "n f"]) -> None:
        """Write rows below those that were added before."""
        block = np.pad(block, ((0, 0), (0, max(0, len(self.size) - block.shape[1]))))
        before = np.pad(self.size, (0, block.shape[1] - len(self.size)))
        self.size = np.fmax(before, np.fmax.reduce(np.abs(block), 0, initial=0))
        self.blocks.append((len(block), block.shape[1]))
        np.ascontiguousarray(block, "<f4").tofile(self._out)

    def __exit__(self, *_: object) -> None:
        rows, columns = sum(rows for rows, _ in self.blocks), len(self.size)
        self._out.close()
        if all(width == columns for _, width in self.blocks):
            with self.file.open("r+b") as out:
                out.write(_header(rows, columns))
            return
        narrow = self.file.replace(self.file.with_suffix(".narrow"))
        with narrow.open("rb") as written, self.file.open("wb") as out:
            written.seek(len(_header(1, 1)))
            out.write(_header(rows, columns))
            for rows, width in self.blocks:
                block = np.fromfile(written, "<f4", rows * width).reshape(rows, width)
                np.pad(block, ((0, 0), (0, columns - width))).tofile(out)
        narrow.unlink()


def _header(rows: int, columns: int) -> bytes:
    """Return the beginning of an .npy file of float32, of a length that does not depend on its shape."""
    with BytesIO() as out:
        shape = rows, columns
        np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return out.getvalue()


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


def ranking_features(
    cache: Cache, table: ParsedTable, train: Int[np.ndarray, "q"], method: str, zeroed: int | None, drop_constant: bool
) -> Float[np.ndarray, "N G"]:
    """Return the features that rankers see, after the `Transformation` of the table."""
    if method == "none" and zeroed is None and not drop_constant:
        return table.features
    depends = train.tolist() if method == "global_zscore" or drop_constant else None
    identity = {"table": table.key, "train": depends, "method": method, "zeroed": zeroed, "drop": drop_constant}

    def build(folder: Path) -> None:
        training = rows_of(train, table.offsets)
        fitted = fit_transformation(table.features, table.offsets, training, method, zeroed, drop_constant)
        done = 0
        with (
            share_shown(f"normalising by {method}", len(table.labels)) as show,
            _FeatureFile(folder / "features.npy", fitted.width) as written,
        ):
            for block in fitted.by_block(table.features, table.offsets):
                written.add(block)
                show(done := done + len(block))

    return cache.open(digest(identity)[:24], build)["features"]


@dataclass(frozen=True)
class Transformation:
    """How features, as they stand in the data, become those that rankers see.

    `method` normalises, then the feature `zeroed` (an id from 1) becomes 0, and `columns` marks those that are kept.
    mean, scale: those of `global_zscore` for each feature, 0 and 1 otherwise.
    """

    method: str
    columns: Bool[np.ndarray, "F"]
    zeroed: int | None = None
    mean: Float[np.ndarray, "F"] | float = 0.0
    scale: Float[np.ndarray, "F"] | float = 1.0

    @property
    def width(self) -> int:
        """How many features rankers see."""
        return int(self.columns.sum())

    def __call__(self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]) -> Float[np.ndarray, "N G"]:
        """Return the features that rankers see of the documents of whole queries, float32."""
        return np.concatenate([*self.by_block(features, offsets)])

    def by_block(
        self, features: Float[np.ndarray, "N F"], offsets: Int[np.ndarray, "Q1"]
    ) -> Iterator[Float[np.ndarray, "n G"]]:
        """Yield the same for one block of `blocks` after the other."""
        for rows, start in blocks(offsets):
            block = self._normalised(features[rows].astype(np.float64), start).astype(np.float32)
            if self.zeroed is not None:
                block[:, self.zeroed - 1] = 0
            yield block[:, self.columns]

    def _normalised(self, x: Float[np.ndarray, "n F"], start: Int[np.ndarray, "q"]) -> Float[np.ndarray, "n F"]:
        if self.method == "none":
            return x
        if self.method == "global_zscore":
            return (x - self.mean) * self.scale
        length = np.diff(start, append=len(x))
        low, high = np.minimum.reduceat(x, start), np.maximum.reduceat(x, start)
        if self.method == "query_minmax":
            return (x - np.repeat(low, length, 0)) * np.repeat(inverse(high - low), length, 0)
        centred = x - np.repeat(np.add.reduceat(x, start) / length[:, None], length, 0)
        sd = np.sqrt(np.add.reduceat(centred**2, start) / length[:, None])
        return centred * np.repeat(inverse(np.where(low == high, 0.0, sd)), length, 0)


def inverse(x: Float[np.ndarray, "*q F"]) -> Float[np.ndarray, "*q F"]:
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)


def fit_transformation(
    features: Float[np.ndarray, "N F"],
    offsets: Int[np.ndarray, "Q1"],
    training: Bool[np.ndarray, "N"],
    method: str,
    zeroed: int | None = None,
    drop_constant: bool = False,
) -> Transformation:
    """Return the transformation of a table, with what depends on data fitted to the documents marked in `training`.

    These are mean and scale of `global_zscore`, which several passes compute for accuracy, and with `drop_constant` the
    columns that are then constant, which it leaves out. ValueError when it would leave none.
    """
    fitted = Transformation(method, np.ones(features.shape[1], dtype=bool), zeroed)
    if method == "global_zscore":

        def documents() -> Iterator[np.ndarray]:
            return (features[rows][training[rows]].astype(np.float64) for rows, _ in blocks(offsets))

        count, zeros = np.count_nonzero(training), np.zeros(features.shape[1])
        mean = sum((part.sum(0) for part in documents()), zeros) / count
        squares = sum((((part - mean) ** 2).sum(0) for part in documents()), zeros)
        scale = inverse(np.where(constant_columns(documents()), 0.0, np.sqrt(squares / count)))
        fitted = replace(fitted, mean=mean, scale=scale)
    if drop_constant:
        transformed = zip(blocks(offsets), fitted.by_block(features, offsets), strict=True)
        columns = ~constant_columns(block[training[rows]] for (rows, _), block in transformed)
        if not columns.any():
            raise ValueError(
                "dataset.drop_constant must be false here: every feature is constant over the training split"
            )
        fitted = replace(fitted, columns=columns)
    return fitted


def constant_columns(parts: Iterable[Float[np.ndarray, "n F"]]) -> Bool[np.ndarray, "F"]:
    """Return whether each column has a single value over blocks of rows, of which one has a row."""
    ranges = [(part.min(0), part.max(0)) for part in parts if len(part)]
    return np.min([low for low, _ in ranges], 0) == np.max([high for _, high in ranges], 0)


@dataclass(frozen=True)
class GroupRule:
    """The group of a document is the number of thresholds that feature `feature` (an id from 1) does not exceed. Where
    data name their features, it may be such a name, until `numbered` has replaced it.

    Either `threshold` has them, or one number, or the values of training documents make `quantiles` groups of about
    equal size: threshold k = 1, 2, .. is the smallest value that at least the share 1 - k / quantiles of them do not
    exceed. So group 0 has the largest values. `on`: compare values before (`raw`) or after normalisation. `zeroed`:
    rankers see 0 in place of the feature, so that they cannot learn the group from it.
    """

    feature: Count | str
    threshold: float | Sequence[float] | None = None
    quantiles: Annotated[int, Range(2, LARGEST_INT8 + 1)] | None = None
    on: Literal["raw", "normalised"] = "normalised"
    zeroed: bool = True

    def numbered(self, names: Sequence[str] | None) -> GroupRule:
        """Return the rule with the id of its feature; ValueError unless `names`, those of the features, have it."""
        if not isinstance(self.feature, str):
            return self
        if names is None:
            raise ValueError(f"dataset.group.feature must be a number from 1, got {self.feature!r}: data have no names")
        if self.feature not in names:
            hint = nearest(self.feature, names) or f": there are {listed(names)}"
            raise ValueError(f"dataset.group.feature must be the name of a feature, got {self.feature!r}{hint}")
        return replace(self, feature=names.index(self.feature) + 1)


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
    return GroupRule(**with_whole_numbers(settings))


def zeroed_feature(rule: GroupRule | Path | None) -> int | None:
    """Return the id of the feature that rankers see as 0, because the groups follow from it; None without one."""
    return rule.feature if isinstance(rule, GroupRule) and rule.zeroed and isinstance(rule.feature, int) else None


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
    assert isinstance(rule.feature, int)
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
            values = fit_transformation(column, table.offsets, training, method)(column, table.offsets)[:, 0]
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
    lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # as an editor counts them
    for number, line in enumerate(lines, 1):
        if not line.strip().isdecimal() or int(line) > LARGEST_INT8:
            raise ValueError(f"{file}:{number}: found {line[:40]!r}, expected a whole number from 0 to {LARGEST_INT8}")
    if len(lines) != documents:
        raise ValueError(f"dataset.group.file must have one line per document ({documents}), got {len(lines)} lines")
    return np.array(lines, dtype="U").astype(np.int8)
