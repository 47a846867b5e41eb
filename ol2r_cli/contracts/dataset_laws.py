"""The laws of datasets: the table that `load` returns, and a run on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli.contracts.law import Broken, Law, NotApplicable, Stopped, law
from ol2r_cli.contracts.run_law import files_of_run
from ol2r_cli.contracts.subject import Subject, is_refusal, load
from ol2r_cli.dataset.table import SPLITS, Dataset

_LONG = 5.0  # seconds of loading, beyond which it is not loaded with other settings
_TABLE = "what `load` returns"
_ROUNDS = {"rounds": 20, "replicas": 2, "seed": 3, "evaluate_every": 20, "block_rounds": [], "force": False}


@law("a method `load` that returns arrays or a frame: it must return an ol2r_cli.dataset.table.Dataset")
def table(subject: Subject) -> None:
    """`load` returns a Dataset with int8 labels, float32 features and int64 offsets that belong together."""
    _ = table_of(subject)


@law("offsets are lengths, or without the first 0 or the last end", "a query without documents")
def queries(subject: Subject) -> None:
    """Each query owns the rows from one offset to the next, at least one, and together they own all rows."""
    dataset = table_of(subject)
    offsets = dataset.offsets
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(dataset.features):
        ends = f"{int(offsets[0])} and {int(offsets[-1])}"
        raise Broken("offsets", f"they must begin with 0 and end with {len(dataset.features)}, the rows, got {ends}")
    if (short := offsets.diff() < 1).any():
        query = int(short.nonzero()[0])
        raise Broken(f"query {query}", f"its rows are {int(offsets[query])} to {int(offsets[query + 1])}: none")


@law("numbers of rows where numbers of queries are needed", "a query of the training split in another split, a leak")
def splits(subject: Subject) -> None:
    """Splits have numbers of queries that exist, and no two splits have a query in common."""
    dataset, seen = table_of(subject), dict[int, str]()
    count = len(dataset.offsets) - 1
    for name, numbers in dataset.splits.items():
        if name not in SPLITS:
            raise Broken(f"split {name}", f"a split must be one of {', '.join(SPLITS)}")
        for query in numbers.tolist():
            if not 0 <= query < count:
                raise Broken(f"split {name}", f"it has query {query}, and there are queries 0 to {count - 1}")
            if query in seen:
                raise Broken(f"split {name}", f"it has query {query}, which split {seen[query]} has, too")
            seen[query] = name
    if not len(dataset.splits.get("train", ())):
        raise Broken("split train", "it has no query, and a run plays training queries")


@law("grades that begin at 1", "a label for unjudged documents, such as -1", "`grades` is the largest label")
def grades(subject: Subject) -> None:
    """Labels are whole numbers from 0 to grades - 1."""
    labels, most = table_of(subject).labels, subject.dataset.grades - 1
    if (bad := (labels < 0) | (labels > most)).any():
        row = int(bad.nonzero()[0])
        raise Broken(f"row {row}", f"a label must be from 0 to grades - 1 = {most}, got {int(labels[row])}")


@law("missing values that are read as NaN", "values beyond float32, 3.4e38", "a division by the spread of a constant")
def features(subject: Subject) -> None:
    """All features are finite."""
    for first in range(0, len(table_of(subject).features), 100_000):
        bad = ~subject.dataset.features[first : first + 100_000].isfinite()
        if bad.any():
            row, column = bad.nonzero()[0].tolist()
            value = float(subject.dataset.features[first + row, column])
            raise Broken(f"row {first + row}", f"feature {column + 1} must be a finite number, got {value}")


@law("a group for each query, where one for each document is needed", "groups that begin at 1")
def groups(subject: Subject) -> None:
    """Groups, if there are any, are int8 numbers from 0, one for each document; fairness needs two or more."""
    group, documents = table_of(subject).group, len(subject.dataset.features)
    if group is None:
        raise NotApplicable("the dataset has no groups")
    if group.dtype != torch.int8 or len(group) != documents or int(group.min()) < 0:
        found = f"{group.dtype}, {len(group)} numbers from {int(group.min())}"
        raise Broken("group", f"it must be torch.int8, {documents} numbers from 0, got {found}")
    if int(group.max()) != 1:
        needs = "fairness needs two groups" if not int(group.max()) else "fairness=fairexp needs the groups 0 and 1"
        subject.notes.append(f"groups are numbers up to {int(group.max())}: {needs}")


@law(
    "the fingerprint or the data contain a time, a path or a number that is drawn at random",
    "a setting that changes the data is not part of the hash: two different runs would share a directory",
)
def fingerprint(subject: Subject) -> None:
    """Loaded again, fingerprint and data are the same, and a setting that changes the data changes it."""
    node, start = subject.composition.config.dataset, time.monotonic()
    again, first = load(node), table_of(subject)
    if again.fingerprint != first.fingerprint:
        both = f"{first.fingerprint[:16]} and {again.fingerprint[:16]}"
        raise Broken("the same settings, loaded twice", f"the fingerprints are {both}")
    if name := _first_change(again, first):
        raise Broken("the same settings, loaded twice", f"the fingerprints are equal, and {name} are not")
    if time.monotonic() - start > _LONG:
        subject.notes.append("the fingerprint is not checked with other settings, as loading takes long")
        return
    for setting, other in _variations(node, str(subject.folder / "cache")):
        try:
            changed = load(other)
        except ValueError as error:  # settings may depend on each other
            if not is_refusal(error):
                raise
            continue
        if changed.fingerprint == again.fingerprint and (name := _first_change(changed, again)):
            values = f"{OmegaConf.select(node, setting)} and {OmegaConf.select(other, setting)}"
            raise Broken(f"dataset.{setting} {values}", f"the fingerprints are equal, and {name} are not")


@law("a click model without probabilities for this number of grades: see the message")
def plays(subject: Subject) -> None:
    """A short run on it works: rounds, evaluation and files."""
    files_of_run(subject, table_of(subject), "dataset", settings=_ROUNDS)


DATASET_LAWS: tuple[Law, ...] = (table, queries, splits, grades, features, groups, fingerprint, plays)


def table_of(subject: Subject) -> Dataset:
    """The table of the subject's dataset; Stopped unless its parts are tensors that belong together."""
    dataset = subject.dataset
    if not isinstance(dataset, Dataset):
        raise Stopped(_TABLE, f"it must be a Dataset, got {type(dataset).__name__}")
    kinds = {
        "features": (dataset.features, torch.float32, 2),
        "labels": (dataset.labels, torch.int8, 1),
        "offsets": (dataset.offsets, torch.int64, 1),
        **{f"splits[{name!r}]": (queries, torch.int64, 1) for name, queries in dataset.splits.items()},
    }
    for name, (values, dtype, axes) in kinds.items():
        if not isinstance(values, Tensor) or values.dtype != dtype or values.ndim != axes:
            got = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise Stopped(_TABLE, f"{name} must be a tensor of {dtype} with {axes} axes, got {got}")
    documents, queries = len(dataset.features), len(dataset.offsets) - 1
    if len(dataset.labels) != documents:
        raise Stopped(_TABLE, f"there must be a label for each of {documents} rows, got {len(dataset.labels)}")
    if len(dataset.query_ids) != queries:
        raise Stopped(_TABLE, f"there must be an id for each of {queries} queries, got {len(dataset.query_ids)}")
    return dataset


def _variations(node: DictConfig, cache: str) -> Iterator[tuple[str, DictConfig]]:
    """The settings of a dataset with one of them changed: a switch, a number, or a number in a mapping."""
    for setting, value in _numbers(OmegaConf.to_container(node)):
        other = OmegaConf.create(OmegaConf.to_container(node))
        OmegaConf.update(other, setting, not value if isinstance(value, bool) else value + type(value)(1))
        if "cache_dir" in other:
            other.cache_dir = cache
        wrapped = OmegaConf.create({"dataset": other})
        yield setting, wrapped.dataset


def _numbers(settings: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if isinstance(value, bool | int | float):
            yield f"{prefix}{key}", value
        elif isinstance(key, str) and key.isidentifier():
            yield from _numbers(value, f"{prefix}{key}.")


def _first_change(one: Dataset, other: Dataset) -> str:
    """The first part in which two tables differ; empty if they are equal."""
    for name in ("features", "labels", "offsets", "group"):
        left, right = getattr(one, name), getattr(other, name)
        if (left is None) != (right is None) or (left is not None and not torch.equal(left, right)):
            return name
    splits = [{name: queries.tolist() for name, queries in each.splits.items()} for each in (one, other)]
    return "" if splits[0] == splits[1] else "splits"
