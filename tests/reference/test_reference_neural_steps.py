"""Single steps of networks: by hand at the start, by differences, and against the linear oracles on a linear part."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.reference import dueling, olranknet, pdgd, sgd_ranknet
from tests.reference.network import antisymmetric, flat, pair_gradient, score, scores, unflat
from tests.reference.neural_steps import dueling_members, dueling_step, pdgd_step, sgd_ranknet_step
from tests.reference.test_reference_network import halves, network

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

RANKING, CLICKS = (3, 0, 4, 1), (False, True, False, True)
PAIRS = [(0, 3), (0, 4), (1, 3), (1, 4)]  # 0 and 1 are clicked, 3 and 4 are not


def linear_on_positive_features(seed: int):
    """W_1 = I, so that f(x) = sqrt(m) w.x for x >= 0, and such documents."""
    rng = np.random.default_rng(seed)
    return [np.eye(4), rng.normal(size=4)], rng.random(size=(5, 4))


def test_first_sgd_step_by_hand():
    # at the start every pair is won with probability 1/2
    start, (winners, losers) = antisymmetric(halves(0, 2)), np.random.default_rng(0).normal(size=(2, 3, 4))
    moved, rate = sgd_ranknet_step(start, 0.1, winners, losers, 0.9)
    total = sum(pair_gradient(start, a, b) for a, b in zip(winners, losers, strict=True))
    assert flat(moved) - flat(start) == pytest.approx(0.1 * total / 2)
    assert rate == pytest.approx(0.09)


@pytest.mark.parametrize("pairs", [1, 4])
def test_sgd_descends_the_sum_of_the_cross_entropies(pairs):
    weights, (winners, losers) = network(1, 2), np.random.default_rng(1).normal(size=(2, pairs, 4))
    weights = unflat(0.4 * flat(weights), weights)

    def loss(theta):
        moved = unflat(theta, weights)
        return sum(np.log1p(exp(score(moved, b) - score(moved, a))) for a, b in zip(winners, losers, strict=True))

    moved, _ = sgd_ranknet_step(weights, 0.01, winners, losers, 1.0)
    assert flat(moved) - flat(weights) == pytest.approx(-0.01 * approx_fprime(flat(weights), loss, 1e-7), abs=1e-6)
    slope = olranknet.gradient(weights, weights, winners, losers, np.ones(pairs), 0.0, "sum")
    assert flat(moved) == pytest.approx(flat(weights) - 0.01 * slope)


def test_the_last_layer_of_a_network_that_is_linear_steps_like_the_linear_ranker():
    # theta = sqrt(m) w has the gradient x where w has sqrt(m) x: a step of theta is one of w with m times the rate
    weights, documents = linear_on_positive_features(2)
    theta = sqrt(4) * weights[-1]
    winners, losers = documents[:2], documents[2:4]
    moved, _ = sgd_ranknet_step(weights, 0.1, winners, losers, 1.0)
    expected, _ = sgd_ranknet.step(theta, 0.4, winners - losers, 1.0)
    assert sqrt(4) * moved[-1] == pytest.approx(expected)
    moved, rate = pdgd_step(weights, 0.1, RANKING, CLICKS, documents, 0.5)
    expected, _ = pdgd.step(theta, 0.4, RANKING, CLICKS, documents, 0.5)
    assert sqrt(4) * moved[-1] == pytest.approx(expected)
    assert rate == pytest.approx(0.05)
    assert moved[0] != pytest.approx(weights[0])  # and the first layer learns too


def test_first_pdgd_step_by_hand():
    # all lists are equally likely: rho = 1/2, and 1/2 * 1/2 is the slope of the preference
    start, documents = antisymmetric(halves(3, 2)), np.random.default_rng(3).normal(size=(3, 4))
    moved, rate = pdgd_step(start, 0.2, (2, 0), (False, True), documents, 0.9)
    expected = 0.2 * 0.5 * 0.25 * pair_gradient(start, documents[0], documents[2])
    assert flat(moved) - flat(start) == pytest.approx(expected)
    assert rate == pytest.approx(0.18)


def test_pdgd_climbs_the_preferences_with_rho_held_fixed():
    weights, documents = network(4, 2), np.random.default_rng(4).normal(size=(5, 4))
    weights = unflat(0.4 * flat(weights), weights)
    f = scores(weights, documents)
    rho = {(i, j): pdgd.debias_weight(RANKING, f, RANKING.index(i), RANKING.index(j)) for i, j in PAIRS}

    def value(theta):
        f = scores(unflat(theta, weights), documents)
        return sum(rho[i, j] * exp(f[i]) / (exp(f[i]) + exp(f[j])) for i, j in PAIRS)

    moved, _ = pdgd_step(weights, 0.1, RANKING, CLICKS, documents, 1.0)
    assert flat(moved) - flat(weights) == pytest.approx(0.1 * approx_fprime(flat(weights), value, 1e-7), abs=1e-6)


def test_without_pairs_neither_the_network_nor_the_rate_changes():
    weights, documents = network(5, 2), np.zeros((5, 4))
    for clicks in [(False,) * 4, (True,) * 4]:
        moved, rate = pdgd_step(weights, 0.1, RANKING, clicks, documents, 0.5)
        assert (flat(moved).tolist(), rate) == (flat(weights).tolist(), 0.1)
    moved, rate = sgd_ranknet_step(weights, 0.1, documents[:0], documents[:0], 0.5)
    assert (flat(moved).tolist(), rate) == (flat(weights).tolist(), 0.1)
    moved, rate = pdgd_step(weights, 0.1, (0,), (True,), documents[:1], 0.5)  # a query of one document
    assert (flat(moved).tolist(), rate) == (flat(weights).tolist(), 0.1)


def test_a_pair_of_equal_documents_moves_nothing_but_counts_as_an_update():
    weights, documents = network(6, 2), np.ones((5, 4))
    moved, rate = pdgd_step(weights, 0.1, RANKING, CLICKS, documents, 0.5)
    assert (flat(moved).tolist(), rate) == (flat(weights).tolist(), 0.05)
    moved, rate = sgd_ranknet_step(weights, 0.1, documents, documents, 0.5)
    assert (flat(moved).tolist(), rate) == (flat(weights).tolist(), 0.05)


@pytest.mark.parametrize("hidden", [1, 2])
def test_dueling_members_are_delta_away_over_all_layers_together(hidden):
    weights = network(7, hidden)
    directions = [dueling.unit(normals) for normals in np.random.default_rng(7).normal(size=(3, len(flat(weights))))]
    compared = dueling_members(weights, 0.5, directions)
    assert [flat(each).tolist() for each in compared[:1]] == [flat(weights).tolist()]
    for each, direction in zip(compared[1:], directions, strict=True):
        assert [layer.shape for layer in each] == [layer.shape for layer in weights]
        assert flat(each) - flat(weights) == pytest.approx(0.5 * direction)
        assert np.linalg.norm(flat(each) - flat(weights)) == pytest.approx(0.5)


def test_dueling_steps_to_the_mean_of_the_winners():
    weights = [np.array([[1.0], [2.0]]), np.array([3.0, 4.0])]
    directions = list(np.eye(4)[:3])
    moved, rate = dueling_step(weights, 0.2, directions, [1, 2, 0, 3], 0.9)
    assert [layer.tolist() for layer in moved] == [[[pytest.approx(1.1)], [2.0]], [pytest.approx(3.1), 4.0]]
    assert rate == pytest.approx(0.18)
    moved, rate = dueling_step(weights, 0.2, directions[:1], [0, 1], 0.9)  # DBGD
    assert flat(moved) == pytest.approx([1.2, 2.0, 3.0, 4.0])
    moved, rate = dueling_step(weights, 0.2, directions, [1, 1, 0, 1], 0.9)
    assert (flat(moved).tolist(), rate) == ([1.0, 2.0, 3.0, 4.0], 0.2)
