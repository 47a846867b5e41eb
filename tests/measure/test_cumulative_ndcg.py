"""Cumulative NDCG to the last bit, whatever rounds are measured at once: a checkpoint measures those before it."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.interfaces import Rounds, RunContext
from ol2r_cli.measure.quality import NDCG

ROUNDS = 400


def cumulative(sizes: list[int]) -> torch.Tensor:
    """Cumulative NDCG [T, T], of which so many rounds are measured at a time, again and again.

    Replica b has a relevant document in round b alone, so that its sum is the weight of this round, of which no digit
    is lost.
    """
    grades = torch.eye(ROUNDS, dtype=torch.int8)[:, :, None]
    query, shown = torch.zeros(ROUNDS, ROUNDS, dtype=torch.int64), torch.ones_like(grades, dtype=torch.bool)
    measure = NDCG(1, 0.9995)
    measure.setup(RunContext(ROUNDS, 1, 1, 1, 1, ROUNDS, 2), torch.ones(1, 1, dtype=torch.int64))
    found, first = [], 0
    while first < ROUNDS:
        part = slice(first, first + sizes[len(found) % len(sizes)])
        rounds = Rounds(first + 1, query[part], query[part] + 1, grades[part], shown[part], shown[part])
        found.append(measure.of_rounds(rounds))
        first = part.stop
    return torch.cat([columns[measure.trace[1].name] for columns in found])


@pytest.mark.parametrize("sizes", [[1], [13], [64, 37, 1, 5], [ROUNDS]], ids=str)
def test_it_does_not_depend_on_what_is_measured_at_once(sizes):
    assert torch.equal(cumulative(sizes), cumulative([64]))
