"""Realised exposure of groups and amortised unfairness of documents against their definitions, in plain loops."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Exposure, Measure
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import grouped
from tests.rounds import SEEDS
from tests.worlds import measured, simulate, tiny

ROUNDS = 80  # more than are measured at once
BETAS = {2: 0.7, 4: (1.3, 0.4, 2.5)}


def running(*names: str, groups: int = 2) -> Simulation:
    """PDGD on seven queries, of which some are shorter than the five places; without groups if there are 0."""
    config = tiny("ranker=pdgd", "positions=5", f"measures=[{','.join(names)}]")
    exposure = Exposure(position_exposure("log", 5), BETAS[groups]) if groups else None
    dataset = grouped(groups=groups) if groups else dataclasses.replace(grouped(), group=None)
    measures: dict[str, Measure] = {str(name): build(node) for name, node in config.measure.items()}
    return simulate(config, SEEDS, ROUNDS, dataset, exposure=exposure, measures=measures)


def test_without_groups_there_is_no_disparity():
    assert "group_disparity" not in measured(running("ndcg", "realised_exposure", groups=0), 3)[0]


@pytest.mark.parametrize("groups", [2, 4])
def test_realised_exposure_and_disparity_are_their_definitions(groups: int):
    simulation = running("realised_exposure", groups=groups)
    measures, happened = measured(simulation)
    p = position_exposure("log", 5).tolist()
    betas = [1.0, *(BETAS[groups] if groups > 2 else [BETAS[2]])]
    for b in range(len(SEEDS)):
        total = [0.0] * groups
        for t, one in enumerate(happened):
            for k, d in enumerate(one.ranking[b].tolist()):
                total[int(one.candidates.group[b, d])] += p[k] * bool(one.shown[b, k])
            for number in range(groups):
                assert float(measures[f"realised_exposure_{number}"][t, b]) == pytest.approx(total[number])
            gaps = [abs(betas[g] * total[g] - betas[h] * total[h]) for g, h in combinations(range(groups), 2)]
            expected = sum(gaps) / len(gaps) / (t + 1)
            assert float(measures["group_disparity"][t, b]) == pytest.approx(expected)


def test_amortised_unfairness_is_its_definition():
    """Document by document: without groups a place is worth 1 / rank; NaN for a query without relevant documents."""
    for groups in (2, 0):
        check_amortised(groups)
    config, dataset = tiny("ranker=random", "measures=[amortised_unfairness]"), grouped()
    nothing = dataclasses.replace(dataset, labels=torch.zeros_like(dataset.labels))
    measures = {str(name): build(node) for name, node in config.measure.items()}
    values, _ = measured(simulate(config, SEEDS, 5, nothing, measures=measures))
    assert values["amortised_unfairness"].isnan().all()


def check_amortised(groups: int) -> None:
    measures, happened = measured(running("amortised_unfairness", groups=groups))
    p = position_exposure("log" if groups else "reciprocal", 5).tolist()
    labels, several = grouped().labels.tolist(), 0
    for b in range(len(SEEDS)):
        attention: dict[int, float] = {}
        for t, one in enumerate(happened):
            rows = one.candidates.document[b, one.candidates.mask[b]].tolist()
            for k, d in enumerate(one.ranking[b].tolist()):
                if one.shown[b, k]:
                    attention[rows[d]] = attention.get(rows[d], 0.0) + p[k]
            seen, relevant = sum(attention.get(row, 0.0) for row in rows), sum(labels[row] for row in rows)
            found = float(measures["amortised_unfairness"][t, b])
            expected = sum(abs(attention.get(row, 0.0) / seen - labels[row] / relevant) for row in rows)
            assert found == pytest.approx(expected)
            assert 0 <= found <= 2
            several += 0 < found < 2
    assert several > 100
