"""Tables as they are printed, with intervals by hand, marks of a comparison and best values."""

from __future__ import annotations

import math
import re

import pytest

from ol2r_cli.report.comparison import compare
from ol2r_cli.report.labels import Labels
from ol2r_cli.report.measures import METRICS, check_metrics, heading, usual_metrics
from ol2r_cli.report.result_tables import differences_table, format_p, groups_table
from ol2r_cli.report.selection import Selection
from ol2r_cli.report.text_table import markdown
from tests.manifests import edited_summary
from tests.report.runs import groups_below, make

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom


def table(root, *metrics: str, selection: Selection | None = None) -> list[list[str]]:
    """The cells of the table, without the rule under its headings."""
    rows = selection.groups if selection else groups_below(root)
    lines = markdown(
        groups_table(rows, Labels(groups_below(root)), *([metrics] if metrics else []), selection=selection)
    ).splitlines()
    assert len({len(line) for line in lines}) == 1, "columns are aligned"
    assert re.fullmatch(r"\|( -+:? \|)+", lines[1]), "what markdown takes for a rule"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]


def test_mean_and_half_width(tmp_path):
    make(tmp_path, test={0: 0.25, 1: 0.5}, validation={0: 0.5, 1: 0.5})
    half = T1 * 0.125  # the standard error of two values is half their distance
    assert table(tmp_path) == [
        ["dataset", "click", "ranker", "n", "test NDCG@10", "validation NDCG@10", "online NDCG"],
        ["mq2008", "perfect", "pairrank", "2", f"0.3750 ± {half:.4f}", "0.5000 ± 0.0000", f"0.3750 ± {half:.4f}"],
    ]


def test_one_value_has_no_interval_and_empty_columns_are_left_out(tmp_path):
    make(tmp_path, test={0: 0.25})
    assert table(tmp_path) == [
        ["dataset", "click", "ranker", "n", "test NDCG@10", "online NDCG"],
        ["mq2008", "perfect", "pairrank", "1", "0.2500", "0.2500"],
    ]


def test_folds_are_told_from_seeds(tmp_path):
    for fold in (1, 2, 3):
        make(tmp_path, f"dataset.fold={fold}", test={0: 0.5, 1: 0.5})
    assert table(tmp_path)[1][3] == "6 (3 folds x 2 seeds)"
    make(tmp_path, "dataset.fold=1", test={2: 0.5})
    assert table(tmp_path)[1][3] == "7 (3 folds)"


def test_values_that_are_missing_show(tmp_path):
    make(tmp_path, test={0: 0.5, 1: 0.5}, validation={0: 0.5, 1: 0.5})
    make(tmp_path, test={2: 0.5})
    assert table(tmp_path, "validation_ndcg_10")[1][-2:] == ["3", "0.5000 ± 0.0000 (n = 2)"]


def test_other_columns(tmp_path):
    make(tmp_path, test={0: 0.5, 1: 0.5}, validation={0: 0.5, 1: 0.5})
    assert table(tmp_path, "best_round", "test_ndcg_10_untrained") == [
        ["dataset", "click", "ranker", "n", "best round", "test NDCG@10, untrained"],
        ["mq2008", "perfect", "pairrank", "2", "2.00 ± 0.00", "0.0000 ± 0.0000"],
    ]


def test_unknown_columns_are_named_with_what_there_is(tmp_path):
    make(tmp_path)
    with pytest.raises(ValueError, match=r"--metric must be one of online_ndcg, .*test_ndcg_10, .*, got 'ndcg'$"):
        check_metrics(["online_ndcg", "ndcg"], groups_below(tmp_path))


def test_best_first_within_dataset_users_and_task(tmp_path):
    for dataset, click, rounds, ranker, ndcg in [
        ("yahoo", "perfect", 1, "a", 0.9),
        ("mq2008", "perfect", 2, "a", 0.9),
        ("mq2008", "perfect", 10, "b", 0.3),
        ("mq2008", "perfect", 10, "a", 0.2),
        ("mq2008", "perfect", 2, "b", 0.1),
        ("mq2008", "cascade", 1, "a", 0.0),
    ]:
        words = f"dataset={dataset}", f"click={click}", f"ranker={ranker}", f"rounds={rounds}"
        best_round_is_2 = {0: 0.5 * (ranker == "b")}  # else 0, where it is 0 as well
        make(tmp_path, *words, test={0: ndcg}, validation=best_round_is_2, fingerprint=dataset)
    assert [row[:4] for row in table(tmp_path)[1:]] == [
        ["mq2008", "cascade", "a", "rounds=1"],
        ["mq2008", "perfect", "a", "rounds=2"],
        ["mq2008", "perfect", "b", "rounds=2"],
        ["mq2008", "perfect", "b", "rounds=10"],
        ["mq2008", "perfect", "a", "rounds=10"],
        ["yahoo", "perfect", "a", "rounds=1"],
    ]
    assert [row[2] for row in table(tmp_path, "best_round")[4:6]] == ["a", "b"], "by name where more is not better"


