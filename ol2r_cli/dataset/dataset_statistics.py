"""Statistics of a dataset (sizes, grades, list lengths, constant features, groups), and checks of published files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import blocks
from ol2r_cli.dataset.prepare import constant_columns, rows_of
from ol2r_cli.dataset.table import SPLITS, Dataset
from ol2r_cli.tensor.shapes import Bool, Int


@dataclass(frozen=True)
class SplitStatistics:
    """Sizes, list lengths and grades of one split, or of all together."""

    name: str
    queries: int
    documents: int
    shortest: int  # list lengths in documents
    median: float
    longest: int
    grades: list[float]  # share of the documents with each grade
    without_relevant: float  # share of the queries without a relevant document

    @property
    def attainable(self) -> float:
        """The highest mean NDCG at any cutoff: queries without a relevant document count 0, the others at most 1."""
        return 1 - self.without_relevant


@dataclass(frozen=True)
class GroupStatistics:
    """Size and mean label (utility) of the document groups of one split, or of all together."""

    name: str
    sizes: list[int]  # documents in group 0, 1, ...
    utilities: list[float]  # mean label; nan for a group without documents

    @property
    def ratios(self) -> list[float]:
        """The exposure ratios of group 0 to group 1, 2, .. that are fair by merit (mean label), then by number."""
        return [*_to_others(self.utilities), *_to_others(self.sizes)]


def _to_others(by_group: Sequence[float]) -> list[float]:
    """Return the ratios of the first number to each other one; nan to 0."""
    return [by_group[0] / number if number else np.nan for number in by_group[1:]]


def split_statistics(dataset: Dataset) -> list[SplitStatistics]:
    """Return statistics of every split that has queries, and of `all` of them."""
    labels, offsets = dataset.labels.numpy(), dataset.offsets.numpy()
    best = np.maximum.reduceat(labels, offsets[:-1])
    described = []
    for name, queries, rows in _splits(dataset):
        lengths = np.diff(offsets)[queries]
        described.append(
            SplitStatistics(
                name,
                queries=len(queries),
                documents=int(lengths.sum()),
                shortest=int(lengths.min()),
                median=float(np.median(lengths)),
                longest=int(lengths.max()),
                grades=(np.bincount(labels[rows], minlength=dataset.grades) / lengths.sum()).tolist(),
                without_relevant=float((best[queries] == 0).mean()),
            )
        )
    return described


def group_statistics(dataset: Dataset) -> list[GroupStatistics]:
    """Return group statistics of every split that has queries, and of `all`; empty for a dataset without groups."""
    if dataset.group is None:
        return []
    group, labels = dataset.group.numpy(), dataset.labels.numpy()
    number = max(2, int(group.max()) + 1)
    described = []
    for name, _, rows in _splits(dataset):
        sizes = np.bincount(group[rows], minlength=number)
        sums = np.bincount(group[rows], weights=labels[rows], minlength=number)
        means = np.divide(sums, sizes, out=np.full(number, np.nan), where=sizes > 0)
        described.append(GroupStatistics(name, sizes.tolist(), means.tolist()))
    return described


def constant_features(dataset: Dataset) -> list[int]:
    """Return columns, from 1, with a single value over all documents of the training split, as rankers see them."""
    train = next(rows for name, _, rows in _splits(dataset) if name == "train")
    features = dataset.features.numpy()
    training = (features[rows][train[rows]] for rows, _ in blocks(dataset.offsets.numpy()))
    return (np.flatnonzero(constant_columns(training)) + 1).tolist()


def _splits(dataset: Dataset) -> Iterator[tuple[str, Int[np.ndarray, "q"], Bool[np.ndarray, "N"]]]:
    """Yield name, queries and marked rows of every split that has queries, and of all of them."""
    present = {name: queries.numpy() for name, queries in dataset.splits.items() if len(queries)}
    for name, queries in {**present, "all": np.concatenate(list(present.values()))}.items():
        yield name, queries, rows_of(queries, dataset.offsets.numpy())


def compare_with_published(dataset: Letor) -> list[tuple[str, str, str]]:
    """Return what is known of the selected fold (`dataset.expected`, `dataset.checksums`), as found and as expected.

    Counts are those of the whole fold, even where settings choose fewer queries. The fold is parsed if it is not
    cached.
    """
    location = dataset.locate()
    table = dataset.parse(location)
    counts = {"queries": len(table.query_ids), "documents": len(table.labels), "features": table.largest_id}
    compared = [(what, f"{counts[what]:,}", f"{number:,}") for what, number in dataset.expected.items()]
    if dataset.expected:
        missing = [split for split in SPLITS if dataset.files.get(split) and split not in location.files]
        compared += [(f"{split} file", "none", " or ".join(dataset.files[split])) for split in missing]
    for file in location.files.values():
        name = file.relative_to(location.root).as_posix()
        if (known := dataset.checksums.get(name)) is not None:
            compared.append((f"sha256 of {name}", dataset.cache.sha256(file), known))
    return compared
