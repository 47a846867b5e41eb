"""Schedules of intents against their definitions, round by round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.intent.schedules import Abrupt, DrawnIntents, Mixture, NoChange, Recurring, Smooth
from ol2r_cli.interfaces import IntentSchedule
from ol2r_cli.tensor.streams import Streams

ROUNDS = np.arange(100)


def by_phase(phases: list[int], share: float, largest: int) -> dict[int, list[float]]:
    """Intent of a phase -> the shares of all intents in it."""
    rest = (1 - share) / (len(set(phases)) - 1)
    return {
        intent: [share if other == intent else rest if other in phases else 0.0 for other in range(1, largest + 1)]
        for intent in phases
    }


def test_abrupt_and_recurring():
    for share in (1.0, 0.7):
        check_phases(share)


def check_phases(share: float) -> None:
    phases = [2, 4, 2, 1]
    abrupt, recurring = Abrupt(phases, 7, share), Recurring(phases, 7, share)
    assert abrupt.largest == recurring.largest == 4
    wanted = by_phase(phases, share, 4)
    for t, now, again in zip(ROUNDS, abrupt.shares(ROUNDS), recurring.shares(ROUNDS), strict=True):
        assert now == pytest.approx(wanted[phases[min(t // 7, 3)]])
        assert again == pytest.approx(wanted[phases[t // 7 % 4]])


def test_smooth_moves_in_equal_steps_at_the_end_of_a_phase():
    shares = Smooth([1, 2, 3], 10, 4, 1).shares(np.arange(30))
    assert shares[:7].tolist() == [[1, 0, 0]] * 7  # the first round of the change still has the shares before it
    assert shares[6:11, 0] == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert shares[6:11, 1] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert shares[16:21, 1] == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    assert shares[20:].tolist() == [[0, 0, 1]] * 10
    np.testing.assert_array_equal(Smooth([1, 2], 10, 0, 1).shares(ROUNDS), Abrupt([1, 2], 10, 1).shares(ROUNDS))


def test_a_mixture_stays():
    assert Mixture([0.25, 0.5, 0.25]).shares(ROUNDS).tolist() == [[0.25, 0.5, 0.25]] * 100


def test_intents_are_drawn_from_the_shares_by_inversion():
    for schedule in (Smooth([3, 1], 20, 10, 0.8), Mixture([0.1, 0.6, 0.3]), Abrupt([1, 3], 33, 1)):
        check_drawn(schedule)


def check_drawn(schedule: IntentSchedule) -> None:
    """The intent is the first whose cumulated share exceeds the number of the stream, computed one by one."""
    seeds = [3, 9]
    drawn = DrawnIntents(schedule, Streams(torch.tensor(seeds)))
    together = drawn(5, 60)
    for t in range(5, 65):
        shares = schedule.shares(np.array([t]))[0]
        for place, seed in enumerate(seeds):
            left = float(Streams(torch.tensor([seed]), ahead=1).at("intent", t).uniform(1))
            intent = 0
            while intent < len(shares) - 1 and left >= shares[intent]:
                left -= shares[intent]
                intent += 1
            assert together[t - 5, place] == drawn.at(t)[place] == intent


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match=r"intent\.intents must name two intents or more"):
        Abrupt([2, 2], 10, 1)
    with pytest.raises(ValueError, match=r"intent\.width must be at most intent\.every, which is 10, got 11"):
        Smooth([1, 2], 10, 11, 1)
    with pytest.raises(ValueError, match=r"intent\.shares must sum to 1"):
        Mixture([0.5, 0.4])
    assert not NoChange().changes
