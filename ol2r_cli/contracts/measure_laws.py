"""The laws of measures: what they return of rounds and of lists, whatever is measured together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ol2r_cli.contracts.law import Broken, Law, NotApplicable
from ol2r_cli.contracts.small_world import GRADES, ROUNDS, SEEDS, clicking, play, world
from ol2r_cli.contracts.subject import Subject, check_same
from ol2r_cli.interfaces import Measure, RankedLists
from ol2r_cli.metrics.evaluation import Evaluator
from ol2r_cli.metrics.measurement import Measures
from ol2r_cli.simulation import Simulation


@Law
def columns(subject: Subject) -> None:
    """A measure declares columns, and returns values for these and no others."""
    for name, measure in _asked(subject).items():
        if not measure.trace and not measure.evaluation:
            raise Broken(f"measure={name}", "it declares no column: neither `trace` nor `evaluation` has one")
    try:
        _ = subject.ordinary_measures
        simulation, seeds = subject.ordinary.simulation, torch.tensor(SEEDS)
        evaluate = Evaluator(world(), "test", seeds, "zero", simulation.context.dtype, _asked(subject))
        evaluate(simulation.ranker, simulation.ranker.deploy()[None])
    except ValueError as error:
        raise Broken("the small world", str(error)) from error


@Law
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
        measured = subject.ordinary_measures if played is subject.ordinary else _measured(played.simulation)
        for name, column in _columns(subject, measured).items():
            if column.isinf().any():
                row, replica = column.isinf().nonzero()[0].tolist()
                raise Broken(played.place(row, replica), f"{name} is infinite")


@Law
def rounds_together(subject: Subject) -> None:
    """Values do not depend on how many rounds are measured together."""
    running, first, parts = subject.simulation(), 5, []
    for rounds in (first, ROUNDS - first):
        play(running, rounds)
        parts.append(_columns(subject, _measured(running)))
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    expected = _columns(subject, subject.ordinary_measures)
    check_same(joined, expected, "columns", f"rounds 1 to {first}, and then the others")


@Law
def replicas_apart(subject: Subject) -> None:
    """The values of a replica are the same alone and in a batch, where lists are padded."""
    batch = _columns(subject, subject.ordinary_measures)
    for replica, seed in enumerate(SEEDS):
        alone = _columns(subject, _measured(subject.played(f"seed {seed} alone", seeds=(seed,)).simulation))
        expected = {name: column[:, [replica]] for name, column in batch.items()}
        check_same(alone, expected, "columns", f"seed {seed} alone, and in a batch")


@Law
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


def _measured(simulation: Simulation) -> Measures:
    return simulation.measurement.measures()[1]
