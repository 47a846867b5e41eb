"""PDGD round by round against the plain port, and its weights pair by pair, however far apart the scores are."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import torch

from ol2r_cli.ranker.pdgd import debias_weights
from tests.reference.pdgd import debias_weight, pair_weights, step
from tests.rounds import LISTS, SEEDS, rounds
from tests.worlds import handmade, simulate, tiny


def test_every_round_is_one_step_along_the_estimated_gradient():
    """The port gets the list and the clicks, and keeps weights and rate of its own; a round without a pair is none."""
    for case in [
        (5, "informational", 0.1, 0.999977, 60),
        (5, "navigational", 3.0, 0.9, 40),
        (10, "random", 1.0, 1.0, 30),
        (20, "perfect", 10.0, 0.99, 30),
    ]:
        positions, click, rate, decay, count = case
        settings = f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"positions={positions}"
        config = tiny("ranker=pdgd", f"click={click}", *settings)
        simulation = simulate(config, SEEDS, count, handmade(LISTS), trace_regret=False)
        learned, moved = [(np.zeros(4), rate) for _ in SEEDS], 0
        for t, one in rounds(simulation):
            for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
                ranking, clicks = one.ranking[b, :length].tolist(), one.clicks[b, :length].tolist()
                features = one.candidates.features[b, :length].numpy()
                before, learned[b] = learned[b], step(*learned[b], ranking, clicks, features, decay)
                moved += learned[b] is not before and learned[b][0] is not before[0]
                assert simulation.ranker.theta[b].tolist() == pytest.approx(learned[b][0], abs=1e-9), f"round {t}"
                assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), case
        assert 0 < moved < count * len(SEEDS), case


def check_weights(scores, lengths, rankings, tolerance):
    """Every pair of real documents against the port; the weights of all places are probabilities."""
    mask = torch.arange(scores.shape[1]) < torch.tensor(lengths)[:, None]
    found = debias_weights(scores, mask, torch.tensor(rankings))
    assert ((found >= 0) & (found <= 1)).all(), "also where padding is shown: it is multiplied by 0"
    for b, length in enumerate(lengths):
        real = scores[b, :length].double().tolist()
        for i, j in combinations(range(min(length, len(rankings[b]))), 2):
            expected = debias_weight(rankings[b][:length], real, i, j)
            assert float(found[b, i, j]) == pytest.approx(expected, abs=tolerance)
            assert found[b, i, j] == found[b, j, i]


def test_weights_are_those_of_the_definition():
    """Queries shorter than the list, and padding that has the highest score of all or the lowest."""
    for dtype, tolerance in [(torch.float64, 1e-9), (torch.float32, 1e-4)]:
        for positions in [3, 12]:
            generator = torch.Generator().manual_seed(positions)
            lengths = [12, 8, 4, 2, 1]
            for spread, high_padding in product([0, 1, 10, 60, 200, 900], [True, False]):
                scores = (spread * torch.randn(5, 12, generator=generator, dtype=torch.float64)).to(dtype)
                orders = [
                    [*torch.randperm(n, generator=generator).tolist(), *range(n, 12)][:positions] for n in lengths
                ]
                for b, length in enumerate(lengths):
                    scores[b, length:] = 3000.0 if high_padding else -3000.0
                check_weights(scores, lengths, orders, tolerance)


def test_documents_far_below_the_best_are_distinguished():
    """e^score relative to the best vanishes, but the weights below the best do not depend on it."""
    for dtype, tolerance in [(torch.float64, 1e-9), (torch.float32, 1e-4)]:
        for apart in (85.0, 95.0, 200.0, 900.0):
            scores = torch.tensor([[0.0, -apart, -apart - 1, -apart - 1.5]], dtype=dtype)
            for ranking in ([0, 1, 2, 3], [3, 0, 2, 1], [1, 2, 0], [2, 3]):
                check_weights(scores, [4], [ranking], tolerance)


def test_the_step_in_the_dark_is_a_quarter_of_half_of_every_difference():
    """All scores equal: rho = 1/2, and the derivative of P(winner above loser) is 1/2 (1 - 1/2)."""
    assert pair_weights([0, 1], [False, True], [0.0, 0.0]) == {(1, 0): 1 / 8}
    config = tiny("ranker=pdgd", "ranker.learning_rate=1", "click.click=[0,0,0,0,1]", "click=perfect")
    simulation = simulate(config, [0], 1, handmade([[0, 4]]))
    ((_, one),) = simulation.play()
    features = one.candidates.features[0]
    torch.testing.assert_close(simulation.ranker.theta[0], (features[1] - features[0]) / 8)


def test_lists_of_another_exploration_are_refused():
    with pytest.raises(ValueError, match=r"PDGD needs lists drawn from .*: use exploration=plackett_luce"):
        simulate(tiny("ranker=pdgd", "exploration=none"), [0], 1)
