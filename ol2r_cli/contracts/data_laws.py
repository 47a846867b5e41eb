"""The laws of datasets, the table that `load` returns and a run on it, and of schedules of intents, their shares."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.law import Broken, Law, NotApplicable, Stopped
from ol2r_cli.contracts.role_laws import files_of_run
from ol2r_cli.contracts.subject import Subject, is_refusal, load
from ol2r_cli.dataset.table import SPLITS, Dataset
from ol2r_cli.interfaces import IntentSchedule

_LONG = 5.0  # seconds of loading, beyond which it is not loaded with other settings
_TABLE = "what `load` returns"
_ROUNDS = {"rounds": 20, "replicas": 2, "seed": 3, "evaluate_every": 20, "block_rounds": [], "force": False}
_SCHEDULED = np.arange(20_000)  # rounds, from 0


@Law
def table(subject: Subject) -> None:
    """`load` returns a Dataset with int8 labels, float32 features and int64 offsets that belong together."""
    _ = table_of(subject)


@Law
def queries(subject: Subject) -> None:
    """Each query owns the rows from one offset to the next, at least one, and together they own all rows."""
    dataset = table_of(subject)
    offsets, ends = dataset.offsets, [0, len(dataset.features)]
    if [int(offsets[0]), int(offsets[-1])] != ends:
        raise Broken("offsets", f"the first and the last must be {ends}, got {offsets[[0, -1]].tolist()}")
    if (short := offsets.diff() < 1).any():
        query = int(short.nonzero()[0])
        raise Broken(f"query {query}", f"its rows are {int(offsets[query])} to {int(offsets[query + 1])}: none")


@Law
def splits(subject: Subject) -> None:
    """Splits have numbers of queries that exist, and no two splits have a query in common."""
    dataset, seen = table_of(subject), dict[int, str]()
    last = len(dataset.offsets) - 2
    for name, numbers in dataset.splits.items():
        if name not in SPLITS:
            raise Broken(f"split {name}", f"a split must be one of {', '.join(SPLITS)}")
        for query in numbers.tolist():
            if not 0 <= query <= last:
                raise Broken(f"split {name}", f"it has query {query}, and there are queries 0 to {last}")
            if query in seen:
                raise Broken(f"split {name}", f"it has query {query}, which split {seen[query]} has, too")
            seen[query] = name
    if not len(dataset.splits.get("train", ())):
        raise Broken("split train", "it has no query, and a run plays training queries")


@Law
def grades(subject: Subject) -> None:
    """Labels are whole numbers from 0 to grades - 1."""
    labels, most = table_of(subject).labels, subject.dataset.grades - 1
    if (bad := (labels < 0) | (labels > most)).any():
        row = int(bad.nonzero()[0])
        raise Broken(f"row {row}", f"a label must be from 0 to grades - 1 = {most}, got {int(labels[row])}")


@Law
def features(subject: Subject) -> None:
    """All features are finite."""
    for first, values in enumerate(table_of(subject).features.split(100_000)):
        if (bad := ~values.isfinite()).any():
            row, column = bad.nonzero()[0].tolist()
            what = f"feature {column + 1} must be a finite number, got {float(values[row, column])}"
            raise Broken(f"row {first * 100_000 + row}", what)


@Law
def groups(subject: Subject) -> None:
    """Groups, if there are any, are int8 numbers from 0, one for each document; fairness needs two or more."""
    group, documents = table_of(subject).group, len(subject.dataset.features)
    if group is None:
        raise NotApplicable("the dataset has no groups")
    if group.dtype != torch.int8 or len(group) != documents or int(group.min()) < 0:
        got = f"{group.dtype}, {len(group)} numbers from {int(group.min())}"
        raise Broken("group", f"it must be torch.int8, {documents} numbers from 0, got {got}")
    if int(group.max()) != 1:
        needs = "fairness needs two groups" if not int(group.max()) else "fairness=fairexp needs the groups 0 and 1"
        subject.notes.append(f"groups are numbers up to {int(group.max())}: {needs}")


@Law
def fingerprint(subject: Subject) -> None:
    """Loaded again, fingerprint and data are the same, and a setting that changes the data changes it."""
    node, start = subject.composition.config.dataset, time.monotonic()
    again, first = load(node), table_of(subject)
    if again.fingerprint != first.fingerprint:
        both = f"{first.fingerprint[:16]} and {again.fingerprint[:16]}"
        raise Broken("the same settings, loaded twice", f"the fingerprints are {both}")
    _check_equal(again, first, "the same settings, loaded twice")
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
        if changed.fingerprint == again.fingerprint:
            values = f"{OmegaConf.select(node, setting)} and {OmegaConf.select(other, setting)}"
            _check_equal(changed, again, f"dataset.{setting} {values}")


@Law
def plays(subject: Subject) -> None:
    """A short run on it works: rounds, evaluation and files."""
    files_of_run(subject, table_of(subject), "dataset", settings=_ROUNDS)


DATASET_LAWS: tuple[Law, ...] = (table, queries, splits, grades, features, groups, fingerprint, plays)


def table_of(subject: Subject) -> Dataset:
    """Return the table of the subject's dataset; Stopped unless its parts are tensors that belong together."""
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
    for name, given, needed in (
        ("a label for each of {} rows", len(dataset.labels), len(dataset.features)),
        ("an id for each of {} queries", len(dataset.query_ids), len(dataset.offsets) - 1),
    ):
        if given != needed:
            raise Stopped(_TABLE, f"there must be {name.format(needed)}, got {given}")
    return dataset