def test_a_bar_does_not_end_a_cell(tmp_path):
    make(tmp_path, "ranker.pairs=a|b")
    make(tmp_path, "ranker.pairs=b")
    assert r"pairs='a\|b'" in {row[3] for row in table(tmp_path)}


def test_a_chosen_row_has_its_number_of_cells(tmp_path):
    make(tmp_path, "ranker.l2=1")
    make(tmp_path, "ranker.l2=2")
    second = groups_below(tmp_path)[1]
    rows = table(tmp_path, selection=Selection([second], [17], []))
    assert rows[0][3:6] == ["settings", "chosen from", "n"]
    assert rows[1][3:6] == ["l2=2", "17", "1"]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("test_ndcg_1", "test NDCG@1"),
        ("validation_ndcg_10_untrained", "validation NDCG@10, untrained"),
        ("test_ndcg_10_best", "test NDCG@10, best round"),
        ("cumulative_ndcg", "cumulative NDCG"),
        ("online_ndcg_last_tenth", "online NDCG last tenth"),
        ("block_size_10", "block size 10"),
    ],
)
def test_headings(metric, words):
    assert heading(metric) == words


def test_unfairness_and_violations_are_columns_where_a_run_has_a_fairness(tmp_path):
    make(tmp_path, "ranker=pairrank")
    assert usual_metrics(groups_below(tmp_path)) == METRICS
    make(tmp_path, "ranker=pairrank", "fairness=fairexp")
    assert usual_metrics(groups_below(tmp_path)) == (*METRICS, "unfairness", "violations")


def test_the_table_has_marks_and_says_which_is_the_baseline(two):
    groups, labels = two
    marked = groups_table(
        groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"], "pdgd")
    )
    place = marked.headings.index("ranker")
    assert [row[place].text for row in marked.rows] == ["pairrank", "pdgd (baseline)"]
    assert [(row[-1].mark, row[-1].best) for row in marked.rows] == [("↑", True), ("", False)]
    lettered = groups_table(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"]))
    assert [(row[0].text, row[-1].mark) for row in lettered.rows] == [("a", "b"), ("b", "")]


def test_rows_of_one_ranker_are_told_apart_by_their_settings(tmp_path):
    for l2 in (1, 2):
        make(tmp_path, f"ranker.l2={l2}", test={0: 0.1 * l2, 1: 0.1})
    labels = Labels(groups := groups_below(tmp_path))
    shown = differences_table(compare(groups, labels, ["test_ndcg_10"]), labels)
    assert [cell.text for cell in shown.rows[0][3:5]] == ["pairrank l2=1", "pairrank l2=2"]


def test_rows_of_different_tasks_are_told_apart_by_what_makes_the_task(tmp_path):
    for rounds in (4, 8):
        for ranker, level in ("pairrank", 0.2), ("pdgd", 0.1):
            make(tmp_path, f"ranker={ranker}", f"rounds={rounds}", test={0: level, 1: level + 0.1})
    labels = Labels(groups := groups_below(tmp_path))
    shown = differences_table(compare(groups, labels, ["test_ndcg_10"]), labels)
    assert {row[3].text for row in shown.rows} == {"pairrank rounds=4", "pairrank rounds=8"}


@pytest.mark.parametrize(
    ("p", "text"), [(None, ""), (1.0, "1.000"), (0.0449, "0.045"), (0.00012, "1.2e-04"), (0.0, "<1e-6")]
)
def test_small_probabilities(p, text):
    assert format_p(p) == text


def test_the_best_is_the_least_where_less_is_better(tmp_path):
    for ranker, regret in (("a", 2), ("b", 1)):
        with edited_summary(make(tmp_path, f"ranker={ranker}")) as summary:
            summary["metrics"]["regret"] = summary["metrics"]["clicks"] = {"mean": regret, "sd": None, "n": 1}
    labels = Labels(groups := groups_below(tmp_path))
    rows = groups_table(groups, labels, ["regret", "clicks"]).rows
    assert [[cell.best for cell in row[-2:]] for row in rows] == [[False, False], [True, False]]
