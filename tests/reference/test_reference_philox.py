"""Philox against the published answers."""

from __future__ import annotations

from tests.reference.philox import PUBLISHED, philox4x32


def test_published_answers():
    assert [philox4x32(counter, key) for counter, key, _ in PUBLISHED] == [answer for *_, answer in PUBLISHED]
