"""Datasets of LETOR files: finding the files of a fold, choosing queries, judgements of intents, the table of the
fold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch

from ol2r_cli.config.ranges import Count, Range, check_settings
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.parse import PARSER_VERSION, DataError, Missing, open_text
from ol2r_cli.dataset.popularity import Popularity, asked_by, checked
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
    parsed_table,
    ranking_features,
    rows_of,
    zeroed_feature,
)
from ol2r_cli.dataset.table import LARGEST_GRADE, SPLITS, Dataset, Intents
from ol2r_cli.tensor.shapes import Int
from ol2r_cli.text.formatting import listed

# Of files that are found. The parser reads the first two and says of the others what to type; they are found so that no
# split is silently missing.
ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst", ".zip")
_COMPARED = 100  # queries in two splits whose documents are compared, so that large datasets cost nothing noticeable
_JUDGEMENT = ["qid", "intent", "docid", "grade"]  # columns of a file of judgements
_JUDGEMENT_LINE = re.compile(r"(?P<qid>[^\t]*)\t(?P<intent>\d+)\t(?P<docid>[^\t]*)\t(?P<grade>\d+)")
_DOCUMENT = re.compile(rb"\bdocid\s*=\s*(\S+)")


@dataclass(frozen=True)
class Location:
    """The folder of a dataset and the file of every split that it has, in the order train, validation, test."""

    root: Path
    files: dict[str, Path]


@dataclass(frozen=True)
class IntentFile:
    """A file of judgements, in the manner of TREC's diversity tasks: a line `qid intent docid grade` for each relevant
    document, separated by tabs.

    Intents are numbered from 1 in each query; what is not in the file has grade 0. `binary`: every grade above 0 counts
    as 1. A relative `file` is looked for in the folder of the dataset.
    """

    file: str
    binary: bool = True

    def below(self, root: Path) -> Path:
        """Return where the file is; ValueError if it is not there."""
        file = root / Path(self.file).expanduser()
        if not file.is_file():
            without = "without judgements of intents type dataset.intents=null"
            raise ValueError(f"dataset.intents.file must be a file, got {file}: {without}")
        return file


@dataclass(eq=False)
class Letor:
    """A dataset of LETOR files; `load` gives the table of one fold. configs/dataset/letor.yaml explains each setting.

    Settings that name files: name, path, data_dir, folders, files, fold, set. How files are read: features, grades,
    overflow, missing, cache_dir. What is done with the content: normalise, drop_constant, queries, validation, seed,
    group, intents, intent, popularity. What is known about the published dataset: source, expected, checksums.
    """

    name: str
    path: str | None
    data_dir: str
    cache_dir: str
    folders: Sequence[str]
    files: Mapping[str, Sequence[str]]
    fold: Count
    set: int | None
    features: Count | None
    grades: Annotated[int, Range(2, LARGEST_GRADE + 1)] | None
    overflow: Literal["error", "zero"]
    missing: Missing
    normalise: Normalisation
    drop_constant: bool
    queries: Count | None
    validation: Annotated[float, Range(0, 1, open_below=True, open_above=True)] | None
    seed: int
    group: Mapping[str, Any] | None
    intents: Mapping[str, Any] | None
    intent: Count | None
    source: str | None
    expected: Mapping[Any, Any]
    checksums: Mapping[str, str]
    popularity: Popularity

    def __post_init__(self) -> None:
        if self.set is not None:
            if self.set not in self.expected:
                choices = ", ".join(map(str, self.expected))
                raise ValueError(f"dataset.set must be one of the sets {choices}, got {self.set}")
            self.expected = self.expected[self.set]
        self.files = {split: [name.format(set=self.set) for name in names] for split, names in self.files.items()}
        self.cache, self.rule = Cache(self.cache_dir), group_rule(self.group)
        if isinstance(self.rule, GroupRule):
            self.rule = self.rule.numbered(None)
        self.missing = self.missing if isinstance(self.missing, str) else float(self.missing)
        if self.intents is not None:
            check_settings(IntentFile, self.intents, "dataset.intents")
        checked(self.popularity)
        self.judgements = None if self.intents is None else IntentFile(**self.intents)

    def load(self) -> Dataset:
        """Return the table of the fold; parses and normalises what the cache does not have.

        Raises ValueError when the files are not found, and DataError when a file is malformed.
        """
        location = self.locate()
        table = self.parse(location)
        grades = self._number_of_grades(table)
        splits = self._divided(table)
        group = document_groups(self.cache, table, splits["train"], self.normalise, self.rule)
        features = ranking_features(
            self.cache, table, splits["train"], self.normalise, zeroed_feature(self.rule), self.drop_constant
        )
        if not features.shape[1]:
            raise DataError(f"the documents of {location.root} must have features, found none")
        decisive = self._decisive(location, table, grades)
        intents = None
        if self.judgements is not None:
            file = self.judgements.below(location.root)
            rows = _rows_of_documents(table, location.files.values())
            judged = [self.cache.sha256(file), self.judgements.binary]
            if len(rows) < len(table.labels):  # once only the last row of a document was judged
                judged.append("all rows of a document")
            decisive |= {"intents": judged, "intent": self.intent}
            intents = _intents(file, self.judgements.binary, rows, len(table.labels))
        dataset = dataset_of(
            table,
            splits,
            features,
            group,
            name=self.name,
            fingerprint=digest(decisive),
            grades=grades,
            warnings=shared_queries(table, splits) + feature_warnings(table.rounded, table.large, self.normalise),
            intents=intents,
            files=tuple(location.files.values()),
        ).judged_by(self.intent)
        return asked_by(dataset, self.popularity)

    def _number_of_grades(self, table: ParsedTable) -> int:
        """Return the setting `grades`, or if it is None the number in the files; DataError for labels beyond it."""
        largest = int(table.labels.max())
        if self.grades is None:
            return max(2, largest + 1)
        if largest >= self.grades:
            up_to = f"(labels go up to {largest})"
            raise DataError(f"dataset.grades must be at least {largest + 1} {up_to}, got {self.grades}")
        return self.grades

    def _decisive(self, location: Location, table: ParsedTable, grades: int) -> dict[str, Any]:
        """Return all that changes the numbers, apart from intents; paths do not count."""
        rule: Any = None
        if isinstance(self.rule, Path):
            rule = self.cache.sha256(self.rule)
        elif isinstance(self.rule, GroupRule):
            rule = {name: value for name, value in vars(self.rule).items() if value is not None}
        split_off = self.validation if "validation" not in location.files else None
        draws_queries = self.queries is not None or split_off is not None
        decisive = {
            "parser": PARSER_VERSION,
            "files": {split: self.cache.sha256(file) for split, file in location.files.items()},
            "overflow": self.overflow,
            "features": table.features.shape[1],
            "grades": grades,
            "normalise": self.normalise,
            "drop_constant": self.drop_constant,
            "queries": self.queries,
            "validation": split_off,
            "seed": self.seed if draws_queries else None,
            "group": rule,
        }
        if self.missing != "error":
            decisive["missing"] = self.missing
        return decisive

    def _divided(self, table: ParsedTable) -> dict[str, Int[np.ndarray, "_"]]:
        """Return the query numbers of train, validation and test; ValueError if no training query would be left."""
        train, held_out, test = np.split(np.arange(len(table.query_ids)), np.cumsum(table.counts)[:2])
        if self.validation is not None and not len(held_out):  # a validation file is not replaced
            number = max(1, round(self.validation * len(train)))
            if number >= len(train):
                taken = f"{self.validation} of {len(train)} is {number}"
                raise ValueError(
                    f"dataset.validation must leave training queries: {taken}; type dataset.validation=null"
                )
            held_out = self._chosen(train, number, "validation", table.query_ids)
            train = np.setdiff1d(train, held_out)
        if self.queries is not None:
            if self.queries > len(train):
                raise ValueError(
                    f"dataset.queries must be at most {len(train)} (the training queries), got {self.queries}"
                )
            train = self._chosen(train, self.queries, "queries", table.query_ids)
        return {"train": train, "validation": held_out, "test": test}

    def _chosen(
        self, queries: Int[np.ndarray, "q"], number: int, purpose: str, query_ids: Sequence[str]
    ) -> Int[np.ndarray, "n"]:
        """Return so many of the queries, in their order: the first in the order of sha256("<seed>/<purpose>/<id>").

        So the choice depends neither on the order of the file nor on a random number library, and a smaller choice is
        part of a larger one.
        """

        def by_hash(query: int) -> bytes:
            return hashlib.sha256(f"{self.seed}/{purpose}/{query_ids[query]}".encode()).digest()

        return np.sort(np.array(sorted(queries.tolist(), key=by_hash)[:number], dtype=np.int64))

    def locate(self) -> Location:
        """Return where the files are; raises ValueError when they are not found."""
        roots = [expand(self.path)] if self.path else [expand(self.data_dir) / folder for folder in self.folders]
        location = locate(roots, self.files, self.fold)
        if location is not None:
            return location
        if roots and roots[0].is_file():
            typed = "type dataset.path=FOLDER (docs/how-to/own_data.md makes one of a csv or parquet file)"
            raise ValueError(f"dataset.path must be a folder of LETOR files, got the file {roots[0]}; {typed}")
        names = " or ".join(self.files.get("train", []))
        looked = ", ".join(map(str, roots)) or "nowhere"
        origin = f"get it from {self.source}, then " if self.source else ""
        raise ValueError(
            f"dataset.path must be a folder with Fold{self.fold}/{names} (or {names} itself) of {self.name}, "
            f"got none (looked for: {looked}); {origin}type dataset.path=FOLDER, or use dataset=synthetic"
        )

    def parse(self, location: Location) -> ParsedTable:
        """Return the whole fold as it is in the files, before normalisation and the choice of queries."""
        return parsed_table(self.cache, location.files, self.features, self.overflow, self.missing)

    def transformation(self, features: int, fingerprint: str) -> Transformation:
        """Return how features in the files become those that rankers see, which are so many.

        ValueError where it depends on training data that are not found, or have not this `fingerprint`.
        """
        zeroed = zeroed_feature(self.rule)
        if self.normalise != "global_zscore" and not self.drop_constant:
            return Transformation(self.normalise, np.ones(features, bool), zeroed)
        try:
            location = self.locate()
        except ValueError:
            needs = "dataset.normalise=global_zscore and dataset.drop_constant=true need the training data of the run"
            raise ValueError(
                f"{needs}, which are no longer in {self.path or self.data_dir}: type --data FOLDER"
            ) from None
        dataset = self.load()
        if dataset.fingerprint != fingerprint:
            raise ValueError(f"--data must be the data of the run, got {location.root}, which has other data")
        table = self.parse(location)
        training = rows_of(dataset.splits["train"].numpy(), table.offsets)
        return fit_transformation(table.features, table.offsets, training, self.normalise, zeroed, self.drop_constant)


def locate(roots: Sequence[Path], names: Mapping[str, Sequence[str]], fold: int) -> Location | None:
    """Return the files of one fold in the first root that has them, in its folder `Fold<fold>` or directly in the root.

    `names`: for each split the file names it may have, plain or with an ending of a compressed file. The training file
    decides the folder, so that files of different folds are never mixed. None when no root has files. Raises ValueError
    when a root has a dataset without this fold, and when the files of all roots have other names.
    """
    for root in roots:
        location = _location_in(root, names, fold)
        if location is not None:
            return location
    for root in roots:
        _check_names(root, names, fold)
    return None


def _location_in(root: Path, names: Mapping[str, Sequence[str]], fold: int) -> Location | None:
    """Return the files of one fold in a root; None without a training file. ValueError if the root has other folds."""
    for folder in (root / f"Fold{fold}", root):
        files = _files_of_splits(folder, names)
        if "train" in files:
            if folder == root and fold != 1 and root.name != f"Fold{fold}":
                raise ValueError(f"dataset.fold must be 1, got {fold}: {root} has no folders Fold1, Fold2, ...")
            return Location(root, files)
    folders = _folders_of_folds(root)
    if folders and f"Fold{fold}" not in folders:
        choices = ", ".join(folders)
        raise ValueError(f"dataset.fold must be one of the folders of {root} ({choices}), got {fold}")
    return None


def _files_of_splits(folder: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
    """Return the file of every split that a folder has."""
    files = {}
    for split in SPLITS:
        candidates = (folder / f"{name}{ending}" for name in names.get(split, ()) for ending in ENDINGS)
        file = next((file for file in candidates if file.is_file()), None)
        if file is not None:
            files[split] = file
    return files


def _folders_of_folds(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.glob("Fold[0-9]*") if folder.is_dir())


def _check_names(root: Path, names: Mapping[str, Sequence[str]], fold: int) -> None:
    """Raise ValueError, with what to type, if a root without a training file has other files."""
    folder = root / f"Fold{fold}" if _folders_of_folds(root) else root
    present = sorted(file.name for file in folder.glob("[!.]*") if file.is_file())
    if present:
        looked_for = " or ".join(names.get("train", ()))
        raise ValueError(
            f"dataset.files.train must name a file of {folder} (it has {listed(present)}), got {looked_for}; "
            "type 'dataset.files.train=[NAME]', and likewise dataset.files.validation and dataset.files.test"
        )


def shared_queries(table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]]) -> tuple[str, ...]:
    """Return a line for every two splits that have query ids in common: results on them are not on unseen queries.

    It says how many there are and, of the first 100 of them, how many have the same documents in any order: a file may
    number its queries for itself.
    """
    lines = []
    for first, second in combinations(splits, 2):
        numbers = {table.query_ids[query]: query for query in splits[first].tolist()}
        shared = [query for query in splits[second].tolist() if table.query_ids[query] in numbers]
        if not shared:
            continue
        compared = shared[:_COMPARED]
        equal = [query for query in compared if _same_documents(table, query, numbers[table.query_ids[query]])]
        meaning = "this is harmless only if each file numbers its queries for itself"
        if equal:
            meaning = f"results on {second} are not results on unseen queries"
        example = table.query_ids[(equal or shared)[0]]
        number = f"{len(shared)} of the {len(splits[second])} queries of {second} are in {first} too"
        same = f"{len(equal)} of the {len(compared)} that were compared have the same documents"
        lines.append(f"{number}, such as qid:{example}, and {same}: {meaning}")
    return tuple(lines)


def _same_documents(table: ParsedTable, first: int, second: int) -> bool:
    """Return whether two queries have the same documents, in any order."""

    def documents(query: int) -> list[bytes]:
        return sorted(row.tobytes() for row in table.features[table.offsets[query] : table.offsets[query + 1]])

    return documents(first) == documents(second)


def document_ids(files: Iterable[Path]) -> list[str]:
    """Return the names of the documents of LETOR files, in their order, where comments have them (`# docid = NAME`)."""
    names = []
    for file in files:
        with open_text(file) as lines:
            for line in lines:
                content, _, comment = line.partition(b"#")
                name = _DOCUMENT.search(comment)
                if content.strip() and name is not None:
                    names.append(name[1].decode(errors="replace"))
    return names


def document_names(dataset: Dataset) -> Sequence[object]:
    """Return the name of each document: that of its LETOR file, if each has one of its own in its query, or its row."""
    query = np.repeat(np.arange(len(dataset.query_ids)), np.diff(dataset.offsets)).tolist()
    names = document_ids(dataset.files)
    return names if len(set(zip(query, names, strict=False))) == len(query) else range(len(query))


def names_of_rows(dataset: Dataset) -> tuple[list[str], list[str]]:
    """Return the query and, as of `document_names`, the document of each row of the table."""
    query = np.repeat(np.array(dataset.query_ids), np.diff(dataset.offsets))
    return query.tolist(), [*map(str, document_names(dataset))]


def _rows_of_documents(table: ParsedTable, files: Iterable[Path]) -> dict[tuple[str, str], list[int]]:
    """Return the rows of each query and document: several where splits share a query.

    Comments of `files`, those of the splits, name the documents; DataError where one has no name.
    """
    names = document_ids(files)
    query = np.repeat(table.query_ids, np.diff(table.offsets)).tolist()
    if len(names) != len(query):
        raise DataError("dataset.intents needs a comment `# docid = NAME` behind every document of the data")
    rows: dict[tuple[str, str], list[int]] = {}
    for row, document in enumerate(zip(query, names, strict=True)):
        rows.setdefault(document, []).append(row)
    return rows


def _intents(path: Path, binary: bool, rows_of: Mapping[tuple[str, str], Sequence[int]], documents: int) -> Intents:
    """Return the labels of every document by intent, from the judgements in `path`.

    DataError for a malformed line, and if no judgement is of a document of the table.
    """
    judged = [
        (row, judgement.intent, judgement.grade)
        for judgement in _judgements(path)
        for row in rows_of.get((judgement.query, judgement.document), ())
    ]
    if not judged:
        raise DataError(f"{path} must have judgements of documents of the data, found none")
    rows, intents, grades = np.array(judged).T
    if binary:
        grades = grades.clip(max=1)
    labels = np.zeros((intents.max(), documents), np.int8)
    labels[intents - 1, rows] = grades
    return Intents(torch.from_numpy(labels), max(2, int(grades.max()) + 1))


class _Judgement(NamedTuple):
    """What a document is worth to users with an intent."""

    query: str
    intent: int  # from 1
    document: str
    grade: int


def _judgements(path: Path) -> Iterator[_Judgement]:
    """Yield the judgements of a file; DataError for a malformed line."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # as an editor counts them
    if lines[:1] != ["\t".join(_JUDGEMENT)]:
        raise _malformed(path, 1, "".join(lines[:1]))
    for number, line in enumerate(lines[1:], 2):
        match = _JUDGEMENT_LINE.fullmatch(line)
        if match is None or int(match["intent"]) < 1 or int(match["grade"]) > LARGEST_GRADE:
            raise _malformed(path, number, line)
        yield _Judgement(match["qid"], int(match["intent"]), match["docid"], int(match["grade"]))


def _malformed(path: Path, number: int, line: str) -> DataError:
    expected = f"the columns {', '.join(_JUDGEMENT)}, separated by tabs"
    return DataError(f"{path}:{number}: found {line[:60]!r}, expected {expected}")
