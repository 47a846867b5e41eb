"""Objective, descent, covariance and certain rank order of olRankNet: by hand, by differences, and their laws."""

from __future__ import annotations

from math import log, sqrt

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import approx_fprime

from tests.reference.network import antisymmetric, flat, pair_gradient, score, scores, unflat
from tests.reference.objective import sigmoid
from tests.reference.olranknet import certain_rank_order, fit, gradient, information, objective, width
from tests.reference.preconditioner import preconditioner, second_moment
from tests.reference.test_reference_network import halves, network

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

REDUCTIONS = ["sum", "mean"]
IDENTITY = [np.array([[1.0]]), np.array([1.0])]  # m = 1 and f(x) = x for x >= 0, g(x) = (x, x)


def history(seed: int, pairs: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Winners, losers and labels, not all of them 1."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(pairs, 4)), rng.normal(size=(pairs, 4)), rng.choice([0.0, 1.0, 0.3, 1.4], size=pairs)


def test_one_pair_by_hand():
    # f = w max(W x, 0): 6 and 2, g_ij = (w x, W x) of the one minus that of the other
    weights, initial = [np.array([[1.0]]), np.array([2.0])], [np.array([[0.5]]), np.array([4.0])]
    pair = np.array([[3.0]]), np.array([[1.0]])
    written = log(1 + np.exp(-4)) + 0.1 / 2 * (0.5**2 + 2**2)
    slope = (sigmoid(4) - 1) * np.array([4.0, 2.0]) + 0.1 * np.array([0.5, -2.0])
    for reduction in REDUCTIONS:  # the same for a single pair
        assert objective(weights, initial, *pair, np.ones(1), 0.1, reduction) == pytest.approx(written)
        assert gradient(weights, initial, *pair, np.ones(1), 0.1, reduction) == pytest.approx(slope)
    assert objective(weights, weights, *pair, np.zeros(1), 0.1, "sum") == pytest.approx(log(1 + np.exp(4)))


@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_at_the_start_every_pair_costs_log_2(hidden):
    start, (winners, losers, labels) = antisymmetric(halves(0, hidden)), history(0)
    assert objective(start, start, winners, losers, labels, 0.1, "sum") == pytest.approx(5 * log(2))
    assert objective(start, start, winners, losers, labels, 0.1, "mean") == pytest.approx(log(2))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_penalty_counts_m_times_and_is_never_averaged(reduction):
    weights, initial, (winners, losers, labels) = network(1, 2), network(2, 2), history(1)
    without = objective(weights, initial, winners, losers, labels, 0.0, reduction)
    penalty = 6 * 0.2 / 2 * ((flat(weights) - flat(initial)) ** 2).sum()
    assert objective(weights, initial, winners, losers, labels, 0.2, reduction) == pytest.approx(without + penalty)
    assert objective(weights, initial, winners[:0], losers[:0], labels[:0], 0.2, reduction) == pytest.approx(penalty)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("hidden", [1, 2, 3])
def test_gradient_is_the_slope_of_the_objective(hidden, reduction):
    weights, initial, data = network(3, hidden), antisymmetric(halves(4, hidden)), history(2)
    weights = unflat(0.3 * flat(weights), weights)  # where the sigmoid is not flat
    slopes = approx_fprime(
        flat(weights), lambda theta: objective(unflat(theta, weights), initial, *data, 0.05, reduction), 1e-7
    )
    assert gradient(weights, initial, *data, 0.05, reduction) == pytest.approx(slopes, abs=2e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_turning_pairs_and_labels_round_changes_nothing(reduction):
    weights, initial, (winners, losers, labels) = network(5, 2), network(6, 2), history(3)
    for measure in (objective, gradient):
        there = measure(weights, initial, winners, losers, labels, 0.1, reduction)
        assert measure(weights, initial, losers, winners, 1 - labels, 0.1, reduction) == pytest.approx(there)


def test_unknown_reduction_and_covariance_name_the_allowed_ones():
    with pytest.raises(ValueError, match="reduction must be 'sum' or 'mean', got 'none'"):
        objective(IDENTITY, IDENTITY, np.ones((1, 1)), np.zeros((1, 1)), np.ones(1), 0.1, "none")
    with pytest.raises(ValueError, match="covariance must be 'full' or 'diagonal', got 'block'"):
        width(np.ones(2), np.eye(2), 1, "block")


def test_one_step_by_hand():
    # two equal pairs: the step is on the mean either way, but the penalty of `sum` is divided by 2 with it
    weights, initial = [np.array([[1.0]]), np.array([2.0])], [np.array([[0.5]]), np.array([4.0])]
    data = np.full((2, 1), 3.0), np.ones((2, 1)), np.ones(2)
    entropy, moved = (sigmoid(4) - 1) * np.array([4.0, 2.0]), np.array([0.5, -2.0])
    for reduction, l2 in [("sum", 0.1 / 2), ("mean", 0.1)]:
        stepped = fit(weights, initial, *data, 0.1, reduction, 0.01, 1)
        assert flat(stepped) == pytest.approx([0.5, 4.0] + (moved - 0.01 * entropy) / (1 + 0.01 * l2))


def test_a_small_step_is_one_down_the_objective_and_a_large_penalty_returns_to_the_start():
    start, initial, data = network(13, 2), network(14, 2), history(8)
    data = *data[:2], np.ones(len(data[0]))
    slope = gradient(start, initial, *data, 0.3, "mean")
    moved = flat(fit(start, initial, *data, 0.3, "mean", 1e-6, 1)) - flat(start)
    assert moved / 1e-6 == pytest.approx(-slope, rel=1e-4, abs=1e-4)
    assert flat(fit(start, initial, *data, 1e12, "mean", 0.1, 1)) == pytest.approx(flat(initial))


def test_a_preconditioned_descent_ends_at_the_same_optimum():
    """Where there is one: m = 1 with positive weights is nearly a convex problem."""
    start, data = [np.array([[0.5, 0.2]]), np.array([1.0])], (np.array([[1.0, 0.1]]), np.array([[0.2, 0.5]]))
    matrix = preconditioner(start, second_moment([np.array([[1.0, 0.1], [0.2, 0.5], [0.4, 0.9]])]), 0.1)
    ends = [flat(fit(start, start, *data, np.ones(1), 0.5, "sum", 0.05, 3000, p)) for p in (None, matrix)]
    assert ends[1] == pytest.approx(ends[0], abs=1e-8)
    assert flat(fit(start, start, *data, np.ones(1), 0.5, "sum", 0.05, 1, matrix)) != pytest.approx(ends[0], abs=1e-3)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_steps_add_up_and_leave_the_start_as_it_was(reduction):
    start, data = antisymmetric(halves(7, 2)), history(4)
    before = flat(start).copy()
    whole = fit(start, start, *data, 0.1, reduction, 0.02, 4)
    half = fit(start, start, *data, 0.1, reduction, 0.02, 2)
    assert flat(fit(half, start, *data, 0.1, reduction, 0.02, 2)) == pytest.approx(flat(whole))  # warm
    assert flat(fit(half, half, *data, 0.1, reduction, 0.02, 2)) != pytest.approx(flat(whole))  # centred elsewhere
    assert flat(start).tolist() == before.tolist()
    assert flat(fit(start, start, *data, 0.1, reduction, 0.02, 0)).tolist() == before.tolist()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_small_steps_descend(reduction):
    weights, (winners, losers, _) = antisymmetric(halves(8, 2)), history(5)
    start, labels, values = weights, np.ones(5), []
    for _ in range(6):
        values.append(objective(weights, start, winners, losers, labels, 0.1, reduction))
        weights = fit(weights, start, winners, losers, labels, 0.1, reduction, 1e-3, 1)
    assert (np.diff(values) < 0).all()
    assert np.mean([score(weights, a) - score(weights, b) for a, b in zip(winners, losers, strict=True)]) > 0


def test_sum_is_mean_with_the_penalty_divided_by_the_pairs():
    start, initial, data = network(9, 2), network(10, 2), history(6)
    by_sum, by_mean = fit(start, initial, *data, 0.1, "sum", 1e-3, 3), fit(start, initial, *data, 0.02, "mean", 1e-3, 3)
    assert flat(by_sum) == pytest.approx(flat(by_mean))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_pairs_and_with_pairs_of_the_same_document_nothing_is_learned(reduction):
    start, (winners, losers, labels) = network(11, 2), history(7)
    stayed = fit(start, network(12, 2), winners[:0], losers[:0], labels[:0], 0.1, reduction, 0.1, 3)
    assert flat(stayed).tolist() == flat(start).tolist()
    same = fit(start, start, winners, winners, labels, 0.1, reduction, 0.1, 3)
    assert flat(same).tolist() == flat(start).tolist()


def test_information_by_hand():
    g = np.array([[2.0, 4.0], [6.0, 0.0]])
    assert information(g, 0.5, 4).tolist() == [[0.5 + 1 + 9, 2], [2, 0.5 + 4]]
    assert information(g[:0], 0.5, 4).tolist() == [[0.5, 0], [0, 0.5]]


@pytest.mark.parametrize(("covariance", "squared"), [("full", 2 / 3), ("diagonal", 1)])
def test_width_by_hand(covariance, squared):
    # A = (2 1; 1 2), A^-1 = (2 -1; -1 2) / 3
    a = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert width(np.array([1.0, 1.0]), a, 1, covariance) == pytest.approx(sqrt(squared))
    assert width(np.array([-1.0, -1.0]), a, 16, covariance) == pytest.approx(sqrt(squared) / 4)


def test_width_of_a_pair_that_was_seen_n_times():
    g, l2, m = pair_gradient(network(13, 2), *np.random.default_rng(8).normal(size=(2, 4))), 0.1, 6
    for seen in (0, 1, 5):
        a, squared = information(np.tile(g, (seen, 1)), l2, m), (g @ g) / m
        assert width(g, a, m, "full") == pytest.approx(sqrt(squared / (l2 + seen * squared)))  # Sherman-Morrison
        parts = sum((s**2 / m) / (l2 + seen * s**2 / m) for s in g)
        assert width(g, a, m, "diagonal") == pytest.approx(sqrt(parts))


def test_full_width_is_that_of_the_dual_form():
    rng = np.random.default_rng(9)
    history_, g, l2, m = rng.normal(size=(4, 30)), rng.normal(size=30), 0.3, 5
    v, u = history_ / sqrt(m), g / sqrt(m)
    dual = (u @ u - u @ v.T @ np.linalg.solve(l2 * np.eye(4) + v @ v.T, v @ u)) / l2  # Woodbury
    assert width(g, information(history_, l2, m), m, "full") == pytest.approx(sqrt(dual))


def test_definition_3_4_by_hand():
    # sigma(log 3) = 3/4; g_ij = (log 3, log 3), so that with A = 2 I the width is log 3
    documents = np.array([[1.0 + log(3)], [1.0]])
    for covariance in ("full", "diagonal"):
        for alpha, expected in [(0.24 / log(3), True), (0.26 / log(3), False)]:
            certain = certain_rank_order(IDENTITY, documents, 2 * np.eye(2), alpha, covariance)
            assert certain.tolist() == [[False, expected], [False, False]]
        assert certain_rank_order(IDENTITY, documents[::-1], 2 * np.eye(2), 0.1, covariance).tolist() == [
            [False, False],
            [True, False],
        ]


def test_one_document_ties_and_the_start_are_never_certain():
    documents = np.array([[2.0], [1.0], [2.0]])
    certain = certain_rank_order(IDENTITY, documents, np.eye(2), 0.0, "full")
    assert certain.tolist() == [[False, True, False], [False, False, False], [False, True, False]]
    assert certain_rank_order(IDENTITY, documents[:1], np.eye(2), 0.0, "full").tolist() == [[False]]
    start = antisymmetric(halves(14, 2))
    many = np.random.default_rng(10).normal(size=(6, 4))
    assert not certain_rank_order(start, many, np.eye(len(flat(start))), 0.0, "full").any()


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_certain_pairs_are_acyclic_fewer_with_alpha_and_more_with_history(covariance):
    weights, rng = network(15, 2), np.random.default_rng(11)
    documents, seen = rng.normal(size=(6, 4)), rng.normal(size=(2, 40, 4))
    tangents = np.array([pair_gradient(weights, a, b) for a, b in zip(*seen, strict=True)])
    little, much = (information(tangents[:n], 0.1, 6) for n in (5, 40))
    f = scores(weights, documents)
    previous = certain_rank_order(weights, documents, little, 0.0, covariance)
    assert previous.tolist() == [[bool(sigmoid(a - b) > 0.5) for b in f] for a in f]
    counts = []
    for alpha in (0.01, 0.03, 0.1, 1.0):
        certain = certain_rank_order(weights, documents, little, alpha, covariance)
        assert not (certain & ~previous).any()
        assert not (certain & ~certain_rank_order(weights, documents, much, alpha, covariance)).any()
        assert nx.is_directed_acyclic_graph(nx.from_numpy_array(certain, create_using=nx.DiGraph))
        counts.append(int(certain.sum()))
        previous = certain
    assert len(set(counts)) > 1
