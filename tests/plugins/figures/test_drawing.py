"""Figures: what stands on the axes is what the definition gives by hand, within the frame, and the same everywhere."""

from __future__ import annotations

import math
import re
import statistics
from inspect import signature
from itertools import combinations, product
from pathlib import Path

import pytest

from ol2r_cli.plugins.figures import ENDINGS
from ol2r_cli.plugins.figures.drawing import draw, painter, save
from ol2r_cli.plugins.figures.kinds import KINDS
from ol2r_cli.plugins.figures.look import NothingToDraw
from ol2r_cli.report.names import Labels
from tests import cases
from tests.plugins.figures.axes import band, panel
from tests.program import python
from tests.report.runs import drawn, groups_and_labels, lines, make, play

FOLDS = {"bands": "se", "units": "folds"}
NEEDED = {  # options
    "measure": {"column": "online_ndcg"},
    "differences": {"baseline": "pairrank"},
    "trial": {"baseline": "pairrank", "metric": "online_ndcg"},
}
NAN = math.nan
T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
DATASETS, USERS = ("dataset=mslr_web10k", "dataset=synthetic"), ("click=navigational", "click=informational")
ONLINE = {"online_ndcg": {0: [0.5] * 20, 1: [0.5] * 20}}


def names_of_rows(figure) -> dict[int, str]:
    """The labels of rows by their places. Panels share them: they stand beside the first."""
    first = figure.axes[0]
    ticks = zip(first.get_yticks(), first.get_yticklabels(), strict=True)
    return {round(place): label.get_text() for place, label in ticks}


def bars(axes) -> dict[str, float]:
    """Label -> length."""
    names = names_of_rows(axes.figure)
    return {names[round(bar.get_y() + bar.get_height() / 2)]: bar.get_width() for bar in axes.patches}


def curve(root: Path, kind: str, **options) -> tuple[list[float], list[float]]:
    """x and y of the only curve."""
    ((name, shown),) = lines(panel(root, kind, **options)).items()
    assert name == "PairRank"
    return shown


def test_means_and_bands_by_hand(tmp_path):
    """Two seeds in three rounds."""
    test = {0: [0.25, 0.5, 0.625], 1: [0.25, 0.5625, 0.75]}
    play(tmp_path, trace=ONLINE, test=test, validation={0: [0.25, 0.5, 0.5], 1: [0.25, 0.5, 0.5]}, every=10)
    axes, means = panel(tmp_path, "learning_curve", bands="ci"), [0.25, 0.53125, 0.6875]
    assert lines(axes) == {"PairRank": ([0, 10, 20], means)}
    halves = [0, T1 * 0.03125, T1 * 0.0625]
    low, high = [max(m - h, 0) for m, h in zip(means, halves, strict=True)], [0.25, 0.53125 + halves[1], 1]
    assert band(axes) == (pytest.approx(low), pytest.approx(high)), "no NDCG is above 1"
    assert (axes.get_ylabel(), axes.get_xlabel(), axes.get_title()) == ("test NDCG@10", "round", "MQ2008, perfect")
    assert not panel(tmp_path, "learning_curve").collections, "two units are too few for a band"
    axes = panel(tmp_path, "learning_curve", split="validation")
    assert (lines(axes)["PairRank"][1], axes.get_ylabel()) == ([0.25, 0.5, 0.5], "validation NDCG@10")


def play_three(root: Path):
    play(root, trace={"online_ndcg": {s: [0] for s in range(3)}}, test={0: [0.375], 1: [0.5], 2: [0.625]})


def test_three_seeds_have_a_band_unless_none_is_wanted(tmp_path):
    play_three(tmp_path)
    half = 4.302653 / 3**0.5 * 0.125  # Student's t of two degrees of freedom
    low, high = band(panel(tmp_path, "learning_curve"))
    assert (low, high) == (pytest.approx([0.5 - half], rel=1e-5), pytest.approx([0.5 + half], rel=1e-5))
    assert not panel(tmp_path, "learning_curve", bands="none").collections


