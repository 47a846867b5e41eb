"""Learning-to-rank data in LETOR text files: one fold, parsed once, normalised once, then memory-mapped.

The format is that of LETOR 4.0 (Qin and Liu 2013, "Introducing LETOR 4.0 Datasets") and SVMlight with query ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ol2r_cli.dataset.cache import Cache, digest
from ol2r_cli.dataset.diagnose import DataError
from ol2r_cli.dataset.groups import Listed, Threshold, group_rule
from ol2r_cli.dataset.locate import Location, expand, locate
from ol2r_cli.dataset.normalise import METHODS
from ol2r_cli.dataset.parse import PARSER_VERSION
from ol2r_cli.dataset.prepare import Parsed, groups, parsed, ranking_features
from ol2r_cli.dataset.splits import divide
from ol2r_cli.dataset.table import Dataset


class Letor:
    """A data set of LETOR files; `load` gives the table of one fold. configs/dataset/letor.yaml explains each setting.

    Settings that name files: name, path, data_dir, folders, files, fold, set; how they are read: features, grades,
    overflow, cache_dir; what becomes of the numbers: normalise, drop_constant, queries, validation, seed, group; what
    is known about the set: source, expected, checksums. Raises ValueError for settings out of range.
    """

    def __init__(
        self,
        name: str,
        path: str | None,
        data_dir: str,
        cache_dir: str,
        folders: Sequence[str],
        files: Mapping[str, Sequence[str]],
        fold: int,
        set: int | None,
        features: int | None,
        grades: int | None,
        overflow: str,
        normalise: str,
        drop_constant: bool,
        queries: int | None,
        validation: float | None,
        seed: int,
        group: Mapping[str, Any] | None,
        source: str | None,
        expected: Mapping[Any, Any],
        checksums: Mapping[str, str],
    ):
        _require(normalise in METHODS, "normalise", f"one of {', '.join(METHODS)}", normalise)
        _require(overflow in ("error", "zero"), "overflow", "'error' or 'zero'", overflow)
        _require(fold >= 1, "fold", "at least 1", fold)
        _require(queries is None or queries >= 1, "queries", "null or at least 1", queries)
        _require(validation is None or 0 < validation < 1, "validation", "null or between 0 and 1", validation)
        _require(features is None or features >= 1, "features", "null or at least 1", features)
        _require(grades is None or grades >= 2, "grades", "null or at least 2", grades)
        choices = ", ".join(map(str, expected))
        _require(set is None or set in expected, "set", f"one of the sets {choices}", set)
        self.name, self.path, self.data_dir, self.folders = name, path, data_dir, list(folders)
        self.files = {split: [name.format(set=set) for name in names] for split, names in files.items()}
        self.fold, self.features, self.grades, self.overflow = fold, features, grades, overflow
        self.normalise, self.drop_constant, self.queries = normalise, drop_constant, queries
        self.validation, self.seed, self.group = validation, seed, group_rule(group)
        self.source, self.checksums = source, dict(checksums)
        self.expected: dict[str, int] = dict(expected if set is None else expected[set])
        self.cache = Cache(cache_dir)

    def load(self) -> Dataset:
        """The fold as a table, ready to be served; parses and normalises what the cache does not have.

        Raises ValueError when the files are not found, DataError when they are not what they should be.
        """
        location = self.locate()
        table = self.parse(location)
        grades = self._grades(table)
        splits = divide(table.query_ids, table.counts, self.validation, self.queries, self.seed)
        group = groups(self.cache, table, splits["train"], self.normalise, self.group)
        features = ranking_features(self.cache, table, splits["train"], self.normalise, self.zeroed, self.drop_constant)
        return Dataset(
            name=self.name,
            fingerprint=self._fingerprint(location, table, grades),
            features=torch.from_numpy(features),
            labels=torch.from_numpy(table.labels),
            offsets=torch.from_numpy(table.offsets),
            query_ids=table.query_ids,
            grades=grades,
            splits={split: torch.from_numpy(numbers) for split, numbers in splits.items()},
            group=None if group is None else torch.from_numpy(group),
        )

    @property
    def zeroed(self) -> int | None:
        """The feature that rankers always see as 0, because it says the group."""
        return self.group.feature if isinstance(self.group, Threshold) and self.group.zeroed else None

    def locate(self) -> Location:
        """Where the files are; raises ValueError when they are not found."""
        roots = [expand(self.path)] if self.path else [expand(self.data_dir) / folder for folder in self.folders]
        location = locate(roots, self.files, self.fold)
        if location is not None:
            return location
        names = " or ".join(self.files.get("train", []))
        looked = ", ".join(map(str, roots)) or "nowhere, because dataset.path is null"
        origin = f"get it from {self.source}, then " if self.source else ""
        raise ValueError(
            f"dataset.path must be a folder with Fold{self.fold}/{names} (or {names} itself) of {self.name}, "
            f"got none (looked for: {looked}); {origin}type dataset.path=FOLDER, or use dataset=synthetic"
        )

    def parse(self, location: Location) -> Parsed:
        """The whole fold as it is in the files, before normalisation and choices."""
        sha256 = {split: self.cache.sha256(file) for split, file in location.files.items()}
        return parsed(self.cache, location.files, sha256, self.features, self.overflow)

    def _grades(self, table: Parsed) -> int:
        largest = int(table.labels.max())
        if self.grades is not None and largest >= self.grades:
            raise DataError(
                f"dataset.grades must be at least {largest + 1} (labels go up to {largest}), got {self.grades}"
            )
        return self.grades or max(2, largest + 1)

    def _fingerprint(self, location: Location, table: Parsed, grades: int) -> str:
        """sha256 over the content of the files and all settings that change the numbers; paths do not count."""
        split_off = self.validation if "validation" not in location.files else None
        rule: Any = None
        if isinstance(self.group, Listed):
            rule = self.cache.sha256(self.group.file)
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
            }
        )


def _require(holds: bool, setting: str, allowed: str, given: object) -> None:
    if not holds:
        raise ValueError(f"dataset.{setting} must be {allowed}, got {given!r}")
