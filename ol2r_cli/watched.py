"""Somebody looks on while a run goes: told at every evaluation how good the ranker is, they may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from ol2r_cli.evaluation import CUTOFFS, Evaluator
from ol2r_cli.interfaces import Ranker
from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import EVALUATION
from ol2r_cli.shapes import Float

Watch = Callable[[int, Mapping[str, float]], object]


class Watched:
    """Tells a `Watch` the round and `{"validation": NDCG@10}`, the mean over replicas; what it returns, if true, is
    the wish that the run stop, with its checkpoint.

    A run scores its snapshots in groups, which costs less. Whoever watches cannot wait for that, so each snapshot is
    scored on the validation split a second time, at once; what the run writes is the same whether or not it is watched.
    The test split is never looked at. Of the last round nothing is told: there is nothing left to stop.
    """

    def __init__(self, watch: Watch | None, evaluators: Sequence[Evaluator]):
        self.watch = watch
        self.evaluator = next((evaluator for evaluator in evaluators if evaluator.name == "validation"), None)

    def __call__(self, round: int, ranker: Ranker, deployed: Float[Tensor, "B P"]) -> bool:
        """Tell of the ranker after `round`; whether to stop."""
        if self.watch is None or self.evaluator is None:
            return False
        ndcg = self.evaluator(ranker, deployed[None])[0, :, CUTOFFS.index(10)]
        return bool(self.watch(round, {self.evaluator.name: float(ndcg.mean())}))

    def earlier(self, directory: RunDirectory, ranker: Ranker, queue: Mapping[int, Float[Tensor, "B P"]]) -> bool:
        """Tell of the rounds of earlier sittings, those on disk and those that waited in the queue; whether to stop."""
        if self.watch is None or self.evaluator is None:
            return False
        told = any(self.watch(round, {self.evaluator.name: value}) for round, value in validation_curve(directory))
        return told or any(self(round, ranker, deployed) for round, deployed in queue.items())


def validation_curve(directory: RunDirectory) -> list[tuple[int, float]]:
    """Round and validation NDCG@10, the mean over replicas, of the evaluations on disk from round 1 on."""
    import polars as pl

    rows = EVALUATION.read(directory).filter(pl.col("round") > 0, pl.col("split") == "validation")
    means = rows.group_by("round").agg(pl.col("ndcg_10").cast(pl.Float64).mean()).drop_nulls().sort("round")
    return [(int(round), float(value)) for round, value in means.iter_rows()]
