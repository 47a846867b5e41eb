"""Realised exposure of groups and amortised unfairness of documents against their definitions, in plain loops."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from itertools import combinations

import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import Exposure, Interaction, Measure
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


@cache
def played(name: str, groups: int) -> tuple[dict[str, torch.Tensor], list[Interaction]]:
    """Columns and rounds of a simulation that takes this measure."""
    return measured(running(name, groups=groups))


def test_without_groups_there_is_no_disparity():
    assert "group_disparity" not in measured(running("ndcg", "realised_exposure", groups=0), 3)[0]


@pytest.mark.parametrize("groups", [2, 4])
@pytest.mark.parametrize("b", range(len(SEEDS)))
def test_realised_exposure_and_disparity_are_their_definitions(groups: int, b: int):
    measures, happened = played("realised_exposure", groups)
    p = position_exposure("log", 5).tolist()
    betas = [1.0, *(BETAS[groups] if groups > 2 else [BETAS[2]])]
    total = [0.0] * groups
    for t, one in enumerate(happened):
        for k, d in enumerate(one.ranking[b].tolist()):
            total[int(one.candidates.group[b, d])] += p[k] * bool(one.shown[b, k])
        gaps = [abs(betas[g] * total[g] - betas[h] * total[h]) for g, h in combinations(range(groups), 2)]
        expected = {f"realised_exposure_{number}": exposed for number, exposed in enumerate(total)}
        expected["group_disparity"] = sum(gaps) / len(gaps) / (t + 1)
        assert {name: float(measures[name][t, b]) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("groups", [2, 0])
@pytest.mark.parametrize("b", range(len(SEEDS)))
def test_amortised_unfairness_is_its_definition(groups: int, b: int):
    """Document by document: without groups a place is worth 1 / rank."""
    measures, happened = played("amortised_unfairness", groups)
    p = position_exposure("log" if groups else "reciprocal", 5).tolist()
    labels, attention, expected = grouped().labels.tolist(), Counter[int](), []
    for one in happened:
        rows = one.candidates.document[b, one.candidates.mask[b]].tolist()
        for k, d in enumerate(one.ranking[b, one.shown[b]].tolist()):
            attention[rows[d]] += p[k]
        seen, relevant = sum(attention[row] for row in rows), sum(labels[row] for row in rows)
        expected.append(sum(abs(attention[row] / seen - labels[row] / relevant) for row in rows))
    assert measures["amortised_unfairness"][:, b].tolist() == pytest.approx(expected)
    assert sum(0 < value < 2 for value in expected) > 35


def test_amortised_unfairness_of_nothing_relevant_is_nan():
    config, dataset = tiny("ranker=random", "measures=[amortised_unfairness]"), grouped()
    nothing = dataclasses.replace(dataset, labels=torch.zeros_like(dataset.labels))
    measures = {str(name): build(node) for name, node in config.measure.items()}
    values, _ = measured(simulate(config, SEEDS, 5, nothing, measures=measures))
    assert values["amortised_unfairness"].isnan().all()
