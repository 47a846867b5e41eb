"""P2NeurRank: the perturbed gradient by hand and by differences, what its guard prevents, and agreement of members."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.reference import olranknet, p2neurrank
from tests.reference.network import antisymmetric, flat, score, scores, unflat
from tests.reference.objective import sigmoid
from tests.reference.p2neurrank import certain_rank_order, fit, gradient, objective, pull
from tests.reference.test_reference_network import halves, network
from tests.reference.test_reference_olranknet import IDENTITY

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

REDUCTIONS = ["sum", "mean"]


def history(seed: int, pairs: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Winners, losers and noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(pairs, 4)), rng.normal(size=(pairs, 4)), rng.normal(size=pairs)


def differences(weights, winners, losers):
    """f_ij of every pair."""
    return np.array([score(weights, a) - score(weights, b) for a, b in zip(winners, losers, strict=True)])


def test_pull_by_hand():
    assert pull(0.0, 0.3) == pytest.approx(0.5 - 1.3)
    assert pull(0.0, -2.0) == pytest.approx(0.5 + 1)
    for inside in (9.999, -9.999):
        assert pull(inside, 0.7) == pytest.approx(sigmoid(inside) - 1.7)
    for outside in (10.0, -10.0, 10.001, -50.0):
        assert pull(outside, 0.7) == pytest.approx(sigmoid(outside) - 1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("scale", [0.25, 0.5])
def test_gradient_is_the_slope_of_the_objective(scale, reduction):
    weights, initial, data = network(3, 2), antisymmetric(halves(1, 2)), history(3)
    weights = unflat(scale * flat(weights), weights)
    inside = np.abs(differences(weights, data[0], data[1])) < 10
    assert inside.any()
    assert inside.all() == (scale == 0.25)  # the guard is at work in the other case
    slopes = approx_fprime(
        flat(weights), lambda theta: objective(unflat(theta, weights), initial, *data, 0.05, reduction), 1e-7
    )
    assert gradient(weights, initial, *data, 0.05, reduction) == pytest.approx(slopes, abs=3e-4, rel=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_within_reach_it_is_olranknet_with_labels_one_plus_gamma(reduction):
    weights, initial, (winners, losers, gamma) = network(2, 2), network(3, 2), history(2)
    weights = unflat(0.5 * flat(weights), weights)
    assert np.abs(differences(weights, winners, losers)).max() < 10
    for ours, theirs in [(objective, olranknet.objective), (gradient, olranknet.gradient)]:
        written = theirs(weights, initial, winners, losers, 1 + gamma, 0.1, reduction)
        assert ours(weights, initial, winners, losers, gamma, 0.1, reduction) == pytest.approx(written)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_noise_it_is_olranknet(reduction):
    weights, initial, (winners, losers, _) = network(4, 2), network(5, 2), history(3)
    assert np.abs(differences(weights, winners, losers)).max() > 10
    plain = olranknet.fit(weights, initial, winners, losers, np.ones(6), 0.1, reduction, 1e-4, 4)
    ours = fit(weights, initial, winners, losers, np.zeros(6), 0.1, reduction, 1e-4, 4)
    assert flat(ours) == pytest.approx(flat(plain))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_steps_add_up_around_the_start_of_the_member(reduction):
    weights, initial, data = network(6, 2), network(7, 2), history(4)
    expected = weights
    for _ in range(3):
        penalty = 6 * 0.1 / (6 if reduction == "sum" else 1)  # there are 6 hidden units and 6 pairs
        moved = flat(expected) - flat(initial) - 1e-3 * gradient(expected, initial, *data, 0.0, "mean")
        expected = unflat(flat(initial) + moved / (1 + 1e-3 * penalty), weights)
    assert flat(fit(weights, initial, *data, 0.1, reduction, 1e-3, 3)) == pytest.approx(flat(expected))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_pairs_nothing_is_learned(reduction):
    start, (winners, losers, gamma) = network(8, 2), history(5)
    stayed = fit(start, network(9, 2), winners[:0], losers[:0], gamma[:0], 0.1, reduction, 0.1, 3)
    assert flat(stayed).tolist() == flat(start).tolist()


@pytest.mark.parametrize("gamma", [2.0, -3.0])
def test_the_guard_keeps_a_pair_that_runs_away_near_its_edge(monkeypatch, gamma):
    # a label of 3 or of -2 can never be met
    start, (winner, loser) = antisymmetric(halves(10, 1)), np.random.default_rng(10).normal(size=(2, 1, 4))

    def reached(steps: int = 150) -> float:
        moved = fit(start, start, winner, loser, np.array([gamma]), 0.0, "mean", 2e-3, steps)
        return float(differences(moved, winner, loser)[0])

    assert 7 < np.sign(gamma) * reached() < 13
    monkeypatch.setattr(p2neurrank, "REACH", np.inf)
    assert np.sign(gamma) * reached() > 100


def test_agreement_by_hand():
    mirrored = [np.array([[1.0]]), np.array([-1.0])]
    documents = np.array([[1.0], [3.0], [1.0]])
    assert certain_rank_order([IDENTITY], documents).tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert certain_rank_order([IDENTITY] * 3, documents).tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert not certain_rank_order([IDENTITY, mirrored], documents).any()
    assert certain_rank_order([IDENTITY, mirrored], documents[:1]).tolist() == [[False]]


def test_agreement_is_what_line_9_says():
    members, documents = [network(seed, 2) for seed in (11, 12, 13)], np.random.default_rng(6).normal(size=(7, 4))
    certain = certain_rank_order(members, documents)
    f = [scores(weights, documents) for weights in members]
    for i in range(7):
        for j in range(7):
            assert certain[i, j] == (min(sigmoid(each[i] - each[j]) for each in f) > 0.5)
            assert certain[j, i] == (max(sigmoid(each[i] - each[j]) for each in f) < 0.5)
    assert 0 < certain.sum() < 21


def test_at_the_start_members_are_certain_of_nothing():
    members = [antisymmetric(halves(seed, 2, m=10)) for seed in range(3)]
    assert not certain_rank_order(members, np.random.default_rng(7).normal(size=(8, 4))).any()
