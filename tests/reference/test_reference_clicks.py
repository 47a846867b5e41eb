"""Click probabilities by hand, and formulas against sums over all click patterns."""

from __future__ import annotations

from itertools import product

import pytest

from tests.reference.clicks import (
    TABLE_1,
    cascade_clicks,
    cascade_examination,
    cascade_patterns,
    dependent_by_place_examination,
    dependent_clicks,
    dependent_examination,
    dependent_patterns,
    dynamic_bayesian_examination,
    position_based_clicks,
    position_based_examination,
    position_based_patterns,
    trust_bias_clicks,
    user_browsing_clicks,
    user_browsing_examined,
)

pytestmark = pytest.mark.slow  # tests of the oracle itself

LISTS = [grades for length in range(1, 5) for grades in product(range(3), repeat=length)]


def marginals(patterns: dict[tuple[bool, ...], float], length: int) -> list[float]:
    return [sum(p for pattern, p in patterns.items() if pattern[rank]) for rank in range(length)]


def test_dependent_model_by_hand():
    # Navigational users on grades 2, 0: click .95 then stop .9; grade 0 clicked with .05
    click, stop = TABLE_1["navigational"]
    assert dependent_examination([2, 0], click, stop) == pytest.approx([1, 1 - 0.95 * 0.9])
    assert dependent_clicks([2, 0], click, stop) == pytest.approx([0.95, (1 - 0.95 * 0.9) * 0.05])
    assert dependent_patterns([2, 0], click, stop) == pytest.approx(
        {
            (True, True): 0.95 * 0.1 * 0.05,
            (True, False): 0.95 * (0.9 + 0.1 * 0.95),
            (False, True): 0.05 * 0.05,
            (False, False): 0.05 * 0.95,
        }
    )


def test_stopping_without_a_click_by_hand():
    click, stop = TABLE_1["navigational"]
    assert dependent_examination([2, 0, 1], click, stop, True) == pytest.approx([1, 0.1, 0.1 * 0.8])
    assert dependent_patterns([2, 0], click, stop, True) == pytest.approx(
        {
            (True, True): 0.95 * 0.1 * 0.05,
            (True, False): 0.95 * (0.9 + 0.1 * 0.95),
            (False, True): 0.05 * 0.1 * 0.05,
            (False, False): 0.05 * (0.9 + 0.1 * 0.95),
        }
    )


def test_table_1_on_two_documents_of_one_grade():
    # P(second is clicked) = (1 - click stop) click
    second = {user: [dependent_clicks([grade, grade], *TABLE_1[user])[1] for grade in range(3)] for user in TABLE_1}
    assert second["perfect"] == pytest.approx([0, 0.5, 1])
    assert second["navigational"] == pytest.approx([0.99 * 0.05, 0.75 * 0.5, 0.145 * 0.95])
    assert second["informational"] == pytest.approx([0.96 * 0.4, 0.79 * 0.7, 0.55 * 0.9])


def test_perfect_users_never_stop():
    for stop_without_click in (False, True):
        assert dependent_examination([2, 1, 0, 2], *TABLE_1["perfect"], stop_without_click) == [1, 1, 1, 1]
        assert dependent_clicks([2, 1, 0, 2], *TABLE_1["perfect"], stop_without_click) == [1, 0.5, 0, 1]


@pytest.mark.parametrize("stop_without_click", [False, True])
@pytest.mark.parametrize("user", TABLE_1)
def test_dependent_patterns_have_the_marginals_of_the_formula(user, stop_without_click):
    for grades in LISTS:
        patterns = dependent_patterns(grades, *TABLE_1[user], stop_without_click)
        assert len(patterns) == 2 ** len(grades)
        assert sum(patterns.values()) == pytest.approx(1)
        assert marginals(patterns, len(grades)) == pytest.approx(
            dependent_clicks(grades, *TABLE_1[user], stop_without_click)
        )


def test_cascade_by_hand():
    click = (0.1, 0.5, 0.9)
    assert cascade_examination([1, 2, 0], click) == pytest.approx([1, 0.5, 0.5 * 0.1])
    assert cascade_clicks([1, 2, 0], click) == pytest.approx([0.5, 0.45, 0.005])
    assert cascade_patterns([1, 2], click) == pytest.approx(
        {(True, False): 0.5, (False, True): 0.45, (False, False): 0.05}
    )


