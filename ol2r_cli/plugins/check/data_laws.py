"""The laws of datasets, the table that `load` returns and a run on it, of schedules of intents, their shares, and of
measures, what they return of rounds and of lists, whatever is measured together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from ol2r_cli.config.catalogue import dotted
from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import SPLITS, Dataset
from ol2r_cli.interfaces import IntentSchedule, Measure, RankedLists
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.metrics.measurement import Measures, check_columns
from ol2r_cli.plugins.check.role_laws import files_of_run
from ol2r_cli.plugins.check.small_world import (
    GRADES,
    ROUNDS,
    SEEDS,
    Broken,
    Law,
    NotApplicable,
    Stopped,
    Subject,
    check_same,
    clicking,
    joined,
    load,
    play,
    world,
)
from ol2r_cli.run.own_code import is_refusal

_LONG = 5.0  # seconds of loading, beyond which it is not loaded with other settings
_TABLE = "what `load` returns"
_ROUNDS = {"rounds": 20, "replicas": 2, "seed": 3, "evaluate_every": 20, "block_rounds": [], "force": False}
_SCHEDULED = np.arange(20_000)  # rounds, from 0


def table(subject: Subject) -> None:
    """`load` returns a Dataset with int8 labels, float32 features and int64 offsets that belong together."""
    _ = table_of(subject)


def queries(subject: Subject) -> None:
    """Each query owns the rows from one offset to the next, at least one, and together they own all rows."""
    dataset = table_of(subject)
    offsets, ends = dataset.offsets, [0, len(dataset.features)]
    if [int(offsets[0]), int(offsets[-1])] != ends:
        raise Broken("offsets", f"the first and the last must be {ends}, got {offsets[[0, -1]].tolist()}")
    query = _first(offsets.diff() < 1)
    if query is not None:
        raise Broken(f"query {query}", f"its rows are {int(offsets[query])} to {int(offsets[query + 1])}: none")


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


def grades(subject: Subject) -> None:
    """Labels are whole numbers from 0 to grades - 1."""
    labels, most = table_of(subject).labels, subject.dataset.grades - 1
    row = _first((labels < 0) | (labels > most))
    if row is not None:
        raise Broken(f"row {row}", f"a label must be from 0 to grades - 1 = {most}, got {int(labels[row])}")


def features(subject: Subject) -> None:
    """All features are finite."""
    for column, values in enumerate(table_of(subject).features.T, 1):
        row = _first(~values.isfinite())
        if row is not None:
            raise Broken(f"row {row}", f"feature {column} must be a finite number, got {float(values[row])}")


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


def _first(faults: Tensor) -> int | None:
    """Return the place of the first True; None without one."""
    places = faults.nonzero()
    return int(places[0, 0]) if len(places) else None


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


def shares(subject: Subject) -> None:
    """`shares` returns a number from 0 to 1 for each round and intent, which sum to 1 in each round."""
    values = _shares(_schedule(subject), _SCHEDULED)
    outside, off = ~((values >= 0) & (values <= 1)).all(1), (values.sum(1) - 1).abs() > 1e-9
    for fault, words in (outside, "from 0 to 1"), (off, "1 in sum"):
        row = _first(fault)
        if row is not None:
            raise Broken(f"round {row + 1}", f"shares must be {words}, got {joined(values[row].tolist())}")


def by_the_round(subject: Subject) -> None:
    """The shares of a round are the same in every call, whatever other rounds are asked for."""
    schedule = _schedule(subject)
    together = _shares(schedule, _SCHEDULED)
    for rounds in (_SCHEDULED, _SCHEDULED[:1], _SCHEDULED[::-997].copy()):
        values, expected = _shares(schedule, rounds), together[rounds]
        row = _first((values != expected).any(1))
        if row is not None:
            both = f"{joined(expected[row].tolist())}, and {joined(values[row].tolist())} with {len(rounds)} rounds"
            raise Broken(f"round {int(rounds[row]) + 1}", f"the shares are {both}")


INTENT_LAWS = (shares, by_the_round)


def _schedule(subject: Subject) -> IntentSchedule:
    schedule: Any = build(subject.composition.config.intent)
    if not isinstance(schedule, IntentSchedule):
        raise ValueError(f"intent._target_ must be an IntentSchedule, got {type(schedule).__name__}")
    return schedule


def _shares(schedule: IntentSchedule, rounds: NDArray[np.int64]) -> Tensor:
    """Return the shares of some rounds; Stopped where they have another shape."""
    values, shape = torch.tensor(np.asarray(schedule.shares(rounds.copy()))), [len(rounds), schedule.largest]
    if list(values.shape) != shape:
        raise Stopped(f"{len(rounds)} rounds", f"shares must have the shape {shape}, got {list(values.shape)}")
    return values


def columns(subject: Subject) -> None:
    """A measure declares columns, and returns values for these and no others."""
    for name, measure in _asked(subject).items():
        if not measure.trace and not measure.evaluation:
            raise Broken(f"measure={name}", "it declares no column: neither `trace` nor `evaluation` has one")
    try:
        check_columns(_asked(subject))
        _ = subject.ordinary_measures
        simulation, seeds = subject.ordinary.simulation, torch.tensor(SEEDS)
        evaluate = Evaluator(world(), "test", seeds, "zero", simulation.context.dtype, _asked(subject))
        evaluate(simulation.ranker, simulation.ranker.deploy()[None])
    except ValueError as error:
        raise Broken("the small world", str(error)) from error


def values(subject: Subject) -> None:
    """Values are finite, or NaN where a column does not apply: also without clicks, for lists of one document and for
    lists with nothing relevant."""
    one, worthless = ((0,), (2,)), ((0, 0, 0), (0,) * 7)
    for played in (
        subject.ordinary,
        subject.played("lists of one document", lists=one),
        subject.played("lists with nothing relevant", lists=worthless),
        subject.played("users who never click", click=clicking(0.0)),
        subject.played("users who always click", click=clicking(1.0)),
    ):
        measured = subject.ordinary_measures if played is subject.ordinary else played.measures()
        for name, column in _columns(subject, measured).items():
            if column.isinf().any():
                row, replica = column.isinf().nonzero()[0].tolist()
                raise Broken(played.place(row, replica), f"{name} is infinite")


def rounds_together(subject: Subject) -> None:
    """Values do not depend on how many rounds are measured together."""
    running, first, parts = subject.simulation(), 5, []
    for rounds in (first, ROUNDS - first):
        play(running, rounds)
        parts.append(_columns(subject, running.measurement.measures()[1]))
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    expected = _columns(subject, subject.ordinary_measures)
    check_same(joined, expected, "columns", f"rounds 1 to {first}, and then the others")


def replicas_apart(subject: Subject) -> None:
    """The values of a replica are the same alone and in a batch, where lists are padded."""
    batch = _columns(subject, subject.ordinary_measures)
    for replica, seed in enumerate(SEEDS):
        alone = _columns(subject, subject.played(f"seed {seed} alone", seeds=(seed,)).measures())
        expected = {name: column[:, [replica]] for name, column in batch.items()}
        check_same(alone, expected, "columns", f"seed {seed} alone, and in a batch")


def padding_of_lists(subject: Subject) -> None:
    """The value of a list does not change with places below its end, with which short lists are filled up."""
    if not any(measure.evaluation for measure in _asked(subject).values()):
        raise NotApplicable("it has no column of the evaluation")
    labels = torch.tensor([[2, 0, 1], [0, 0, 0], [4, 4, 0]])
    best, none = labels.sort(-1, descending=True).values, torch.zeros(3, 4, dtype=torch.int64)
    short = RankedLists(labels, best, GRADES)
    filled = RankedLists(torch.cat([labels, none], 1), torch.cat([best, none], 1), GRADES)
    for measure in _asked(subject).values():
        check_same(measure.of_lists(filled), measure.of_lists(short), "columns", "labels 2 0 1, 0 0 0 and 4 4 0")


MEASURE_LAWS = (columns, values, rounds_together, replicas_apart, padding_of_lists)


def _asked(subject: Subject) -> dict[str, Measure]:
    """Return the measures that are held to the laws, as they are in the ordinary run."""
    measures: Any = subject.ordinary.simulation.measurement.by_name
    names = [group.removeprefix("measure/") for group in subject.groups if group.startswith("measure/")]
    return {name: measures[name] for name in names if name in measures}


def _columns(subject: Subject, measured: Mapping[str, Tensor]) -> Measures:
    """Return the columns of the trace of the measures that are held to the laws."""
    names = [column.name for measure in _asked(subject).values() for column in measure.trace]
    return {name: measured[name] for name in names if name in measured}