def test_folds_count_the_same_and_are_the_units(tmp_path):
    """A fold of three seeds with mean .5 beside one with .75."""
    play_three(tmp_path)
    play(tmp_path, "dataset.fold=2", trace={"online_ndcg": {0: [0]}}, test={0: [0.75]})
    axes = panel(tmp_path, "learning_curve")
    assert (lines(axes), [*axes.collections]) == ({"PairRank": ([0], [0.625])}, [])
    sd = statistics.stdev([0.375, 0.5, 0.625, 0.75])
    for options, top in (({"bands": "ci"}, 1), ({"bands": "sd", "units": "seeds"}, 0.625 + sd), (FOLDS, 0.75)):
        assert band(panel(tmp_path, "learning_curve", **options))[1] == pytest.approx([top]), options
    (text,) = panel(tmp_path, "bar", metric="test NDCG@10", bands="sd", units="seeds").texts
    assert text.get_text() == f"0.625 ± {sd:.3f}"


def test_runs_of_a_group_are_one_curve(tmp_path):
    zeros = [0] * 20
    every_5, every_10 = {0: [0.25, 0.5, 0.5, 0.5, 1]}, {1: [0.75, 1, 0]}
    play(tmp_path, "evaluate_every=5", trace={"online_ndcg": {0: zeros}}, test=every_5, every=5)
    play(tmp_path, "evaluate_every=10", trace={"online_ndcg": {1: zeros}}, test=every_10, every=10)
    play(tmp_path, "evaluate_on=[validation]", trace={"online_ndcg": {1: zeros, 2: zeros}})  # no test split
    assert curve(tmp_path, "learning_curve") == ([0, 10, 20], [0.5, 0.75, 0.5]), "over the rounds of all"


def test_a_seed_of_a_fold_counts_once(tmp_path):
    for fold, values in ((1, (0.25, 0.75, 0.5)), (2, (0.5, 0.5, 0.5))):
        for seeds in ((0, 1), (1, 2)):
            trace = {"online_ndcg": {seed: [0] for seed in seeds}}
            play(tmp_path, f"dataset.fold={fold}", trace=trace, test={seed: [values[seed]] for seed in seeds})
    assert curve(tmp_path, "learning_curve")[1] == [0.5], "and 0.53125 if seed 1 of fold 1 counted twice"


def test_windows_have_means_of_rounds_that_apply(tmp_path):
    play(tmp_path / "a", trace={"online_ndcg": {0: [0.25, 0.75, 0.5, 1, 0.125]}})
    axes = panel(tmp_path / "a", "online_ndcg", window="2")
    assert lines(axes)["PairRank"] == ([2, 4, 5], [0.5, 0.75, 0.125]), "the last window has one round"
    assert axes.get_ylabel().replace("\n", " ") == "online NDCG@10, mean of the last 2 rounds"
    play(tmp_path / "b", trace={"online_ndcg": {0: [0.25, NAN, NAN, NAN, 0.5]}})
    assert curve(tmp_path / "b", "measure", column="online_ndcg", window=2) == ([2, 5], [0.25, 0.5])


@pytest.mark.parametrize(("kind", "options"), [
    ("cumulative_ndcg", {"every": 3}), ("measure", {"column": "cumulative_ndcg", "window": "3"}),
])  # fmt: skip
def test_running_totals_stay_where_a_round_does_not_apply(tmp_path, kind, options):
    play(tmp_path, trace={"cumulative_ndcg": {0: [1, 2, NAN, 4, 6, 7, 9]}})
    assert curve(tmp_path, kind, **options) == ([1, 3, 6, 7], [1, 2, 7, 9])


def test_unfairness_has_a_sign_or_a_scale(tmp_path):
    play(tmp_path, trace={"unfairness": {0: [3, -4], 1: [-1, 2]}})
    for signed, means in (False, [2.0, 3.0]), ("true", [1.0, -1.0]):
        axes = panel(tmp_path, "unfairness", signed=signed)
        assert (lines(axes)["PairRank"][1], axes.get_yscale()) == (means, "linear"), signed
    play(tmp_path, "ranker=pdgd", trace={"unfairness": {0: [1, 301]}})
    scales = [panel(tmp_path, "unfairness", scale=scale).get_yscale() for scale in ("auto", "linear", "log")]
    assert scales == ["log", "linear", "log"], "a hundredfold apart"
    with pytest.raises(ValueError, match=r"^ylim must be above 0 on a logarithmic axis, got 0$"):
        panel(tmp_path, "unfairness", scale="log", ylim="0,1")


