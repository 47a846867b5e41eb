"""FairCo against the plain port in every round of whole runs, its merits, and what it does to unfairness."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Candidates, Exposure, Proposal, RunContext
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import grouped
from tests.reference.fairco import errors, rerank
from tests.rounds import SEEDS, fresh, rounds
from tests.worlds import handmade, simulate, tiny

BETA = 0.7
BETAS = {2: BETA, 3: (0.7, 1.6), 4: (1.2, 0.4, 2.0)}  # by the number of groups
LEAST = 1e-4


def fair(*overrides: str, model: str = "log", dataset: Dataset | None = None, groups: int = 2) -> Simulation:
    """A simulation with FairCo on groups."""
    config = tiny("ranker=ips_regression", "fairness=fairco", "click=informational", "positions=5", *overrides)
    exposure = Exposure(position_exposure(model, config.positions), BETAS[groups])
    return simulate(config, SEEDS, 20, dataset or grouped(groups=groups), exposure=exposure, regret=False)


def merits(merit: str, record: list[list[tuple[float, float]]], groups: int) -> list[float]:
    """What each group is due: `record` has a click and an exposure for each document of each group shown so far."""
    if merit == "labels":
        dataset = grouped(groups=groups)
        return [float(dataset.labels[dataset.group == number].double().mean()) for number in range(groups)]
    if merit == "beta":  # that of group 1 is 1, and beta is the merit of group 0 over that of another group
        first, *others = (BETA,) if groups == 2 else BETAS[groups]
        return [first, 1.0, *(first / beta for beta in others)]
    return [max(sum(click / p for click, p in shown) / max(len(shown), 1), LEAST) for shown in record]


CASES = [
    ("labels", 3.0, "reciprocal", 3, (), 2),
    ("beta", 0.3, "reciprocal", 20, (), 2),
    ("estimated", 0.5, "reciprocal", 2, ("ranker/model=mlp", "ranker.model.width=6", "ranker.batch=8"), 2),
    ("labels", 0.5, "log", 5, (), 3),
    ("beta", 0.3, "reciprocal", 4, (), 4),
    ("estimated", 0.2, "log", 5, (), 3),
]


@pytest.mark.parametrize(("merit", "gain", "model", "positions", "network", "groups"), CASES)
def test_every_list_is_the_ports(merit, gain, model, positions, network, groups):
    """The port receives estimates and groups, and computes exposures, clicks and errors by itself."""
    settings = f"fairness.gain={gain}", f"fairness.merit={merit}", f"positions={positions}", *network
    simulation, exposed = fair(*settings, model=model, groups=groups), position_exposure(model, positions).tolist()
    history = [[] for _ in SEEDS]
    records = [[[] for _ in range(groups)] for _ in SEEDS]
    moved = 0
    for t, one in rounds(simulation):
        for b, (exposures, record) in enumerate(zip(history, records, strict=True)):
            proposal = one.proposal.order[b, : int(one.candidates.mask[b].sum())]
            # from here on documents are called by their place in the proposal
            group, scores = (each[b, proposal].tolist() for each in (one.candidates.group, one.proposal.scores))
            order = proposal.argsort()[one.order[b, : len(proposal)]].tolist()
            error = errors(exposures, merits(merit, record, groups))
            expected = rerank(scores, group, error, gain)
            boosted = np.array([score + gain * error[g] for score, g in zip(scores, group, strict=True)])
            assert boosted[order] == pytest.approx(boosted[list(expected)], abs=1e-6), f"round {t}"
            assert sorted(order) == sorted(expected)
            moved += order != sorted(order)
            received = [0.0] * groups
            for p, document, click in zip(exposed, order, one.clicks[b].int().tolist(), strict=False):
                received[group[document]] += p
                record[group[document]].append((click, p))
            exposures.append(tuple(received))
    assert moved > 5


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ([0, 1, 0, 1, 0, 0, 1, 0, 1], [(0 + 2 + 1) / 3, (3 + 2) / 2]),
        ([0, 1, 0, 0, 0, 0, 1, 0, 0], [(0 + 3 + 2 + 1 + 2) / 5, 0]),
        ([0, 1, 0, 0, 1, 0, 1, 0, 0], [(0 + 3 + 1 + 2) / 4, 2]),
    ],
)
def test_only_training_documents_have_merit(group, expected):
    """Queries 1 and 3 train; a group without any merit, or without documents, is due as little as can be divided by."""
    lists = handmade([[4, 4], [0, 3, 2], [4, 4], [1, 2]])
    lists.splits["train"] = torch.tensor([3, 1])
    dataset = dataclasses.replace(lists, group=torch.tensor(group, dtype=torch.int8))
    fairness = fair(dataset=dataset).fairness
    assert fairness.fixed_merit.tolist() == pytest.approx(expected)
    fairness.exposed[:] = torch.tensor([2.0, 1.0])
    shares = [2 / max(expected[0], LEAST), 1 / max(expected[1], LEAST)]
    assert fairness.errors()[0].tolist() == pytest.approx([max(shares) - share for share in shares])


def test_equal_scores_keep_the_proposed_order():
    """And padding stays last; also where promotion makes them equal, or they differ by less than single precision;
    below 0 as above."""
    dtype = torch.float64
    fairness = build(tiny("fairness=fairco", "fairness.gain=0.5", "fairness.merit=beta").fairness)
    exposure = Exposure(position_exposure("reciprocal", 3), 1.0)
    context = RunContext(2, 6, 1, 3, 1, 1, 5, dtype=dtype, exposure=exposure)
    fairness.setup(context, torch.zeros(1, 1))
    fairness.exposed[:] = torch.tensor([[3.0, 1.0], [1.0, 1.0]])  # group 1 of replica 0 is owed 2, which promotes by 1
    scores = torch.tensor([[2, 1, 2, 0, 1, 9], [-1.1, -1.1 + 1e-9, -2, 5, -1.1 - 1e-9, 9]], dtype=dtype)
    order = torch.tensor([[2, 1, 0, 3, 4, 5], [3, 4, 0, 1, 2, 5]])
    group = torch.tensor([[0, 1, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1]])
    mask = torch.tensor([[True] * 5 + [False]] * 2)
    candidates = Candidates(torch.zeros(2).long(), group, torch.zeros(2, 6, 1, dtype=dtype), mask, group)
    found = fairness.rerank(Proposal(order, scores), candidates, fresh([0, 1]).at("arrange", 0))
    assert found.tolist() == [[2, 1, 0, 4, 3, 5], [3, 4, 0, 1, 2, 5]]
