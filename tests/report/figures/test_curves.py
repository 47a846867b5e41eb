"""Curves: what stands on the axes is what the definition gives by hand."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from ol2r_cli.report.figures.kinds import NothingToDraw
from tests.report.figures.runs import drawn, lines, play

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
ONLINE = {"online_ndcg": {0: [0.5] * 20, 1: [0.5] * 20}}


def band(axes) -> tuple[list[float], list[float]]:
    """Lower and upper edge of the only band, by x."""
    (own,) = axes.collections
    edges: dict[float, list[float]] = {}
    for x, y in own.get_paths()[0].vertices:
        edges.setdefault(float(x), []).append(float(y))
    return [min(edges[x]) for x in sorted(edges)], [max(edges[x]) for x in sorted(edges)]


def test_learning_curve_has_means_and_intervals(tmp_path):
    play(tmp_path, trace=ONLINE, test={0: [0.25, 0.5, 0.625], 1: [0.25, 0.5625, 0.75]}, every=10)
    (axes,) = drawn(tmp_path, "learning_curve", bands="ci").axes
    assert lines(axes) == {"PairRank": ([0, 10, 20], [0.25, 0.53125, 0.6875])}
    # Half the distance of two values, times Student's t; NDCG cannot be outside 0 and 1.
    half = [0, T1 * 0.03125, T1 * 0.0625]
    low, high = band(axes)
    assert low == pytest.approx([max(m - h, 0) for m, h in zip([0.25, 0.53125, 0.6875], half, strict=True)])
    assert high == pytest.approx([min(m + h, 1) for m, h in zip([0.25, 0.53125, 0.6875], half, strict=True)])
    assert axes.get_ylabel() == "test NDCG@10"
    assert axes.get_xlabel() == "round"
    assert axes.get_title() == "MQ2008, perfect"


@pytest.mark.parametrize(
    ("bands", "half"),
    [("ci", 4.302653 * 0.125 / 3**0.5), ("sd", 0.125), ("se", 0.125 / 3**0.5), (None, 4.302653 * 0.125 / 3**0.5)],
)
def test_bands_of_three_seeds_by_hand(tmp_path, bands, half):
    play(tmp_path, trace={"online_ndcg": {s: [0] for s in range(3)}}, test={0: [0.375], 1: [0.5], 2: [0.625]})
    low, high = band(drawn(tmp_path, "learning_curve", bands=bands).axes[0])
    assert (low, high) == (pytest.approx([0.5 - half], rel=1e-5), pytest.approx([0.5 + half], rel=1e-5))
    none = drawn(tmp_path, "learning_curve", bands="none").axes[0]
    assert not none.collections
    assert lines(none) == {"PairRank": ([0], [0.5])}


def test_seeds_as_units_of_several_folds(tmp_path):
    """Folds have the means .25 and .5, which is too few for a band; the four seeds have the standard deviation s."""
    for fold, values in ((1, (0.125, 0.375)), (2, (0.5, 0.5))):
        trace = {"online_ndcg": {0: [0], 1: [0]}}
        play(tmp_path, f"dataset.fold={fold}", trace=trace, test={seed: [value] for seed, value in enumerate(values)})
    assert not drawn(tmp_path, "learning_curve").axes[0].collections
    s = statistics.stdev([0.125, 0.375, 0.5, 0.5])
    assert band(drawn(tmp_path, "learning_curve", bands="sd", units="seeds").axes[0])[1] == pytest.approx([0.375 + s])
    by_folds = drawn(tmp_path, "learning_curve", bands="se", units="folds").axes[0]
    assert band(by_folds)[1] == pytest.approx([0.375 + 0.125])
    (text,) = drawn(tmp_path, "bar", metric="test_ndcg_10", bands="sd", units="seeds").axes[0].texts
    assert text.get_text() == f"0.375 ± {s:.3f}"


def test_one_seed_has_no_band(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.5, 0.5]}}, test={0: [0.25, 0.5, 0.75]})
    (axes,) = drawn(tmp_path, "learning_curve").axes
    assert not axes.collections


def test_another_split(tmp_path):
    play(tmp_path, trace=ONLINE, test={0: [0, 0], 1: [0, 0]}, validation={0: [0.25, 0.5], 1: [0.25, 0.5]}, every=20)
    (axes,) = drawn(tmp_path, "learning_curve", split="validation").axes
    assert lines(axes)["PairRank"] == ([0, 20], [0.25, 0.5])
    assert axes.get_ylabel() == "validation NDCG@10"


def test_folds_count_the_same_and_are_the_units(tmp_path):
    play(
        tmp_path, "dataset.fold=1", trace={"online_ndcg": {0: [0], 1: [0], 2: [0]}}, test={s: [0.5] for s in (0, 1, 2)}
    )
    play(tmp_path, "dataset.fold=2", trace={"online_ndcg": {0: [0]}}, test={0: [0.75]})
    (axes,) = drawn(tmp_path, "learning_curve", bands="ci").axes
    assert lines(axes)["PairRank"] == ([0], [0.625])
    assert band(axes)[1] == [pytest.approx(min(0.625 + T1 * 0.125, 1))]


def test_runs_that_were_evaluated_in_other_rounds_are_one_curve_over_the_rounds_of_all(tmp_path):
    play(
        tmp_path, "evaluate_every=5", trace={"online_ndcg": {0: [0] * 20}}, test={0: [0.25, 0.5, 0.5, 0.5, 1]}, every=5
    )
    play(tmp_path, "evaluate_every=10", trace={"online_ndcg": {1: [0] * 20}}, test={1: [0.75, 1, 0]}, every=10)
    play(tmp_path, "evaluate_on=[validation]", trace={"online_ndcg": {1: [0] * 20, 2: [0] * 20}})  # has no test split
    (axes,) = drawn(tmp_path, "learning_curve").axes
    assert lines(axes) == {"PairRank": ([0, 10, 20], [0.5, 0.75, 0.5])}


def test_a_seed_that_two_runs_have_counts_once(tmp_path):
    for fold, values in ((1, (0.25, 0.75, 0.5)), (2, (0.5, 0.5, 0.5))):
        for seeds in ((0, 1), (1, 2)):
            trace = {"online_ndcg": {seed: [0] for seed in seeds}}
            play(tmp_path, f"dataset.fold={fold}", trace=trace, test={seed: [values[seed]] for seed in seeds})
    (axes,) = drawn(tmp_path, "learning_curve").axes
    assert lines(axes)["PairRank"][1] == [0.5], "and 0.53125 if seed 1 of fold 1 counted twice"


def test_smoothed_traces_are_means_of_the_last_rounds(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.25, 0.75, 0.5, 1, 0.125]}})
    (axes,) = drawn(tmp_path, "online_ndcg", window="2").axes
    assert lines(axes)["PairRank"] == ([2, 4, 5], [0.5, 0.75, 0.125]), "the last window has one round"
    assert axes.get_ylabel().replace("\n", " ") == "online NDCG@10, mean of the last 2 rounds"


def test_rounds_that_do_not_apply_are_left_out_of_the_mean(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.25, math.nan, math.nan, math.nan, 0.5]}})
    (axes,) = drawn(tmp_path, "online_ndcg", window=2).axes
    assert lines(axes)["PairRank"] == ([2, 5], [0.25, 0.5])


def test_cumulative_values_are_not_smoothed(tmp_path):
    play(tmp_path, trace={"cumulative_ndcg": {0: [1, 2, math.nan, 4, 6, 7, 9]}})
    (axes,) = drawn(tmp_path, "cumulative_ndcg", every=3).axes
    assert lines(axes)["PairRank"] == ([1, 3, 6, 7], [1, 2, 7, 9]), "round 3 has what was there after round 2"


@pytest.mark.parametrize(("signed", "means"), [(False, [2.0, 3.0]), ("true", [1.0, -1.0])])
def test_unfairness_with_and_without_its_sign(tmp_path, signed, means):
    play(tmp_path, trace={"unfairness": {0: [3, -4], 1: [-1, 2]}})
    (axes,) = drawn(tmp_path, "unfairness", signed=signed).axes
    assert lines(axes)["PairRank"][1] == means
    assert axes.get_yscale() == "linear"


def test_unfairness_a_hundredfold_apart_needs_a_logarithmic_axis(tmp_path):
    play(tmp_path, trace={"unfairness": {0: [1, 1]}})
    play(tmp_path, "ranker=pdgd", trace={"unfairness": {0: [1, 101]}})
    assert drawn(tmp_path, "unfairness").axes[0].get_yscale() == "log"
    assert drawn(tmp_path, "unfairness", scale="linear").axes[0].get_yscale() == "linear"


def test_blocks_at_three_ranks(tmp_path):
    play(tmp_path, trace={"block_size_1": {0: [2]}, "block_size_5": {0: [4]}, "block_size_10": {0: [8]}})
    figure = drawn(tmp_path, "block_size")
    assert [axes.get_title().replace("\n", ", ") for axes in figure.axes] == [
        f"MQ2008, perfect, rank {rank}" for rank in (1, 5, 10)
    ]
    assert [lines(axes)["PairRank"][1] for axes in figure.axes] == [[2], [4], [8]]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [("blocks", "blocks", 3), ("certain_ratio", "certain_top10", 0.5), ("violations", "violations", 2)],
)
def test_one_column_each(tmp_path, kind, column, value):
    play(tmp_path, trace={column: {0: [value]}})
    assert lines(drawn(tmp_path, kind).axes[0])["PairRank"] == ([1], [value])


def test_cosine_begins_where_there_are_weights(tmp_path):
    play(tmp_path, trace=ONLINE, test={s: [0.5] * 3 for s in (0, 1)}, cosine={s: [math.nan, 0.25, 0.5] for s in (0, 1)})
    assert lines(drawn(tmp_path, "cosine").axes[0])["PairRank"] == ([1, 2], [0.25, 0.5])


def test_a_panel_for_each_dataset_and_click_model(tmp_path):
    for dataset in ("yahoo", "mq2008"):
        for click in ("informational", "perfect"):
            play(tmp_path, f"dataset={dataset}", f"click={click}", trace=ONLINE)
    figure = drawn(tmp_path, "online_ndcg")
    assert [axes.get_title() for axes in figure.axes] == [
        *("MQ2008, perfect", "MQ2008, informational"),
        *("Yahoo, perfect", "Yahoo, informational"),
    ]
    first, second, third, _ = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_shared_y_axes().joined(first, second)
    assert not first.get_shared_y_axes().joined(first, third), "datasets have extents of their own"
    assert len(figure.legends) == 1


def test_a_short_run_of_another_dataset_has_rounds_of_its_own(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.5] * 200}})
    play(tmp_path, "dataset=yahoo", trace={"online_ndcg": {0: [0.5] * 8}})
    assert [axes.get_xlim() for axes in drawn(tmp_path, "online_ndcg").axes] == [(0, 200), (0, 8)]


def test_a_wide_interval_does_not_flatten_the_curves(tmp_path):
    play(tmp_path, trace=ONLINE, test={0: [0.25, 0.25], 1: [0.75, 0.75]}, every=20)
    play(tmp_path, "ranker=pdgd", trace=ONLINE, test={0: [0.5, 0.625], 1: [0.5, 0.625]}, every=20)
    low, high = drawn(tmp_path, "learning_curve").axes[0].get_ylim()
    assert high - low < 0.35, "means are .125 apart, and the interval has all from 0 to 1"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("learning_curve", "evaluate_on=[validation,test]"),
        ("cosine", "trace_cosine=true"),
        ("unfairness", "dataset.group="),
        ("block_size", "trace_blocks=true"),
        ("block_size_by_rank", "block_rounds=[10,100,1000]"),
        ("scatter", "x=online_ndcg"),
        ("setting", "fairness.epsilon=0.1,1,10"),
        ("lda", "ranker=olranknet"),
    ],
)
def test_missing_data_are_named_with_what_to_type(tmp_path, kind, says):
    play(tmp_path, trace=ONLINE, test=None if kind == "learning_curve" else {0: [0.5], 1: [0.5]})
    with pytest.raises(NothingToDraw, match=f"^figure {kind} needs ") as error:
        drawn(tmp_path, kind)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_curves_are_refused(tmp_path):
    for number in range(17):
        play(tmp_path, f"ranker.l2={number}")
    with pytest.raises(ValueError, match=r"at most 16 curves, got 17 groups \(MQ2008, perfect\).*--select validation"):
        drawn(tmp_path, "online_ndcg")


def test_a_damaged_table_is_named(tmp_path):
    path = play(tmp_path, trace=ONLINE)
    (path / "trace.parquet").write_bytes(b"0" * (path / "trace.parquet").stat().st_size)
    with pytest.raises(ValueError, match=rf"the tables of {path} cannot be read .*: force=true runs it again"):
        drawn(tmp_path, "online_ndcg")


def test_markers_of_several_curves_stand_side_by_side(tmp_path):
    for ranker in ("pairrank", "pdgd"):
        play(tmp_path, f"ranker={ranker}", trace={"online_ndcg": {0: list(np.linspace(0, 1, 50))}})
    first, second = (line.get_markevery() for line in drawn(tmp_path, "online_ndcg", window=1).axes[0].lines)
    assert first == (0, 10)
    assert second == (5, 10)