@pytest.mark.filterwarnings("ignore:Data has no positive values")
def test_a_logarithmic_axis_needs_a_value_above_0(tmp_path):
    play(tmp_path, trace={"online_ndcg": {0: [0.5]}, "unfairness": {0: [0.0]}})
    with pytest.raises(ValueError, match=r"^scale must be linear where no value is above 0, got log$"):
        drawn(tmp_path, "unfairness", scale="log")


def test_bands_on_a_logarithmic_axis_are_those_of_logarithms(tmp_path):
    """log m has the standard error s / m, so that the band ends at m exp(-t s / m) and m exp(t s / m), above 0."""
    play(tmp_path, trace={"unfairness": {0: [1], 1: [3]}})
    axes = panel(tmp_path, "unfairness", scale="log", bands="ci")
    ratio = math.exp(T1 * 1 / 2)  # the standard error of 1 and 3 is half their distance
    assert band(axes) == (pytest.approx([2 / ratio]), pytest.approx([2 * ratio]))
    assert band(panel(tmp_path, "unfairness", bands="ci")) == ([0], pytest.approx([2 + T1]))


@pytest.mark.parametrize("kind", ["learning_curve", "bar", "unfairness"])
def test_limits_and_labels_of_axes_are_options_of_every_kind(tmp_path, kind):
    play(tmp_path, trace={"unfairness": {0: [1, 2]}}, test={0: [0.25, 0.5]})
    axes = panel(tmp_path, kind, xlim="0.5,2", ylim=[-1, 3], xlabel="T", ylabel="quality")
    assert (axes.get_xlim(), axes.get_ylim()) == ((0.5, 2), (-1, 3))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("T", "quality")


def test_titles_of_a_row_have_equally_many_lines(tmp_path):
    for click in ("perfect", "a_click_model_with_a_name_that_is_longer_than_a_panel"):
        play(tmp_path, f"click={click}", trace=ONLINE)
    first, second = drawn(tmp_path, "online_ndcg", width=5).axes
    assert first.get_title().count("\n") == second.get_title().count("\n") > 0
    first.figure.canvas.draw()
    tops = [axes.title.get_window_extent().y1 for axes in (first, second)]
    assert tops[0] == pytest.approx(tops[1], abs=1.5)  # pixels: letters are of several heights


def test_paired_differences_by_hand(tmp_path):
    """Both rankers vary by seed, but the difference hardly does: it is significant, though the intervals overlap."""
    base = {0: 0.1, 1: 0.3, 2: 0.5, 3: 0.7}
    other = {seed: value + 0.05 + 0.002 * (-1) ** seed for seed, value in base.items()}
    for click in ("perfect", "informational"):
        make(tmp_path, f"click={click}", test=base)
        make(tmp_path, f"click={click}", "ranker=pdgd", test=other)
        make(tmp_path, f"click={click}", "ranker=dbgd", test={0: 0.4, 1: 0.4, 2: 0.4, 3: 0.4})
    half = 3.182446 * statistics.stdev([0.052, 0.048, 0.052, 0.048]) / 4**0.5  # Student's t of three degrees of freedom
    figure = drawn(tmp_path, "differences", baseline="pairrank")
    names = names_of_rows(figure)
    for axes in figure.axes:
        shown = {}
        for marker, _, (error, *_) in (container.lines for container in axes.containers):
            ends = [x for x, _ in error.get_segments()[0]]
            is_significant = marker.get_markerfacecolor() != "white"
            shown[names[marker.get_ydata()[0]]] = (*marker.get_xdata(), ends, is_significant)
        assert shown == {  # without the baseline
            "PDGD": (pytest.approx(0.05), pytest.approx([0.05 - half, 0.05 + half], rel=1e-5), True),
            "DBGD": (pytest.approx(0, abs=1e-7), pytest.approx([-0.4108, 0.4108], abs=1e-4), False),
        }
        assert [0, 0] in [list(line.get_xdata()) for line in axes.lines], "a line at 0"
        assert re.split(r", |\n", axes.get_xlabel()) == ["test NDCG@10", "minus that of PairRank"]


