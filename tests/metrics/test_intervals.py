"""What stands behind ± in `ol2r run` and in tables."""

from __future__ import annotations

import math

import pytest

from ol2r_cli.metrics.intervals import half_width, with_interval


def test_a_metric_has_its_95_percent_interval():
    """Student's t for one degree of freedom is tan(.475 pi): the error of .25 and .5 is half their distance."""
    values = {"mean": 0.375, "sd": 0.25 / math.sqrt(2), "n": 2}
    assert with_interval(values, 4) == f"0.3750 ± {math.tan(0.475 * math.pi) * 0.125:.4f}"
    assert with_interval({"mean": 0.375, "sd": None, "n": 1}, 2) == "0.38"


def test_standard_deviations_and_errors_of_four_values():
    assert half_width(3.0, 4, "sd") == 3.0
    assert half_width(3.0, 4, "se") == 1.5
    assert half_width(3.0, 4) == pytest.approx(3.182446 * 1.5)  # t of three degrees of freedom, from a printed table
    assert [half_width(3.0, 4, "none"), half_width(None, 1), half_width(3.0, 2, None)] == [None, None, None]
