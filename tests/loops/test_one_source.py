"""Loops that are played by several lanes, here threads of Python, do what one lane does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import pytest
import torch

from ol2r_cli.loops.compile import compiled
from ol2r_cli.loops.lanes import barrier, lane, lane_sum, lanes
from ol2r_cli.loops.launch import launch
from ol2r_cli.loops.workspace import mark, release, take
from tests.choices import Overrides, names, skip_without_package, with_setting
from tests.loops import staged
from tests.loops.lanes_by_threads import ORDERS, Lanes, loops_by, one_lane

LANES = dict(zip(ORDERS, (6, 6, 8), strict=True))


def check(found: staged.Played, expected: staged.Played, why: str) -> None:
    """Integers are equal, and numbers but for the order in which lanes add up."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        tolerance = {"rtol": 1e-9, "atol": 1e-12} if values.is_floating_point() else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(found[name], values, equal_nan=True, msg=f"{why}: {name}", **tolerance)


def check_lanes(overrides: Overrides, by_one: Any = one_lane, orders: Sequence[str] = ORDERS, **more: Any) -> None:
    """Any number of lanes, in each of these orders, play the rounds of one lane."""
    expected = staged.played(overrides, by_one, **more)
    assert expected["clicks"].any(), overrides
    for order in orders:
        several = Lanes(LANES[order], order)
        found = staged.played(overrides, several, **more)
        assert several.met > 0, f"{overrides}: no loop was launched"
        check(found, expected, f"{overrides}, {several.lanes} lanes {order}")


def in_turn(choices: Sequence[Overrides]) -> list[Any]:
    """Return parameters: each choice with one order of the lanes, in turn, which takes a third of the time."""
    return [
        pytest.param(choice, order, id=" ".join([*choice, order]))
        for choice, order in zip(choices, cycle(ORDERS), strict=False)
    ]


def test_lanes_play_as_compiled_loops_do():
    check_lanes(("ranker=pdgd",), by_one=None)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", staged.staged("ranker"))
def test_lanes_play_a_ranker_as_compiled_loops_do(ranker):
    check_lanes(with_setting("ranker", ranker), by_one=None, rounds=60)


def test_all_rankers_with_stages_are_known():
    assert len(staged.rankers()) >= 8


@pytest.mark.parametrize(
    ("overrides", "order"), in_turn([with_setting("ranker", name) for name in staged.staged("ranker")])
)
def test_lanes_play_every_ranker(overrides, order):
    check_lanes(overrides, orders=[order], rounds=10)


def test_lanes_play_every_exploration():
    for overrides, order in zip(staged.explorations(), cycle(ORDERS), strict=False):
        check_lanes(overrides, orders=[order], rounds=10)


@pytest.mark.parametrize(("overrides", "order"), in_turn([("ranker=pdgd", user) for user in staged.USERS]))
def test_lanes_play_every_stage_of_a_user(overrides, order):
    check_lanes(overrides, orders=[order], rounds=10)


@pytest.mark.parametrize(("overrides", "order"), in_turn(staged.SETTINGS))
def test_lanes_play_what_settings_of_a_ranker_choose(overrides, order):
    check_lanes(overrides, orders=[order])


@pytest.mark.slow
@pytest.mark.parametrize("overrides", staged.SETTINGS, ids=" ".join)
def test_lanes_play_settings_of_a_ranker_in_every_order(overrides):
    check_lanes(overrides)


def test_lanes_sort_long_lists_and_play_late_feedback():
    labels = [0, 1, 2, 3, 4, 0, 0] * 6
    check_lanes(("ranker=pdgd",), rounds=6, dataset=staged.numbered([labels]), positions=40)
    check_lanes(("ranker=sgd_ranknet", "ranker.pairs=adjacent"), update_every=4)


@pytest.mark.parametrize(("overrides", "order"), in_turn(staged.SINGLE))
def test_lanes_play_single_rounds(overrides, order):
    check_lanes(overrides, orders=[order], rounds=8, singly=True)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", sorted({*staged.SINGLE, *staged.ONE_BY_ONE}), ids=" ".join)
