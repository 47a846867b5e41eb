"""What the choice of settings adds to an interval."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ol2r_cli.plugins.benchmark.differences import SEED, spread_of_choice, times_drawn, with_choice
from ol2r_cli.report.best_settings import best_of
from ol2r_cli.report.estimates import of_values


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


@pytest.mark.parametrize("folds", [[None], [1, 2, 3]])
def test_a_choice_is_made_again_by_the_rule_of_unstable_settings(folds):
    """Of the unstable B each unit is better by another amount, so that it is seldom clearly better: the spread is that
    of the choices of `chosen_settings` in the same draws."""
    random = np.random.default_rng(4)
    rows = [
        {"settings": name, "fold": fold, "seed": seed, "cumulative_ndcg": value, "validation_ndcg_10": value}
        for name, mean in (("rate=.3", 10.0), ("rate=1", 11.2), ("rate=.1", 9.8))
        for fold in folds
        for seed, value in enumerate(mean + random.normal(size=4))
    ]
    frame, draws = pl.from_dicts(rows, infer_schema_length=None), np.random.default_rng(SEED)
    times = times_drawn(draws, len(folds)), times_drawn(draws, 4)
    chosen = []
    for of_folds, of_seeds in zip(*times, strict=True):
        drawn = [
            {**row, "fold": (row["fold"], copy), "seed": (row["seed"], other)}
            for row in rows
            for copy in range(of_folds[folds.index(row["fold"])])
            for other in range(of_seeds[row["seed"]])
        ]
        if len(folds) == 1:
            drawn = [{**row, "fold": None} for row in drawn]
        values = {name: {} for name in ("rate=.3", "rate=1", "rate=.1")}
        for row in drawn:
            values[row["settings"]][row["fold"], row["seed"]] = row["cumulative_ndcg"]
        means = {name: of_values(of_cell).mean for name, of_cell in values.items()}
        chosen.append(best_of(values, means, ["rate=1"]))
    means = {name: frame.filter(settings=name)["cumulative_ndcg"].mean() for name in set(chosen)}
    expected = np.std([means[name] for name in chosen])
    assert 0.05 < chosen.count("rate=1") / len(chosen) < 0.95
    assert spread_of_choice(frame, "cumulative_ndcg", ["rate=1"]) == pytest.approx(expected, rel=1e-9)
    assert spread_of_choice(frame, "cumulative_ndcg") != pytest.approx(expected, rel=1e-3)
