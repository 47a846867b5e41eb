"""SGD RankNet and PDGD, linear and with a network: one step a round, against the plain port; the weights of PDGD.

Rates of networks are in the coordinates sqrt(m) theta, so that theta itself moves by learning_rate/m.
"""

from __future__ import annotations

import math

import pytest
import torch

from ol2r_cli import loops
from ol2r_cli.ranker.pdgd import pdgd_loops
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
    "case",
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
    ids=str,
)
def test_every_round_is_one_step_on_its_pairs(case):
    """The port gets lists, clicks and the matching that was drawn, and keeps weights and rate of its own."""
    ranker, model, pairs, positions, click, rate, decay = case
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
            assert seen.scores[0] == pytest.approx(scores, abs=near), (case, t, b)
            before = learned[b]
            if pairs:
                check_pairs(seen, pairs)
                learned[b] = steps.sgd_ranknet(before, scoring, seen.compared, decay)
            else:
                learned[b] = steps.pdgd(before, scoring, seen.ranking, seen.clicks, seen.features, decay)
            moved += learned[b] is not before
            assert own.theta[b].tolist() == pytest.approx(learned[b][0], abs=near / 10), (case, t, b)
            assert float(own.rate[b]) == pytest.approx(share * learned[b][1], rel=1e-12), case
    assert 0 < moved < count * len(SEEDS), case
    assert torch.equal(own.deploy(), own.theta), case


def pulls(scores, lengths, rankings, clicked):
    """How much PDGD pulls each shown document where the user clicks at one place, given [B] places."""
    ranking = torch.tensor(rankings)
    places = torch.tensor(lengths).clamp(max=ranking.shape[1])
    clicks = torch.arange(ranking.shape[1]) == torch.tensor(clicked)[:, None]
    pull = torch.zeros(ranking.shape, dtype=torch.float64)
    replicas, none = len(ranking), torch.zeros(len(ranking), 0, dtype=torch.int64)
    feedback = loops.single.Feedback(
        t=0,
        seeds=torch.zeros(replicas, dtype=torch.int64),
        table=scores[0, :, None],
        start=torch.zeros(replicas, dtype=torch.int64),
        length=torch.tensor(lengths),
        scores=scores[:, None].double().contiguous(),
        credit=scores.new_empty(replicas, 0, 0),
        ranking=ranking,
        shown=torch.arange(ranking.shape[1]) < places[:, None],
        clicks=clicks,
        winner=none,
        loser=none,
        valid=none,
    )
    step = loops.single.steps_of(pdgd_loops.pulls_by_pdgd)
    loops.launch.launch(step, replicas, 1000, feedback, pull)
    return pull


def check_weights(scores, lengths, rankings, tolerance):
    """A click at one place pulls every document above it down, by the port's weight of the pair."""
    for clicked in range(1, len(rankings[0])):
        found = pulls(scores, lengths, rankings, [clicked] * len(lengths))
        for b, length in enumerate(lengths):
            if clicked >= min(length, len(rankings[b])):
                continue
            real = scores[b, :length].double().tolist()
            for place in range(clicked):
                apart = real[rankings[b][clicked]] - real[rankings[b][place]]
                slope = 1 / (2 + math.exp(-abs(apart)) + math.exp(abs(apart))) if abs(apart) < 700 else 0
                expected = debias_weight(rankings[b][:length], real, place, clicked) * slope
                assert float(found[b, place]) == pytest.approx(-expected, abs=tolerance)


def test_weights_of_pdgd_are_those_of_the_definition():
    """Queries shorter than the list; padding with the highest score or the lowest; e^score that vanishes beside the
    best, which the weights below it do not depend on."""
    lengths, generator = [12, 8, 4, 2, 1], torch.Generator().manual_seed(3)
    for dtype, tolerance in (torch.float64, 1e-9), (torch.float32, 1e-4):
        for number, spread in enumerate([0, 1, 10, 60, 200, 900]):
            positions, padding = (3, 3000.0) if number % 2 else (12, -3000.0)
            scores = (spread * torch.randn(5, 12, generator=generator, dtype=torch.float64)).to(dtype)
            orders = [[*torch.randperm(n, generator=generator).tolist(), *range(n, 12)][:positions] for n in lengths]
            for b, length in enumerate(lengths):
                scores[b, length:] = padding
            check_weights(scores, lengths, orders, tolerance)
        for apart in (85.0, 95.0, 200.0, 900.0):
            scores = torch.tensor([[0.0, -apart, -apart - 1, -apart - 1.5]], dtype=dtype)
            for ranking in ([0, 1, 2, 3], [3, 0, 2, 1], [1, 2, 0], [2, 3]):
                check_weights(scores, [4], [ranking], tolerance)
    # All scores equal: rho = 1/2, and the derivative of P(winner above loser) is 1/2 (1 - 1/2).
    assert pair_weights([0, 1], [False, True], [0.0, 0.0]) == {(1, 0): 1 / 8}
