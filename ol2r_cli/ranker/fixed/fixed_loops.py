"""The stages of a ranker whose scores never change; one that has weights scores by `gradient_steps.scores_by_theta`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lanes


class FixedState(NamedTuple):
    """theta [B, F], weights, or [1, N], the score of every document of the table; `moving` is what rounds that are
    learned from together would change, and none does."""

    theta: Any
    moving: Any


@compiled
def scores_by_row(b, space, round, queries, ranker):
    """Score the documents by their rows of the table."""
    for d in range(lane(), round.documents, lanes()):
        round.scores[0, d] = ranker.theta[0, round.start + d]
    barrier()


@compiled
def learns_nothing(b, space, round, queries, ranker):
    """Leave the ranker as it is."""