def test_blocks_certainty_violations_and_cosine(tmp_path):
    sizes = {f"block_size_{rank}": {0: [2 * rank]} for rank in (1, 5, 10)}
    others = {"blocks": 3, "certain_top10": 0.5, "violations": 2}
    trace = sizes | {name: {0: [value]} for name, value in others.items()}
    play(tmp_path, trace=trace, test={0: [0.5] * 3}, cosine={0: [math.nan, 0.25, 0.5]})
    shown = [(axes.get_title().replace("\n", ", "), lines(axes)) for axes in drawn(tmp_path, "block_size").axes]
    assert shown == [(f"MQ2008, perfect, rank {r}", {"PairRank": ([1], [2 * r])}) for r in (1, 5, 10)]
    for kind, value in {"blocks": 3, "certain_ratio": 0.5, "violations": 2}.items():
        assert curve(tmp_path, kind) == ([1], [value]), kind
    assert curve(tmp_path, "cosine") == ([1, 2], [0.25, 0.5])


def test_a_panel_for_each_dataset_and_click_model(tmp_path):
    for dataset, rounds in (("yahoo", 20), ("mq2008", 8)):
        for click in ("informational", "perfect"):
            play(tmp_path, f"dataset={dataset}", f"click={click}", trace={"online_ndcg": {0: [0.5] * rounds}})
    figure = drawn(tmp_path, "online_ndcg")
    first, second, third, _ = figure.axes
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"{name}, {users}" for name in ("MQ2008", "Yahoo") for users in ("perfect", "informational")]
    assert first.get_ylim() == second.get_ylim()
    assert first.get_shared_y_axes().joined(first, second)
    assert not first.get_shared_y_axes().joined(first, third), "datasets have extents of their own"
    assert [axes.get_xlim() for axes in (first, third)] == [(0, 8), (0, 20)], "and rounds of their own"
    assert len(figure.legends) == 1


def test_wide_intervals_leave_curves_legible(tmp_path):
    play(tmp_path, trace=ONLINE, test={0: [0.25, 0.25], 1: [0.75, 0.75]}, every=20)
    play(tmp_path, "ranker=pdgd", trace=ONLINE, test={0: [0.5, 0.625], 1: [0.5, 0.625]}, every=20)
    low, high = panel(tmp_path, "learning_curve", bands="ci").get_ylim()
    assert high - low < 0.35, "means are .125 apart, and the interval has all from 0 to 1"
    marked = [line.get_markevery() for line in panel(tmp_path, "online_ndcg", window=1).lines]
    assert marked == [(0, 4), (2, 4)], "markers of several curves stand side by side"


def test_figures_with_long_legends_are_higher(tmp_path):
    heights = []
    for number in range(12):
        play(tmp_path, f"ranker=a_ranker_with_a_long_name_{number}", trace=ONLINE)
        if number in (0, 11):
            axes = panel(tmp_path, "online_ndcg", width="column")
            axes.figure.canvas.draw()
            heights.append(axes.get_window_extent().height)
    assert heights[1] > 0.9 * heights[0]


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> Path:
    """A run with the least that there is."""
    root = tmp_path_factory.mktemp("one")
    play(root)
    return root


def options_of(words: list[str]) -> dict[str, str]:
    """Options as they are typed."""
    return dict(word.split("=", 1) for word in words)


NEEDS = """
learning_curve | evaluate_on=[validation,test]
cosine | trace_cosine=true
unfairness | dataset.group=
block_size | blocks in measures
block_size_by_rank | block_rounds=[10,100,1000]
lda | ranker=olranknet
by_setting setting=ranker.decay metric=online_ndcg | runs with several numbers for the setting: --option setting=NAME
"""


@pytest.mark.parametrize(("asked", "typed"), cases.lines(NEEDS))
def test_missing_data_are_named_with_what_to_type(one, asked, typed):
    kind, *options = asked.split()
    with pytest.raises(NothingToDraw, match=rf"^figure {kind} needs .*{re.escape(typed)}"):
        drawn(one, kind, **options_of(options))


def test_too_many_curves_are_named(tmp_path):
    for number in range(17):
        play(tmp_path, f"ranker.l2={number}")
    with pytest.raises(ValueError, match=r"at most 16 curves, got 17 groups \(MQ2008, perfect\).*--select validation"):
        drawn(tmp_path, "online_ndcg")


