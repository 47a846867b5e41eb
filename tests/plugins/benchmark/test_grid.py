"""The choice within a grid: two aims, grids that grow, unstable settings."""

from __future__ import annotations

from ol2r_cli.plugins.benchmark.play import at_an_end, beyond_the_ends, choose
from ol2r_cli.plugins.benchmark.recipe import Competitor, Condition
from ol2r_cli.plugins.benchmark.results import Row
from tests.report.runs import only, play

PDGD = Competitor("ranker=pdgd")


def grid(root, values, **others) -> list[Row]:
    """Settings with learning rates, each with its validation and cumulative NDCG by seed."""
    cells: list[Row] = []
    for rate, (validation, online) in values.items():
        words = {"ranker.learning_rate": f"ranker.learning_rate={rate}", **others}
        trace = {"cumulative_ndcg": {seed: [0, value] for seed, value in enumerate(online)}}
        curve = {seed: [0, value] for seed, value in enumerate(validation)}
        play(root / str(rate), "ranker=pdgd", *words.values(), trace=trace, validation=curve, every=2, rounds=2)
        cells.append(Row(Condition("small", "perfect", "PDGD"), words, (), only(root / str(rate))))
    return cells


def test_grids_grow_threefold_beyond_the_best_cell(tmp_path):
    """Grids grow by a factor of three beyond the best cell of either aim."""
    other = {"exploration": "exploration=plackett_luce"}
    cells = grid(tmp_path, {0.1: ([0.2], [0.9]), 0.3: ([0.3], [0.2]), 1: ([0.9], [0.1]), 3: ([0.8], [0.3])}, **other)
    assert choose(cells, "offline", PDGD) is cells[2]
    assert choose(cells, "online", PDGD) is cells[0]
    assert not list(at_an_end(cells, cells[2].settings))
    assert beyond_the_ends(cells, PDGD) == [{"ranker.learning_rate": "ranker.learning_rate=0.033", **other}]
    assert beyond_the_ends(cells[:3], PDGD) == [
        {"ranker.learning_rate": "ranker.learning_rate=3", **other},
        {"ranker.learning_rate": "ranker.learning_rate=0.033", **other},
    ]
    assert beyond_the_ends(cells[:1], PDGD) == [], "one value is no grid"


def test_unstable_settings_are_chosen_where_clearly_better(tmp_path):
    """Unstable settings are chosen where others are worse by more than the interval."""
    unstable = Competitor("ranker=pdgd", unstable="ranker.learning_rate=3")
    for name, values, chosen in (
        ("as good", [0.5, 0.7, 0.6], 0),
        ("better", [0.7, 0.71, 0.7], 1),
    ):
        cells = grid(tmp_path / name, {0.1: ([0.5, 0.5, 0.51], [0, 0, 0]), 3: (values, [0, 0, 0])})
        assert choose(cells, "offline", PDGD) is cells[1], name
        assert choose(cells, "offline", unstable) is cells[chosen], name
