"""Settings of a constructor that takes some of them as a record."""

from __future__ import annotations

import re
from typing import Any, TypedDict, Unpack

import pytest
from torch import nn

from ol2r_cli.config.instantiate import build
from ol2r_cli.config.ranges import Count, Positive, annotations_of, keywords, settings_signature
from ol2r_cli.interfaces import Configured


class Steps(TypedDict):
    """Settings that two classes take."""

    steps: Count
    rate: Positive


class Taker(Configured):
    """Takes them beside one of its own."""

    def __init__(self, name: str, **steps: Unpack[Steps]):
        super().__init__()
        self.name, self.steps = name, steps


class PlainTaker:
    """The same, without a base class."""

    def __init__(self, name: str, **steps: Unpack[Steps]):
        self.name, self.steps = name, steps


class Plain(nn.Module):
    """Takes whatever it is given, which are no settings."""

    def __init__(self, name: str, **others: Any):
        super().__init__()


GOOD = {"_target_": f"{__name__}.Taker", "name": "a", "steps": 3, "rate": 0.5}


@pytest.mark.parametrize("taker", [Taker, PlainTaker])
def test_the_keys_of_a_record_are_settings(taker):
    """Also of a class that is no role, such as a launcher."""
    assert list(keywords(taker)) == ["name", "steps", "rate"]
    assert annotations_of(taker) == {"name": str, "steps": Count, "rate": Positive}


def test_what_is_no_record_has_no_keys():
    assert list(settings_signature(Plain).parameters) == ["name", "others"]
    assert list(keywords(Plain)) == ["name"]


def test_what_is_built_receives_the_record():
    made = build(GOOD, "ranker")
    assert (made.name, made.steps) == ("a", {"steps": 3, "rate": 0.5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "ranker.steps must be 1 or more, got 0"),
        ({"rate": 0}, "ranker.rate must be above 0, got 0"),
        ({"stepz": 3}, "Taker has no setting 'stepz': did you mean ranker.steps?"),
    ],
)
def test_the_keys_of_a_record_are_checked(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build(GOOD | change, "ranker")


def test_a_missing_key_of_a_record_is_asked_for():
    with pytest.raises(ValueError, match=r"ranker\.rate is missing: Taker needs it, type ranker\.rate=VALUE"):
        build({name: value for name, value in GOOD.items() if name != "rate"}, "ranker")
