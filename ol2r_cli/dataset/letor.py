"""Datasets of LETOR files: finding the files of a fold, choosing queries, and the table of the fold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from ol2r_cli.config.ranges import Count, Range
from ol2r_cli.dataset.cache import Cache, digest, expand
from ol2r_cli.dataset.document_groups import document_groups, group_rule
from ol2r_cli.dataset.intent_judgements import intent_file
from ol2r_cli.dataset.parse import PARSER_VERSION, DataError, Missing
from ol2r_cli.dataset.prepare import Normalisation, ParsedTable, parsed_table, ranking_features, stated
from ol2r_cli.dataset.table import SPLITS, Dataset, setting
from ol2r_cli.tensor.shapes import Int

_COMPARED = 100  # queries in two splits whose documents are compared, so that large datasets cost nothing noticeable


@dataclass(frozen=True)
class Location:
    """The folder of a dataset and the file of every split that it has, in the order train, validation, test."""

    root: Path
    files: dict[str, Path]


class Letor:
    """A dataset of LETOR files; `load` gives the table of one fold. configs/dataset/letor.yaml explains each setting.

    Settings that name files: name, path, data_dir, folders, files, fold, set. How files are read: features, grades,
    overflow, missing, cache_dir. What is done with the content: normalise, drop_constant, queries, validation, seed,
    group, intents, intent. What is known about the published dataset: source, expected, checksums.
    """

    def __init__(
        self,
        name: str,
        path: str | None,
        data_dir: str,
        cache_dir: str,
        folders: Sequence[str],
        files: Mapping[str, Sequence[str]],
        fold: Count,
        set: int | None,
        features: Count | None,
        grades: Annotated[int, Range(2)] | None,
        overflow: Literal["error", "zero"],
        missing: Missing,
        normalise: Normalisation,
        drop_constant: bool,
        queries: Count | None,
        validation: Annotated[float, Range(0, 1, open_below=True, open_above=True)] | None,
        seed: int,
        group: Mapping[str, Any] | None,
        intents: Mapping[str, Any] | None,
        intent: Count | None,
        source: str | None,
        expected: Mapping[Any, Any],
        checksums: Mapping[str, str],
    ):
        if set is not None and set not in expected:
            choices = ", ".join(map(str, expected))
            raise ValueError(f"{setting('set')} must be one of the sets {choices}, got {set}")
        self.name, self.path, self.data_dir, self.folders = name, path, data_dir, list(folders)
        self.files = {split: [name.format(set=set) for name in names] for split, names in files.items()}
        self.fold, self.features, self.grades, self.overflow = fold, features, grades, overflow
        self.missing = missing
        self.normalise, self.drop_constant, self.queries = normalise, drop_constant, queries
        self.validation, self.seed, self.group = validation, seed, group_rule(group)
        self.intents, self.intent = intent_file(intents), intent
        self.source, self.checksums = source, dict(checksums)
        self.expected: dict[str, int] = dict(expected if set is None else expected[set])
        self.cache = Cache(cache_dir)

    def load(self) -> Dataset:
        """Return the table of the fold; parses and normalises what the cache does not have.

        Raises ValueError when the files are not found, and DataError when a file is malformed.
        """
        location = self.locate()
        table = self.parse(location)
        grades = self._grades(table)
        splits = divide(table.query_ids, table.counts, self.validation, self.queries, self.seed)
        group = document_groups(self.cache, table, splits["train"], self.normalise, self.group)
        features = ranking_features(self.cache, table, splits["train"], self.normalise, self.zeroed, self.drop_constant)
        judgements = None if self.intents is None else self.intents.within(location.root)
        dataset = Dataset(
            name=self.name,
            fingerprint=self._fingerprint(location, table, grades, judgements),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(table.labels),
            offsets=torch.from_numpy(table.offsets),
            query_ids=table.query_ids,
            grades=grades,
            splits={split: torch.from_numpy(numbers) for split, numbers in splits.items()},
            group=None if group is None else torch.from_numpy(group),
            warnings=shared_queries(table, splits),
            files=tuple(location.files.values()),
        )
        if self.intents is not None and judgements is not None:
            files = location.files.values()
            read = self.intents.read(judgements, files, table.query_ids, table.offsets.tolist())
            dataset = replace(dataset, intents=read)
        return dataset if self.intent is None else dataset.judged_by(self.intent)

    @property
    def zeroed(self) -> int | None:
        """The id of the feature that rankers see as 0, because the groups follow from it; None when there is none."""
        rule = self.group
        return None if rule is None or isinstance(rule, Path) or not rule.zeroed else rule.feature

    def locate(self) -> Location:
        """Return where the files are; raises ValueError when they are not found."""
        roots = [expand(self.path)] if self.path else [expand(self.data_dir) / folder for folder in self.folders]
        location = locate(roots, self.files, self.fold)
        if location is not None:
            return location
        path, names = setting("path"), " or ".join(self.files.get("train", []))
        looked = ", ".join(map(str, roots)) or f"nowhere, because {path} is null"
        looked += f", {_content(roots[0])}" if self.path else ""
        origin = f"get it from {self.source}, then " if self.source else ""
        raise ValueError(
            f"{path} must be a folder with Fold{self.fold}/{names} (or {names} itself) of {self.name}, "
            f"got none (looked for: {looked}); {origin}type {path}=FOLDER, or use dataset=synthetic"
        )

    def parse(self, location: Location) -> ParsedTable:
        """Return the whole fold as it is in the files, before normalisation and the choice of queries."""
        sha256 = {split: self.cache.sha256(file) for split, file in location.files.items()}
        return parsed_table(self.cache, location.files, sha256, self.features, self.overflow, self.missing)

    def _grades(self, table: ParsedTable) -> int:
        largest = int(table.labels.max())
        if self.grades is not None and largest >= self.grades:
            raise DataError(
                f"{setting('grades')} must be at least {largest + 1} (labels go up to {largest}), got {self.grades}"
            )
        return self.grades or max(2, largest + 1)

    def _fingerprint(self, location: Location, table: ParsedTable, grades: int, judgements: Path | None) -> str:
        """sha256 over the content of the files and all settings that change the numbers; paths do not count."""
        split_off = self.validation if "validation" not in location.files else None
        rule: Any = None
        if isinstance(self.group, Path):
            rule = self.cache.sha256(self.group)
        elif self.group is not None:
            rule = vars(self.group)
        return digest(
            {
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
                **stated(self.missing),
                **self._stated_intents(judgements),
            }
        )

    def _stated_intents(self, judgements: Path | None) -> dict[str, Any]:
        """Return what identifies the intents; nothing without any, as in versions that did not know of them."""
        if self.intents is None or judgements is None:
            return {}
        return {"intents": [self.cache.sha256(judgements), self.intents.binary], "intent": self.intent}


def locate(roots: Sequence[Path], names: Mapping[str, Sequence[str]], fold: int) -> Location | None:
    """Return the files of one fold in the first root that has them, in its folder `Fold<fold>` or directly in the root.

    `names`: for each split the file names it may have, plain or with .gz appended. The training file decides the
    folder, so that files of different folds are never mixed. None when no root has files. Raises ValueError when a
    root has a dataset without this fold, and when the files of all roots have other names.
    """
    unknown = None  # the first folder whose files have other names
    for root in roots:
        folders = sorted(folder.name for folder in root.glob("Fold[0-9]*") if folder.is_dir())
        for folder in (root / f"Fold{fold}", root):
            files = {split: file for split in SPLITS if (file := _first_file(folder, names.get(split, ())))}
            if "train" not in files:
                continue
            if folder == root and fold != 1 and root.name != f"Fold{fold}":
                raise ValueError(f"{setting('fold')} must be 1, got {fold}: {root} has no folders Fold1, Fold2, ...")
            return Location(root, files)
        if folders and f"Fold{fold}" not in folders:
            choices = ", ".join(folders)
            raise ValueError(f"{setting('fold')} must be one of the folders of {root} ({choices}), got {fold}")
        folder = root / f"Fold{fold}" if folders else root
        if unknown is None and (folders or _files(folder)):
            unknown = folder
    if unknown is not None:
        raise ValueError(_other_names(unknown, names.get("train", ())))
    return None


def _files(folder: Path) -> list[str]:
    """Return the names of the files of a folder, which need not exist, without hidden ones."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return [entry.name for entry in entries if entry.is_file() and not entry.name.startswith(".")]


