"""Tables as they are printed, with intervals by hand, marks of a comparison, best values, and lines below."""

from __future__ import annotations

import math
import re

import pytest

from ol2r_cli.report.comparison import Selection, compare
from ol2r_cli.report.document import Document
from ol2r_cli.report.measures import METRICS, check_metrics, heading, usual_metrics
from ol2r_cli.report.names import Labels
from ol2r_cli.report.result_tables import differences_table, format_p, groups_table
from ol2r_cli.report.run_groups import Collection, collect
from ol2r_cli.report.text_table import markdown
from tests.manifests import edited_summary
from tests.report.runs import groups_and_labels, groups_below, make

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom


def table(root, *metrics: str, selection: Selection | None = None) -> list[list[str]]:
    """The cells of the table, without the rule under its headings."""
    groups, labels = groups_and_labels(root)
    rows = selection.groups if selection else groups
    lines = markdown(groups_table(rows, labels, *([metrics] if metrics else []), selection=selection)).splitlines()
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
    assert table(tmp_path, "best_round", "test_ndcg_10_untrained") == [
        ["dataset", "click", "ranker", "n", "best round", "test NDCG@10, untrained"],
        ["mq2008", "perfect", "pairrank", "2", "2.00 ± 0.00", "0.0000 ± 0.0000"],
    ]
    make(tmp_path, test={2: 0.5})
    assert table(tmp_path, "validation_ndcg_10")[1][-2:] == ["3", "0.5000 ± 0.0000 (n = 2)"]
    make(tmp_path / "one", "ranker.pairs=a|b", test={0: 0.25})
    make(tmp_path / "one", "ranker.pairs=b", test={0: 0.25})
    assert table(tmp_path / "one")[0] == ["dataset", "click", "ranker", "settings", "n", "test NDCG@10", "online NDCG"]
    assert r"pairs='a\|b'" in {row[3] for row in table(tmp_path / "one")}, "a bar does not end a cell"
    assert {row[-1] for row in table(tmp_path / "one")[1:]} == {"0.2500"}, "one value has no interval"
    with pytest.raises(ValueError, match=r"--metric must be one of online_ndcg, .*test_ndcg_10, .*, got 'ndcg'$"):
        check_metrics(["online_ndcg", "ndcg"], groups_below(tmp_path))


def test_folds_are_told_from_seeds(tmp_path):
    for fold in (1, 2, 3):
        make(tmp_path, f"dataset.fold={fold}", test={0: 0.5, 1: 0.5})
    assert table(tmp_path)[1][3] == "6 (3 folds x 2 seeds)"
    make(tmp_path, "dataset.fold=1", test={2: 0.5})
    assert table(tmp_path)[1][3] == "7 (3 folds)"


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


def test_a_chosen_row_has_its_number_of_cells(tmp_path):
    make(tmp_path, "ranker.l2=1")
    make(tmp_path, "ranker.l2=2")
    rows = table(tmp_path, selection=Selection(groups_below(tmp_path)[1:], [17], []))
    assert rows[0][3:6] == ["settings", "chosen from", "n"]
    assert rows[1][3:6] == ["l2=2", "17", "1"]


def test_headings_and_usual_metrics(tmp_path):
    for metric, words in {
        "test_ndcg_1": "test NDCG@1",
        "validation_ndcg_10_untrained": "validation NDCG@10, untrained",
        "test_ndcg_10_best": "test NDCG@10, best round",
        "cumulative_ndcg": "cumulative NDCG",
        "online_ndcg_last_tenth": "online NDCG last tenth",
        "block_size_10": "block size 10",
    }.items():
        assert heading(metric) == words
    make(tmp_path, "ranker=pairrank")
    assert usual_metrics(groups_below(tmp_path)) == METRICS
    make(tmp_path, "ranker=pairrank", "fairness=fairexp")
    assert usual_metrics(groups_below(tmp_path)) == (*METRICS, "unfairness", "violations")


def test_the_table_has_marks_and_says_which_is_the_baseline(two):
    groups, labels = two
    marked, lettered = (
        groups_table(groups, labels, ["test_ndcg_10"], comparison=compare(groups, labels, ["test_ndcg_10"], baseline))
        for baseline in ("pdgd", None)
    )
    place = marked.headings.index("ranker")
    assert [row[place].text for row in marked.rows] == ["pairrank", "pdgd (baseline)"]
    assert [(row[-1].mark, row[-1].best) for row in marked.rows] == [("↑", True), ("", False)]
    assert [(row[0].text, row[-1].mark) for row in lettered.rows] == [("a", "b"), ("b", "")]


def test_rows_of_one_ranker_are_told_apart_by_settings_or_by_the_task(tmp_path):
    for l2 in (1, 2):
        make(tmp_path / "a", f"ranker.l2={l2}", test={0: 0.1 * l2, 1: 0.1})
    for rounds in (4, 8):
        for ranker, level in ("pairrank", 0.2), ("pdgd", 0.1):
            make(tmp_path / "b", f"ranker={ranker}", f"rounds={rounds}", test={0: level, 1: level + 0.1})
    for place, names in ("a", {"pairrank l2=1"}), ("b", {"pairrank rounds=4", "pairrank rounds=8"}):
        groups, labels = groups_and_labels(tmp_path / place)
        shown = differences_table(compare(groups, labels, ["test_ndcg_10"]), labels)
        assert {row[3].text for row in shown.rows} == names


def test_small_probabilities():
    for p, text in (None, ""), (1.0, "1.000"), (0.0449, "0.045"), (0.00012, "1.2e-04"), (0.0, "<1e-6"):
        assert format_p(p) == text


def test_the_best_is_the_least_where_less_is_better(tmp_path):
    for ranker, regret in (("a", 2), ("b", 1)):
        with edited_summary(make(tmp_path, f"ranker={ranker}")) as summary:
            summary["metrics"]["regret"] = summary["metrics"]["clicks"] = {"mean": regret, "sd": None, "n": 1}
    rows = groups_table(*groups_and_labels(tmp_path), ["regret", "clicks"]).rows
    assert [[cell.best for cell in row[-2:]] for row in rows] == [[False, False], [True, False]]


def test_lines_under_the_table(tmp_path):
    make(tmp_path)
    make(tmp_path, "dataset.fold=2")
    groups, labels = groups_and_labels(tmp_path)
    (line,) = Document(Collection(), groups, labels, []).notes
    assert "one for each (fold, seed)" in line
    make(tmp_path / "more", status="failed")
    (make(tmp_path / "more") / "config.yaml").unlink()
    document = Document(collect([tmp_path]), [], Labels([]), [], Selection([], [2], []))
    first, chosen, unfinished, damaged = document.notes
    assert first.startswith("2 runs. ")
    assert "one for each seed" in first
    assert "best mean validation NDCG" in chosen
    assert unfinished == f"1 run not finished: ol2r status {tmp_path}"
    assert damaged.startswith(f"1 run damaged: {tmp_path / 'more'}")
