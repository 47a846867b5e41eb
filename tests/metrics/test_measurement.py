"""The traced measures, round by round, against the definitions in tests/reference."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from ol2r_cli.interfaces import Interaction
from tests.reference import metrics as reference
from tests.worlds import handmade, measured, simulate, tiny

ROUNDS = 36  # more than twice the rounds that are measured together


@cache
def play(no_relevant: str = "zero", **more):
    """Measures [T B] of a run, and of both replicas in each round the interaction and, of their documents, labels,
    order, blocks and certain pairs."""
    lists = [[0, 0, 0], [2], [0, 1, 4, 2, 0, 0, 3, 1, 0, 0, 1, 2, 0], [1, 0, 0, 2, 0]]
    simulation = simulate(
        tiny("exploration.alpha=0.2"), [3, 4], ROUNDS, handmade(lists), no_relevant=no_relevant, **more
    )
    simulation.exploration.certain_places = 1 << 62  # all: then certain pairs are by document
    measures, interactions = measured(simulation)
    assert simulation.measurement.first == 33, "rounds are measured 16 by 16"

    def of(b: int, one: Interaction) -> tuple:
        labels, reasons = lists[int(one.candidates.query[b])], one.proposal
        every = slice(len(labels))
        order, block = (values[b, every].tolist() for values in (one.order, reasons.block))
        return labels, order, block, reasons.certain[b, every, every].numpy()

    return measures, [[(one, of(b, one)) for one in interactions] for b in range(2)]


@pytest.mark.parametrize("replica", [0, 1])
def test_every_measure_of_every_round_is_its_definition(replica):
    measures, seen = play()
    online = []
    for t, (interaction, (labels, order, block, certain)) in enumerate(seen[replica]):
        blocks = [{d for d, number in enumerate(block) if number == n} for n in range(max(block) + 1)]
        online.append(reference.ndcg(order, labels))
        expected = {
            "online_ndcg": online[-1],
            "cumulative_ndcg": reference.cumulative_ndcg(online),
            "regret": reference.pairwise_regret(order, labels),
            "clicks": int(interaction.clicks[replica].sum()),
            "pairs": int(interaction.preferences.valid[replica].sum()),
            "blocks": len(blocks),
            # beyond a short query: the block of its last document
            **{
                f"block_size_{rank}": reference.block_size_at(min(rank, len(order)), order, blocks)
                for rank in (1, 5, 10)
            },
            "certain_top10": reference.certain_ratio(order, certain),
        }
        found = {name: float(measures[name][t, replica]) for name in expected}
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True), f"round {t}"


def test_queries_without_a_relevant_document_can_be_left_out():
    zero, seen = play("zero")
    skip, _ = play("skip")
    empty = torch.tensor([[not any(labels) for _, (labels, *_) in rounds] for rounds in seen]).T
    assert empty.any()
    assert torch.equal(skip["online_ndcg"].isnan(), empty)
    assert torch.equal(skip["cumulative_ndcg"], zero["cumulative_ndcg"])


@pytest.mark.parametrize(("name", "columns"), [("blocks", {"blocks", "certain_top10"}), ("regret", {"regret"})])
def test_what_is_not_asked_for_is_not_there(name, columns):
    assert columns <= play()[0].keys()
    assert not columns & play(**{name: False})[0].keys()


def test_there_are_no_measures_of_no_round():
    assert simulate(tiny(), [0], 3).measurement.measures()[1] == {}
