"""A trial: pages by hand, the same by a slow plain implementation, and what the command says of runs."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.commands.report import main
from ol2r_cli.plugins.figures.trial import TrialResult, trial
from ol2r_cli.report.frames import load
from tests import cases
from tests.finished import refused
from tests.plugins.figures.axes import band, panel
from tests.report.runs import lines, play

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
RANDOM = ("ranker=random", "exploration=none", "ranker._target_=ol2r_cli.ranker.model_ranker.RandomRanker")
ORACLE = ("ranker=oracle", "exploration=none", "ranker._target_=ol2r_cli.ranker.model_ranker.OracleRanker")
PDGD = "ranker._target_=ol2r_cli.ranker.pdgd.PDGD"


def of(learner: list, baseline: list, **more) -> TrialResult:
    return trial(np.array(learner, float), np.array(baseline, float), **more)


def test_pages_by_hand():
    """Differences of two seeds: 1 -3 1 1 1 and -1 -1 -1 3 1, whose sums have the means 0 -2 -2 0 1."""
    learner, baseline = [[3, 0, 3, 3, 3], [1, 1, 1, 5, 3]], [[2, 3, 2, 2, 2], [2, 2, 2, 2, 2]]
    found = of(learner, baseline)
    assert (found.baseline.mean, found.a_page.mean, found.end.mean) == pytest.approx((2.1, 0.2, 1))
    assert (found.worst.mean, found.worst_page, found.break_even) == (-2, 2, 4)
    # sums after the second page: -2 and -2; after the last: 1 and 1; pages of the seeds: .2 and .2
    assert (found.worst.half_width, found.end.half_width) == (0, 0)
    assert (found.last_tenth.mean, found.last_tenth.half_width) == (1, 0), "the fifth of five pages"
    # (.2 - r 2.2) / 2.1 and (.2 - r 2) / 2.1 with r = .2 / 2.1 are apart by r .2 / 2.1
    percent = 100 * 0.2 / 2.1, T1 * 100 * 0.1 * (0.2 / 2.1) / 2.1
    assert (found.percent.mean, found.percent.half_width) == pytest.approx(percent)


@pytest.mark.parametrize(("learner", "baseline", "fewer_is_better", "expected"), [
    ([[1, 2, 1]], [[1, 1, 2]], False, (0, 0, 1, 0)),
    ([[3, 1, 0]], [[1, 1, 3]], False, (-1, 3, None, -1)),
    ([[0, 1, 1]], [[1, 1, 0]], False, (-1, 1, 3, 0)),
    ([[1, 2]], [[1, 2]], False, (0, 0, 1, 0)),
    ([[4, 1, 1]], [[2, 2, 2]], True, (2, 1, 3, 0)),
    ([[0.1, 0.9], [0.2, 0.8], [0, 0.3]], [[0, 1], [0, 1], [0.3, 0]], False, (0, 0, 1, 0)),  # or a mean of -1e-17
], ids=["at once", "never", "the first of the lowest", "equal", "fewer", "rounding is not behind"])  # fmt: skip
def test_the_worst_page_and_the_break_even_one(learner, baseline, fewer_is_better, expected):
    found = of(learner, baseline, lower_is_better=fewer_is_better)
    assert (found.worst.mean, found.worst_page, found.break_even, found.end.mean) == pytest.approx(expected)


@pytest.mark.parametrize(("pages", "late"), [(9, 1), (20, 2), (25, 3)])
def test_the_last_tenth_is_of_pages_after_nine_tenths(pages, late):
    found = of([[9] * (pages - late) + [3] * late], [[0] * pages])
    assert found.last_tenth.mean == 3


def test_one_seed_has_no_interval_and_nothing_no_percentage():
    found = of([[1, 2]], [[0, 0]])
    assert (found.worst.half_width, found.percent) == (None, None)


def test_folds_count_the_same_and_are_the_units():
    """Fold 1 has two seeds, at -1 and -3 a page, fold 2 one at 4."""
    found = of([[0, 0], [0, 0], [5, 5]], [[1, 1], [3, 3], [1, 1]], folds=["1", "1", "2"])
    assert (found.a_page.mean, found.a_page.n, found.a_page.clusters) == (1, 3, 2)
    assert found.a_page.half_width == pytest.approx(T1 * statistics.stdev([-2, 4]) / 2**0.5)
    assert (found.worst_page, found.end.mean) == (0, 2)


def plain(learner: list[list[Fraction]], baseline: list[list[Fraction]], folds: list[str]) -> dict[str, float | None]:
    """The same page by page, with fractions."""
    pages = len(learner[0])

    def mean(values: list[Fraction]) -> Fraction:
        of_folds = []
        for fold in sorted(set(folds)):
            of_fold = [value for value, of_value in zip(values, folds, strict=True) if of_value == fold]
            of_folds.append(sum(of_fold) / Fraction(len(of_fold)))
        return sum(of_folds) / Fraction(len(of_folds))

    pairs = list(zip(learner, baseline, strict=True))
    worst, worst_page, break_even, end = Fraction(0), 0, 1, Fraction(0)
    for page in range(1, pages + 1):
        end = mean([sum(ours[:page]) - sum(theirs[:page]) for ours, theirs in pairs])
        if end < worst:
            worst, worst_page = end, page
        if end < 0:
            break_even = page + 1
    late = [page - 1 for page in range(1, pages + 1) if 10 * page > 9 * pages]
    last_tenth = mean([sum(ours[page] - theirs[page] for page in late) for ours, theirs in pairs]) / len(late)
    return {
        "a_page": float(end / pages),
        "percent": float(100 * end / mean([sum(theirs) for theirs in baseline])),
        "worst": float(worst),
        "worst_page": worst_page,
        "break_even": break_even if break_even <= pages else None,
        "end": float(end),
        "last_tenth": float(last_tenth),
    }


def test_random_pages_as_a_plain_implementation_has_them():
    dice, seen = random.Random(5), set()
    for _ in range(80):
        seeds, pages, better = dice.randint(1, 6), dice.randint(1, 25), dice.randint(-2, 2)
        folds = [dice.choice("ab") for _ in range(seeds)]
        baseline, learner = (
            [[Fraction(dice.randint(0, 30) + more, 10) + 1 for _ in range(pages)] for _ in range(seeds)]
            for more in (0, better)
        )
        found, expected = of(learner, baseline, folds=folds), plain(learner, baseline, folds)
        ours = {name: getattr(found, name) for name in expected}
        assert {name: getattr(value, "mean", value) for name, value in ours.items()} == pytest.approx(expected)
        seen.add({1: "at once", None: "never"}.get(found.break_even, "in between"))
    assert seen == {"at once", "never", "in between"}


def a_learner_and_a_baseline(root: Path):
    """The baseline does not learn. They have two and three seeds, of which two are common, and four pages."""
    clicks = {0: [0, 0, 2, 2], 1: [1, 0, 1, 3]}
    ndcg = {seed: [0.25, 0.25, 0.5, 0.75] for seed in clicks}
    play(root, "ranker=pdgd", PDGD, trace={"clicks": clicks, "online_ndcg": ndcg, "cumulative_ndcg": ndcg})
    ndcg = {seed: [0.5] * 4 for seed in (0, 1, 2)}
    play(root, *RANDOM, trace={"clicks": {0: [1] * 4, 1: [1] * 4, 2: [9] * 4}, "online_ndcg": ndcg})


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    a_learner_and_a_baseline(Path("runs"))
    return Path("runs")


def rows(*words: str) -> list[dict]:
    assert main([*map(str, words), "--out", "table.json"]) == 0
    return json.loads(Path("table.json").read_text())


def test_rows_of_runs(runs):
    """Differences of clicks are -1 -1 1 1 and 0 -1 0 2: their sums have the means -.5 -1.5 -1 .5."""
    (row,) = rows(runs, "--trial", "clicks", "--baseline", "random")
    expected = {
        **{"ranker": "pdgd", "metric": "clicks", "rival": "random", "pairs": 2},
        **{"rival_a_page": 1, "a_page": 0.125, "percent": 12.5, "end": 0.5, "last_tenth": 1.5},
        **{"worst": -1.5, "worst_page": 2, "break_even": 4},
        **{f"{name}_half_width": T1 / 2 for name in ("worst", "end", "last_tenth")},
        **{"a_page_half_width": T1 / 8, "percent_half_width": 12.5 * T1},
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert rows(runs, "--trial", "clicks") == [row], "the row that does not learn"


def test_the_table_says_what_is_compared(runs, capsys):
    assert main([str(runs), "--trial", "clicks", "--format", "md"]) == 0
    out = capsys.readouterr().out
    told = [
        "| -1.50 ± 6.35 at 2 |          4 |",
        "Clicks minus those of random on the same pages, means over the (fold, seed) that both have.",
        "The worst moment is the page after which the mean sum is lowest; from the break-even page on it",
        "Not all (fold, seed) are in both rows of 1 comparison.",
    ]
    assert [words for words in told if words not in out] == []
    assert main([str(runs), "--trial", "online_ndcg", "--name", "pdgd=ours"]) == 0
    assert re.search(r"\| ours .*\| -0.50 ± 0.00 at 2 \|      never \|", capsys.readouterr().out)


def test_the_table_may_be_latex(runs):
    assert main([str(runs), "--trial", "clicks", "--out", "table.tex"]) == 0
    assert "break-even" in Path("table.tex").read_text()


def test_the_better_row_is_first_and_less_regret_is_better(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words, regret in {("ranker=pairrank",): [9, 9], ("ranker=pdgd",): [5, 1], RANDOM: [4, 4]}.items():
        play(Path("runs"), *words, trace={"regret": {0: regret}, "clicks": {0: [1, 1]}})
    columns = "ranker", "worst", "break_even", "a_page_half_width"
    found = [[row[name] for name in columns] for row in rows("runs", "--trial", "regret")]
    assert found == [["pdgd", 1, 2, None], ["pairrank", 10, None, None]]
    assert main(["runs", "--trial", "regret"]) == 0
    assert "mean sum is highest; from the break-even page on it stays at or below 0." in capsys.readouterr().out


def test_a_row_with_a_start_is_compared_with_rows_without(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    play(Path("runs"), *RANDOM, trace={"clicks": {0: [1, 1]}})
    play(Path("runs"), "ranker=pdgd", trace={"clicks": {0: [0, 1]}})
    start = {"choices": {"ranker": "pairrank"}, "settings": {}, "fingerprint": "mq2008, fold 1", "seeds": [0]}
    words = ["ranker=pdgd", "start.run=somewhere"]
    play(Path("runs"), *words, trace={"clicks": {0: [3, 1]}}, start=start)
    found = rows("runs", "--trial", "clicks")
    assert [(row["start.run"] is None, row["end"]) for row in found] == [(False, 2), (True, -1)]


def test_rows_with_other_numbers_of_pages_are_not_compared(runs, capsys):
    play(runs, "ranker=pdgd", PDGD, trace={"clicks": {0: [0, 0]}})
    assert main([str(runs), "--trial", "clicks"]) == 0
    assert "Not compared, without a baseline: dataset=mq2008 click=perfect rounds=2." in capsys.readouterr().out


def test_other_users_have_a_baseline_of_their_own(runs, capsys):
    for words, clicks in {("ranker=pdgd",): 5, RANDOM: 2}.items():
        play(runs, *words, "click=informational", trace={"clicks": {0: [clicks] * 4}})
    play(runs, "ranker=pairrank", trace={"clicks": {7: [1] * 4}})
    found = rows(runs, "--trial", "clicks", "--baseline", "random")
    assert [(row["click"], row["end"]) for row in found] == [("perfect", 0.5), ("informational", 12)]
    assert main([str(runs), "--trial", "clicks", "--baseline", "random"]) == 0
    assert "Not compared, without a (fold, seed) in common: 1." in capsys.readouterr().out


def test_what_needs_labels_is_no_baseline_unless_it_is_named(runs):
    play(runs, *ORACLE, trace={"clicks": {0: [1] * 4}})
    assert {row["rival"] for row in rows(runs, "--trial", "clicks")} == {"random"}
    assert {row["rival"] for row in rows(runs, "--trial", "clicks", "--baseline", "oracle")} == {"oracle"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """Runs of which some things cannot be asked."""
    root, clicks = tmp_path_factory.mktemp("folders"), {"clicks": {0: [1, 1]}}
    a_learner_and_a_baseline(root / "runs")
    for ranker in "pdgd", "pairrank", "dbgd", "mgd":
        play(root / "learners", f"ranker={ranker}", trace=clicks)
    for words in [], ["ranker.l2=2"]:
        play(root / "two", *RANDOM, *words, trace=clicks)
    play(root / "apart", *RANDOM, trace=clicks)
    play(root / "apart", "ranker=pdgd", trace={"clicks": {1: [1, 1]}})
    load(root / "runs").write_parquet(root / "values.parquet")
    return root


TRIAL = "a trial needs the row that would be served otherwise: type"
ALONE = "--trial is a table by itself: leave out"


# What is typed, and the line that answers or its beginning, which ends in two dots.
MISTAKES = f"""
runs --trial | argument --trial: expected one argument
runs --trial clics | --trial clics: did you mean clicks?
runs --trial regret | --trial must be one of online_ndcg, clicks, got 'regret': runs/run-..
runs --trial cumulative_ndcg --baseline pdgd | --trial cumulative_ndcg: did you mean online_ndcg?
runs --trial clicks --baseline fixed | --baseline must be a ranker, or choices and settings, of some row..
runs ranker=random --trial clicks | there is nothing to compare with random: no other row has its dataset, click model \
and settings of the run (dataset=mq2008 click=perfect)
learners --trial clicks | {TRIAL} --baseline dbgd, --baseline mgd, --baseline pairrank or ..
two --trial clicks | {TRIAL} --baseline random
two --trial clicks --baseline random | --baseline must match one row of each task, got random, which..
apart --trial clicks | a trial needs (fold, seed) that a row and its baseline have, got none
runs --trial clicks --recovery | {ALONE} --recovery
runs --trial clicks --metric clicks --compare all | {ALONE} --metric and --compare
runs --trial clicks --baseline pdgd --test t --differences | {ALONE} --test and --differences
runs --trial clicks --select validation --overrides | {ALONE} --overrides
runs --trial clicks --figure trial | --trial is a table: for its figure type --figure trial --metric clicks
runs --trial clicks --bibtex | --bibtex goes with folders..
runs --trial clicks --out x.html | --trial has no html: type --format md, csv, parquet or latex
runs --figure trial --option metric=regret | metric must be one of online_ndcg, clicks, got 'regret': runs/..
learners --figure trial | {TRIAL}..
"""


@pytest.mark.parametrize(("typed", "complaint"), cases.lines(MISTAKES))
def test_errors_are_one_line_and_2(folders, capsys, monkeypatch, typed, complaint):
    monkeypatch.chdir(folders)
    line = refused(capsys, "report", *typed.split())
    assert line == complaint or (complaint.endswith("..") and line.startswith(complaint[:-2]))


def test_the_figure_has_the_sums_and_their_bands(runs):
    axes = panel(runs, "trial", baseline="random", bands="ci", every=2)
    assert lines(axes)["PDGD"] == ([0, 2, 4], [0, -1.5, 0.5])
    half = T1 / 2
    assert band(axes) == (pytest.approx([0, -1.5 - half, 0.5 - half]), pytest.approx([0, -1.5 + half, 0.5 + half]))
    assert axes.get_ylabel().replace("\n", " ") == "sum of clicks, minus that of random"
    assert lines(panel(runs, "trial", metric="online_ndcg"))["PDGD"][1] == [0, -0.25, -0.5, -0.5, -0.25]


def test_a_figure_of_folds_has_folds_as_units(tmp_path):
    for fold, clicks in ((1, {0: [0], 1: [2]}), (2, {0: [4]})):
        play(tmp_path, *RANDOM, f"dataset.fold={fold}", trace={"clicks": {seed: [1] for seed in clicks}})
        play(tmp_path, "ranker=pdgd", f"dataset.fold={fold}", trace={"clicks": clicks})
    axes = panel(tmp_path, "trial", bands="ci")
    assert lines(axes)["PDGD"] == ([0, 1], [0, 1.5])
    assert band(axes)[1][-1] == pytest.approx(1.5 + T1 * 1.5), "the folds are at 0 and 3"