def test_a_damaged_table_is_named(tmp_path):
    path = play(tmp_path)
    groups, labels = groups_and_labels(tmp_path)
    (path / "trace.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=rf"the tables of {path} cannot be read .*: force=true runs it again"):
        draw("online_ndcg", groups, labels)


@pytest.fixture
def two_rankers(tmp_path) -> Path:
    play(tmp_path, trace={"online_ndcg": {0: [0.25], 1: [0.75]}}, seconds=2.0)
    play(tmp_path, "ranker=pdgd", trace={"online_ndcg": {0: [0.75]}})
    return tmp_path


def test_bars_begin_at_zero_and_end_at_the_mean(two_rankers):
    axes = panel(two_rankers, "bar", metric="online_ndcg", bands="ci")
    assert bars(axes) == {"PairRank": 0.5, "PDGD": 0.75}
    assert {0, axes.get_xlim()[0]} == {bar.get_x() for bar in axes.patches}
    assert [text.get_text() for text in axes.texts] == [f"0.500 ± {T1 * 0.25:.3f}", "0.750"]
    play(two_rankers, "ranker=dbgd", "click=informational")
    first, second = drawn(two_rankers, "bar", metric="online_ndcg").axes
    assert (bars(first), bars(second)) == ({"PairRank": 0.5, "PDGD": 0.75}, {"DBGD": 0.5}), "a missing row is empty"


@pytest.mark.parametrize(
    ("unit", "values"), [("milliseconds", (2000, 1000)), ("seconds", (2, 1)), ("rounds", (0.5, 1))]
)
def test_running_time_is_wall_clock_over_rounds(two_rankers, unit, values):
    axes = panel(two_rankers, "running_time", unit=unit)
    assert bars(axes) == dict(zip(("PairRank", "PDGD"), values, strict=True))
    assert re.fullmatch(rf"{unit}.*1 or 2 replicas together", axes.get_xlabel().replace("\n", " "))


def test_numbers_beside_bars_have_room(tmp_path):
    play(tmp_path, trace={"unfairness": {0: [1000000], 1: [1000100]}})
    axes = panel(tmp_path, "bar", metric="unfairness", width=2)
    axes.figure.canvas.draw()
    assert axes.texts[0].get_window_extent().x1 <= axes.get_window_extent().x1


def test_a_metric_is_drawn_over_a_setting(tmp_path):
    """NDCG at three values of a setting, in any order, and a level line without it; bands are standard errors."""
    for decay, values in ((1, [0.2, 0.4]), (0.01, [0.5, 0.5]), (10, [0.25, 0.25])):
        make(tmp_path, f"ranker.decay={decay}", test=dict(enumerate(values)))
    make(tmp_path, "ranker=pdgd", test={0: 0.1, 1: 0.3})
    axes = panel(tmp_path, "by_setting", setting="ranker.decay", bands="se")
    assert {name: (x, pytest.approx(y)) for name, (x, y) in lines(axes).items()} == {
        "PairRank": ([0.01, 1, 10], [0.5, 0.3, 0.25]),
        "PDGD": ([0.01, 10], [0.2, 0.2]),
    }
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "decay")
    assert axes.get_ylim() == pytest.approx((0.1 - 0.06 * 0.4, 0.5 + 0.06 * 0.4)), "means and their errors"
    edges = {round(float(y), 6) for of in axes.collections for x, y in of.get_paths()[0].vertices if x == 1}
    assert edges == {0.2, 0.4}, "standard deviation .1414, of two"


def test_what_follows_a_setting_is_no_other_setting(tmp_path):
    for l2 in (1, 2):
        make(tmp_path, f"ranker.l2={l2}")
    assert curve(tmp_path, "by_setting", setting="ranker.l2") == ([1, 2], [0.5, 0.5]), "exploration.l2 follows"


def test_a_setting_may_be_of_the_data(tmp_path):
    for noise, ranker in ((0.25, "pdgd"), (0.5, "pairrank"), (1, "pdgd"), (1, "pairrank")):
        make(tmp_path, f"ranker={ranker}", f"dataset.noise={noise}", fingerprint=str(noise))
    shown = lines(panel(tmp_path, "by_setting", setting="dataset.noise"))
    assert {name: x for name, (x, _) in shown.items()} == {"PairRank": [0.5, 1], "PDGD": [0.25, 1]}


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


