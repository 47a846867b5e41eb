"""The rankers that take single steps, with a network: round by round against the plain ports.

Rates of gradients are in the coordinates sqrt(m) theta, so that theta itself moves by learning_rate/m; the directions
of the dueling bandits are of theta, and their rate is what it says.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.networks import NETWORK, WIDTH, compared, weights
from tests.ranker.test_dueling_bandits import EXPLORATIONS
from tests.reference.dueling import unit, winners
from tests.reference.network import flat, scores
from tests.reference.neural_steps import dueling_members, dueling_step, pdgd_step, sgd_ranknet_step
from tests.rounds import LISTS, SEEDS, fresh, ranked, rounds
from tests.worlds import handmade, simulate, tiny


def networked(ranker, *overrides, total=25):
    small = f"ranker={ranker}", "ranker/model=mlp", "ranker.model.init=standard", *NETWORK
    return simulate(tiny(*small, "positions=5", *overrides), SEEDS, total, handmade(LISTS), trace_regret=False)


def started(simulation, rate):
    """Weights and rate of every replica, as the port keeps them."""
    return [(weights(theta.numpy()), rate) for theta in simulation.ranker.theta]


def check_state(simulation, learned, share, t):
    """`share` of the ranker's rate is what the port moves theta by."""
    for b, (network, rate) in enumerate(learned):
        assert simulation.ranker.theta[b].numpy() == pytest.approx(flat(network), abs=1e-7), f"round {t}, replica {b}"
        assert share * float(simulation.ranker.rate[b]) == pytest.approx(rate, rel=1e-12)
    assert torch.equal(simulation.ranker.deploy(), simulation.ranker.theta)


def test_sgd_ranknet_takes_one_step_on_the_pairs_of_the_round():
    for ranker, pairs, click, rate, decay in [
        ("sgd_ranknet", "matching", "informational", 0.3, 0.9),
        ("epsilon_greedy", "adjacent", "random", 1.0, 0.99),
    ]:
        settings = f"ranker.pairs={pairs}", f"ranker.learning_rate={rate}", f"ranker.decay={decay}"
        simulation, moved = networked(ranker, f"click={click}", *settings), 0
        learned = started(simulation, rate / WIDTH)
        for t, one in rounds(simulation):
            for b, (network, now) in enumerate(learned):
                features, both = one.candidates.features[b].numpy(), compared(one, b)
                known = one.candidates.mask[b].numpy()
                assert one.prediction.scores[b, 0].numpy()[known] == pytest.approx(
                    scores(network, features[known]), abs=1e-6
                ), (ranker, pairs, click, rate, decay)
                won, lost = ([features[pair[side]] for pair in both] for side in (0, 1))
                learned[b], moved = sgd_ranknet_step(network, now, won, lost, decay), moved + bool(both)
            check_state(simulation, learned, 1 / WIDTH, t)
        assert 0 < moved < 25 * len(SEEDS), (ranker, pairs, click, rate, decay)


def test_pdgd_takes_one_step_along_the_estimated_gradient():
    for click, rate, decay in [("informational", 0.5, 0.999977)]:
        simulation = networked("pdgd", f"click={click}", f"ranker.learning_rate={rate}", f"ranker.decay={decay}")
        learned, moved = started(simulation, rate / WIDTH), 0
        for t, one in rounds(simulation):
            for b, (network, now) in enumerate(learned):
                length = int(one.candidates.mask[b].sum())
                ranking, clicks = one.ranking[b, :length].tolist(), one.clicks[b, :length].tolist()
                features = one.candidates.features[b, :length].numpy()
                learned[b] = pdgd_step(network, now, ranking, clicks, features, decay)
                moved += learned[b][0] is not network
            check_state(simulation, learned, 1 / WIDTH, t)
        assert 0 < moved < 25 * len(SEEDS), (click, rate, decay)


def test_dueling_bandits_try_directions_of_all_parameters():
    """The port draws directions, makes the list and moves by itself; we only show it the clicks."""
    for case in [
        ("dbgd", "team_draft", "perfect", 0.5, 0.9, 1.0),
        ("mgd", "probabilistic_interleaving", "random", 0.1, 1.0, 2.0),
    ]:
        ranker, exploration, click, rate, decay, delta = case
        settings = f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"ranker.delta={delta}"
        simulation = networked(ranker, f"exploration={exploration}", f"click={click}", *settings, total=15)
        learned, streams, steps = started(simulation, rate), fresh(), 0
        candidates, size = simulation.ranker.candidates, len(flat(learned[0][0]))
        for t, one in rounds(simulation):
            documents, explore = one.candidates.mask.shape[1], streams.at("explore", t)
            normals = streams.at("judge", t).normal(candidates * size).unflatten(1, (candidates, size)).numpy()
            for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
                network, directions = learned[b][0], [unit(normal) for normal in normals[b]]
                features = one.candidates.features[b, :length].numpy()
                expected = [scores(member, features) for member in dueling_members(network, delta, directions)]
                assert one.prediction.scores[b, :, :length].numpy() == pytest.approx(np.array(expected), abs=1e-6), case
                chance = explore.uniform(documents)[b, :length].tolist()
                rankings = [ranked(row, chance) for row in one.prediction.scores[b, :, :length].tolist()]
                listed, credit = EXPLORATIONS[exploration](explore, b, rankings, 5, documents)
                assert one.ranking[b, :length].tolist() == listed, f"round {t}, replica {b}"
                earned = credit(one.clicks[b, : len(listed)].tolist())
                learned[b], steps = dueling_step(*learned[b], directions, earned, decay), steps + bool(winners(earned))
            check_state(simulation, learned, 1.0, t)
        assert 0 < steps < 15 * len(SEEDS), case
