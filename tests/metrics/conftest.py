"""Rounds are measured sixteen together, so that few of them are measured in several parts."""

from __future__ import annotations

import pytest

from ol2r_cli.metrics.measurement import Measurement


@pytest.fixture(autouse=True)
def _measure_sixteen_rounds_together(monkeypatch):
    monkeypatch.setattr(Measurement, "ROUNDS", 16)
