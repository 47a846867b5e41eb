"""A base for datasets of one's own: a table of judged documents, with folds, and with normalisation and groups as of
LETOR files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ol2r_cli.config.ranges import Range
from ol2r_cli.dataset.cache import Cache, digest
from ol2r_cli.dataset.parse import rounded_columns
from ol2r_cli.dataset.prepare import (
    GroupRule,
    Normalisation,
    ParsedTable,
    Transformation,
    dataset_of,
    document_groups,
    feature_warnings,
    fit_transformation,
    group_rule,
    large_features,
    ranking_features,
    rows_of,
    zeroed_feature,
)
from ol2r_cli.dataset.table import LARGEST_GRADE, SPLITS, Dataset
from ol2r_cli.source import code_hash
from ol2r_cli.tensor.shapes import Float, Int
from ol2r_cli.text.formatting import one_line

FOLDS = 5
Fold = Annotated[int, Range(1, FOLDS)]


@dataclass(frozen=True)
class Documents:
    """Judged documents, of which those of a query follow each other.

    query: the name of each document's query. label: its grade, from 0. features: its features, float64 or less. split:
    train, validation or test, the same for all documents of a query; None: a fifth of the queries tests, another one
    validates. names: those of the features. document: the name of each document. place: where a row is in a file, for
    messages, such as documents.csv:3; None: its number from 0.
    """

    query: Collection[Any]
    label: Collection[Any]
    features: Float[np.ndarray, "N F"]
    split: Collection[str] | None = None
    names: Sequence[str] | None = None
    document: Sequence[str] | None = None
    place: Callable[[int], str] | None = None

    def at(self, row: int) -> str:
        """Return where a row is, for a message."""
        return f"row {row}" if self.place is None else self.place(row)


class DocumentDataset:
    """A dataset whose subclass returns its documents by `documents`.

    `name` stands in run directories and tables. `fold`: the queries are divided into five parts, by a hash of their
    names; part `fold` tests, the next one validates, and the others train. `normalise` and `group` are those of LETOR
    files (docs/reference/datasets.md). What is computed from the documents is kept in `cache_dir`.
    """

    def __init__(
        self, name: str, fold: Fold, normalise: Normalisation, group: Mapping[str, Any] | None, cache_dir: str
    ):
        self.name, self.fold, self.normalise = name, fold, normalise
        self.rule, self.cache = group_rule(group), Cache(cache_dir)

    def documents(self) -> Documents:
        """Return the documents of all queries."""
        raise NotImplementedError

    def load(self) -> Dataset:
        """Return the table of the fold; ValueError, which names the row, for documents that are not as they should."""
        table, splits = self._table()
        train, zeroed = splits["train"], zeroed_feature(self.rule)
        group = document_groups(self.cache, table, train, self.normalise, self.rule)
        with np.errstate(over="ignore"):
            given = ranking_features(self.cache, table, train, self.normalise, zeroed, drop_constant=False)
            features = np.asarray(given, np.float32)
        if not np.isfinite(features).all():
            raise ValueError(f"features must be below 3.4e38 with dataset.normalise={self.normalise}, got larger ones")
        # Other methods normalise in float64.
        rounded = rounded_columns(table.features, table.offsets) if self.normalise == "none" else []
        return dataset_of(
            table,
            splits,
            features,
            group,
            name=self.name,
            fingerprint=self._fingerprint(table, splits),
            grades=max(2, int(table.labels.max()) + 1),
            warnings=feature_warnings(rounded, table.large, self.normalise),
        )

    def transformation(self, features: int, fingerprint: str) -> Transformation:
        """Return how features of `documents` become those that rankers see, which are so many.

        ValueError where it depends on training data that are not found, or have not this `fingerprint`.
        """
        is_named = isinstance(self.rule, GroupRule) and isinstance(self.rule.feature, str)
        if self.normalise != "global_zscore" and not is_named:
            return Transformation(self.normalise, np.ones(features, bool), zeroed_feature(self.rule))
        try:
            table, splits = self._table()
        except (OSError, ValueError) as error:
            which = "dataset.group by a name needs" if is_named else "dataset.normalise=global_zscore needs"
            needs = f"{which} the training data of the run, which cannot be read"
            raise ValueError(f"{needs}: type --data FILE ({one_line(error)})") from None
        if self._fingerprint(table, splits) != fingerprint:
            raise ValueError("the data are others than when the run began: type --data FILE, or run it again")
        training = rows_of(splits["train"], table.offsets)
        how = self.normalise, zeroed_feature(self.rule)
        return fit_transformation(table.features, table.offsets, training, *how)

    def feature_names(self) -> Sequence[str] | None:
        """Return the names of the features of `documents`; None where they have none."""
        return self.documents().names

    def _table(self) -> tuple[ParsedTable, dict[str, Int[np.ndarray, "_"]]]:
        """Return the documents as a table, and the numbers of the queries of each split."""
        documents = self.documents()
        table = _table(documents)
        if isinstance(self.rule, GroupRule):
            self.rule = self.rule.numbered(documents.names)
        return table, self._of_fold(table) if documents.split is None else self._of_split(documents, table)

    def _fingerprint(self, table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]]) -> str:
        """Return a hash of all that decides the numbers that rankers see."""
        rule: Any = self.rule
        if rule is not None:
            rule = vars(rule) if isinstance(rule, GroupRule) else self.cache.sha256(rule)
        queries = {split: numbers.tolist() for split, numbers in splits.items()}
        return digest(["documents", _content(table), queries, self.normalise, rule])

    def _of_fold(self, table: ParsedTable) -> dict[str, Int[np.ndarray, "_"]]:
        """Return the numbers of the queries of each split, by which part of the fold they are in."""
        queries = len(table.query_ids)
        if queries < FOLDS:
            raise ValueError(f"dataset must have {FOLDS} queries or more, got {queries}")
        hashes = [hashlib.sha256(name.encode()).hexdigest() for name in table.query_ids]
        part = np.empty(queries, np.int64)
        part[np.argsort(hashes)] = np.arange(queries) % FOLDS
        test, validation = part == self.fold - 1, part == self.fold % FOLDS
        marks = {"train": ~(test | validation), "validation": validation, "test": test}
        return {split: np.flatnonzero(mark) for split, mark in marks.items()}

    def _of_split(self, documents: Documents, table: ParsedTable) -> dict[str, Int[np.ndarray, "_"]]:
        """Return the numbers of the queries of each split that the documents name."""
        if self.fold != 1:
            raise ValueError(f"dataset.fold must be 1 where documents name their split, got {self.fold}")
        names = np.array([*(documents.split or ())]).astype(str)
        unknown = set(names.tolist()) - set(SPLITS)
        if unknown:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {min(unknown)!r}")
        first = names[table.offsets[:-1]]  # of each query
        differs = np.flatnonzero(names != np.repeat(first, np.diff(table.offsets)))
        if len(differs):
            another = f"got another one in {documents.at(int(differs[0]))}"
            raise ValueError(f"split must be the same for all documents of a query, {another}")
        if "train" not in first:
            raise ValueError("split must be train for some queries, got none")
        return {split: np.flatnonzero(first == split) for split in SPLITS}


def _table(documents: Documents) -> ParsedTable:
    """Return the documents as a table; ValueError, with the row from 0, for what cannot be ranked."""
    try:
        label, features = np.array([*documents.label], np.float64), np.asarray(documents.features, np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"label and features must be numbers: {error}") from None
    query = np.array([*documents.query]).astype(str)
    if not len(query):
        raise ValueError("dataset must have documents, got none")
    if features.ndim != 2 or not len(query) == len(label) == len(features):
        shapes = f"{len(query)}, {len(label)} and {'x'.join(map(str, features.shape))}"
        raise ValueError(f"query, label and features must have a row for each document, got {shapes}")
    no_number = np.argwhere(~np.isfinite(features))
    if len(no_number):
        row, column = no_number[0].tolist()
        raise ValueError(
            f"features must be numbers, got {features[row, column]} in {documents.at(row)}, feature {column + 1}"
        )
    no_grade = np.flatnonzero(~((label >= 0) & (label <= LARGEST_GRADE) & (label % 1 == 0)))
    if len(no_grade):
        row = int(no_grade[0])
        raise ValueError(
            f"label must be a whole number from 0 to {LARGEST_GRADE}, got {label[row]:g} in {documents.at(row)}"
        )
    starts = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    names = query[starts].tolist()
    again = np.delete(starts, np.unique(names, return_index=True)[1])
    if len(again):
        name, row = str(query[again[0]]), documents.at(int(again[0]))
        raise ValueError(f"documents of a query must follow each other, got {name!r} again in {row}")
    table = ParsedTable(
        key="",
        features=features,
        labels=label.astype(np.int8),
        offsets=np.append(starts, len(query)),
        query_ids=names,
        counts=np.zeros(len(SPLITS), np.int64),
        largest_id=features.shape[1],
        rounded=[],
        large=large_features(features),
    )
    return replace(table, key=digest([code_hash("dataset"), np.__version__, _content(table)])[:24])


def _content(table: ParsedTable) -> str:
    """Return a hash of all that documents are."""
    arrays = table.features, table.labels, table.offsets
    return digest([table.query_ids, *(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays)])
