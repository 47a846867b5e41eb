"""Datasets of LETOR files: finding the files of a fold, choosing queries, judgements of intents, the table of the fold,
and the documents of another file for a trained ranker."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from ol2r_cli.config.ranges import Count, Range, check_settings
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.parse import PARSER_VERSION, DataError, Missing, open_text, parse, rounded_off
from ol2r_cli.dataset.prepare import (
    GroupRule,
    Normalisation,
    ParsedTable,
    document_groups,
    feature_warnings,
    fit_transformation,
    group_rule,
    large_features,
    parsed_table,
    ranking_features,
    zeroed_feature,
)
from ol2r_cli.dataset.table import LARGEST_GRADE, SPLITS, Dataset, DatasetSource, Intents
from ol2r_cli.tensor.shapes import Int

# Of files that are found. The parser reads the first two and says of the others what to type; they are found so that no
# split is silently missing.
ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst", ".zip")
_COMPARED = 100  # queries in two splits whose documents are compared, so that large datasets cost nothing noticeable
_JUDGEMENT = ["qid", "intent", "docid", "grade"]  # columns of a file of judgements
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


@dataclass(eq=False)
class Letor:
    """A dataset of LETOR files; `load` gives the table of one fold. configs/dataset/letor.yaml explains each setting.

    Settings that name files: name, path, data_dir, folders, files, fold, set. How files are read: features, grades,
    overflow, missing, cache_dir. What is done with the content: normalise, drop_constant, queries, validation, seed,
    group, intents, intent. What is known about the published dataset: source, expected, checksums.
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

    def __post_init__(self) -> None:
        if self.set is not None:
            if self.set not in self.expected:
                choices = ", ".join(map(str, self.expected))
                raise ValueError(f"dataset.set must be one of the sets {choices}, got {self.set}")
            self.expected = self.expected[self.set]
        self.files = {split: [name.format(set=self.set) for name in names] for split, names in self.files.items()}
        self.cache, self.rule = Cache(self.cache_dir), group_rule(self.group)
        self.missing = self.missing if isinstance(self.missing, str) else float(self.missing)
        if self.intents is not None:
            check_settings(IntentFile, self.intents, "dataset.intents")
        self.judgements = None if self.intents is None else IntentFile(**self.intents)

    def load(self) -> Dataset:
        """Return the table of the fold; parses and normalises what the cache does not have.

        Raises ValueError when the files are not found, and DataError when a file is malformed.
        """
        location = self.locate()
        table = self.parse(location)
        largest = int(table.labels.max())
        if self.grades is not None and largest >= self.grades:
            up_to = f"(labels go up to {largest})"
            raise DataError(f"dataset.grades must be at least {largest + 1} {up_to}, got {self.grades}")
        grades = self.grades or max(2, largest + 1)
        splits = self._divided(table)
        group = document_groups(self.cache, table, splits["train"], self.normalise, self.rule)
        features = ranking_features(self.cache, table, splits["train"], self.normalise, self.zeroed, self.drop_constant)
        rule: Any = self.cache.sha256(self.rule) if isinstance(self.rule, Path) else None
        if isinstance(self.rule, GroupRule):
            rule = {name: value for name, value in vars(self.rule).items() if value is not None}
        split_off = self.validation if "validation" not in location.files else None
        decisive = {  # all that changes the numbers; paths do not count
            "parser": PARSER_VERSION,
            "files": {split: self.cache.sha256(file) for split, file in location.files.items()},
            "overflow": self.overflow,
            "features": table.features.shape[1],
            "grades": grades,
            "normalise": self.normalise,
            "drop_constant": self.drop_constant,
            "queries": self.queries,
            "validation": split_off,
            "seed": self.seed if self.queries is not None or split_off is not None else None,
            "group": rule,
            **({} if self.missing == "error" else {"missing": self.missing}),
        }
        intents = None
        if self.judgements is not None:
            file = location.root / Path(self.judgements.file).expanduser()
            if not file.is_file():
                without = "without judgements of intents type dataset.intents=null"
                raise ValueError(f"dataset.intents.file must be a file, got {file}: {without}")
            decisive |= {"intents": [self.cache.sha256(file), self.judgements.binary], "intent": self.intent}
            intents = _intents(file, self.judgements.binary, table, location.files.values())
        dataset = Dataset(
            name=self.name,
            fingerprint=digest(decisive),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(table.labels),
            offsets=torch.from_numpy(table.offsets),
            query_ids=table.query_ids,
            grades=grades,
            splits={split: torch.from_numpy(numbers) for split, numbers in splits.items()},
            group=None if group is None else torch.from_numpy(group),
            warnings=shared_queries(table, splits) + feature_warnings(table.rounded, table.large, self.normalise),
            intents=intents,
            files=tuple(location.files.values()),
        )
        return dataset if self.intent is None else dataset.judged_by(self.intent)

    def _divided(self, table: ParsedTable) -> dict[str, Int[np.ndarray, "_"]]:
        """Return the query numbers of train, validation and test; ValueError if no training query would be left.

        n queries are chosen in the order of sha256("<seed>/<purpose>/<query id>"), so that the choice depends neither
        on the order of the file nor on a random number library, and a smaller choice is part of a larger one.
        """

        def chosen(queries: Int[np.ndarray, "q"], number: int, purpose: str) -> Int[np.ndarray, "n"]:
            text = {query: f"{self.seed}/{purpose}/{table.query_ids[query]}".encode() for query in queries}
            by_hash = sorted(queries, key=lambda query: hashlib.sha256(text[query]).digest())
            return np.sort(np.array(by_hash[:number], dtype=np.int64))

        train, held_out, test = np.split(np.arange(len(table.query_ids)), np.cumsum(table.counts)[:2])
        if self.validation is not None and not len(held_out):  # a validation file is not replaced
            if (number := max(1, round(self.validation * len(train)))) >= len(train):
                taken = f"{self.validation} of {len(train)} is {number}"
                raise ValueError(
                    f"dataset.validation must leave training queries: {taken}; type dataset.validation=null"
                )
            held_out = chosen(train, number, "validation")
            train = np.setdiff1d(train, held_out)
        if self.queries is not None:
            if self.queries > len(train):
                raise ValueError(
                    f"dataset.queries must be at most {len(train)} (the training queries), got {self.queries}"
                )
            train = chosen(train, self.queries, "queries")
        return {"train": train, "validation": held_out, "test": test}

    @property
    def zeroed(self) -> int | None:
        """The id of the feature that rankers see as 0, because the groups follow from it; None when there is none."""
        return zeroed_feature(self.rule)

    def locate(self) -> Location:
        """Return where the files are; raises ValueError when they are not found."""
        roots = [expand(self.path)] if self.path else [expand(self.data_dir) / folder for folder in self.folders]
        location = locate(roots, self.files, self.fold)
        if location is not None:
            return location
        names = " or ".join(self.files.get("train", []))
        looked = ", ".join(map(str, roots)) or "nowhere, because dataset.path is null"
        if self.path and roots[0].is_dir():
            folders = sorted(each.name for each in roots[0].iterdir() if each.is_dir())
            looked += f", which has {'the folders ' * bool(folders)}{_listed(folders)}"
        elif self.path:
            looked += ", which is a file" if roots[0].exists() else ", which does not exist"
        origin = f"get it from {self.source}, then " if self.source else ""
        raise ValueError(
            f"dataset.path must be a folder with Fold{self.fold}/{names} (or {names} itself) of {self.name}, "
            f"got none (looked for: {looked}); {origin}type dataset.path=FOLDER, or use dataset=synthetic"
        )

    def parse(self, location: Location) -> ParsedTable:
        """Return the whole fold as it is in the files, before normalisation and the choice of queries."""
        return parsed_table(self.cache, location.files, self.features, self.overflow, self.missing)


