"""Every kind stays within its frame: nothing is cut off, nothing overlaps, at the width of a column and of a page."""

from __future__ import annotations

import pytest

from ol2r_cli.report.figures.drawing import KINDS, draw
from tests.report.figures.runs import drawn, groups_and_labels, play


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Three rankers, two click models and two datasets with all that can be drawn, names long and numbers large."""
    root = tmp_path_factory.mktemp("many")
    for place, ranker in enumerate(("pairrank", "olranknet", "offline_ranknet")):
        for dataset in ("mslr_web10k", "synthetic"):
            for click in ("navigational", "informational"):
                level = 0.3 + place / 20
                trace = {
                    "online_ndcg": {seed: [level + seed / 50] * 6 for seed in (0, 1)},
                    "cumulative_ndcg": {seed: [1000.0 * level * (t + 1) for t in range(6)] for seed in (0, 1)},
                    "unfairness": {seed: [30.0 ** (place - 1)] * 6 for seed in (0, 1)},
                    **{f"block_size_{rank}": {0: [120] * 6, 1: [60] * 6} for rank in (1, 5, 10)},
                    "blocks": {0: [3] * 6, 1: [4] * 6},
                    "certain_top10": {0: [level] * 6, 1: [1.0] * 6},
                    "violations": {0: [3] * 6, 1: [40] * 6},
                }
                curve = {0: [0.1, level], 1: [0.2, level]}
                words = [f"ranker={ranker}", f"dataset={dataset}", f"click={click}"]
                if ranker == "pairrank":
                    words += ["fairness=fairexp", "fairness.epsilon=0.1"]
                play(root, *words, trace=trace, test=curve, cosine=curve, every=5, blocks={1: [[60] * 60, [30] * 60]})
    for l2 in (0.0001, 0.001):
        for alpha in (0.01, 0.1):
            play(
                root / "grid",
                f"ranker.l2={l2}",
                f"exploration.alpha={alpha}",
                trace={"online_ndcg": {0: [l2], 1: [0.5]}},
            )
    return root


FAST = {("learning_curve", "page"), ("grid", "page"), ("running_time", "page")} | {
    (kind, "column")
    for kind in ("learning_curve", "unfairness", "block_size", "block_size_by_rank", "running_time", "grid", "scatter")
}


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        pytest.param(kind, width, marks=[] if (kind, width) in FAST else pytest.mark.slow)
        for kind in KINDS
        if kind != "lda"
        for width in ("column", "page")
    ],
)
def test_nothing_is_cut_off_and_nothing_overlaps(many, kind, width):
    root, options = (many / "grid", {"metric": "online_ndcg"}) if kind in ("grid", "setting") else (many, {})
    if kind == "measure":
        options["column"] = "online_ndcg"
    if kind == "setting":
        options["x"] = "ranker.l2"
    if kind == "block_size_by_rank":
        own, labels = groups_and_labels(many)
        figure = draw(kind, own[:6], labels, width=width)
    else:
        figure = drawn(root, kind, width=width, **options)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    frame = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box.x0 >= frame.x0 - 1
        assert box.x1 <= frame.x1 + 1
        assert box.y0 >= frame.y0 - 1
        assert box.y1 <= frame.y1 + 1
        assert axes.get_window_extent(renderer).height > 40, "a panel has room for its curves"
        assert axes.get_window_extent(renderer).width > 5
        for legend in figure.legends:
            assert not legend.get_window_extent(renderer).overlaps(box)
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.padded(-3).overlaps(other.padded(-3)) for other in boxes[:place])
    for legend in figure.legends:
        box = legend.get_window_extent(renderer)
        assert box.x0 >= 0
        assert box.x1 <= frame.x1
        assert box.y0 >= 0
    assert figure.get_figwidth() == {"column": 3.3, "page": 7.0}[width]


def test_a_legend_takes_no_room_from_the_panels(tmp_path):
    heights = []
    for count in (1, 12):
        root = tmp_path / f"{count}"
        for number in range(count):
            play(root, f"ranker=a_ranker_with_a_long_name_{number}")
        figure = drawn(root, "online_ndcg", width="column")
        figure.canvas.draw()
        heights.append(figure.axes[0].get_window_extent().height)
    assert heights[1] > 0.9 * heights[0], "twelve lines of names make the figure higher"


def test_numbers_beside_bars_stay_within_the_panel(tmp_path):
    play(tmp_path, trace={"unfairness": {0: [1000000], 1: [1000100]}})
    figure = drawn(tmp_path, "bar", metric="unfairness", width=2)
    figure.canvas.draw()
    (axes,) = figure.axes
    (number,) = axes.texts
    assert number.get_window_extent().x1 <= axes.get_window_extent().x1
