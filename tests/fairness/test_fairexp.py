"""FairExp step by step against the plain ports: the same template, list and unfairness in every round."""

from __future__ import annotations

import dataclasses
from math import inf

import pytest
import torch

from ol2r_cli.interfaces import Exposure
from ol2r_cli.metrics.exposure import position_exposure
from tests.fairness.grouped import ONE_GROUP, Seen, grouped, seen
from tests.reference.fairexp import Choice, choose, lists
from tests.reference.violations import broken
from tests.rounds import SEEDS, rounds
from tests.worlds import handmade, simulate, tiny

BETA = 0.7
RANKERS = {
    "pairrank": ("ranker=pairrank", "exploration.alpha=0.1"),
    "pairrank, random shuffle": ("ranker=pairrank", "exploration.alpha=0.1", "exploration.shuffle=random"),
    "pepairrank": ("ranker=pepairrank",),
    "toprank": ("ranker=toprank", "ranker.delta=0.9"),
}


def chosen(one: Seen, before: float, positions: int, epsilon: float, count: str) -> Choice:
    """What the plain port chooses after UF_{t-1} = `before`."""
    kept, last = one.kept(), len(one.proposal) if count == "all" else positions
    return choose(
        lists(one.proposal, one.groups, positions),
        lambda order: sum(broken(order[:last], kept, one.blocks)),
        before,
        position_exposure("reciprocal", positions).tolist(),
        BETA,
        epsilon,
    )


CASES = [  # ranker, count, positions, epsilon, rounds
    ("pairrank", "all", 5, 0.4, 16),
    ("pairrank, random shuffle", "shown", 5, 0.4, 16),
    ("pepairrank", "all", 5, 0.4, 16),
    ("toprank", "shown", 5, 0.4, 16),
    *(("pairrank", "all", k, epsilon, 12) for k, epsilon in ((1, 0.1), (3, 0), (5, inf), (7, 1), (12, 0.1))),
]


@pytest.mark.parametrize(("ranker", "count", "positions", "epsilon", "number"), CASES)
def test_every_round_serves_the_list_of_the_plain_port(ranker, count, positions, epsilon, number):
    """At epsilon = infinity nothing is broken, and of the lists that break nothing the least unfair is served."""
    words = *RANKERS[ranker], f"fairness.epsilon={epsilon}", f"fairness.count={count}", f"positions={positions}"
    exposure = Exposure(position_exposure("reciprocal", positions), BETA)
    running = simulate(tiny("fairness=fairexp", "click=perfect", *words), SEEDS, number, grouped(), exposure=exposure)
    before, held, moved = [0.0] * len(SEEDS), 0, 0
    for t, interaction in rounds(running):
        for b in range(len(SEEDS)):
            one, place = seen(interaction, b), f"round {t}, replica {b}"
            choice = chosen(one, before[b], positions, epsilon, count)
            assert one.order == choice.order, place
            before[b] = float(running.fairness.unfairness[b])
            assert before[b] == pytest.approx(choice.unfairness, abs=1e-9), place
            held, is_moved = held + choice.qualified, one.order != tuple(one.proposal)
            moved += is_moved
            assert not is_moved or int(interaction.candidates.query[b]) not in ONE_GROUP, place
            assert epsilon < inf or (choice.added, choice.qualified) == (0, True), place
    assert 7 < held < 48 or number == 12
    assert moved > 2


def test_sums_that_differ_by_rounding_are_level():
    """A A B gives .4 - .5/2 = .15, A B B .2 - .7/2 = -.15, in floating point the less; the first of both is served."""
    dataset = dataclasses.replace(handmade([[0] * 6]), group=torch.tensor([0, 0, 0, 1, 1, 1], dtype=torch.int8))
    exposure = Exposure(position_exposure([0.2, 0.2, 0.5], 3), 0.5)
    running = simulate(tiny("fairness=fairexp", "positions=3"), [0], 1, dataset, exposure=exposure)
    assert (0.4 - 0.5 / 2) > -(0.2 - 0.7 / 2)
    _, interaction = next(rounds(running))
    assert interaction.candidates.group.gather(1, interaction.ranking).tolist() == [[0, 0, 1]]


def test_three_groups_are_refused():
    exposure = Exposure(position_exposure("log", 5), (0.7, 1.6))
    refusal = r"^FairExp needs a dataset with two groups, got 3: type fairness=fairco, or d"
    with pytest.raises(ValueError, match=refusal):
        simulate(tiny("fairness=fairexp", "positions=5"), [0], 5, grouped(groups=3), exposure=exposure)


def test_places_beyond_twelve_are_refused():
    """Where lists are so long."""
    longer = dataclasses.replace(grouped(), offsets=torch.tensor([0, 13]), splits={"train": torch.tensor([0])})
    exposure = Exposure(position_exposure("log", 20), 1.0)
    config = tiny("fairness=fairexp", "positions=13")
    with pytest.raises(ValueError, match=r"^positions must be at most 12 with fairness=fairexp, got 13$"):
        simulate(config, [0], 1, longer, exposure=exposure)
    running = simulate(config, [0], 3, grouped(), exposure=exposure)
    assert len(list(rounds(running))) == 3  # no list is longer than 12
