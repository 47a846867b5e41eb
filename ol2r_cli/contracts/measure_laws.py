"""The laws of measures: what they return of rounds and of lists, whatever is measured together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from ol2r_cli.contracts.differences import check_same
from ol2r_cli.contracts.law import Broken, NotApplicable, law
from ol2r_cli.contracts.small_world import GRADES, ROUNDS, SEEDS, clicking, play, world
from ol2r_cli.contracts.subject import Played, Subject
from ol2r_cli.interfaces import Measure, RankedLists
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.metrics.measurement import Measures

COUNTS_PADDING = "places below the end of a list, which have label 0 and are not shown, are counted as documents"
NOT_CLEARED = "a buffer of `record` that is not cleared before the next rounds, whose lists may be shorter"
LOST_TOTAL = "a running total that is not kept in a buffer, or that begins again with every call"
MIXES_AXES = "a sum or mean over the axis B of replicas or the axis R of rounds"


@law("a column that is not declared in `trace` or `evaluation`", "values of another shape: one for each round and list")
def columns(subject: Subject) -> None:
    """A measure declares columns, and returns values for these and no others."""
    for name, measure in _asked(subject):
        if not measure.trace and not measure.evaluation:
            raise Broken(f"measure={name}", "it declares no column: neither `trace` nor `evaluation` has one")
    try:
        _ = subject.ordinary_measures
        _evaluated(subject)
    except ValueError as error:
        raise Broken("the small world", str(error)) from error


@law(
    "a division by a number of clicks or documents that may be 0; NaN says that a column does not apply", COUNTS_PADDING
)
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
        measured = subject.ordinary_measures if played is subject.ordinary else _measured(played)
        for column in _columns(subject):
            if column in measured and measured[column].isinf().any():
                row, replica = measured[column].isinf().nonzero()[0].tolist()
                raise Broken(played.place(row, replica), f"{column} is infinite")


@law(LOST_TOTAL, NOT_CLEARED, MIXES_AXES)
def rounds_together(subject: Subject) -> None:
    """Values do not depend on how many rounds are measured together."""
    running, first = subject.simulation(), 5
    parts = []
    for rounds in (first, ROUNDS - first):
        play(running, rounds)
        parts.append(running.measurement.measures()[1])
    _check_columns(subject, _joined(parts), subject.ordinary_measures, f"rounds 1 to {first}, and then the others")


@law(MIXES_AXES, COUNTS_PADDING)
def replicas_apart(subject: Subject) -> None:
    """The values of a replica are the same alone and in a batch, where lists are padded."""
    for replica, seed in enumerate(SEEDS):
        alone = _measured(subject.played(f"seed {seed} alone", seeds=(seed,)))
        expected = {name: values[:, [replica]] for name, values in subject.ordinary_measures.items()}
        _check_columns(subject, alone, expected, f"seed {seed} alone, and in a batch")


@law(COUNTS_PADDING)
def padding_of_lists(subject: Subject) -> None:
    """The value of a list does not change with places below its end, with which short lists are filled up."""
    if not any(measure.evaluation for _, measure in _asked(subject)):
        raise NotApplicable("it has no column of the evaluation")
    labels = torch.tensor([[2, 0, 1], [0, 0, 0], [4, 4, 0]])
    best = labels.sort(-1, descending=True).values
    none = torch.zeros(3, 4, dtype=torch.int64)
    short = RankedLists(labels, best, GRADES)
    filled = RankedLists(torch.cat([labels, none], 1), torch.cat([best, none], 1), GRADES)
    for _, measure in _asked(subject):
        check_same(measure.of_lists(filled), measure.of_lists(short), "the column", "labels 2 0 1, 0 0 0 and 4 4 0")


MEASURE_LAWS = (columns, values, rounds_together, replicas_apart, padding_of_lists)


def _asked(subject: Subject) -> Iterator[tuple[str, Measure]]:
    """The measures that are held to the laws, as they are in the ordinary run."""
    measures = subject.ordinary.simulation.measurement.by_name
    for group in subject.groups:
        name = group.removeprefix("measure/")
        if name != group and name in measures:
            measure = measures[name]
            assert isinstance(measure, Measure)
            yield name, measure


def _columns(subject: Subject) -> list[str]:
    """The columns of the trace of the measures that are held to the laws."""
    return [column.name for _, measure in _asked(subject) for column in measure.trace]


def _measured(played: Played) -> Measures:
    return played.simulation.measurement.measures()[1]


def _joined(parts: list[Measures]) -> Measures:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _check_columns(subject: Subject, found: Mapping[str, Tensor], expected: Mapping[str, Tensor], input: str) -> None:
    """Broken unless the columns of the measures are equal."""
    names = _columns(subject)
    check_same(_of(found, names), _of(expected, names), "the column", input)


def _of(measures: Mapping[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    return {name: measures[name] for name in names if name in measures}


def _evaluated(subject: Subject) -> None:
    """Evaluate the ranker of the ordinary run; ValueError for a measure that does not return its columns."""
    simulation = subject.ordinary.simulation
    measures = dict(_asked(subject))
    evaluate = Evaluator(world(), "test", torch.tensor(SEEDS), "zero", simulation.context.dtype, measures)
    evaluate(simulation.ranker, simulation.ranker.deploy()[None])
