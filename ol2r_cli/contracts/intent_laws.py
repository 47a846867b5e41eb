"""The laws of schedules of intents: the shares of users with each intent, by round."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ol2r_cli.config.instantiate import build
from ol2r_cli.contracts.law import Broken, Stopped, law
from ol2r_cli.contracts.subject import Subject
from ol2r_cli.interfaces import IntentSchedule

_ROUNDS = np.arange(20_000)  # from 0
_TOLERANCE = 1e-9  # of a sum of shares
_SHAPE = "a row for each round, in the order of the argument, and a column for each intent from 1 to `largest`"


@law(_SHAPE, "`largest` is not set, or is not the largest number of an intent")
def shares(subject: Subject) -> None:
    """`shares` returns a number from 0 to 1 for each round and intent, which sum to 1 in each round."""
    schedule = _schedule(subject)
    found = _shares(schedule, _ROUNDS)
    for fault, words in ((~((found >= 0) & (found <= 1)).all(1), "from 0 to 1"), (_off(found), "1 in sum")):
        if fault.any():
            row = int(np.argmax(fault))
            raise Broken(f"round {row + 1}", f"shares must be {words}, got {' '.join(map(str, found[row]))}")


@law("a state that each call changes", "random numbers: the users are drawn elsewhere, from the seed")
def by_the_round(subject: Subject) -> None:
    """The shares of a round are the same in every call, whatever other rounds are asked for."""
    schedule = _schedule(subject)
    together = _shares(schedule, _ROUNDS)
    for some in (_ROUNDS, _ROUNDS[:1], _ROUNDS[::-997]):
        found = _shares(schedule, some)
        if (differ := (found != together[some]).any(1)).any():
            row = int(np.argmax(differ))
            one, other = together[some[row]], found[row]
            what = f"the shares are {' '.join(map(str, one))}, and {' '.join(map(str, other))} with {len(some)} rounds"
            raise Broken(f"round {int(some[row]) + 1}", what)


def _schedule(subject: Subject) -> IntentSchedule:
    """The chosen schedule; ValueError if it is none."""
    schedule: Any = build(subject.composition.config.intent)
    if not isinstance(schedule, IntentSchedule):
        raise ValueError(f"intent._target_ must be an IntentSchedule, got {type(schedule).__name__}")
    return schedule


def _shares(schedule: IntentSchedule, rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """The shares of some rounds; Stopped where they have another shape."""
    found = np.asarray(schedule.shares(rounds.copy()))
    if found.shape != (len(rounds), schedule.largest):
        expected = f"[{len(rounds)}, {schedule.largest}]"
        raise Stopped(f"{len(rounds)} rounds", f"shares must have the shape {expected}, got {list(found.shape)}")
    return found


def _off(found: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.abs(found.sum(1) - 1) > _TOLERANCE


INTENT_LAWS = (shares, by_the_round)