def locate(roots: Sequence[Path], names: Mapping[str, Sequence[str]], fold: int) -> Location | None:
    """Return the files of one fold in the first root that has them, in its folder `Fold<fold>` or directly in the root.

    `names`: for each split the file names it may have, plain or with an ending of a compressed file. The training file
    decides the folder, so that files of different folds are never mixed. None when no root has files. Raises ValueError
    when a root has a dataset without this fold, and when the files of all roots have other names.
    """
    unknown = None  # why the files of a folder are not those of the dataset
    for root in roots:
        folders = sorted(folder.name for folder in root.glob("Fold[0-9]*") if folder.is_dir())
        for folder in (root / f"Fold{fold}", root):
            files = {}
            for split in SPLITS:
                candidates = (folder / f"{name}{ending}" for name in names.get(split, ()) for ending in ENDINGS)
                if file := next((file for file in candidates if file.is_file()), None):
                    files[split] = file
            if "train" not in files:
                continue
            if folder == root and fold != 1 and root.name != f"Fold{fold}":
                raise ValueError(f"dataset.fold must be 1, got {fold}: {root} has no folders Fold1, Fold2, ...")
            return Location(root, files)
        if folders and f"Fold{fold}" not in folders:
            choices = ", ".join(folders)
            raise ValueError(f"dataset.fold must be one of the folders of {root} ({choices}), got {fold}")
        folder = root / f"Fold{fold}" if folders else root
        present = sorted(each.name for each in folder.glob("[!.]*") if each.is_file())
        if unknown is None and (folders or present):
            likely = [file for file in present if re.fullmatch(r"[\w.-]*train[\w.-]*", file, re.IGNORECASE)]
            typed = likely[0].removesuffix(".gz") if len(likely) == 1 else "NAME"
            looked_for = " or ".join(names.get("train", ())) or "no name"
            unknown = (
                f"dataset.files.train must name a file of {folder} (it has {_listed(present)}), got {looked_for}; "
                f"type 'dataset.files.train=[{typed}]', and likewise dataset.files.validation and dataset.files.test"
            )
    if unknown is not None:
        raise ValueError(unknown)
    return None


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])]) or "no files"


