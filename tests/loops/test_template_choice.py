"""The compiled loop of FairExp against its tensor form, on random proposals: equal lists, and unfairness to the bit.

tests/fairness plays the loop against the plain port, and tests/test_two_forms.py whole runs with both.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest
import torch

from ol2r_cli.fairness.fairexp import FairExp
from ol2r_cli.interfaces import Candidates, Exposure, Interaction, Prediction, Preferences, Proposal, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.metrics.exposure import position_exposure
from ol2r_cli.tensor.streams import Random
from tests.rounds import fresh

pytest.importorskip("numba")

REPLICAS, DOCUMENTS, ROUNDS = 4, 30, 20
BETAS = {"reciprocal": 0.7, "log": 1.0, "eighths": 0.5}  # of models of exposure; sums of eighths are exact


class Round(NamedTuple):
    """What a fairness receives in one round."""

    candidates: Candidates
    proposal: Proposal


def exposure(model: str, positions: int) -> Exposure:
    eighths = [1 - place % 8 / 8 for place in range(positions)]
    return Exposure(position_exposure(eighths if model == "eighths" else model, positions), BETAS[model])


def fairness(loops: bool, due: Exposure, replicas: int = REPLICAS, **settings: Any) -> FairExp:
    """FairExp at UF_0 = 0."""
    role = FairExp(**{"epsilon": 0.1, "fill": "ordered", "count": "all"} | settings)
    context = RunContext(replicas, DOCUMENTS, 1, len(due.position), 1, ROUNDS, 5, exposure=due, loops=loops)
    role.setup(context, torch.zeros(1, 1))
    return role


def drawn(generator: torch.Generator, positions: int) -> Round:
    """Lists shorter and longer than K, of one group or two, one of them rare, with few certain pairs or many."""

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator)

    documents = int(torch.randint(1, DOCUMENTS + 1, (), generator=generator))
    length = torch.randint(1, documents + 1, (REPLICAS,), generator=generator)
    length[0] = documents if uniform(1) < 0.5 else min(documents, positions)
    mask = torch.arange(documents) < length[:, None]
    share = torch.tensor([0.0, 1.0, 0.5, 0.1])[torch.randperm(4, generator=generator)]
    group = (uniform(REPLICAS, documents) < share[:, None]).to(torch.int8)
    order = uniform(REPLICAS, documents).masked_fill(~mask, 2).argsort(1)
    density = torch.tensor([0.0, 0.05, 0.5, 1.0])[torch.randint(4, (REPLICAS, 1, 1), generator=generator)]
    certain = (uniform(REPLICAS, documents, documents) < density) | ~mask[:, None]
    features = torch.zeros(REPLICAS, documents, 1)
    candidates = Candidates(torch.zeros(REPLICAS, dtype=torch.int64), order, features, mask, group)
    return Round(candidates, Proposal(order, torch.zeros(REPLICAS, documents), certain=certain))


def play(role: FairExp, one: Round, random: Random) -> torch.Tensor:
    """Serve and learn; return the order."""
    candidates, proposal = one
    order = role.rerank(proposal, candidates, random)
    positions = min(len(role.exposure.position), order.shape[1])
    role.learn(interaction(candidates, proposal, order, positions), random)
    return order


def interaction(candidates: Candidates, proposal: Proposal, order: torch.Tensor, positions: int) -> Interaction:
    """A round without clicks in which this order was served."""
    ranking, shown = order[:, :positions], candidates.mask[:, :positions]
    prediction = Prediction(proposal.scores[:, None], lambda: LinearTangent(candidates.features))
    nothing = torch.zeros(len(order), 0, dtype=torch.int64)
    preferences = Preferences(nothing, nothing, nothing.bool())
    return Interaction(candidates, prediction, proposal, order, ranking, shown, torch.zeros_like(shown), preferences)


def test_lists_and_unfairness_are_those_of_the_tensors():
    choices = itertools.product(
        (1, 4, 7, 10), zip((0, 0.1, 0.5, float("inf")), ("all", "shown") * 2, strict=True), BETAS
    )
    for positions, (epsilon, count), model in choices:
        generator, random = torch.Generator().manual_seed(positions), fresh(range(REPLICAS)).at("arrange", 0)
        roles = [fairness(loops, exposure(model, positions), epsilon=epsilon, count=count) for loops in (False, True)]
        moved, what = 0, f"{positions} places, epsilon {epsilon}, {count}, {model}"
        for number in range(ROUNDS):
            one = drawn(generator, positions)
            orders = [play(role, one, random) for role in roles]
            assert torch.equal(*orders), f"{what}, round {number}"
            assert torch.equal(roles[0].unfairness, roles[1].unfairness), f"{what}, round {number}"
            moved += int((orders[0] != one.proposal.order).any(1).sum())
            if number % 5 == 4:
                for role in roles:  # a state that meets epsilon exactly, or that lists lead back to
                    role.unfairness.mul_(0.5).mul_(8).round_().div_(8)
        assert moved > 4, what


@pytest.mark.parametrize("positions", [1, 2, 7, 12])
def test_the_unfairness_of_every_list_has_the_bits_of_its_sum(positions):
    """Of lists of so many places of which the first are filled, one at a time and many at once."""
    words = torch.tensor(list(itertools.product([0, 1], repeat=positions)), dtype=torch.int8)
    for group in (words[:: max(1, len(words) // 128)], words[-1:]):
        roles = [fairness(loops, exposure("log", 12), replicas=len(group)) for loops in (False, True)]
        order = torch.arange(positions).expand(group.shape)
        for filled in range(1, positions + 1):
            mask = (torch.arange(positions) < filled).expand(group.shape)
            query = torch.zeros(len(group), dtype=torch.int64)
            candidates = Candidates(query, order, torch.zeros(*group.shape, 1), mask, group)
            shown = interaction(candidates, Proposal(order, group.double()), order, positions)
            for role in roles:
                role.learn(shown, fresh([0]).at("learn/fairness", 0))
            assert torch.equal(roles[0].unfairness, roles[1].unfairness), filled