def test_lanes_play_single_rounds_of_every_choice(overrides):
    skip_without_package(overrides)
    check_lanes(overrides, rounds=12, singly=True)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", staged.staged("ranker"))
def test_lanes_play_a_ranker_with_every_exploration(ranker):
    """The users alternate: their stages know neither of the two."""
    for overrides, user in zip(staged.pairings(ranker), cycle(staged.USERS), strict=False):
        check_lanes((*overrides, user), rounds=60)


@pytest.mark.slow
@pytest.mark.parametrize("user", names("click"))
def test_lanes_play_every_user(user):
    check_lanes(("ranker=pdgd", f"click={user}"), rounds=60)


# Barriers without which a lane reads what another one has not written, or has written over: by ranker and by function,
# their numbers in it, from 0.
BARRIERS = {
    "pdgd": {"uniform": [0], "descending": [0], "left_at_each_place": [0, 2], "debiased": [0, 1]},
    "epsilon_greedy": {"take_turns": [0, 1]},
}
BARRIERS_OF_MANY = {
    "sgd_ranknet": {"ascending": [0], "reads_from_the_top": [0], "matched_pairs": [0], "learns_by_ranknet": [0]},
    "dbgd": {"normal_numbers": [0], "compare": [0, 1], "score_members": [0]},
    "nsgd": {"store_query": [0, 1], "add_quality": [1], "basis_of_worst": [1], "mean_document": [0], "choose": [0]},
    "coltr": {"less_risk": [0, 1], "move_to_winners": [0]},
    "intervention_aware": {"sample": [0], "expected": [1]},
    "pairrank": {
        **{"sort_by_score": [0, 1], "centre": [0], "compare_together": [0], "partition": [0, 1], "shuffle": [0, 1, 2]},
        **{"add_at_anchor": [1], "find_stale": [1], "_take_panel": [0], "_invert_panel": [0], "correct": [1, 2]},
        **{"products": [0, 1, 2]},
    },
    "pepairrank": {
        **{"add_noise": [0], "factor_new_pairs": [0], "reflect": [0], "find_optima": [0], "move_together": [0]},
        **{"find_gradients": [0], "score_pairs": [0], "pull_members": [0], "arranges_by_agreement": [0]},
    },
    "pepairrank ranker.l2=0.01": {"move_alone": [0], "correct_guide": [0, 1]},  # members go alone
}


def check_without_barriers(ranker: str, barriers: dict[str, list[int]], rounds: int) -> None:
    """Without any of these barriers lanes do something else than one lane, in some order."""
    overrides = tuple(f"ranker={ranker}".split())
    expected = staged.played(overrides, one_lane, rounds=rounds)
    for function, numbers in barriers.items():
        for number in numbers:
            assert any(
                differs(overrides, Lanes(6, order, skipped=(function, number)), expected, rounds)
                for order in ("backward", "forward", "random")
            ), f"{ranker}: nobody notices that barrier {number} of {function} is missing"


def differs(overrides: Overrides, several: Lanes, expected: staged.Played, rounds: int) -> bool:
    """Whether lanes play other rounds, or fail."""
    try:
        check(staged.played(overrides, several, rounds=rounds), expected, several.order)
    except (AssertionError, IndexError, RuntimeWarning):  # the warning: NaN is taken as an integer
        return True
    return False


@pytest.mark.parametrize("ranker", BARRIERS)
def test_a_barrier_that_is_missing_is_noticed(ranker):
    check_without_barriers(ranker, BARRIERS[ranker], rounds=12)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", BARRIERS_OF_MANY)
def test_more_barriers_that_are_missing_are_noticed(ranker):
    check_without_barriers(ranker, BARRIERS_OF_MANY[ranker], rounds=3 if ranker == "intervention_aware" else 12)


def launched(loop: Any, monkeypatch: pytest.MonkeyPatch, order: str = "forward") -> torch.Tensor:
    """What a loop writes with three lanes to three numbers that are 0."""
    loops_by(Lanes(3, order), monkeypatch)
    numbers = torch.zeros(3, dtype=torch.float64)
    launch(loop, 1, 64, numbers)
    return numbers


