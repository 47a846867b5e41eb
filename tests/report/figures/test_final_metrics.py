"""Bars, heat maps, settings, points and ranks: what stands on the axes, and every kind within its frame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.report.figures.runs import drawn, lines, play

T1 = math.tan(math.pi * 0.475)


def bars(axes) -> dict[str, float]:
    """Label -> length. Panels share their labels, which stand beside the first."""
    first = axes.figure.axes[0]
    names = {
        round(place): label.get_text() for place, label in zip(first.get_yticks(), first.get_yticklabels(), strict=True)
    }
    return {names[round(bar.get_y() + bar.get_height() / 2)]: bar.get_width() for bar in axes.patches}


def points(axes) -> dict[str, tuple[float, ...]]:
    """label -> x, y, and half the lines through the point: vertical, or horizontal and vertical."""
    own = {}
    for container in axes.containers:
        line, _, segments = container.lines
        halves = [(part.get_segments()[0][1] - part.get_segments()[0][0]).max() / 2 for part in segments]
        own[container.get_label()] = (*line.get_xdata(), *line.get_ydata(), *map(float, halves))
    return own


def test_bars_begin_at_zero_and_end_at_the_mean(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.25], 1: [0.75]}})
    play(tmp_path, "ranker=pdgd", trace={"online_ndcg": {0: [0.75]}})
    (axes,) = drawn(tmp_path, "bar", metric="online_ndcg", bands="ci").axes
    assert bars(axes) == {"PairRank": 0.5, "PDGD": 0.75}
    assert all(bar.get_x() == 0 for bar in axes.patches)
    assert axes.get_xlim()[0] == 0
    assert [text.get_text() for text in axes.texts] == [f"0.500 ± {T1 * 0.25:.3f}", "0.750"]


def test_a_group_that_a_panel_lacks_leaves_its_row_empty(tmp_path):
    play(tmp_path)
    play(tmp_path, "ranker=pdgd", "click=informational")
    first, second = drawn(tmp_path, "bar", metric="online_ndcg").axes
    assert bars(first) == {"PairRank": 0.5}
    assert bars(second) == {"PDGD": 0.5}


@pytest.mark.parametrize(("unit", "value"), [("seconds", 500.0), ("rounds", 2.0)])
def test_running_time_is_wall_clock_over_rounds(tmp_path, unit, value):
    play(tmp_path, trace={"online_ndcg": {0: [0.5] * 4, 1: [0.5] * 4}}, seconds=2.0)
    (axes,) = drawn(tmp_path, "running_time", unit=unit).axes
    assert bars(axes) == {"PairRank": value}
    assert axes.get_xlabel().replace("\n", " ").endswith("2 replicas together")


def test_setting_against_metric(tmp_path):
    for stop, values in ((0.1, (0.25, 0.75)), (1, (0.5, 0.75)), (10, (0.75, 0.75))):
        play(tmp_path, f"ranker.l2={stop}", trace={"online_ndcg": {0: [values[0]], 1: [values[1]]}})
    (axes,) = drawn(tmp_path, "setting", metric="online_ndcg", bands="ci").axes
    assert points(axes)["PairRank"][:6] == (0.1, 1, 10, 0.5, 0.625, 0.75)
    (whiskers,) = axes.containers[0].lines[2]
    assert [float(s[1][1] - s[0][1]) for s in whiskers.get_segments()] == pytest.approx([T1 * 0.5, T1 * 0.25, 0])
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "1", "10"]
    assert axes.get_xlabel() == "regularisation λ"


def test_other_settings_make_curves_of_their_own(tmp_path):
    for pairs in ("all", "matching"):
        for l2 in (1, 2):
            play(tmp_path, f"ranker.pairs={pairs}", f"ranker.l2={l2}")
    (axes,) = drawn(tmp_path, "setting", x="ranker.l2", metric="online_ndcg").axes
    assert list(points(axes)) == ["PairRank pairs=all", "PairRank pairs=matching"]
    assert axes.get_xscale() == "linear"
    (axes,) = drawn(tmp_path, "setting", x="ranker.pairs", metric="online_ndcg").axes
    assert list(points(axes)) == ["PairRank λ=1", "PairRank λ=2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["all", "matching"]
    with pytest.raises(ValueError, match=r"^x must be chosen from ranker.l2, ranker.pairs: type x=ranker.l2$"):
        drawn(tmp_path, "setting", metric="online_ndcg")


def test_grid_has_a_cell_for_each_pair_of_values(tmp_path):
    for l2 in (1, 10):
        for alpha in (0.1, 0.2, 0.3):
            if (l2, alpha) != (10, 0.3):
                play(
                    tmp_path,
                    f"ranker.l2={l2}",
                    f"exploration.alpha={alpha}",
                    trace={"online_ndcg": {0: [l2 * alpha / 4]}},
                )
    figure = drawn(tmp_path, "grid", x="exploration.alpha", y="ranker.l2", metric="online_ndcg")
    axes, colours = figure.axes
    (mesh,) = axes.collections
    cells = np.array(mesh.get_array()).reshape(2, 3)
    assert cells[0] == pytest.approx([0.025, 0.05, 0.075])
    assert cells[1, :2] == pytest.approx([0.25, 0.5])
    assert np.isnan(cells[1, 2]) or np.ma.is_masked(mesh.get_array().reshape(2, 3)[1, 2])
    assert [text.get_text() for text in axes.texts] == ["0.025", "0.050", "0.075", "0.250", "0.500"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.2", "0.3"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "10"]
    assert colours.get_ylabel() == "mean online NDCG@10"


def test_grid_refuses_several_groups_for_a_cell(tmp_path):
    for l2, alpha, stop in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1)):
        play(tmp_path, f"ranker.l2={l2}", f"exploration.alpha={alpha}", f"exploration.beta={stop}")
    drawn(tmp_path, "grid", metric="online_ndcg")
    with pytest.raises(
        ValueError, match=r"^y must be a setting that groups differ in \(ranker.l2, exploration.alpha\), got b"
    ):
        drawn(tmp_path, "grid", y="beta", metric="online_ndcg")


def test_scatter_has_both_means_and_intervals(tmp_path):
    play(tmp_path, trace={"unfairness": {0: [2], 1: [-4]}, "online_ndcg": {0: [0.25], 1: [0.5]}})
    (axes,) = drawn(tmp_path, "scatter", y="online_ndcg", bands="ci").axes
    assert points(axes)["PairRank"] == pytest.approx((3, 0.375, T1, T1 * 0.125))
    assert axes.get_xlabel() == "|cumulative unfairness|"


def test_blocks_by_rank_are_means_over_queries_that_long(tmp_path):
    sizes = {1: [[3, 3, 3], [1, 1, 0]], 2: [[1, 2, 2], [2, 2, 0]]}  # the second query has two documents
    play(tmp_path, trace={"online_ndcg": {0: [0.5] * 2, 1: [0.5] * 2}}, blocks=sizes)
    figure = drawn(tmp_path, "block_size_by_rank")
    (axes,) = figure.axes
    assert [y for _, y in lines(axes).values()] == [[2, 2, 3], [1.5, 2, 2]]
    assert axes.get_title() == "MQ2008, perfect, PairRank"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["round 1", "round 2"]
    assert len(drawn(tmp_path, "block_size_by_rank", rounds="[2]").axes[0].lines) == 1
    with pytest.raises(ValueError, match=r"^rounds must be one to 6 of 1, 2, got 1,3$"):
        drawn(tmp_path, "block_size_by_rank", rounds="1,3")
