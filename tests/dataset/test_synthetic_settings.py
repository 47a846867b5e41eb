"""Every setting of the generated dataset matters, is part of the fingerprint and has a range that is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from ol2r_cli.dataset.synthetic import Synthetic

from .test_synthetic import SMALL, digest, small


@pytest.mark.parametrize(
    "change",
    [
        {"queries": {"train": 9, "validation": 3, "test": 4}},
        {"documents": 21},
        {"features": 13},
        {"grades": [0.4, 0.4, 0.2]},
        {"nonlinearity": 0.4},
        {"noise": 0.7},
        {"group_ratio": 0.5},
        {"seed": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_alters_numbers_and_fingerprint(change: dict[str, Any]):
    assert digest(small(**change)) != digest(small())
    assert small(**change).fingerprint != small().fingerprint


def test_the_fingerprint_ignores_the_order_of_settings():
    reordered = {"test": 4, "train": 8, "validation": 3}
    assert small(queries=reordered).fingerprint == small().fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": {"train": 8}}, "dataset.queries must be given for train, validation, test, got ['train']"),
        (
            {"queries": {"train": 0, "validation": 3, "test": 4}},
            "dataset.queries.train must be a whole number of 1 or more, got 0",
        ),
        (
            {"queries": {"train": 8, "validation": 3, "test": 1.5}},
            "dataset.queries.test must be a whole number of 0 or more, got 1.5",
        ),
        ({"documents": 0}, "dataset.documents must be a whole number of 1 or more, got 0"),
        ({"features": 0}, "dataset.features must be a whole number of 1 or more, got 0"),
        ({"grades": [1.0]}, "dataset.grades must be 2 to 127 shares above 0 that sum to 1, got [1.0]"),
        ({"grades": [0.5, 0.4]}, "dataset.grades must be 2 to 127 shares above 0 that sum to 1, got [0.5, 0.4]"),
        ({"grades": [1.5, -0.5]}, "dataset.grades must be 2 to 127 shares above 0 that sum to 1, got [1.5, -0.5]"),
        ({"nonlinearity": 1.1}, "dataset.nonlinearity must be in 0 .. 1, got 1.1"),
        ({"noise": -1.0}, "dataset.noise must be 0 or more, got -1.0"),
        ({"noise": float("nan")}, "dataset.noise must be 0 or more, got nan"),
        ({"group_ratio": 1.0}, "dataset.group_ratio must be between 0 and 1, got 1.0"),
        ({"seed": -1}, "dataset.seed must be a whole number of 0 or more, got -1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_out_of_range_is_named(change: dict[str, Any], message: str):
    with pytest.raises(ValueError) as error:
        Synthetic(**(SMALL | change))
    assert str(error.value) == message
