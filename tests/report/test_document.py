"""Tables as they are printed and in full precision, marks of a comparison, best values, and lines below."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from ol2r_cli.report.best_settings import Selection
from ol2r_cli.report.collection import Collection, collect
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import Document
from ol2r_cli.report.names import Labels
from ol2r_cli.report.shown_metrics import METRICS, usual_metrics
from ol2r_cli.text.table import Cell, TextTable, markdown, print_tables
from tests.manifests import edited_summary
from tests.report.runs import groups_and_labels, groups_below, make, play

T1 = math.tan(math.pi * 0.475)  # Student's t for one degree of freedom
LOWER = {seed: 0.25 + 0.01 * seed for seed in range(6)}
HIGHER = {seed: value + 0.1 + 0.001 * (seed % 2) for seed, value in LOWER.items()}
TABLE = TextTable.of(
    ["", "ranker"],
    ["test NDCG@10"],
    [["a", "pair_rank & co", Cell("0.5000 ± 0.0100", "bc", best=True)], ["b", "pd|gd", Cell("-0.2500", "↓")]],
)


def table(root, *metrics: str, chosen: int | None = None) -> list[list[str]]:
    """The cells of the table, without the rule under its headings."""
    groups, labels = groups_and_labels(root)
    selection = None if chosen is None else Selection({groups[chosen]: 17}, [])
    rows = [*selection.cells] if selection else groups
    (shown,) = Document(Collection(), rows, labels, metrics or METRICS, selection).tables
    lines = markdown(shown).splitlines()
    assert len({len(line) for line in lines}) == 1, "columns are aligned"
    assert re.fullmatch(r"\|( -+:? \|)+", lines[1]), "what markdown takes for a rule"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (lines[0], *lines[2:])]


@pytest.fixture
def two(tmp_path):
    """A group of two seeds."""
    make(tmp_path, test={0: 0.25, 1: 0.5}, validation={0: 0.5, 1: 0.5})
    return tmp_path


def test_a_cell_has_the_mean_and_half_the_width(two):
    half = T1 * 0.125  # the standard error of two values is half their distance
    assert table(two) == [
        ["dataset", "click", "ranker", "n", "test NDCG@10", "validation NDCG@10", "online NDCG"],
        ["mq2008", "perfect", "pairrank", "2", f"0.3750 ± {half:.4f}", "0.5000 ± 0.0000", f"0.3750 ± {half:.4f}"],
    ]
    heads, row = table(two, "best_round", "test_ndcg_10_untrained", "test_ndcg_10_best")
    assert heads[4:] == ["best round", "test NDCG@10, untrained", "test NDCG@10, best round"]
    assert row[4:6] == ["2.00 ± 0.00", "0.0000 ± 0.0000"]


def test_a_cell_of_fewer_values_says_how_many(two):
    make(two, test={2: 0.5})
    assert table(two, "validation_ndcg_10")[1][-2:] == ["3", "0.5000 ± 0.0000 (n = 2)"]


def test_settings_in_which_rows_differ_have_a_column(tmp_path):
    for pairs in ("a|b", "b"):
        make(tmp_path, f"ranker.pairs={pairs}", test={0: 0.25})
    heads, *rows = table(tmp_path)
    assert heads == ["dataset", "click", "ranker", "settings", "n", "test NDCG@10", "online NDCG"]
    assert r"pairs='a\|b'" in {row[3] for row in rows}, "a bar does not end a cell"
    assert {row[-1] for row in rows} == {"0.2500"}, "one value has no interval"


def test_a_chosen_row_says_from_how_many(two):
    heads, row = table(two, chosen=0)
    assert (heads[3:5], row[3:5]) == (["chosen from", "n"], ["17", "2"])


def test_n_is_of_folds_and_seeds(tmp_path):
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
        ["mq2008", "perfect", "a", "rounds=2"],
        ["mq2008", "perfect", "b", "rounds=2"],
        ["mq2008", "perfect", "b", "rounds=10"],
        ["mq2008", "perfect", "a", "rounds=10"],
        ["mq2008", "cascade", "a", "rounds=1"],
        ["yahoo", "perfect", "a", "rounds=1"],
    ]
    assert [row[2] for row in table(tmp_path, "best_round")[3:5]] == ["a", "b"], "by name where more is not better"


def test_unfairness_is_usual_where_a_fairness_was_chosen(tmp_path):
    make(tmp_path)
    assert usual_metrics(groups_below(tmp_path)) == METRICS
    make(tmp_path, "fairness=fairexp")
    assert usual_metrics(groups_below(tmp_path)) == (*METRICS, "unfairness", "violations")


@pytest.fixture
def plain(tmp_path) -> Document:
    """pairrank, which is better for every seed, and pdgd, each chosen; the labels know another pairrank."""
    make(tmp_path, "ranker=pdgd", "ranker.l2=1", test=LOWER)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=2", test=HIGHER)
    make(tmp_path, "ranker.pairs=all", "ranker.l2=3", test={0: 0.1, 1: 0.1})
    groups, labels = groups_and_labels(tmp_path)
    groups = groups[1::-1]
    return Document(Collection(), groups, labels, ["test_ndcg_10"], Selection({groups[0]: 2, groups[1]: 1}, []))


def test_the_frame_has_what_rows_are_and_their_estimates(plain):
    frame, estimate = plain.frame(), plain.groups[0].estimate("test_ndcg_10")
    assert frame.columns == [
        *("dataset", "click", "intent", "ranker", "model", "exploration", "fairness", "ranker.l2", "chosen_from"),
        *("folds", "n", "test_ndcg_10_mean", "test_ndcg_10_sd", "test_ndcg_10_half_width", "test_ndcg_10_n"),
    ]
    last = ("pairrank", None, "confidence", "none", 2, 2, 1, 6, estimate.mean, estimate.sd, estimate.half_width, 6)
    assert frame.row(0)[3:] == last


@pytest.fixture
def marked(plain) -> Document:
    """The same, compared with pdgd."""
    return replace(plain, selection=None, comparison=compare(plain.groups, plain.labels, ["test_ndcg_10"], "pdgd"))


def test_a_comparison_with_a_baseline_has_columns(marked):
    better, base = marked.frame().to_dicts()
    assert better["test_ndcg_10_difference"] == pytest.approx(0.1005, abs=1e-6)
    assert 0 < better["test_ndcg_10_p_holm"] < 0.001
    counts = [better[f"test_ndcg_10_{what}"] for what in ("wins", "ties", "losses", "pairs", "missing")]
    assert (counts, base["test_ndcg_10_difference"]) == ([6, 0, 0, 6, 0], None)


def test_a_comparison_with_a_baseline_is_marks_and_a_table(marked):
    shown, differences = marked.tables
    place = shown.headings.index("ranker")
    cells = [(row[place].text, row[-1].mark, row[-1].best) for row in shown.rows]
    assert cells == [("pairrank", "↑", True), ("pdgd (baseline)", "", False)]
    row = {heading: cell.text for heading, cell in zip(differences.headings, differences.rows[0], strict=True)}
    expected = {"ranker": "pairrank l2=2", "minus": "pdgd", "win/tie/loss": "6/0/0", "pairs": "6"}
    assert row.items() >= expected.items()
    assert row["difference"].startswith("+0.10050 ± 0.000")


def test_a_comparison_of_all_is_letters(plain):
    comparison = compare(plain.groups, plain.labels, ["test_ndcg_10", "online_ndcg"])
    lettered = replace(plain, selection=None, comparison=comparison)
    assert [(row[0].text, row[-1].mark) for row in lettered.tables[0].rows] == [("a", "b"), ("b", "")]
    assert lettered.frame().select("letter", "test_ndcg_10_better_than").rows() == [("a", "b"), ("b", "")]
    frame = replace(lettered, differences_only=True).frame()
    assert frame.select("metric", "ranker", "rival_ranker", "wins", "losses").rows() == [
        (metric, "pairrank", "pdgd", 6, 0) for metric in ("test_ndcg_10", "online_ndcg")
    ]


def of_differences(groups, labels, comparison) -> TextTable:
    """The table of differences alone."""
    (shown,) = Document(Collection(), groups, labels, [], None, comparison, differences_only=True).tables
    return shown


@pytest.mark.parametrize(
    ("setting", "rankers", "names"),
    [
        ("ranker.l2", ["pairrank"], {"pairrank l2=1"}),
        ("rounds", ["pairrank", "pdgd"], {"pairrank rounds=1", "pairrank rounds=2"}),
    ],
)
def test_rows_of_one_ranker_are_told_apart_by_settings_or_task(tmp_path, setting, rankers, names):
    for number in (1, 2):
        for ranker in rankers:
            level = 0.1 * number if setting == "ranker.l2" else 0.2 - 0.1 * (ranker == "pdgd")
            make(tmp_path, f"ranker={ranker}", f"{setting}={number}", test={0: level, 1: level + 0.1})
    groups, labels = groups_and_labels(tmp_path)
    shown = of_differences(groups, labels, compare(groups, labels, ["test_ndcg_10"]))
    assert {row[3].text for row in shown.rows} == names


P_VALUES = [(None, ""), (1.0, "1.000"), (0.0449, "0.045"), (0.00012, "1.2e-04"), (0.0, "<1e-6")]


@pytest.mark.parametrize(("p", "text"), P_VALUES)
def test_a_p_value_has_three_decimals_or_an_exponent(tmp_path, p, text):
    for ranker, values in ("pdgd", LOWER), ("pairrank", HIGHER):
        make(tmp_path, f"ranker={ranker}", test=values)
    groups, labels = groups_and_labels(tmp_path)
    comparison = compare(groups, labels, ["test_ndcg_10"], "pdgd")
    (difference,) = comparison.differences
    comparison = replace(comparison, differences=[replace(difference, p=p)])
    shown = of_differences(groups, labels, comparison)
    row = {heading: cell.text for heading, cell in zip(shown.headings, shown.rows[0], strict=True)}
    assert row.get("p", "") == text, "a column without a value is not shown"


def test_the_best_is_the_least_where_less_is_better(tmp_path):
    """Of a metric without a direction nothing is, and without a comparison nothing at all."""
    for ranker, regret in (("a", 9), ("b", 1)):
        with edited_summary(make(tmp_path, f"ranker={ranker}", test=LOWER)) as summary:
            summary["by_seed"]["regret"] = summary["by_seed"]["clicks"] = [regret + seed % 2 for seed in LOWER]
    groups, labels = groups_and_labels(tmp_path)
    metrics = ["regret", "clicks"]
    for comparison, best in (None, False), (compare(groups, labels, metrics), True):
        rows = Document(Collection(), groups, labels, metrics, comparison=comparison).tables[0].rows
        assert [[cell.best for cell in row[-2:]] for row in rows] == [[False, False], [best, False]]


def notes(folder, *metrics: str) -> list[str]:
    """The lines below a table of these metrics."""
    return Document(Collection(), *groups_and_labels(folder), metrics).notes


def test_the_first_line_says_what_the_values_are_of(tmp_path):
    make(tmp_path)
    assert "one for each seed" in notes(tmp_path)[0]
    make(tmp_path, "dataset.fold=2")
    (line,) = notes(tmp_path)
    assert "one for each (fold, seed)" in line
    assert "Baidu-ULTR has .69 clicks a page" in notes(tmp_path, "page_clicks")[1]


def test_lines_say_what_is_chosen_and_what_is_left_out(tmp_path):
    make(tmp_path, "dataset.fold=2")
    groups = groups_below(tmp_path)
    make(tmp_path / "more", status="failed")
    (make(tmp_path / "more") / "config.yaml").unlink()
    document = Document(collect([tmp_path]), [], Labels([]), [], Selection({groups[0]: 2}, []))
    first, chosen, unfinished, damaged = document.notes
    assert first.startswith("1 run. ")
    assert "best mean validation NDCG" in chosen
    assert unfinished == f"1 run not finished: ol2r status {tmp_path}"
    assert damaged.startswith(f"1 run damaged: {tmp_path / 'more'}")


@pytest.mark.parametrize(
    ("counted", "metric", "has_line"),
    [("zero", "test_ndcg_10", True), ("zero", "best_round", False), ("skip", "test_ndcg_10", False)],
)
def test_a_line_says_what_queries_without_relevance_count(tmp_path, counted, metric, has_line):
    make(tmp_path, f"no_relevant={counted}")
    line = "Queries without a relevant document count 0 in NDCG"
    assert any(line in note for note in notes(tmp_path, metric)[1:]) == has_line


@pytest.mark.parametrize(("discount", "rounds", "has_line"), [(0.5, 20, True), (1, 20, False), (0.5, 4, False)])
def test_a_line_says_how_many_rounds_a_discount_weighs(tmp_path, discount, rounds, has_line):
    """In long runs, also in the caption of LaTeX: there cumulative and online NDCG answer different questions."""
    line = (
        "Cumulative NDCG weighs round t by 0.5^(t-1): 95% of the weight is on the first 5 of 20 rounds. The sum "
        "without it is online NDCG times the number of rounds, or this column with measure.ndcg.discount=1."
    )
    trace = {"cumulative_ndcg": {0: [1.0] * rounds}, "online_ndcg": {0: [0.5] * rounds}}
    play(tmp_path, trace={"clicks": {1: [1] * rounds}})  # the first run of the row takes no NDCG
    play(tmp_path, f"measure.ndcg.discount={discount}", trace=trace)
    document = Document(Collection(), *groups_and_labels(tmp_path), ["cumulative_ndcg", "online_ndcg"])
    assert document.notes[1:] == [line] * has_line
    assert ("t-1" in document.text("latex").partition("caption{")[2]) is has_line
    assert notes(tmp_path, "online_ndcg")[1:] == []


def test_on_a_terminal_everything_is_there(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    print_tables([TABLE], ["A line with [brackets] under it."])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines == [
        ["ranker", "test", "NDCG@10"],
        ["a", "pair_rank", "&", "co", "0.5000", "±", "0.0100", "ᵇᶜ"],
        ["b", "pd|gd", "-0.2500", "↓"],
        ["A", "line", "with", "[brackets]", "under", "it."],
    ]
    assert Console().width == 60