def test_files_are_the_same_in_every_process(tmp_path):
    """Another process writes report.html without matplotlib, and with it, under another hash seed, the same bytes."""
    import matplotlib

    play(tmp_path / "runs", "ranker=p2neurrank", trace={"online_ndcg": {0: [0.25, 0.5], 1: [0.5, 0.75]}})
    play(tmp_path / "runs", "ranker=my_own", trace={"online_ndcg": {0: [0.5, 0.5], 1: [0.5, 0.25]}})
    script = f"""
import sys
from pathlib import Path
sys.modules["matplotlib"] = None
import ol2r_cli.plugins.figures.drawing as drawing
from ol2r_cli.commands.report import main
from ol2r_cli.report.names import Labels
from ol2r_cli.report.run_groups import group_runs
from ol2r_cli.report.collection import collect
find_spec, drawing.find_spec = drawing.find_spec, lambda name: None
from ol2r_cli.plugins.figures.kinds import KINDS
print(len(KINDS), main([{str(tmp_path / "runs")!r}, "--out", {str(tmp_path / "report.html")!r}]))
drawing.find_spec = find_spec
del sys.modules["matplotlib"]
own = group_runs(collect([Path({str(tmp_path / "runs")!r})]).runs)
for suffix in {ENDINGS}:
    figure = drawing.draw("online_ndcg", own, Labels(own))
    drawing.save(figure, Path({str(tmp_path / "there")!r}) / f"online{{suffix}}")
"""
    done = python("-c", script, PYTHONHASHSEED="1")
    assert done.stdout.splitlines()[-1:] == [f"{len(KINDS)} 0"], done.stderr
    assert "type pip install" in (tmp_path / "report.html").read_text()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path", "savefig.dpi": 10}):
        for suffix in ENDINGS:
            save(drawn(tmp_path / "runs", "online_ndcg"), tmp_path / "here" / f"online{suffix}")
        assert matplotlib.rcParams["font.size"] == 20, "those of the caller come back"
    for suffix in ENDINGS:
        here, there = ((tmp_path / place / f"online{suffix}").read_bytes() for place in ("here", "there"))
        assert here == there, suffix
    text = (tmp_path / "here" / "online.svg").read_text()
    assert ">P2NeurRank</text>" in text
    assert "<dc:date>" not in text
    coordinates = re.findall(r"^L (\S+) (\S+) $", text, re.MULTILINE)
    assert max(len(number.partition(".")[2]) for pair in coordinates for number in pair) == 2


WRONG = """
pie | a figure must be one of learning_curve, .*, lda, got pie
blocks split=a | an option of figure blocks must be one of window, width, .*, got split
learning_curve cutoff=7 | cutoff must be one of 1, 3, 5, 10, got 7
learning_curve split=train | split must be one of test, validation, got train
measure | column must be one of .*, got none: type --option column=online_ndcg
online_ndcg window=0 | window must be a whole number from 1 to 1, got 0
online_ndcg window=1.5 | window must be a whole number from 1 to 1, got 1.5
online_ndcg width=wide | width must be column, page or inches from 2 to 30, got wide
online_ndcg width=1 | width must be column, page or inches from 2 to 30, got 1
unfairness signed=yes | signed must be one of true, false, got yes
unfairness signed=True scale=log | scale must be linear where signed=true, got log
bar metric=mrr | metric must be one of online_ndcg, .*, got 'mrr'
bar bands=se2 | bands must be one of ci, sd, se, none, got se2
running_time unit=hours | unit must be one of milliseconds, seconds, rounds, got hours
differences | baseline must be a ranker, .*, got none: type --baseline pdgd
"""


@pytest.mark.parametrize(("asked", "message"), cases.lines(WRONG))
def test_wrong_options_are_errors_in_one_line(one, asked, message):
    kind, *options = asked.split()
    with pytest.raises(ValueError, match=f"^{message}$"):
        drawn(one, kind, **options_of(options))


@pytest.mark.parametrize("given", ["1", "2,1", "a,b", "0,inf", [1], 3])
def test_limits_are_two_numbers(one, given):
    with pytest.raises(ValueError, match=r"^ylim must be two numbers, the lower one first, such as 0,1, got "):
        drawn(one, "bar", ylim=given)


@pytest.mark.parametrize(("file", "message"), [
    ("figure.gif", r"^a figure's file must end in .png, .svg, .pdf, got .*figure.gif$"),
    ("file/figure.png", r"must be one that can be written, got .*figure.png \("),
])  # fmt: skip
def test_files_that_cannot_be_written_are_named(one, tmp_path, file, message):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=message):
        save(drawn(one, "online_ndcg"), tmp_path / file)