def shared_queries(table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]]) -> tuple[str, ...]:
    """Return a line for every two splits that have query ids in common: results on them are not on unseen queries.

    It says how many there are and, for the first 100 of them, whether the documents are the same in any order: a file
    may number its queries for itself.
    """

    def documents(query: int) -> list[bytes]:
        return sorted(row.tobytes() for row in table.features[table.offsets[query] : table.offsets[query + 1]])

    lines = []
    for first, second in combinations(splits, 2):
        numbers = {table.query_ids[query]: query for query in splits[first].tolist()}
        shared = [query for query in splits[second].tolist() if table.query_ids[query] in numbers]
        compared = shared[:_COMPARED]
        equal = [query for query in compared if documents(query) == documents(numbers[table.query_ids[query]])]
        harm = f"results on {second} are not results on unseen queries"
        same = f"; {len(equal)} of the {len(compared)} that were compared have the same documents: {harm}"
        if len(equal) == len(compared):
            same = f", with the same documents: {harm}"
        elif not equal:
            same = ", with other documents: this is harmless only if each file numbers its queries for itself"
        if shared:
            example = table.query_ids[(equal or shared)[0]]
            number = f"{len(shared)} of the {len(splits[second])} queries of {second} are in {first} too"
            lines.append(f"{number}, such as qid:{example}{same}")
    return tuple(lines)


def document_ids(files: Iterable[Path]) -> list[str]:
    """Return the names of the documents of LETOR files, in their order, where comments have them (`# docid = NAME`)."""
    names = []
    for file in files:
        with open_text(file) as lines:
            for line in lines:
                content, _, comment = line.partition(b"#")
                if content.strip() and (match := _DOCUMENT.search(comment)):
                    names.append(match[1].decode(errors="replace"))
    return names