def _variations(node: DictConfig, cache: str) -> Iterator[tuple[str, DictConfig]]:
    """Yield the settings of a dataset with one of them changed: a switch, a number, or a number in a mapping."""
    settings: Any = OmegaConf.to_container(node)
    for setting, value in dotted(settings):
        if isinstance(value, bool | int | float) and all(map(str.isidentifier, setting.split(".")[:-1])):
            other = OmegaConf.create({"dataset": settings}).dataset
            OmegaConf.update(other, setting, not value if isinstance(value, bool) else value + type(value)(1))
            if "cache_dir" in other:
                other.cache_dir = cache
            yield setting, other


def _check_equal(one: Dataset, other: Dataset, input: str) -> None:
    """Raise Broken at the first part in which two tables with the same fingerprint differ."""
    for name in ("features", "labels", "offsets", "group"):
        left, right = getattr(one, name), getattr(other, name)
        if (left is None) != (right is None) or (left is not None and not torch.equal(left, right)):
            raise Broken(input, f"the fingerprints are equal, and {name} are not")
    left, right = ({name: queries.tolist() for name, queries in table.splits.items()} for table in (one, other))
    if left != right:
        raise Broken(input, "the fingerprints are equal, and splits are not")


@Law
def shares(subject: Subject) -> None:
    """`shares` returns a number from 0 to 1 for each round and intent, which sum to 1 in each round."""
    values = _shares(_schedule(subject), _SCHEDULED)
    outside, off = ~((values >= 0) & (values <= 1)).all(1), np.abs(values.sum(1) - 1) > 1e-9
    for fault, words in (outside, "from 0 to 1"), (off, "1 in sum"):
        if fault.any():
            row = int(np.argmax(fault))
            raise Broken(f"round {row + 1}", f"shares must be {words}, got {' '.join(map(str, values[row]))}")


@Law
def by_the_round(subject: Subject) -> None:
    """The shares of a round are the same in every call, whatever other rounds are asked for."""
    schedule = _schedule(subject)
    together = _shares(schedule, _SCHEDULED)
    for some in (_SCHEDULED, _SCHEDULED[:1], _SCHEDULED[::-997]):
        values = _shares(schedule, some)
        if (differ := (values != together[some]).any(1)).any():
            row = int(np.argmax(differ))
            one, other = (" ".join(map(str, numbers)) for numbers in (together[some[row]], values[row]))
            raise Broken(f"round {int(some[row]) + 1}", f"the shares are {one}, and {other} with {len(some)} rounds")


INTENT_LAWS = (shares, by_the_round)


def _schedule(subject: Subject) -> IntentSchedule:
    schedule: Any = build(subject.composition.config.intent)
    if not isinstance(schedule, IntentSchedule):
        raise ValueError(f"intent._target_ must be an IntentSchedule, got {type(schedule).__name__}")
    return schedule


def _shares(schedule: IntentSchedule, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the shares of some rounds; Stopped where they have another shape."""
    values, shape = np.asarray(schedule.shares(rounds.copy())), (len(rounds), schedule.largest)
    if values.shape != shape:
        raise Stopped(f"{len(rounds)} rounds", f"shares must have the shape {list(shape)}, got {list(values.shape)}")
    return values
