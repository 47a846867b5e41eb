"""The traced measures, round by round, against the definitions in tests/reference."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from ol2r_cli.metrics.measurement import Measurement
from tests.reference import metrics as reference
from tests.worlds import handmade, measured, simulate, tiny

ROUNDS = 36  # more than twice the rounds that are measured together


@pytest.fixture(autouse=True)
def _measure_sixteen_rounds_together(monkeypatch):
    monkeypatch.setattr(Measurement, "ROUNDS", 16)


@cache
def play(no_relevant: str = "zero", **more):
    """Measures [T B] of a run, and of each round the interaction and the labels of both replicas."""
    lists = [[0, 0, 0], [2], [0, 1, 4, 2, 0, 0, 3, 1, 0, 0, 1, 2, 0], [1, 0, 0, 2, 0]]
    dataset = handmade(lists)
    simulation = simulate(tiny("exploration.alpha=0.2"), [3, 4], ROUNDS, dataset, no_relevant=no_relevant, **more)
    simulation.exploration.certain_places = 1 << 62  # all: then certain pairs are by document
    measures, seen = measured(simulation)
    assert simulation.measurement.first == 33, "rounds are measured 16 by 16"
    return measures, [(one, [lists[int(q)] for q in one.candidates.query]) for one in seen]


def test_every_measure_of_every_round_is_its_definition():
    measures, seen = play()
    online = [[], []]
    for t, (interaction, labels) in enumerate(seen):
        for b in range(2):
            length = len(labels[b])
            order = interaction.order[b, :length].tolist()
            block = interaction.proposal.block[b].tolist()
            blocks = [{d for d in range(length) if block[d] == n} for n in range(max(block[:length]) + 1)]
            certain = interaction.proposal.certain[b, :length, :length].numpy()
            row = {name: float(values[t, b]) for name, values in measures.items()}
            online[b].append(reference.ndcg(order, labels[b]))
            assert math.isclose(row["online_ndcg"], online[b][-1], abs_tol=1e-9)
            assert math.isclose(row["cumulative_ndcg"], reference.cumulative_ndcg(online[b]), rel_tol=1e-9)
            assert row["regret"] == reference.pairwise_regret(order, labels[b])
            assert row["clicks"] == int(interaction.clicks[b].sum())
            assert row["pairs"] == int(interaction.preferences.valid[b].sum())
            assert row["blocks"] == len(blocks)
            for rank in (1, 5, 10):  # beyond a short query: the block of its last document
                expected = reference.block_size_at(min(rank, length), order, blocks)
                assert row[f"block_size_{rank}"] == expected, (t, b, rank)
            ratio = reference.certain_ratio(order, certain)
            assert (
                math.isnan(row["certain_top10"])
                if length == 1
                else math.isclose(row["certain_top10"], ratio, rel_tol=1e-6)
            )


def test_queries_without_a_relevant_document_can_be_left_out():
    zero, seen = play("zero")
    skip, _ = play("skip")
    empty = torch.tensor([[not any(labels) for labels in both] for _, both in seen])
    assert empty.any()
    assert torch.equal(skip["online_ndcg"].isnan(), empty)
    assert torch.equal(skip["cumulative_ndcg"], zero["cumulative_ndcg"])


def test_what_is_not_asked_for_is_not_there():
    for more in ({"blocks": False}, {"regret": False}):
        measures, _ = play(**more)
        assert ("blocks" in measures) == ("certain_top10" in measures) == more.get("blocks", True)
        assert ("regret" in measures) == more.get("regret", True)
    assert simulate(tiny(), [0], 3).measurement.measures()[1] == {}, "no round was recorded"
