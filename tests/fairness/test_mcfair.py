"""MCFair against the plain port in every round of whole runs, and the properties of its gradient."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.fairness.by_merit import gradient
from ol2r_cli.interfaces import Candidates, Exposure, Proposal, RunContext
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.simulation import Simulation
from tests.fairness.grouped import grouped
from tests.reference import mcfair as reference
from tests.rounds import SEEDS, fresh, rounds
from tests.worlds import simulate, tiny

BETAS = {2: 0.7, 3: (0.7, 1.6)}  # not used by MCFair


def fair(*overrides: str, total: int = 30, groups: int = 2, loops: bool = False) -> Simulation:
    """A simulation with MCFair on seven queries; without groups if there are 0."""
    config = tiny("fairness=mcfair", "click=position_based", "positions=5", *overrides)
    dataset: Dataset = grouped(groups=groups or 2)
    exposure = Exposure(position_exposure("log", config.positions), BETAS[groups]) if groups else None
    if not groups:
        dataset = dataclasses.replace(dataset, group=None)
    return simulate(config, SEEDS, total, dataset, exposure=exposure, trace_regret=False, loops=loops)


ESTIMATED = ("ranker=ips_regression", "fairness.relevance=ranker")


CASES = [
    ((), 5, 2),
    ((), 5, 0),
    (("fairness.gain=30", "fairness.certainty=0.5"), 3, 2),
    (("fairness.gain=2", "fairness.certainty=0", "ranker=pdgd"), 20, 0),
    (("fairness.between=groups", "fairness.gain=3", "fairness.certainty=0.2"), 4, 3),
    ((*ESTIMATED, "fairness.certainty=0.1", "fairness.gain=1"), 5, 2),
    ((*ESTIMATED, "fairness.between=groups", "fairness.certainty=0", "fairness.gain=0.3"), 2, 3),
]


def test_every_list_is_the_ports():
    """The port keeps exposure and clicks of every row by itself; equal sums keep the proposed order."""
    for number, (settings, positions, groups) in enumerate(CASES):
        simulation = fair(*settings, f"positions={positions}", groups=groups, loops=number % 2 == 1)
        fairness = simulation.fairness
        model = position_exposure("log" if groups else "reciprocal", positions).tolist()
        exposed, clicked = ([{} for _ in SEEDS] for _ in range(2))
        moved = owed = 0
        for t, one in rounds(simulation):
            for b in range(len(SEEDS)):
                length = int(one.candidates.mask[b].sum())
                rows = one.candidates.document[b, :length].tolist()
                e = [exposed[b].get(row, 0.0) for row in rows]
                r = [clicked[b].get(row, 0) / max(exposed[b].get(row, 0.0), 1e-5) for row in rows]
                if fairness.relevance == "ranker":
                    r = one.proposal.scores[b, :length].tolist()
                group = one.candidates.group[b, :length].tolist() if fairness.between == "groups" else None
                sums = reference.scores(e, r, fairness.gain, fairness.certainty, group)
                proposal, order = one.proposal.order[b, :length].tolist(), one.order[b, :length].tolist()
                expected = sorted(proposal, key=lambda d, sums=sums: -sums[d])
                assert sorted(order) == list(range(length))
                assert [sums[d] for d in order] == pytest.approx([sums[d] for d in expected], abs=1e-5), f"round {t}"
                place = {d: k for k, d in enumerate(proposal)}
                for first, second in pairwise(order):
                    assert sums[first] != sums[second] or place[first] < place[second], f"round {t}"
                moved += order != proposal
                owed += any(value != 0 for value in reference.owed(e, [max(value, 0) for value in r]))
                for k, d in enumerate(order[:positions]):
                    exposed[b][rows[d]] = exposed[b].get(rows[d], 0.0) + model[k]
                    clicked[b][rows[d]] = clicked[b].get(rows[d], 0) + int(one.clicks[b, k])
        assert moved > 20, settings
        assert owed > 20, settings
        for b in range(len(SEEDS)):
            for row, value in exposed[b].items():
                assert float(fairness.exposed[b, row]) == pytest.approx(value)
                assert float(fairness.clicked[b, row]) == clicked[b][row]


def test_it_is_a_quarter_of_the_falling_gradient_of_the_disparity():
    generator = torch.Generator().manual_seed(0)
    exposed, relevance = torch.rand(2, 6, generator=generator, dtype=torch.float64)
    for d in range(6):
        ahead, behind = exposed.tolist(), exposed.tolist()
        ahead[d] += 1e-6
        behind[d] -= 1e-6
        both = (reference.disparity(values, relevance.tolist()) for values in (ahead, behind))
        slope = next(both) - next(both)
        assert float(gradient(exposed[None], relevance[None])[0, d]) == pytest.approx(-slope / 2e-6 / 4, rel=1e-5)


def reranked(exposed: list[float], clicked: list[float], scores: list[float] | None = None, **settings) -> list[int]:
    """The order of a query of five documents, of which the last is padding, and which was proposed from 3 to 0."""
    words = [f"fairness.{name}={value}" for name, value in settings.items()]
    fairness = build(tiny("fairness=mcfair", *words).fairness)
    context = RunContext(1, 5, 1, 3, 1, 1, 5, exposure=Exposure(position_exposure("reciprocal", 3), 1.0))
    fairness.setup(context, torch.zeros(6, 1))
    row = torch.tensor([[4, 3, 1, 2, 0]])  # rows of the table
    fairness.exposed[0, row[0]] = torch.tensor(exposed, dtype=torch.float64)
    fairness.clicked[0, row[0]] = torch.tensor(clicked, dtype=torch.float64)
    group = torch.tensor([[0, 0, 1, 1, 1]])
    candidates = Candidates(torch.zeros(1).long(), row, torch.zeros(1, 5, 1), torch.arange(5)[None] < 4, group)
    scored = torch.tensor([scores or [0.0] * 5], dtype=torch.float64)
    proposal = Proposal(torch.tensor([[3, 2, 1, 0, 4]]), scored)
    return fairness.rerank(proposal, candidates, fresh([0]).at("arrange", 0))[0].tolist()


def test_orders_by_hand():
    none = {"gain": 0, "certainty": 0}
    assert reranked([0, 0, 0, 0, 0], [0, 0, 0, 0, 0]) == [3, 2, 1, 0, 4], "unseen documents keep the proposed order"
    assert reranked([1, 2, 1, 4, 9], [1, 1, 0, 1, 9], **none) == [0, 1, 3, 2, 4], "clicks over exposure 1, 1/2, 0, 1/4"
    # 1 / max(E^2, .1): 1, 4, 10 and 1/4
    assert reranked([1, 0.5, 0.1, 2, 0], [0, 0, 0, 0, 0], gain=0, certainty=2) == [2, 1, 0, 3, 4]
    # R is 1, 1/2, 1/2, 1 and E 4, 4, 2, 1: E.R = 8, R.R = 2.5, q = -2, -6, -1, 5.5; padding would alter both products
    assert reranked([4, 4, 2, 1, 7], [4, 2, 1, 1, 70], gain=100, certainty=0) == [3, 2, 0, 1, 4]
    # the same between groups, whose means are E 4, 1.5 and R .75, .75: group 1 is owed, and inside a group R decides
    assert reranked([4, 4, 2, 1, 7], [4, 2, 1, 1, 70], gain=100, certainty=0, between="groups") == [3, 2, 0, 1, 4]
    assert reranked([1, 1, 4, 4, 7], [1, 0.5, 2, 4, 0], gain=100, certainty=0, between="groups") == [0, 1, 3, 2, 4]

    # Scores below zero count as zero in what is owed, and as they are beside it: R is 1, 0, 0, 1 in q and E 1, 1, 3, 2,
    # so that E.R = 3, R.R = 2, q = 1, -2, -6, -1. R = -2 would change all.
    clicks, scores = [0.0] * 5, [1.0, -2.0, 0.0, 1.0, 9.0]
    settings = {"relevance": "ranker", "certainty": 0}
    assert reranked([1, 1, 3, 2, 7], clicks, scores, gain=0, **settings) == [3, 0, 2, 1, 4]
    assert reranked([1, 1, 3, 2, 7], clicks, scores, gain=100, **settings) == [0, 3, 1, 2, 4]
    # with gain 2.5 the sums are 1.42, -2.83, -2.5, .58: document 2 is still above document 1
    assert reranked([1, 1, 3, 2, 7], clicks, scores, gain=2.5, **settings) == [0, 3, 2, 1, 4]


def test_what_is_refused():
    for message, words in {
        "^the fairness MCFair needs a ranker whose scores are estimates of rel.*: use ranker=ips": ["ranker=pairrank"],
        "^the fairness MCFair needs lists in the order of their scores: use exploration=none": [
            "ranker=ips_regression",
            "exploration=epsilon_greedy",
        ],
        "^fairness.gain must be 0 or more, got -0.1$": ["fairness.gain=-0.1"],
    }.items():
        with pytest.raises(ValueError, match=message):
            fair("fairness.relevance=ranker", *words)
    fair(groups=0)
    with pytest.raises(ValueError, match=r"^fairness needs a dataset with two groups: type dataset.group=\{..\} or "):
        fair("fairness.between=groups", groups=0)
