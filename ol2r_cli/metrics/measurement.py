"""Records rounds and passes them to the measures, 64 at once or more: one round costs as much as sixty-four."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from ol2r_cli.columns import EVALUATION_COLUMNS, TRACE_COLUMNS
from ol2r_cli.intent.schedules import DrawnIntents
from ol2r_cli.interfaces import Interaction, Measure, Rounds, RunContext
from ol2r_cli.metrics.ranking import ideal_lists
from ol2r_cli.tensor.shapes import Int

Measures = dict[str, Tensor]  # column -> values [R B] of R rounds and B replicas

_IN_EVERY_RUN = ("query", "clicks", "pairs", "user_intent")  # columns of the trace that are no measure


class NonFiniteScores(ArithmeticError):
    """Scores of a ranker are NaN or infinite. `round` is the first such round, `replicas` has those that are."""

    def __init__(self, round: int, replicas: list[int]):
        self.round, self.replicas = round, replicas
        super().__init__(f"the scores of the ranker are not finite in round {round}, replicas {replicas}")


class Measurement(nn.Module):
    """Records up to `ROUNDS` rounds in preallocated tensors, and lets the measures compute their columns together.

    `measures` are by name; this object sets them up. `judged` has query and label of every training document, for each
    of `intents` if users have several (`Split.judged`); `pairs` says whether the ranker learns from pairs. Its only
    lasting state is that of the measures.
    """

    ROUNDS = 64

    def __init__(
        self,
        context: RunContext,
        measures: Mapping[str, Measure],
        judged: tuple[Tensor, Tensor],
        intents: DrawnIntents | None = None,
        *,
        pairs: bool,
    ):
        super().__init__()
        self.context, self.pairs, self.intents = context, pairs, intents
        self.by_name = nn.ModuleDict(measures)
        self.length = torch.bincount(judged[0], minlength=context.queries)  # [Q], or [I Q] with I intents
        best = ideal_lists(*judged, len(self.length), min(context.positions, context.documents))
        for measure in measures.values():
            measure.setup(context, best)
        self.recording = [measure for measure in measures.values() if type(measure).record is not Measure.record]
        self._computing = [(name, measure) for name, measure in measures.items() if measure.trace]
        self.first = 1
        self.allocate(context.measured_rounds)

    def allocate(self, rounds: int) -> None:
        """Make room for so many rounds between two calls of `measures`."""
        context, self.rounds = self.context, rounds

        def zeros(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.zeros(rounds, context.replicas, *shape, dtype=dtype, device=context.device)

        self.recorded = 0  # number of rounds since the last call of `measures`
        self.query = zeros(torch.int64)
        self.valid = zeros(torch.int64)  # number of valid pairs
        self.grades = zeros(torch.int8, context.positions)  # of the shown documents
        self.clicks = zeros(torch.bool, context.positions)
        self.total = zeros(torch.float64)  # of all scores: NaN or infinite if one of them is
        self.group = zeros(torch.int8, context.positions if context.exposure is not None else 0)  # of the shown
        # As `Record` of loops/rounds.py.
        self.of_rounds = self.query, self.valid, self.total, self.grades, self.group, self.clicks

    def record(self, t: int, interaction: Interaction, labels: Int[Tensor, "B D"]) -> None:
        """Record what the measures of round `t` (from 1) need. Rounds must be consecutive."""
        self.begin(t)
        row, shown = self.recorded, interaction.ranking.shape[1]
        self.recorded += 1
        group = interaction.candidates.group if self.group.shape[2] else None
        self.query[row] = interaction.candidates.query
        torch.sum(interaction.preferences.valid, 1, out=self.valid[row])
        if group is not None:
            self.group[row, :, :shown] = group.gather(1, interaction.ranking)
        torch.sum(interaction.prediction.scores, (1, 2), dtype=torch.float64, out=self.total[row])
        self.grades[row, :, :shown] = labels.gather(1, interaction.ranking)
        self.clicks[row, :, :shown] = interaction.clicks
        for measure in self.recording:
            if interaction.proposal.block is not None or not measure.needs_blocks:
                measure.record(row, interaction, labels)

    def begin(self, t: int) -> None:
        """Prepare for round `t` (from 1), which gets row `recorded`; ValueError if there is no room for it."""
        if self.full():
            what = "the measures of earlier rounds must be taken"
            raise ValueError(f"{what}: call measurement.measures() when it is full()")
        if not self.recorded:
            self.first = t

    def full(self) -> bool:
        """Return whether `measures` must be called before the next round is recorded."""
        return self.recorded == self.rounds

    def measures(self) -> tuple[int, Measures]:
        """Return the first of the R rounds recorded since the last call, and their columns [R B]; none if R is 0.

        `NonFiniteScores` if a score was NaN or infinite; padding may have the score -infinity. ValueError for a measure
        that returns something else than its columns.
        """
        count = self.recorded
        if not count:
            return self.first, {}
        bad = self.total[:count].isnan() | (self.total[:count] == torch.inf)
        if bad.any():
            row = int(bad.any(1).nonzero()[0])
            raise NonFiniteScores(self.first + row, bad[row].nonzero().flatten().tolist())
        self.recorded = 0
        query = judged = self.query[:count].clone()
        if self.intents is not None:
            intent = self.intents(self.first - 1, count)
            judged = query + intent * self.context.queries
        length = self.length[query]
        shown = torch.arange(self.context.positions, device=length.device) < length[..., None]
        group = self.group[:count] if self.group.shape[2] else None
        rounds = Rounds(self.first, judged, length, self.grades[:count], shown, self.clicks[:count], group)
        values: Measures = {"query": query, "clicks": rounds.clicks.sum(2)}
        if self.intents is not None:
            values["user_intent"] = intent + 1
        if self.pairs:
            values["pairs"] = self.valid[:count].clone()
        for name, measure in self._computing:
            columns = sorted(column.name for column in measure.trace)
            for column, of_column in measure.of_rounds(rounds).items():
                if column not in columns:
                    raise ValueError(f"the measure {name} must return columns of {', '.join(columns)}, got {column}")
                check_shape(name, column, of_column, query.shape)
                values[column] = of_column
        self.grades.zero_()  # the next lists may be shorter and leave places
        self.clicks.zero_()
        return self.first, values


def check_shape(measure: str, column: str, values: Any, shape: torch.Size) -> None:
    """Raise ValueError if the values that a measure returns of a column are not a tensor of this shape."""
    if not isinstance(values, Tensor) or values.shape != shape:
        got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"the measure {measure} must return {column} as a tensor {list(shape)}, got {got}")


def check_columns(measures: Mapping[str, Measure]) -> None:
    """Raise ValueError if two measures have a column of the same name, or one that every run has, and if a measure does
    not define the method that fills its columns."""
    for name, measure in measures.items():
        _check_methods(name, measure)
    owners: dict[tuple[str, str], str] = {("trace", column): "" for column in _IN_EVERY_RUN}
    for name, measure in measures.items():
        for table, columns in (("trace", measure.trace), ("evaluation", measure.evaluation)):
            for column in columns:
                owner = owners.setdefault((table, column.name), name)
                # NDCG@5 of the evaluation is the same number for `ndcg` and for `ndcg@5`.
                same = column.name in EVALUATION_COLUMNS and type(measures.get(owner)) is type(measure)
                if owner != name and not same:
                    other = f"the measure {owner}" if owner else "every run"
                    raise ValueError(f"the measure {name} must have its own column, got {column.name}, as {other} has")
                standard = TRACE_COLUMNS.get(column.name) if table == "trace" else None
                if standard is not None and column != standard:
                    raise ValueError(f"the measure {name} must not change the column {column.name} of ol2r")


def _check_methods(name: str, measure: Measure) -> None:
    """Raise ValueError if a measure declares columns that no method of it fills, as where the name is mistyped."""
    for table, method in (("trace", "of_rounds"), ("evaluation", "of_lists")):
        if getattr(measure, table) and getattr(type(measure), method) is getattr(Measure, method):
            own = [other for other in dir(type(measure)) if other not in dir(Measure)]
            near = get_close_matches(method, own, 1, 0.8)
            got = f"got {near[0]}: rename it" if near else "got none"
            columns = ", ".join(column.name for column in getattr(measure, table))
            raise ValueError(f"the measure {name} must define {method}, which returns {columns}, {got}")
