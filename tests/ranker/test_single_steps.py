"""SGD RankNet and PDGD, linear and with a network: one step a round, against the plain port; the weights of PDGD.

Rates of networks are in the coordinates sqrt(m) theta, so that theta itself moves by learning_rate/m.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from tests.networks import NETWORK, WIDTH, weights
from tests.reference import feedback, network, steps
from tests.reference.pdgd import debias_weight, pair_weights
from tests.rounds import LISTS, SEEDS, replicas, rounds
from tests.worlds import handmade, simulate, tiny


def through_network(theta, x):
    """The score of a document and its gradient."""
    layers = weights(theta)
    return network.score(layers, x), network.gradient(layers, x)


def check_pairs(seen, kind):
    """The pairs are those that the clicks imply, or one of all matchings."""
    found = {(seen.ranking.index(winner), seen.ranking.index(loser)) for winner, loser in seen.pairs}
    if kind == "matching":
        assert frozenset(found) in feedback.matchings(seen.clicks)
    else:
        assert found == {"all": feedback.all_pairs, "adjacent": feedback.adjacent_pairs}[kind](seen.clicks)


@pytest.mark.parametrize(
    ("ranker", "model", "pairs", "positions", "click", "rate", "decay"),
    [
        ("sgd_ranknet", "linear", "matching", 5, "informational", 0.1, 1.0),
        ("sgd_ranknet", "linear", "adjacent", 10, "navigational", 0.5, 0.9),
        ("epsilon_greedy", "linear", "all", 20, "random", 3.0, 0.999977),
        ("sgd_ranknet", "mlp", "matching", 5, "informational", 0.3, 0.9),
        ("epsilon_greedy", "mlp", "adjacent", 5, "random", 1.0, 0.99),
        ("pdgd", "linear", "", 5, "informational", 0.1, 0.999977),
        ("pdgd", "linear", "", 5, "navigational", 3.0, 0.9),
        ("pdgd", "linear", "", 20, "random", 10.0, 0.99),
        ("pdgd", "mlp", "", 5, "informational", 0.5, 0.999977),
    ],
)
def test_every_round_is_one_step_on_its_pairs(ranker, model, pairs, positions, click, rate, decay):
    """The port gets lists, clicks and the matching that was drawn, and keeps weights and rate of its own."""
    words = f"ranker={ranker}", f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"positions={positions}"
    more = (f"ranker.pairs={pairs}",) if pairs else ()
    linear = model == "linear"
    more += () if linear else ("ranker/model=mlp", "ranker.model.init=standard", *NETWORK)
    count, share, near = (40, 1, 1e-9) if linear else (25, WIDTH, 1e-6)
    config = tiny(*words, *more, f"click={click}")
    simulation = simulate(config, SEEDS, count, handmade(LISTS), regret=False)
    own, scoring = simulation.ranker, steps.linear if linear else through_network
    learned, moved = [(theta, rate / share) for theta in own.theta.numpy().astype(float)], 0
    for t, one in rounds(simulation):
        for b, seen in replicas(one):
            scores = [scoring(learned[b][0], x)[0] for x in seen.features]
            assert seen.scores[0] == pytest.approx(scores, abs=near), (t, b)
            before = learned[b]
            if pairs:
                check_pairs(seen, pairs)
                learned[b] = steps.sgd_ranknet(before, scoring, seen.compared, decay)
            else:
                learned[b] = steps.pdgd(before, scoring, seen.ranking, seen.clicks, seen.features, decay)
            moved += learned[b] is not before
            assert own.theta[b].tolist() == pytest.approx(learned[b][0], abs=near / 10), (t, b)
            assert float(own.rate[b]) == pytest.approx(share * learned[b][1], rel=1e-12)
    assert 0 < moved < count * len(SEEDS)
    assert torch.equal(own.deploy(), own.theta)


def pulls(running, scores, lengths, ranking, clicked):
    """How much PDGD pulls each document [B D] where the user clicks at one place: its step where features are one-hot,
    and the rate is 1."""
    _, one = next(running.play())
    documents, places = scores.shape[1], ranking.shape[1]
    mask = torch.arange(documents) < lengths[:, None]
    features = torch.eye(documents, dtype=scores.dtype).expand(len(scores), -1, -1)
    candidates = dataclasses.replace(one.candidates, features=features, mask=mask, rows=None)
    given = dataclasses.replace(
        one,
        candidates=candidates,
        prediction=dataclasses.replace(one.prediction, scores=scores[:, None]),
        ranking=ranking,
        shown=torch.arange(places) < lengths[:, None],
        clicks=(torch.arange(places) == clicked).expand(ranking.shape),
        preferences=dataclasses.replace(one.preferences, valid=torch.ones_like(one.preferences.valid)),
    )
    running.ranker.theta.zero_()
    running.ranker.learn(given, running.streams.at("learn/ranker", 0))
    return running.ranker.theta.tolist()


def check_weights(scores, lengths, rankings):
    """A click at one place pulls every document above it down, by the port's weight of the pair."""
    words = "ranker=pdgd", "ranker.learning_rate=1", "ranker.decay=1", "click=perfect"
    dataset, tolerance = handmade([[0, 4] * 6], 12), 1e-4 if scores.dtype == torch.float32 else 1e-9
    running = simulate(tiny(*words), list(range(len(scores))), 30, dataset, dtype=scores.dtype, regret=False)
    for clicked in range(1, len(rankings[0])):
        found = pulls(running, scores, torch.tensor(lengths), torch.tensor(rankings), clicked)
        for b, length in enumerate(lengths):
            if clicked >= min(length, len(rankings[b])):
                continue
            real = scores[b, :length].double().tolist()
            for place in range(clicked):
                above, below = rankings[b][place], rankings[b][clicked]
                apart = min(abs(real[below] - real[above]), 700)
                expected = debias_weight(rankings[b][:length], real, place, clicked) / (2 + 2 * math.cosh(apart))
                assert found[b][above] == pytest.approx(-expected, abs=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("spread", [0, 1, 10, 60, 200, 900])
def test_weights_of_pdgd_are_those_of_the_definition(spread, dtype):
    """Queries shorter than the list; padding with the highest score or the lowest."""
    lengths, generator = [12, 8, 4, 2, 1], torch.Generator().manual_seed(3)
    positions, padding = (3, 3000.0) if spread in (1, 60, 900) else (12, -3000.0)
    scores = (spread * torch.randn(5, 12, generator=generator, dtype=torch.float64)).to(dtype)
    orders = [[*torch.randperm(n, generator=generator).tolist(), *range(n, 12)][:positions] for n in lengths]
    for b, length in enumerate(lengths):
        scores[b, length:] = padding
    check_weights(scores, lengths, orders)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("apart", [85.0, 95.0, 200.0, 900.0])
def test_what_vanishes_beside_the_best_does_not_matter(apart, dtype):
    """The weights of pairs below it do not depend on e^score."""
    scores = torch.tensor([[0.0, -apart, -apart - 1, -apart - 1.5, *[0] * 8]], dtype=dtype)
    for ranking in ([0, 1, 2, 3], [3, 0, 2, 1], [1, 2, 0], [2, 3]):
        check_weights(scores, [4], [ranking])


def test_weight_of_a_pair_of_equal_scores_is_an_eighth():
    """rho = 1/2, and the derivative of P(winner above loser) is 1/2 (1 - 1/2)."""
    assert pair_weights([0, 1], [False, True], [0.0, 0.0]) == {(1, 0): 1 / 8}
