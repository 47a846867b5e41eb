"""What the choice of settings adds to an interval."""

from __future__ import annotations

import polars as pl
import pytest

from ol2r_cli.plugins.benchmark.differences import spread_of_choice, with_choice


def choosing_runs() -> pl.DataFrame:
    """Of two seeds, (0, 0), (0, 1) and (1, 0) choose A for both aims, and (1, 1) chooses B."""
    rows = [
        {"settings": name, "fold": None, "seed": seed, "validation_ndcg_10": aim, "cumulative_ndcg": aim, **others}
        for name, aims, others in (
            ("A", (1.0, 0.0), {"unfairness": 0.6, "dynamic_regret": 1.0}),
            ("B", (0.0, 0.9), {"unfairness": 0.2, "dynamic_regret": None}),
        )
        for seed, aim in enumerate(aims)
    ]
    return pl.from_dicts(rows)


def test_the_spread_of_a_choice_is_that_of_choosing_again():
    """The means over both seeds are .6 or .2, and of validation .5 or .45."""
    frame = choosing_runs()
    assert spread_of_choice(frame, "unfairness") == pytest.approx(0.4 * (3 / 16) ** 0.5, rel=0.05)
    assert spread_of_choice(frame, "cumulative_ndcg") == pytest.approx(0.05 * (3 / 16) ** 0.5, rel=0.05)
    assert with_choice(3, 4 / 1.959964) == pytest.approx(5, abs=1e-4)


def test_the_spread_of_validation_stands_for_that_of_test():
    """Choosing runs are not evaluated on test queries. Any other metric that they lack has no spread, not one of 0."""
    frame = choosing_runs()
    assert spread_of_choice(frame, "test_ndcg_10") == pytest.approx(0.05 * (3 / 16) ** 0.5, rel=0.05)
    for metric in ("dynamic_regret", "violations"):
        with pytest.raises(ValueError, match=f"{metric} must be a metric of the choosing runs"):
            spread_of_choice(frame, metric)
        assert spread_of_choice(frame.filter(settings="A"), metric) == 0, "without a choice"
