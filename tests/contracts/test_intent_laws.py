"""Every law of schedules is broken by a schedule that breaks it, and the shipped schedules keep all."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.contracts.laws import check
from ol2r_cli.interfaces import IntentSchedule


class Halves(IntentSchedule):
    """Keeps the laws: half of the users have each of two intents."""

    largest = 2

    def shares(self, rounds):
        return np.full((len(rounds), 2), 0.5)


class WithoutLargest(Halves):
    largest = 1


class ColumnsOfRounds(Halves):
    def shares(self, rounds):
        return super().shares(rounds).T


class MoreThanAll(Halves):
    def shares(self, rounds):
        return super().shares(rounds) * np.where(rounds < 30, 1, 1.5)[:, None]


class BelowNothing(Halves):
    def shares(self, rounds):
        return super().shares(rounds) + np.where(rounds < 30, 0, 1)[:, None] * [1, -1]


class Counts(Halves):
    calls = 0

    def shares(self, rounds):
        Counts.calls += 1
        return np.stack([np.full(len(rounds), 1 / Counts.calls), np.full(len(rounds), 1 - 1 / Counts.calls)], 1)


class ByPlace(Halves):
    """Takes the place in the argument for the round."""

    def shares(self, rounds):
        first = np.arange(len(rounds)) % 2
        return np.stack([first, 1 - first], 1)


BROKEN = {
    WithoutLargest: ("shares", "shares must have the shape [20000, 1], got [20000, 2]"),
    ColumnsOfRounds: ("shares", "shares must have the shape [20000, 2], got [2, 20000]"),
    MoreThanAll: ("shares", "shares must be 1 in sum, got 0.75 0.75"),
    BelowNothing: ("shares", "shares must be from 0 to 1, got 1.5 -0.5"),
    Counts: ("by the round", "the shares are"),
    ByPlace: ("by the round", "the shares are 1 0, and 0 1 with 21 rounds"),
}


def report(cls: type[IntentSchedule], folder: Path):
    (folder / "intent").mkdir(exist_ok=True)
    (folder / "intent" / "my_own.yaml").write_text(f"# Ours.\n_target_: {__name__}.{cls.__name__}\n")
    assert __name__ in sys.modules
    return check(["intent=my_own", f"--config-dir={folder}"])


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_schedule_breaks_its_law(cls: type[IntentSchedule], tmp_path: Path):
    law, words = BROKEN[cls]
    violation = report(cls, tmp_path).violations[0]
    assert violation.law == law
    assert words in violation.difference
    assert violation.causes
    if cls in (MoreThanAll, BelowNothing):
        assert violation.input == "round 31"


def test_a_sound_schedule_keeps_them_all(tmp_path: Path):
    assert report(Halves, tmp_path).passed == ("settings", "shares", "by the round")


@pytest.mark.parametrize("name", Catalogue().choices["intent"])
def test_the_schedules_of_ol2r_keep_them_all(name: str):
    assert check([f"intent={name}"]).ok