def _other_names(folder: Path, looked_for: Sequence[str]) -> str:
    """Return what is wrong with a folder that has no training file of these names."""
    name, files = setting("files.train"), _files(folder)
    likely = [file for file in files if re.fullmatch(r"[\w.-]*train[\w.-]*", file, re.IGNORECASE)]
    typed = likely[0].removesuffix(".gz") if len(likely) == 1 else "NAME"
    return (
        f"{name} must name a file of {folder} (it has {_listed(files)}), got {' or '.join(looked_for) or 'no name'}; "
        f"type '{name}=[{typed}]', and likewise {setting('files.validation')} and {setting('files.test')}"
    )


def _content(root: Path) -> str:
    """Return what is found where no file was: `which does not exist`, `which has the folders a, b`."""
    if not root.is_dir():
        return "which is a file" if root.exists() else "which does not exist"
    folders = sorted(entry.name for entry in root.iterdir() if entry.is_dir())
    return f"which has {'the folders ' * bool(folders)}{_listed(folders)}"


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])]) or "no files"


def _first_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of the names that exists, plain before gzipped."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((file for file in candidates if file.is_file()), None)


def divide(
    query_ids: list[str],
    counts: Int[np.ndarray, "3"],
    validation: float | None,
    queries: int | None,
    seed: int,
) -> dict[str, Int[np.ndarray, "_"]]:
    """Return the query numbers of train, validation and test.

    `counts`: queries in each of the three files; queries are numbered through in this order. `validation`: the share
    of the training queries that becomes the validation split when there is no validation file. `queries`: how many of
    the remaining training queries are kept; None keeps all. Raises ValueError when a split would be left without
    queries.
    """
    bounds = np.concatenate([[0], np.cumsum(counts)])
    train, held_out, test = (np.arange(bounds[i], bounds[i + 1]) for i in range(3))
    if validation is not None and not len(held_out):
        name, number = setting("validation"), max(1, round(validation * len(train)))
        if number >= len(train):
            raise ValueError(
                f"{name} must leave training queries: {validation} of {len(train)} is {number}; type {name}=null"
            )
        held_out = choose_queries(query_ids, train, number, seed, "validation")
        train = np.setdiff1d(train, held_out)
    if queries is not None:
        if queries > len(train):
            raise ValueError(f"{setting('queries')} must be at most {len(train)} (the training queries), got {queries}")
        train = choose_queries(query_ids, train, queries, seed, "queries")
    return {"train": train, "validation": held_out, "test": test}


