"""Schedules of intents against their definitions, round by round."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.intent.schedules import Abrupt, DrawnIntents, Mixture, NoChange, Recurring, Smooth
from ol2r_cli.tensor.streams import Streams

ROUNDS = np.arange(100)


def test_abrupt_and_recurring():
    phases = [2, 4, 2, 1]
    for share in (1.0, 0.7):
        abrupt, recurring, rest = Abrupt(phases, 7, share), Recurring(phases, 7, share), (1 - share) / 2
        assert abrupt.largest == recurring.largest == 4
        wanted = {2: [rest, share, 0, rest], 4: [rest, rest, 0, share], 1: [share, rest, 0, rest]}
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


def test_intents_are_drawn_from_the_shares_by_inversion():
    """The intent is the first whose cumulated share exceeds the number of the stream, computed one by one."""
    assert Mixture([0.25, 0.5, 0.25]).shares(ROUNDS).tolist() == [[0.25, 0.5, 0.25]] * 100
    streams = Streams(torch.tensor([3, 9]))
    for schedule in (Smooth([3, 1], 20, 10, 0.8), Mixture([0.1, 0.6, 0.3]), Abrupt([1, 3], 33, 1)):
        drawn = DrawnIntents(schedule, streams)
        for t, together in enumerate(drawn(5, 60), 5):
            borders = np.cumsum(schedule.shares(np.array([t]))[0])[:-1]
            numbers = streams.at("intent", t).uniform(1)[:, 0].tolist()
            expected = [sum(number >= border for border in borders) for number in numbers]
            assert together.tolist() == drawn.at(t).tolist() == expected


def test_wrong_settings_are_explained():
    with pytest.raises(ValueError, match=r"intent\.intents must name two intents or more"):
        Abrupt([2, 2], 10, 1)
    with pytest.raises(ValueError, match=r"intent\.width must be at most intent\.every, which is 10, got 11"):
        Smooth([1, 2], 10, 11, 1)
    with pytest.raises(ValueError, match=r"intent\.shares must sum to 1"):
        Mixture([0.5, 0.4])
    assert not NoChange().changes
