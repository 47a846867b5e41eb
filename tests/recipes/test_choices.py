"""The choice of settings: two aims, grids that grow, unstable settings, and what the choice adds to an interval."""

from __future__ import annotations

import polars as pl
import pytest

from ol2r_cli.recipes.choices import GridCell, at_an_end, best, beyond_the_ends, spread_of_choice, with_choice
from tests.report.runs import only, play


def grid(root, values, **others) -> list[GridCell]:
    """Settings with learning rates, each with its validation and cumulative NDCG by seed."""
    cells: list[GridCell] = []
    for rate, (validation, online) in values.items():
        words = {"ranker.learning_rate": f"ranker.learning_rate={rate}", **others}
        trace = {"cumulative_ndcg": {seed: [0, value] for seed, value in enumerate(online)}}
        curve = {seed: [0, value] for seed, value in enumerate(validation)}
        play(root / str(rate), "ranker=pdgd", *words.values(), trace=trace, validation=curve, every=2, rounds=2)
        cells.append(GridCell(words, only(root / str(rate))))
    return cells


def test_grids_grow_by_a_factor_of_three_beyond_the_best_cell_of_either_aim(tmp_path):
    other = {"exploration": "exploration=plackett_luce"}
    cells = grid(tmp_path, {0.1: ([0.2], [0.9]), 0.3: ([0.3], [0.2]), 1: ([0.9], [0.1]), 3: ([0.8], [0.3])}, **other)
    assert best(cells, "offline") is cells[2]
    assert best(cells, "online") is cells[0]
    assert not list(at_an_end(cells, cells[2]))
    assert beyond_the_ends(cells) == [{"ranker.learning_rate": "ranker.learning_rate=0.033", **other}]
    assert beyond_the_ends(cells[:3]) == [
        {"ranker.learning_rate": "ranker.learning_rate=3", **other},
        {"ranker.learning_rate": "ranker.learning_rate=0.033", **other},
    ]
    assert beyond_the_ends(cells[:1]) == [], "one value is no grid"


def test_unstable_settings_are_chosen_where_others_are_worse_by_more_than_the_interval(tmp_path):
    unstable = ["ranker.learning_rate=3"]
    for name, values, chosen in (
        ("as good", [0.5, 0.7, 0.6], 0),
        ("better", [0.7, 0.71, 0.7], 1),
    ):
        cells = grid(tmp_path / name, {0.1: ([0.5, 0.5, 0.51], [0, 0, 0]), 3: (values, [0, 0, 0])})
        assert best(cells, "offline") is cells[1], name
        assert best(cells, "offline", unstable) is cells[chosen], name


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
