"""Which template FairExp chooses: by hand, against enumeration, and what that does to unfairness over rounds."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.reference.exposure import exposure, letters, projected, unfairness
from tests.reference.fairexp import Choice, choose, lists, qualifies, templates
from tests.reference.fairswap import is_fillable
from tests.reference.partitions import random_case
from tests.reference.violations import broken, brute_force_minima, certain_across

pytestmark = pytest.mark.slow  # tests of the oracle itself

P = exposure("reciprocal", 3)  # 1, 1/2, 1/3


def regret(order, certain, blocks) -> int:
    """The certain pairs across blocks that the whole order breaks."""
    return broken(order, certain, blocks).across


def test_templates():
    assert templates(2, 5) == ["AA", "AB", "BA", "BB"]
    assert templates(3, 2) == templates(2, 2)
    assert [len(templates(k, 20)) for k in (1, 5, 10)] == [2, 32, 1024]
    assert templates(10, 20) == sorted(templates(10, 20))


def test_which_templates_qualify():
    # A - B: AAA 11/6, AAB 7/6, ABA 5/6, ABB 1/6, and their opposites
    assert {w for w in templates(3, 3) if qualifies(w, 0.0, P, 1.0, 0.2)} == {"ABB", "BAA"}
    assert {w for w in templates(3, 3) if qualifies(w, 1.0, P, 1.0, 0.2)} == {"BAB", "BBA"}  # 1 - 5/6, 1 - 7/6
    assert {w for w in templates(3, 3) if qualifies(w, 0.0, P, 1.0, 0.1)} == set()
    assert qualifies("A", 0.0, [0.25], 1.0, 0.25)  # the threshold itself is allowed


def test_only_what_can_be_filled_is_listed():
    # A B A has two A: fillable are all templates with at most one B, of length min(k, 3)
    assert set(lists([0, 1, 2], "ABA", 2)) == {"AA", "AB", "BA"}
    assert set(lists([0, 1, 2], "ABA", 9)) == {"AAB", "ABA", "BAA"}
    assert lists([2, 1, 0], "ABA", 2)["BA"] == (1, 2, 0)


def gather(costs: dict[str, int], before: float, beta: float, epsilon: float) -> Choice:
    """The choice among templates of 3 places whose lists cost so much; the lists themselves are any tuples."""
    arranged = {template: (number,) for number, template in enumerate(costs)}
    cost_of = list(costs.values())
    return choose(arranged, lambda order: cost_of[order[0]], before, P, beta, epsilon)


def test_least_added_regret_among_the_qualified():
    # |UF|: ABB 1/6, ABA 5/6, AAB 7/6
    assert gather({"ABB": 3, "ABA": 1, "AAB": 0}, 0.0, 1.0, epsilon=1.0).template == "ABA"
    assert gather({"ABB": 3, "ABA": 1, "AAB": 0}, 0.0, 1.0, epsilon=1.2).template == "AAB"


def test_ties_of_added_regret_go_to_the_less_unfair():
    choice = gather({"AAB": 1, "ABA": 1, "ABB": 2}, 0.0, 1.0, epsilon=2.0)
    assert (choice.template, choice.added, choice.qualified) == ("ABA", 1, True)
    assert choice.unfairness == pytest.approx(5 / 6)


def test_what_is_level_goes_to_the_first_in_alphabetical_order():
    # opposite signs: ABB 1/6, BAA -1/6; the order of the lists does not matter
    assert gather({"BAA": 0, "ABB": 0}, 0.0, 1.0, epsilon=1.0).template == "ABB"


def test_sums_that_differ_by_rounding_are_level():
    # 1 - 1/2 - 1/3 - 1/6 = 0, so these are +-(1/4 + 1/5); in floating point the first is the greater
    p = exposure("reciprocal", 6)
    opposite = [abs(projected(0.0, template, p, 1.0)) for template in ("ABBAAB", "ABBBBB")]
    assert opposite[0] > opposite[1] == pytest.approx(opposite[0])
    arranged: dict[str, tuple[int, ...]] = dict.fromkeys(["ABBAAB", "ABBBBB"], (0,))
    assert choose(arranged, lambda order: 0, 0.0, p, 1.0, epsilon=9.0).template == "ABBAAB"
    assert choose(arranged, lambda order: 0, 0.0, p, 1.0, epsilon=0.0).template == "ABBAAB"


def test_fallback_is_the_least_unfair_and_only_then_the_least_regret():
    choice = gather({"AAA": 0, "AAB": 5, "ABA": 9, "BAB": 2}, 0.0, 1.0, epsilon=0.5)
    assert (choice.template, choice.added, choice.qualified) == ("BAB", 2, False)  # BAB is -5/6: as unfair as ABA
    assert choice.unfairness == pytest.approx(-5 / 6)


def test_choice_against_enumeration():
    rng = np.random.default_rng(0)
    fallbacks = 0
    for _ in range(300):
        blocks, groups = random_case(rng, int(rng.integers(1, 7)))
        proposal, certain = [d for block in blocks for d in block], certain_across(blocks)
        k, before, epsilon = int(rng.integers(1, 8)), float(rng.normal()), float(rng.choice([0.1, 0.5, 2.0]))
        p, beta = exposure("log", k), float(rng.choice([0.5, 1.0, 2.0]))
        minima = {w: n for w, n in brute_force_minima(certain, groups).items() if len(w) == min(k, len(proposal))}
        after = {w: unfairness([w], p, beta)[0] + before for w in minima}
        choice = choose(
            lists(proposal, groups, k), partial(regret, certain=certain, blocks=blocks), before, p, beta, epsilon
        )
        allowed = {w for w in minima if abs(after[w]) <= epsilon}
        assert choice.qualified == bool(allowed)
        if allowed:
            assert choice.template in allowed
            assert choice.added == min(minima[w] for w in allowed)
            rivals = [w for w in allowed if minima[w] == choice.added]
            assert abs(choice.unfairness) == pytest.approx(min(abs(after[w]) for w in rivals))
        else:
            fallbacks += 1
            assert abs(choice.unfairness) == pytest.approx(min(map(abs, after.values())))
            rivals = [w for w in after if abs(after[w]) == pytest.approx(abs(choice.unfairness))]
            assert choice.added == min(minima[w] for w in rivals)
        assert letters([int(groups[d] == "B") for d in choice.order]).startswith(choice.template)
    assert 50 < fallbacks < 250


def test_over_rounds_unfairness_stays_within_the_threshold_while_that_can_be():
    rng = np.random.default_rng(1)
    p, beta, epsilon, before = exposure("reciprocal", 5), 1.0, 0.5, 0.0
    history, held = [], 0
    for _ in range(150):
        blocks, groups = random_case(rng, int(rng.integers(1, 8)))
        proposal, certain = [d for block in blocks for d in block], certain_across(blocks)
        choice = choose(
            lists(proposal, groups, 5), partial(regret, certain=certain, blocks=blocks), before, p, beta, epsilon
        )
        possible = any(
            qualifies(w, before, p, beta, epsilon) and is_fillable(w, groups) for w in templates(5, len(proposal))
        )
        history.append("".join(groups[d] for d in choice.order[:5]))
        before = choice.unfairness
        assert unfairness(history, p, beta)[-1] == pytest.approx(before)
        assert choice.qualified == possible == (abs(before) <= epsilon)
        held += possible
    assert 20 < held < 130