@compiled
def adds_in_all_lanes(b, space, numbers):
    numbers[0] += 1.0


@compiled
def adds_in_one_lane(b, space, numbers):
    if lane() == 0:
        numbers[0] += 1.0
    numbers[1] = lane_sum(lane() + 1.0, space)
    numbers[2] = lanes()


@pytest.mark.parametrize("order", ORDERS)
def test_what_all_lanes_do_is_done_by_each_of_them(monkeypatch, order):
    assert launched(adds_in_all_lanes, monkeypatch, order).tolist() == [3, 0, 0]
    assert launched(adds_in_one_lane, monkeypatch, order).tolist() == [1, 1 + 2 + 3, 3]


@compiled
def waits_in_one_lane(b, space, numbers):
    if lane() == 1:
        barrier()


@compiled
def waits_in_different_places(b, space, numbers):
    if lane() == 1:
        barrier()
    else:
        barrier()


@compiled
def waits_as_often_as_its_number(b, space, numbers):
    for _ in range(lane()):
        barrier()


@compiled
def takes_as_much_as_its_number(b, space, numbers):
    take(space, lane())
    barrier()


@compiled
def reads_what_was_released(b, space, numbers):
    before = mark(space)
    taken = take(space, 1)
    if lane() == 0:
        taken[0] = 5.0
    barrier()
    release(space, before)
    barrier()
    numbers[lane()] = taken[0]


@compiled
def raises_in_one_lane(b, space, numbers):
    if lane() == 2:
        numbers[3] = 0.0
    barrier()


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (waits_in_one_lane, r"lanes \[0, 2\] have ended; lanes \[1\] wait in waits_in_one_lane"),
        (waits_in_different_places, r"lanes \[0, 2\] wait in .* lanes \[1\] wait in waits_in_different"),
        (waits_as_often_as_its_number, r"lanes \[0\] have ended; lanes \[1, 2\] wait in waits_as_often"),
        (takes_as_much_as_its_number, r"lanes have taken \[0, 1, 2\] numbers .* in takes_as_much"),
        (raises_in_one_lane, "index 3 is out of bounds"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_lanes_that_do_not_meet_are_failures_and_do_not_wait(monkeypatch, loop, message):
    with pytest.raises((AssertionError, IndexError), match=message):
        launched(loop, monkeypatch)


def test_released_memory_is_not_a_number_after_a_barrier(monkeypatch):
    assert launched(reads_what_was_released, monkeypatch).isnan().all()


@compiled
def keeps_what_it_takes(b, space, numbers):
    numbers[b] = len(take(space, 60))


def test_every_replica_has_the_whole_workspace():
    """Also where the loop of the replica before has not released what it took."""
    numbers = torch.zeros(3, dtype=torch.float64)
    launch(keeps_what_it_takes, 3, 64, numbers)
    assert numbers.tolist() == [60, 60, 60]


@compiled
def takes_twice(b, space, numbers):
    first = take(space, 10)
    for i in range(10):
        first[i] = 1.0
    second = take(space, 60)
    for i in range(60):
        second[i] = 2.0
    numbers[0] = 0.0
    for i in range(10):
        numbers[0] += first[i]


def test_a_workspace_that_is_too_small_is_not_written_over():
    """Also after a launch that had more, whose memory is used again."""
    numbers = torch.zeros(1, dtype=torch.float64)
    for room in 100, 69, 70:
        with pytest.raises(RuntimeError) if room < 70 else nullcontext():
            launch(takes_twice, 1, room, numbers)
        assert numbers == 10


def test_lanes_find_that_a_workspace_is_too_small(monkeypatch):
    """A GPU's loops raise nothing; the launch does."""
    with pytest.raises(RuntimeError, match="takes_as_much"):
        launched(takes_as_much_as_100, monkeypatch)


@compiled
def takes_as_much_as_100(b, space, numbers):
    take(space, 100)