@pytest.mark.parametrize("kind", KINDS)
def test_the_options_of_a_kind_are_those_of_its_function(kind):
    assert [*signature(painter(kind)).parameters][1:] == [*KINDS[kind].options]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Two rankers, click models and datasets with all that can be drawn, names long and numbers large."""
    root = tmp_path_factory.mktemp("many")
    fair = ("ranker=pairrank", "fairness=fairexp", "fairness.epsilon=0.1")
    for place, ranker in enumerate((fair, ("ranker=offline_ranknet",))):
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
        curve, blocks = {0: [0.1, level], 1: [0.2, level]}, {1: [[60] * 60, [30] * 60]}
        for words in product(DATASETS, USERS):
            play(root, *ranker, *words, trace=trace, test=curve, cosine=curve, every=5, blocks=blocks)
    return root


def layout_faults(root: Path, kind: str, width: str) -> set[str]:
    """What is cut off, or overlaps."""
    groups, labels = groups_and_labels(root)
    groups = groups[:5] if kind == "block_size_by_rank" else groups
    figure = draw(kind, groups, labels, width=width, **NEEDED.get(kind, {}))
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    keys = [legend.get_window_extent(renderer) for legend in figure.legends]
    frames = [axes.get_window_extent(renderer) for axes in figure.axes]
    faults = {
        "the figure has another width": figure.get_figwidth() != {"column": 3.3, "page": 7.0}[width],
        "a panel is cut off": not all(_within(figure.bbox.padded(1), box) for box in boxes),
        "a legend is cut off": not all(_within(figure.bbox, key, top=False) for key in keys),
        "a panel has no room for its curves": any(frame.height <= 40 or frame.width <= 5 for frame in frames),
        "a legend overlaps a panel": any(key.overlaps(box) for key, box in product(keys, boxes)),
        "panels overlap": any(one.padded(-3).overlaps(two.padded(-3)) for one, two in combinations(boxes, 2)),
    }
    return {fault for fault, is_there in faults.items() if is_there}


def _within(frame, box, top: bool = True) -> bool:
    sideways = frame.x0 <= box.x0 and box.x1 <= frame.x1
    return sideways and frame.y0 <= box.y0 and (not top or box.y1 <= frame.y1)


def by_width() -> list:
    """Every kind in each width, of which a few are drawn in every test run."""
    fast = [*product(("unfairness", "block_size", "block_size_by_rank", "running_time"), ["column"])]
    fast += [("learning_curve", "page")]
    every = product(sorted(KINDS.keys() - {"lda", "by_setting"}), ("column", "page"))
    return [pytest.param(*each, marks=[pytest.mark.slow] * (each not in fast)) for each in every]


@pytest.mark.parametrize(("kind", "width"), by_width())
def test_nothing_is_cut_off_and_nothing_overlaps(many, kind, width):
    assert layout_faults(many, kind, width) == set()


def test_panels_of_many_curves_are_high(tmp_path):
    """Sixteen curves in a strip are not told apart."""
    shapes = []
    for number in range(1, 10):
        play(tmp_path, f"ranker.l2={number}", "rounds=4")
        if number > 7:
            axes = panel(tmp_path, "online_ndcg")
            axes.figure.draw_without_rendering()
            box = axes.get_window_extent()
            shapes.append(box.height / box.width)
    assert shapes[0] < 0.7 < 1 < shapes[1]


@pytest.mark.parametrize("kind", ["learning_curve", "bar", "differences"])
def test_what_users_type_is_text(tmp_path, kind):
    """Dollars are no mathematics, a backslash no command, and a name may begin as matplotlib's hidden ones do."""
    names = {"pairrank": r"$\frac{a}$", "dbgd": "_a_b", "pdgd": "PDGD"}
    for ranker in names:
        make(tmp_path, f"ranker={ranker}", "click=my$users$", test={0: 0.1, 1: 0.2, 2: 0.4})
    groups, _ = groups_and_labels(tmp_path)
    called = {group: names[group.choices["ranker"]] for group in groups}
    options = {"baseline": "pdgd"} if kind == "differences" else {}
    figure = draw(kind, groups, Labels(groups, called), xlabel="$x^ and $y", ylabel="$a_", **options)
    save(figure, tmp_path / "figure.svg")
    texts = re.findall(">([^<>]+)</text>", (tmp_path / "figure.svg").read_text())
    assert {r"$\frac{a}$", "_a_b", "$x^ and $y", "$a_", "MQ2008, my$users$"} <= set(texts)
