"""Statistics of a dataset (sizes, grades, list lengths, constant features, groups), and checks of published files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ol2r_cli.dataset.letor import Letor
from ol2r_cli.dataset.parse import blocks
from ol2r_cli.dataset.prepare import column_ranges
from ol2r_cli.dataset.table import SPLITS, Dataset
from ol2r_cli.tensor.shapes import Bool


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
    def merits(self) -> list[float]:
        """Mean label of group 0 divided by that of group 1, 2, ..: the exposure ratios that are fair by merit."""
        return [self.utilities[0] / other if other else float("nan") for other in self.utilities[1:]]

    @property
    def parities(self) -> list[float]:
        """Size of group 0 divided by that of group 1, 2, ..: the exposure ratios that are fair by number."""
        return [self.sizes[0] / other if other else float("nan") for other in self.sizes[1:]]


def split_statistics(dataset: Dataset) -> list[SplitStatistics]:
    """Statistics of every split that has queries, and of `all` of them."""
    return [_describe(dataset, name, queries) for name, queries in _splits(dataset)]


def group_statistics(dataset: Dataset) -> list[GroupStatistics]:
    """Group statistics of every split that has queries, and of `all` of them; empty for a dataset without groups."""
    if dataset.group is None:
        return []
    group, labels = dataset.group.numpy(), dataset.labels.numpy()
    number = max(2, int(group.max()) + 1)
    described = []
    for name, queries in _splits(dataset):
        rows = _rows(dataset, queries)
        sizes = np.bincount(group[rows], minlength=number)
        sums = np.bincount(group[rows], weights=labels[rows], minlength=number)
        means = np.divide(sums, sizes, out=np.full(number, np.nan), where=sizes > 0)
        described.append(GroupStatistics(name, sizes.tolist(), means.tolist()))
    return described


def constant_features(dataset: Dataset) -> list[int]:
    """Columns, counted from 1, with a single value over all documents of the training split, as rankers see them."""
    train = _rows(dataset, dataset.splits["train"])
    features = dataset.features.numpy()
    training = (features[rows][train[rows]] for rows, _ in blocks(dataset.offsets.numpy()))
    low, high = column_ranges(training, features.shape[1])
    return (np.flatnonzero(low >= high) + 1).tolist()


def _splits(dataset: Dataset) -> list[tuple[str, torch.Tensor]]:
    present = [(name, queries) for name, queries in dataset.splits.items() if len(queries)]
    return [*present, ("all", torch.cat([queries for _, queries in present]))]


def _rows(dataset: Dataset, queries: torch.Tensor) -> Bool[np.ndarray, "N"]:
    """Marks the rows of the table that belong to the queries."""
    selected = np.zeros(len(dataset.query_ids), dtype=bool)
    selected[queries.numpy()] = True
    return np.repeat(selected, np.diff(dataset.offsets.numpy()))


def _describe(dataset: Dataset, name: str, queries: torch.Tensor) -> SplitStatistics:
    labels, offsets = dataset.labels.numpy(), dataset.offsets.numpy()
    lengths = np.diff(offsets)[queries.numpy()]
    mix = np.bincount(labels[_rows(dataset, queries)], minlength=dataset.grades)
    best = np.maximum.reduceat(labels, offsets[:-1])[queries.numpy()]
    return SplitStatistics(
        name=name,
        queries=len(queries),
        documents=int(lengths.sum()),
        shortest=int(lengths.min()),
        median=float(np.median(lengths)),
        longest=int(lengths.max()),
        grades=(mix / mix.sum()).tolist(),
        without_relevant=float((best == 0).mean()),
    )


@dataclass(frozen=True)
class PublishedComparison:
    """A property of the files next to its published value, both as text."""

    what: str
    found: str
    expected: str

    @property
    def agrees(self) -> bool:
        return self.found == self.expected


def compare_with_published(dataset: Letor) -> list[PublishedComparison]:
    """Compares the selected fold with `dataset.expected` and `dataset.checksums`; parses it if it is not cached.

    Counts are those of the whole fold, even where settings choose fewer queries. Files without a known checksum are
    not compared.
    """
    location = dataset.locate()
    table = dataset.parse(location)
    counts = {"queries": len(table.query_ids), "documents": len(table.labels), "features": table.largest_id}
    comparisons = [
        PublishedComparison(what, f"{counts[what]:,}", f"{number:,}") for what, number in dataset.expected.items()
    ]
    missing = [split for split in SPLITS if dataset.files.get(split) and split not in location.files]
    if dataset.expected:
        comparisons += [
            PublishedComparison(f"{split} file", "none", " or ".join(dataset.files[split])) for split in missing
        ]
    for file in location.files.values():
        name = file.relative_to(location.root).as_posix()
        known = dataset.checksums.get(name)
        if known is not None:
            comparisons.append(PublishedComparison(f"sha256 of {name}", dataset.cache.sha256(file), known))
    return comparisons