def choose_queries(
    query_ids: list[str], queries: Int[np.ndarray, "q"], number: int, seed: int, purpose: str
) -> Int[np.ndarray, "n"]:
    """n = `number` of the given query numbers, ascending.

    Takes the first n in the order of sha256("<seed>/<purpose>/<query id>"). So the choice depends neither on the
    order of the file nor on a random number library, and a smaller choice is part of a larger one.
    """
    order = sorted(
        queries.tolist(), key=lambda query: hashlib.sha256(f"{seed}/{purpose}/{query_ids[query]}".encode()).digest()
    )
    return np.array(sorted(order[:number]), dtype=np.int64)


def shared_queries(table: ParsedTable, splits: Mapping[str, Int[np.ndarray, "_"]]) -> tuple[str, ...]:
    """Return a line for every two splits that have query ids in common: results on them are not on unseen queries.

    It says how many there are and, for the first 100 of them, whether the documents are the same in any order: a file
    may number its queries for itself.
    """
    lines = []
    for first, second in combinations(splits, 2):
        numbers = {table.query_ids[query]: query for query in splits[first].tolist()}
        shared = [query for query in splits[second].tolist() if table.query_ids[query] in numbers]
        if not shared:
            continue
        compared = shared[:_COMPARED]
        equal = [q for q in compared if _documents(table, q) == _documents(table, numbers[table.query_ids[q]])]
        example = table.query_ids[(equal or shared)[0]]
        found = (
            f"{len(shared)} of the {len(splits[second])} queries of {second} are in {first} too, such as qid:{example}"
        )
        harm = f"results on {second} are not results on unseen queries"
        same = f"; {len(equal)} of the {len(compared)} that were compared have the same documents: {harm}"
        if len(equal) == len(compared):
            same = f", with the same documents: {harm}"
        elif not equal:
            same = ", with other documents: this is harmless only if each file numbers its queries for itself"
        lines.append(found + same)
    return tuple(lines)


def _documents(table: ParsedTable, query: int) -> list[bytes]:
    """Return the feature vectors of a query's documents, in an order that does not depend on that of the file."""
    rows = table.features[table.offsets[query] : table.offsets[query + 1]]
    return sorted(row.tobytes() for row in rows)
