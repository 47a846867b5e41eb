"""Documents for a trained ranker: those of a LETOR file or of an array, with the features that the ranker sees."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import ParsedFile, counted_rounding, open_text, parse, rounded_off
from ol2r_cli.dataset.prepare import Transformation, dataset_of, feature_warnings, large_features
from ol2r_cli.dataset.table import Dataset, DatasetSource

# From features as they stand in the data [N, F], and where queries begin and end, to those that rankers see [N, G].
Transform = Callable[[np.ndarray, np.ndarray], np.ndarray]


class FeatureSource:
    """Makes the features that the rankers of a run see, by the `source` of its dataset.

    `features` is how many rankers see, `fingerprint` that of the run's data. The class of the source says by a method
    `transformation(features, fingerprint)` how features as they stand in its data become those that `load` returns.
    Without one they are taken as they are, which `warnings` says. ValueError where training data are needed and are not
    found or are others, and for a class with a `load` of its own that only inherits a `transformation`.
    """

    def __init__(self, source: DatasetSource, features: int, fingerprint: str):
        self.source, self.features, self.warnings = source, features, tuple[str, ...]()
        source_class, given = type(source), _first_with(type(source), "transformation")
        if given is None:
            what = f"{source_class.__name__} has no method `transformation`, which says how its `load` makes features"
            self.warnings = (f"{what}: they are taken as they are",)
            self.transform: Transform = Transformation("none", np.ones(features, bool))
            return
        loads = _first_with(source_class, "load")
        if loads is not given and loads is not None and issubclass(loads, given):
            raise ValueError(
                f"{loads.__name__} has a `load` of its own, so that nothing says how it makes features: define "
                f"`transformation(self, features, fingerprint)` in {loads.__name__}, too"
            )
        named: Any = source
        self.transform = named.transformation(features, fingerprint)

    def of_file(self, file: Path) -> Dataset:
        """Return the documents of a LETOR file, in its order, as the test split of a table; grades may be anything.

        ValueError if it is no LETOR text, and if it does not have the features of the data.
        """
        if not file.is_file():
            problem = "is a folder" if file.is_dir() else "does not exist"
            raise ValueError(f"FILE must be a file in LETOR form, got {file}, which {problem}")
        if isinstance(self.source, Letor):
            documents = parse(file, None, self.source.overflow, self.source.missing)
        else:
            documents = parse(file, dtype=np.float64)
        present, width = documents.features.shape[1], self._width()
        if width is not None:
            if present > width or (present < width and _has_all(file, present)):
                must = f"{width} features, as the data of the run"
                raise ValueError(f"FILE must have {must}, got {file}, which has {present}")
            beyond = (0, 0), (0, width - present)
            table, rounding = np.pad(documents.features, beyond), np.pad(documents.rounding, beyond)
            documents = replace(documents, features=table, rounding=rounding)
        return self._ranked(documents, file.name)

    def of_array(self, features: Any, query: Collection[Any] | None) -> Dataset:
        """Return documents with these features [N, F], as they stand in the data, as the test split of a table.

        `query` names the query of each, of which those of a query follow each other; None: they are of one query.
        ValueError for something else.
        """
        precision = np.float32 if isinstance(self.source, Letor) else np.float64
        try:
            features = np.asarray(features, np.float64)
        except (ValueError, TypeError):
            raise ValueError("features must be numbers, a row for each document") from None
        if features.ndim != 2 or not len(features):
            raise ValueError(f"features must have a row for each document, got the shape {list(features.shape)}")
        names = [0] * len(features) if query is None else [*query]
        if len(names) != len(features):
            raise ValueError(f"query must have a value for each of {len(features)} documents, got {len(names)}")
        width = self._width()
        if width is not None and features.shape[1] != width:
            raise ValueError(
                f"features must be {width} for each document, as in the data of the run, got {features.shape[1]}"
            )
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0].tolist()
            raise ValueError(f"features must be numbers, got {features[row, column]} in row {row}, column {column}")
        runs = [(name, sum(1 for _ in run)) for name, run in groupby(names)]
        if len({name for name, _ in runs}) < len(runs):
            raise ValueError("documents of a query must follow each other")
        offsets = np.cumsum([0, *(length for _, length in runs)], dtype=np.int64)
        rounding = counted_rounding(features, offsets)
        table = features.astype(precision)
        labels = np.zeros(len(features), np.int8)
        return self._ranked(ParsedFile(table, labels, offsets, [str(name) for name, _ in runs], rounding), "array")

    def names(self) -> list[str]:
        """Return the names of the features in the data, which are their numbers from 1 where they have no others."""
        width = self._width() or self.features
        named: Any = self.source
        given = named.feature_names() if hasattr(named, "feature_names") else None
        return [str(number) for number in range(1, width + 1)] if given is None else [*given]

    def _width(self) -> int | None:
        """Return how many features there are in the data; None where the class of the dataset does not say."""
        return len(self.transform.columns) if isinstance(self.transform, Transformation) else None

    def _ranked(self, documents: ParsedFile, name: str) -> Dataset:
        """Return the table of documents with the features that rankers see."""
        features = np.asarray(self.transform(documents.features, documents.offsets), np.float32)
        if features.shape != (len(documents.labels), self.features):
            wanted = f"[{len(documents.labels)}, {self.features}]"
            raise ValueError(
                f"`transformation` of {type(self.source).__name__} must make features {wanted}, as `load`, "
                f"got {list(features.shape)}"
            )
        method = self.transform.method if isinstance(self.transform, Transformation) else ""
        is_single = documents.features.dtype == np.float32 or method == "none"  # otherwise nothing is lost before
        return dataset_of(
            documents,
            {"test": np.arange(len(documents.query_ids))},
            features,
            name=name,
            fingerprint="",
            grades=int(documents.labels.max()) + 1,
            warnings=self.warnings
            + feature_warnings(
                rounded_off([documents]) if is_single else [], large_features(documents.features), method
            ),
        )


def _first_with(derived: type, method: str) -> type | None:
    """Return the class that defines the method that objects of the class `derived` have; None without one."""
    return next((base for base in derived.__mro__ if method in vars(base)), None)


def _has_all(file: Path, features: int) -> bool:
    """Return whether each document states all these features: a sparse file may leave out the last ones."""
    with open_text(file) as lines:
        contents = (line.split(b"#", 1)[0] for line in lines)
        return all(content.count(b":") > features for content in contents if content.strip())  # qid has a colon too
