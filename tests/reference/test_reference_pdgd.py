"""PDGD by hand, by differences, and the theorem: in expectation over lists and clicks, pairs get what users prefer.

The theorem: write k > l | R for "k is clicked and l is examined and not clicked, in list R", and R* for R with the two
exchanged. If P(k > l | R) = P(l > k | R*) in every list for documents that users like equally, and > for those that
they like more, then E[gradient] = sum of a_kl (f'_k - f'_l) with a_kl = 0, respectively a_kl > 0. The proof needs
nothing else, because P(R) rho is the same for R and R*. What it takes for granted is the condition on users. The
equality holds whenever clicks depend on grades and places alone, since R and R* then show the same grades. The
inequality is no law of click models: a user who stops at a good document does not see the bad one below it, and
then nothing is preferred. Here "not less, list by list" is checked for each user, and that navigational ones break it.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from math import exp, log

import numpy as np
import pytest

from tests.reference import pdgd
from tests.reference.clicks import TABLE_1, cascade_patterns, dependent_patterns, position_based_patterns
from tests.reference.feedback import all_pairs
from tests.reference.pdgd import debias_weight, gradient, pair_weights, step, swapped
from tests.reference.plackett_luce import enumerate_rankings, probability

pytestmark = pytest.mark.slow  # the oracle itself; the tests of the package compare with it

CLICK = (0.1, 0.5, 0.9)
USERS = {
    "perfect": lambda grades: dependent_patterns(grades, *TABLE_1["perfect"]),
    "navigational": lambda grades: dependent_patterns(grades, *TABLE_1["navigational"]),
    "informational": lambda grades: dependent_patterns(grades, *TABLE_1["informational"]),
    "navigational, stops anywhere": lambda grades: dependent_patterns(grades, *TABLE_1["navigational"], True),
    "cascade": lambda grades: cascade_patterns(grades, CLICK),
    "position-based": lambda grades: position_based_patterns(grades, CLICK, 1.0),
}
WORLDS = [  # grades, scores, places: alike documents with unlike scores, all shown or not
    ([2, 0, 2], [1.0, 0.0, -1.0], 3),
    ([1, 1, 0, 2], [2.0, -1.0, 0.5, 0.0], 3),
    ([0, 2, 0, 1], [-1.5, 0.0, 1.5, 0.5], 4),
    ([1, 0, 1, 0], [0.0, 0.7, 1.4, 2.1], 2),
]


def preference(ranking, grades, user, winner, loser):
    """P(winner > loser | R)."""
    pair = ranking.index(winner), ranking.index(loser)
    return sum(p for clicks, p in user([grades[d] for d in ranking]).items() if pair in all_pairs(clicks))


def expected_weights(grades, scores, places, user):
    """What the gradient multiplies f'_k - f'_l by when k beats l, on average over all lists and all clicks."""
    total = defaultdict(float)
    for ranking in enumerate_rankings(len(grades), places):
        for clicks, chance in user([grades[document] for document in ranking]).items():
            for pair, weight in pair_weights(ranking, clicks, scores).items():
                total[pair] += probability(ranking, scores) * chance * weight
    return total


def test_swapping_exchanges_two_places():
    assert swapped((3, 1, 0, 2), 0, 2) == [0, 1, 3, 2]


def test_debias_weight_by_hand():
    scores = [log(4), log(3), log(2), log(1)]  # shares 4 : 3 : 2 : 1 of 10
    # of two documents in two places: 4/10 * 3/6 against 3/10 * 4/7
    assert debias_weight((0, 1), scores, 0, 1) == pytest.approx((3 / 7) / (3 / 7 + 1 / 2))
    # (2, 0, 3) is 2/10 * 4/8 * 1/4, (3, 0, 2) is 1/10 * 4/9 * 2/5
    shown, other = 2 / 10 * 4 / 8 * 1 / 4, 1 / 10 * 4 / 9 * 2 / 5
    assert debias_weight((2, 0, 3), scores, 0, 2) == pytest.approx(other / (shown + other))
    assert debias_weight((2, 0, 3), scores, 2, 0) == pytest.approx(other / (shown + other))


def test_debias_weights_of_a_list_and_its_mirror_add_up_to_one():
    scores = [0.3, -1.0, 2.0, 0.5]
    for ranking in enumerate_rankings(4, 3):
        for i, j in combinations(range(3), 2):
            there, back = debias_weight(ranking, scores, i, j), debias_weight(swapped(ranking, i, j), scores, i, j)
            assert there + back == pytest.approx(1)
            likelier = probability(ranking, scores) > probability(swapped(ranking, i, j), scores)
            assert (there < 0.5) == likelier
            assert debias_weight(ranking, [1.0] * 4, i, j) == pytest.approx(0.5)


def test_debias_weight_where_both_lists_are_too_unlikely_for_a_float():
    scores = [0.0, 0.0, 1000.0, 2000.0]  # either list has log-probability of about -3000 and both are alike
    assert probability((0, 1, 2), scores) == 0.0
    assert debias_weight((0, 1, 2), scores, 0, 1) == pytest.approx(0.5)


def test_weights_by_hand():
    scores = [log(4), log(3), log(2), log(1)]
    assert pair_weights((1, 2, 0), (False, True, False), scores) == pytest.approx(
        {
            (2, 1): debias_weight((1, 2, 0), scores, 0, 1) * 2 * 3 / (2 + 3) ** 2,
            (2, 0): debias_weight((1, 2, 0), scores, 1, 2) * 2 * 4 / (2 + 4) ** 2,
        }
    )
    # examined is down to the first place after the last click: document 0 says nothing
    assert set(pair_weights((1, 2, 0), (True, False, False), scores)) == {(1, 2)}


def test_gradient_is_that_of_the_preferences_with_rho_held_fixed():
    rng = np.random.default_rng(1)
    features, theta = rng.normal(size=(5, 3)), rng.normal(size=3)
    scores = (features @ theta).tolist()
    ranking, clicks = (3, 0, 4, 1), (False, True, False, True)
    pairs = [(0, 3), (0, 4), (1, 3), (1, 4)]  # 0 and 1 are clicked, 3 and 4 are not
    rho = {(i, j): debias_weight(ranking, scores, ranking.index(i), ranking.index(j)) for i, j in pairs}

    def value(theta):
        f = features @ theta
        return sum(rho[i, j] * exp(f[i]) / (exp(f[i]) + exp(f[j])) for i, j in pairs)

    h = 1e-6
    slopes = [(value(theta + h * unit) - value(theta - h * unit)) / (2 * h) for unit in np.eye(3)]
    assert gradient(ranking, clicks, scores, features) == pytest.approx(slopes, abs=1e-8)


def test_step_by_hand():
    features = np.array([[1.0, 0.0], [0.0, 1.0]])
    theta, rate = step(np.zeros(2), 0.5, (0, 1), (False, True), features, 0.9)
    assert theta == pytest.approx([-0.5 * 0.5 * 0.25, 0.5 * 0.5 * 0.25])  # rate, rho, 1/2 * 1/2
    assert rate == pytest.approx(0.45)


def test_a_step_uses_the_scores_of_theta():
    rng = np.random.default_rng(2)
    features, theta, ranking, clicks = rng.normal(size=(4, 2)), rng.normal(size=2), (2, 0, 3), (True, False, True)
    scores = [float(theta[0] * x[0] + theta[1] * x[1]) for x in features]
    moved, _ = step(theta, 0.1, ranking, clicks, features, 1.0)
    assert moved == pytest.approx(theta + 0.1 * gradient(ranking, clicks, scores, features))


@pytest.mark.parametrize("clicks", [(False, False, False), (True, True, True)])
def test_without_a_pair_neither_theta_nor_the_rate_changes(clicks):
    theta, rate = step(np.array([1.0, 2.0]), 0.1, (0, 1, 2), clicks, np.ones((4, 2)), 0.5)
    assert theta.tolist() == [1.0, 2.0]
    assert rate == 0.1


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(("grades", "scores", "places"), WORLDS)
def test_users_meet_the_condition_of_the_theorem_list_by_list(grades, scores, places, user):
    for ranking in enumerate_rankings(len(grades), places):
        for i, j in combinations(range(places), 2):
            better, worse = sorted((ranking[i], ranking[j]), key=lambda document: grades[document], reverse=True)
            there = preference(ranking, grades, USERS[user], better, worse)
            back = preference(swapped(ranking, i, j), grades, USERS[user], worse, better)
            if grades[better] == grades[worse]:
                assert there == pytest.approx(back)
            elif not user.startswith("navigational"):
                assert there > back or there == pytest.approx(back)


def test_navigational_users_break_the_condition_where_they_stop_above_the_worse_document():
    grades = [2, 1, 1]
    # clicks the first and goes on, clicks the second, and the third is not clicked, whether reached or not
    there = 0.95 * 0.1 * 0.5 * (0.5 + 0.5 * 0.5)
    back = 0.5 * 0.5 * 0.5 * (0.5 + 0.5 * 0.05)
    assert there < back
    assert preference([0, 1, 2], grades, USERS["navigational"], 0, 2) == pytest.approx(there)
    assert preference([2, 1, 0], grades, USERS["navigational"], 2, 0) == pytest.approx(back)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(("grades", "scores", "places"), WORLDS)
def test_the_expected_gradient_is_unbiased_with_respect_to_pairs(grades, scores, places, user):
    weights = expected_weights(grades, scores, places, USERS[user])
    for pair in combinations(range(len(grades)), 2):
        better, worse = sorted(pair, key=lambda document: grades[document], reverse=True)
        if grades[better] == grades[worse]:
            assert weights[better, worse] == pytest.approx(weights[worse, better])
        else:
            assert weights[better, worse] > weights[worse, better]


def test_without_rho_it_is_biased(monkeypatch):
    # so that the test above has something to find: documents 0 and 1 are liked equally
    monkeypatch.setattr(pdgd, "debias_weight", lambda *_: 0.5)
    for user in ("navigational", "informational", "cascade", "position-based"):
        weights = expected_weights([1, 1, 0, 2], [2.0, -1.0, 0.5, 0.0], 3, USERS[user])
        assert weights[0, 1] != pytest.approx(weights[1, 0], rel=0.01), user
