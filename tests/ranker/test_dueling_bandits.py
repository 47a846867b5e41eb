"""DBGD and MGD round by round against the plain port: directions, lists, credit and steps on the same numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Interaction, Preferences, Proposal
from tests.reference import interleaving
from tests.reference.dueling import members, step, unit, winners
from tests.rounds import LISTS, SEEDS, fresh, ranked, rounds, shown
from tests.worlds import handmade, simulate, tiny


def listed_by_team_draft(random, b, rankings, positions, documents):
    """The list of replica b, and what clicks on it are worth."""
    count = len(rankings)
    circles = -(-min(positions, documents) // count)
    turns = random.uniform(circles * count, "turns")[b].unflatten(0, (circles, count)).argsort(1).flatten().tolist()
    listed, authors = interleaving.team_draft(rankings, turns, positions)
    return listed, lambda clicks: interleaving.credit_team_draft(authors, clicks, count)


def listed_by_chance(random, b, rankings, positions, documents):
    """The list of replica b by probabilistic interleaving, and what clicks on it are worth."""
    shown = min(positions, documents)
    authors = (random.uniform(shown, "author")[b] * len(rankings)).int().tolist()
    listed = interleaving.probabilistic(rankings, authors, random.uniform(shown, "document")[b].tolist(), positions)
    return listed, lambda clicks: interleaving.credit_probabilistic(rankings, listed, clicks)


EXPLORATIONS = {"team_draft": listed_by_team_draft, "probabilistic_interleaving": listed_by_chance}


@pytest.mark.parametrize(
    ("exploration", "ranker", "positions", "click", "rate", "decay", "delta"),
    [
        ("team_draft", "dbgd", 10, "perfect", 0.5, 0.9, 0.1),
        ("probabilistic_interleaving", "mgd", 5, "random", 0.1, 0.9, 0.3),
        pytest.param("team_draft", "mgd", 5, "navigational", 0.3, 0.99, 1.0, marks=pytest.mark.slow),
        pytest.param("team_draft", "dbgd", 20, "random", 2.0, 1.0, 5.0, marks=pytest.mark.slow),
        pytest.param("team_draft", "mgd", 10, "random", 0.1, 0.9, 0.3, marks=pytest.mark.slow),
        pytest.param(
            "probabilistic_interleaving", "dbgd", 5, "informational", 0.01, 0.999977, 1.0, marks=pytest.mark.slow
        ),
        pytest.param("probabilistic_interleaving", "dbgd", 20, "random", 2.0, 1.0, 5.0, marks=pytest.mark.slow),
    ],
)
def test_every_round_is_that_of_the_definition(exploration, ranker, positions, click, rate, decay, delta):
    """The port draws directions, makes the list and moves by itself; we only show it the clicks."""
    settings = f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"ranker.delta={delta}"
    config = tiny(
        f"ranker={ranker}", f"exploration={exploration}", f"click={click}", f"positions={positions}", *settings
    )
    simulation, traced = (simulate(config, SEEDS, 60, handmade(LISTS), trace_regret=regret) for regret in (False, True))
    learned, streams, candidates = [(np.zeros(4), rate) for _ in SEEDS], fresh(), config.ranker.candidates
    steps = ties = 0
    for (t, one), (_, other) in zip(rounds(simulation), rounds(traced), strict=True):
        lengths = one.candidates.mask.sum(1).tolist()
        assert shown(one.ranking, lengths) == shown(other.ranking, lengths), "whether the whole order is drawn or not"
        documents, explore = one.candidates.mask.shape[1], streams.at("explore", t)
        normals = streams.at("judge", t).normal(candidates * 4).unflatten(1, (candidates, 4)).numpy()
        for b, length in enumerate(lengths):
            directions = [unit(normal) for normal in normals[b]]
            features = one.candidates.features[b, :length].numpy()
            scores = [features @ member for member in members(learned[b][0], delta, directions)]
            assert one.prediction.scores[b, :, :length].numpy() == pytest.approx(np.array(scores), abs=1e-9)
            chance = explore.uniform(documents)[b, :length].tolist()
            rankings = [ranked(row, chance) for row in one.prediction.scores[b, :, :length].tolist()]
            listed, credit = EXPLORATIONS[exploration](explore, b, rankings, positions, documents)
            assert one.ranking[b, :length].tolist() == listed, f"round {t}, replica {b}"
            clicks = one.clicks[b, : len(listed)].tolist()
            learned[b] = step(*learned[b], directions, credit(clicks), decay)
            steps, ties = steps + bool(winners(credit(clicks))), ties + (any(clicks) and not winners(credit(clicks)))
            assert simulation.ranker.theta[b].tolist() == pytest.approx(learned[b][0], abs=1e-9), f"round {t}"
            assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12)
        assert torch.equal(simulation.ranker.deploy(), simulation.ranker.theta)
    assert steps > 10
    assert ties > 10


EARNED = [  # by the current ranker and three candidates -> the winners
    ([0.0, 0.0, 0.0, 0.0], []),
    ([1.0, 1.0, 1.0, 0.0], []),
    ([0.0, 1.0, 0.0, 0.0], [1]),
    ([1.0, 0.0, 2.0, 1.5], [2, 3]),
    ([0.5, 0.6, 0.7, 0.8], [1, 2, 3]),
    ([0.3, 0.3, 0.2, 0.1], []),
]


def test_moves_to_the_mean_of_the_winners_and_decays_only_then():
    """Document 0 is clicked, document 1 is not: what it would be worth to the losers does not count."""
    replicas = len(EARNED)
    settings = "ranker.candidates=3", "ranker.learning_rate=0.1", "ranker.decay=0.5", "positions=2"
    simulation = simulate(tiny("ranker=mgd", *settings), list(range(replicas)), 1, handmade([[0, 0]]))
    candidates, _ = simulation.train_split.serve(torch.zeros(replicas, dtype=torch.int64))
    prediction = simulation.ranker.predict(candidates, simulation.streams.at("judge", 0))
    directions = simulation.ranker.directions
    torch.testing.assert_close(directions.norm(dim=2), torch.ones(replicas, 3, dtype=torch.float64))
    order = torch.tensor([[0, 1]]).expand(replicas, -1)
    earned = torch.tensor([earned for earned, _ in EARNED], dtype=torch.float64)
    proposal = Proposal(order, prediction.scores[:, 0], credit=torch.stack([earned, 2 - earned], dim=2))
    nothing, clicks = torch.zeros(replicas, 0, dtype=torch.int64), torch.tensor([[True, False]]).expand(replicas, -1)
    preferences = Preferences(nothing, nothing, nothing.bool())
    interaction = Interaction(candidates, prediction, proposal, order, order, candidates.mask, clicks, preferences)
    simulation.ranker.learn(interaction, simulation.streams.at("learn/ranker", 0))
    for b, (_, won) in enumerate(EARNED):
        moved = 0.1 * directions[b, [n - 1 for n in won]].mean(0) if won else torch.zeros(4, dtype=torch.float64)
        torch.testing.assert_close(simulation.ranker.theta[b], moved)
        assert float(simulation.ranker.rate[b]) == pytest.approx(0.05 if won else 0.1)


@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_identical_rankings_never_move(exploration):
    """All documents are equal: all members break ties alike, so that none of them can be better."""
    dataset = handmade(LISTS)
    alike = dataclasses.replace(dataset, features=torch.ones_like(dataset.features))
    config = tiny("ranker=mgd", f"exploration={exploration}", "click=random", "positions=5")
    simulation, clicked = simulate(config, SEEDS, 80, alike), 0
    for _, one in rounds(simulation):
        clicked += int(one.clicks.sum())
    assert clicked > 100
    assert (simulation.ranker.theta == 0).all()
    assert (simulation.ranker.rate == config.ranker.learning_rate).all()


def test_directions_are_uniform_on_the_sphere():
    """No axis and no side is preferred: mean 0 and covariance 1/F, within 4 standard errors."""
    simulation = simulate(tiny("ranker=mgd", "ranker.candidates=100"), list(range(100)), 1, handmade([[0, 1]]))
    next(simulation.play())
    u = simulation.ranker.directions.flatten(0, 1)
    assert u.mean(0).abs().max() < 4 * (0.25 / len(u)) ** 0.5
    spread = u.mT @ u / len(u) - torch.eye(4, dtype=torch.float64) / 4
    assert spread.abs().max() < 4 * (3 / (4 * 6) / len(u)) ** 0.5, "E[u^4] = 3 / (F (F + 2))"