def test_cascade_is_the_dependent_model_that_always_stops_at_a_click():
    click = (0.1, 0.5, 0.9)
    for grades in LISTS:
        assert cascade_examination(grades, click) == pytest.approx(
            dependent_examination(grades, click, (1.0, 1.0, 1.0))
        )
        patterns = {pattern: p for pattern, p in dependent_patterns(grades, click, (1.0, 1.0, 1.0)).items() if p > 0}
        assert cascade_patterns(grades, click) == pytest.approx(patterns)


def test_position_based_by_hand():
    click = (0.1, 0.5, 0.9)
    assert position_based_examination([0, 0, 0], 1.0) == pytest.approx([1, 1 / 2, 1 / 3])
    assert position_based_examination([0, 0, 0], 2.0) == pytest.approx([1, 1 / 4, 1 / 9])
    assert position_based_clicks([2, 1], click, 1.0) == pytest.approx([0.9, 0.25])
    assert position_based_patterns([2, 1], click, 1.0) == pytest.approx(
        {(True, True): 0.225, (True, False): 0.675, (False, True): 0.025, (False, False): 0.075}
    )


@pytest.mark.parametrize("eta", [0.0, 0.5, 2.0])
def test_position_based_patterns_have_the_marginals_of_the_formula(eta):
    click = (0.1, 0.5, 0.9)
    for grades in LISTS:
        patterns = position_based_patterns(grades, click, eta)
        assert sum(patterns.values()) == pytest.approx(1)
        assert marginals(patterns, len(grades)) == pytest.approx(position_based_clicks(grades, click, eta))


def test_continuation_by_place_by_hand():
    click = (0.1, 0.5)
    assert dependent_by_place_examination([1, 0, 1], click, [0.9, 0.4, 0.3]) == pytest.approx([1, 0.95, 0.95 * 0.94])
    for grades in LISTS:  # 1 - lambda at every place is one probability of stopping for every grade
        examined = dependent_by_place_examination(grades, (0.1, 0.5, 0.9), [0.75] * 4)
        assert examined == pytest.approx(dependent_examination(grades, (0.1, 0.5, 0.9), (0.25,) * 3))


def test_a_dynamic_bayesian_network_by_hand():
    examined = dynamic_bayesian_examination([1, 0, 1], (0.1, 0.5), (0.2, 0.8), 0.9)
    assert examined == pytest.approx([1, 0.9 * 0.6, 0.9 * 0.6 * 0.9 * 0.98])
    for grades in LISTS:
        examined = dynamic_bayesian_examination(grades, *TABLE_1["navigational"], 1.0)
        assert examined == pytest.approx(dependent_examination(grades, *TABLE_1["navigational"]))


def test_user_browsing_by_hand():
    # Rank 1 is clicked with .5. Then rank 2 is one below a click, or two below the top: .8 (.5 .6 + .5 .3).
    assert user_browsing_clicks([1, 2], (0.1, 0.5, 0.8), [[1], [0.6, 0.3]]) == pytest.approx([0.5, 0.36])
    assert [user_browsing_examined([[1], [0.6, 0.3]], 4, distance) for distance in (1, 2, 3, 4)] == [0.6, 0.6, 0.6, 0.3]


def test_user_browsing_has_the_marginals_of_its_patterns():
    attraction, rows = (0.2, 0.5, 0.9), [[0.9], [0.8, 0.6], [0.7, 0.5, 0.3]]  # rank 4 has the third row
    for grades in LISTS:
        patterns = {}
        for pattern in product((True, False), repeat=len(grades)):
            last, patterns[pattern] = 0, 1.0
            for rank, (grade, clicked) in enumerate(zip(grades, pattern, strict=True), 1):
                p = attraction[grade] * user_browsing_examined(rows, rank, rank - last)
                patterns[pattern] *= p if clicked else 1 - p
                last = rank if clicked else last
        assert sum(patterns.values()) == pytest.approx(1)
        assert marginals(patterns, len(grades)) == pytest.approx(user_browsing_clicks(grades, attraction, rows))


def test_trust_bias_by_hand():
    # t (e+ r + e- (1 - r)): .5 (.9 .3 + .2 .7)
    assert trust_bias_clicks([1], (0.0, 0.3), [0.5], [0.9], [0.2]) == pytest.approx([0.205])
    examined = position_based_examination([1, 0, 1], 1.0)
    found = trust_bias_clicks([1, 0, 1], (0.1, 0.5), examined, [1] * 3, [0] * 3)
    assert found == pytest.approx(position_based_clicks([1, 0, 1], (0.1, 0.5), 1.0))