def _intents(path: Path, binary: bool, table: ParsedTable, files: Iterable[Path]) -> Intents:
    """Return the labels of every document by intent, from the judgements in `path`.

    Comments of `files`, those of the splits, name the documents. DataError for a malformed line, and if no judgement is
    of a document of the table.
    """
    names = document_ids(files)
    query = np.repeat(np.arange(len(table.query_ids)), np.diff(table.offsets)).tolist()
    if len(names) != len(query):
        raise DataError("dataset.intents needs a comment `# docid = NAME` behind every document of the data")
    row_of = {(table.query_ids[q], name): row for row, (q, name) in enumerate(zip(query, names, strict=True))}
    expected = f"the columns {', '.join(_JUDGEMENT)}, separated by tabs"
    judged = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() or [""], 1):
        fields = line.split("\t")
        whole = len(fields) == len(_JUDGEMENT) and fields[1].isdecimal() and fields[3].isdecimal()
        if fields != _JUDGEMENT if number == 1 else not whole or int(fields[1]) < 1 or int(fields[3]) > LARGEST_GRADE:
            raise DataError(f"{path}:{number}: found {line[:60]!r}, expected {expected}")
        if number > 1 and (row := row_of.get((fields[0], fields[2]))) is not None:
            judged.append((row, int(fields[1]), int(fields[3])))
    if not judged:
        raise DataError(f"{path} must have judgements of documents of the data, found none")
    rows, intents, grades = np.array(judged).T
    if binary:
        grades = grades.clip(max=1)
    labels = np.zeros((intents.max(), len(names)), np.int8)
    labels[intents - 1, rows] = grades
    return Intents(torch.from_numpy(labels), max(2, int(grades.max()) + 1))


def inference_data(file: Path, source: DatasetSource, features: int, fingerprint: str) -> Dataset:
    """Return the queries of a file, in its order, as the test split of a table; grades may be anything.

    `source` is the dataset of the run, `features` the number of features that its rankers see, and `fingerprint` that
    of its content. Features are read and transformed as those of the dataset; for a generated dataset they are taken
    as they are. Raises ValueError when the file is no LETOR text, when it does not have the features of the dataset,
    and when the transformation needs the training data but they are not found or have changed.
    """
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise ValueError(f"FILE must be a file in LETOR form, got {file}, which {problem}")
    letor = source if isinstance(source, Letor) else None
    table, train = _training_data(letor, fingerprint) if letor else (None, np.arange(0))
    width = features if table is None else table.features.shape[1]
    documents = parse(file, None, *((letor.overflow, letor.missing) if letor else ()))
    values, offsets, present = documents.features, documents.offsets, documents.features.shape[1]
    with open_text(file) as lines:  # a sparse file may leave out the last features; qid has a colon too
        contents = (line.split(b"#", 1)[0] for line in lines)
        dense = present < width and all(each.count(b":") > present for each in contents if each.strip())
    if present > width or dense:
        raise ValueError(f"FILE must have {width} features, as the data of the run, got {file}, which has {present}")
    values = np.pad(values, ((0, 0), (0, width - present)))
    if letor:
        if table is None:  # the transformation does not depend on it
            counts = np.array([0, 0, len(documents.query_ids)])
            given = documents.labels, offsets, documents.query_ids, counts, present
            table = ParsedTable("", values, *given, rounded=[], large=[])
        transform, _ = fit_transformation(table, train, letor.normalise, letor.zeroed, letor.drop_constant)
        values = np.concatenate(list(transform(values, offsets)))
    return Dataset(
        name=file.name,
        fingerprint="",
        features=torch.from_numpy(values),
        labels=torch.from_numpy(documents.labels),
        offsets=torch.from_numpy(offsets),
        query_ids=documents.query_ids,
        grades=int(documents.labels.max()) + 1,
        splits={"test": torch.arange(len(documents.query_ids))},
        warnings=feature_warnings(
            rounded_off([documents]), large_features(documents.features), letor.normalise if letor else "none"
        ),
    )


def _training_data(source: Letor, fingerprint: str) -> tuple[ParsedTable | None, Int[np.ndarray, "q"]]:
    """Return table and training queries of the dataset; None when the transformation does not depend on them."""
    if source.normalise != "global_zscore" and not source.drop_constant:
        return None, np.arange(0)
    try:
        location = source.locate()
    except ValueError:
        reason = "drop_constant=true" if source.normalise != "global_zscore" else "normalise=global_zscore"
        needs = f"dataset.{reason} needs the training data of the run, which are no longer in"
        raise ValueError(f"{needs} {source.path or source.data_dir}: type --data FOLDER") from None
    dataset = source.load()
    if dataset.fingerprint != fingerprint:
        raise ValueError(f"--data must be the data of the run, got {location.root}, which has other data")
    return source.parse(location), dataset.splits["train"].numpy()
