"""Tables of LaTeX: what is escaped, what fits a column or a page, and the form of the table of a paper."""

from __future__ import annotations

import math
import re

import pytest

from ol2r_cli.plugins.latex.latex import COLUMN, PAGE, Block, LatexTable, escaped, plain_table
from ol2r_cli.report.best_settings import Selection, select
from ol2r_cli.report.collection import Collection
from ol2r_cli.report.comparison import compare
from ol2r_cli.report.document import Document
from ol2r_cli.text.table import Cell, TextTable
from tests.report.runs import groups_and_labels, groups_below, make

SEEDS = {seed: 0.25 + 0.01 * seed for seed in range(6)}


def shifted(by: float) -> dict[int, float]:
    """Values that differ from SEEDS by almost the same for every seed."""
    return {seed: value + by + 0.0001 * (seed % 2) for seed, value in SEEDS.items()}


def document(root, *metrics: str, baseline: str | None = None, compares: bool = False, **more) -> Document:
    groups, labels = groups_and_labels(root)
    comparison = compare(groups, labels, metrics, baseline) if compares or baseline else None
    return Document(Collection(), groups, labels, metrics, comparison=comparison, **more)


def latex_of(root, *metrics: str, **more) -> str:
    return document(root, *metrics, **more).text("latex")


def body(text: str) -> list[str]:
    """The lines with cells."""
    return [line.removesuffix(r" \\\\") for line in text.splitlines() if line.endswith(r"\\")]


def test_no_name_is_an_argument_of_the_end_of_the_row_before():
    r"""A bracket and a star behind \\ are, also in the next line."""
    table = TextTable.of(["ranker"], ["n"], [["[5] a", "1"], ["*b", "2"]])
    assert [line.partition(" &")[0] for line in body(plain_table(table, []).text())][1:] == ["{[}5] a", "{*}b"]


def test_text_is_escaped_and_marks_are_superscripts():
    table = TextTable.of(
        ["", "ranker"],
        ["test NDCG@10"],
        [["a", "pair_rank & co", Cell("0.5000 ± 0.0100", "bc", best=True)], ["b", "pd|gd", Cell("-0.2500", "↓")]],
    )
    assert plain_table(table, ["2 runs at 95%."]).text().splitlines() == [
        r"% \usepackage{booktabs}",
        "% 2 runs at 95%.",
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        r"\setlength{\tabcolsep}{4pt}",
        r"\setlength{\belowcaptionskip}{4pt}",
        r"\begin{tabular}{llr}",
        r"\toprule",
        r" & ranker & test NDCG@10 \\",
        r"\midrule",
        r"a & pair\_rank \& co & \textbf{0.5000 $\pm$ 0.0100}$^{bc}$ \\",
        r"b & pd\textbar{}gd & $-$0.2500$^{\downarrow}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    minus_within_a_word_or_exponent_stays = r"$<$1e-05 a-b"
    special = r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}"
    assert escaped("\\&%$#_{}~^<1e-05 a-b") == special + minus_within_a_word_or_exponent_stays
    assert escaped("λ=0.1 ε-Greedy") == r"$\lambda$=0.1 $\epsilon$-Greedy"


def test_what_all_rows_share_is_in_the_caption():
    table = TextTable.of(["metric", "ranker"], ["n"], [["NDCG@10", "a", "5"], ["NDCG@10", "b", "5"]])
    text = plain_table(table, []).text()
    assert r"\caption{In all rows: metric NDCG@10, n 5.}" in text
    assert r"\begin{tabular}{l}" in text


def test_a_table_takes_a_column_the_page_or_several_parts():
    """A letter is 4.6 points wide, and a gap 8."""

    def table(columns: int) -> str:
        headings = ["ranker", *(f"{column:032}" for column in range(columns))]
        cells = [Cell("x" * 8), *[Cell("0.1")] * columns]
        return LatexTable(headings, [False] + [True] * columns, [Block("", [cells])]).text()

    assert 4.6 * 40 + 16 < COLUMN < 4.6 * 72 + 24 < PAGE < 4.6 * 104 + 32
    assert r"\begin{table}[t]" in table(1)
    assert r"\begin{table*}[t]" in table(2)
    assert table(2).count("tabular}{") == 1
    assert table(5).count("tabular}{") == 3
    assert body(table(5))[0] == rf"ranker & {0:032} & {1:032} \\"


def test_a_table_that_is_higher_than_a_page_is_refused():
    rows = [[Cell("a"), Cell("1")]] * 30
    message = (
        "^a table of LaTeX must have at most 50 lines, to fit a page, got 64: name one metric, such as "
        "--metric test_ndcg_10, or fewer runs, such as dataset=mq2008$"
    )
    with pytest.raises(ValueError, match=message):
        LatexTable(["", "x"], [False, True], [Block("a", rows), Block("b", rows)]).text()


def test_click_models_are_columns_and_metrics_are_blocks(tmp_path):
    """Two seeds: half of an interval is t(.975, 1) times half of their distance."""
    for click, values in (("informational", {0: 0.25, 1: 0.5}), ("perfect", {0: 0.5, 1: 0.5})):
        make(tmp_path, f"click={click}", test=values)
        make(tmp_path, f"click={click}", "ranker=pdgd", "ranker/model=mlp", test={0: 0.25, 1: 0.25})
    make(tmp_path, "click=perfect", "fairness=fairexp", test={0: 0.75, 1: 0.75})
    text = latex_of(tmp_path, "test_ndcg_10", "online_ndcg")
    half = f"{math.tan(math.pi * 0.475) * 0.125:.4f}"
    rows = [
        rf"PairRank & 0.5000 $\pm$ 0.0000 & 0.3750 $\pm$ {half} \\",
        r"FairExp-PairRank & 0.7500 $\pm$ 0.0000 & – \\",
        r"Neural-PDGD & 0.2500 $\pm$ 0.0000 & 0.2500 $\pm$ 0.0000 \\",
    ]
    blocks = [rf"\multicolumn{{3}}{{l}}{{\emph{{{metric}}}}} \\" for metric in ("test NDCG@10", "online NDCG")]
    assert body(text) == [r" & perfect & informational \\", blocks[0], *rows, blocks[1], *rows]
    intervals = r"means $\pm$ half of their 95\% intervals over seeds, of which there are n. n = 2."
    assert rf"\caption{{Results on MQ2008 after 2 rounds: {intervals}}}" in text
    assert text.count(r"\begin{table") == 1


def test_with_one_click_model_metrics_are_columns(tmp_path):
    for dataset in ("mq2008", "yahoo"):
        make(tmp_path, f"dataset={dataset}", test={0: 0.5}, fingerprint=dataset)
    make(tmp_path, "dataset=yahoo", "ranker=dbgd", test={0: 0.25, 1: 0.25}, fingerprint="yahoo")
    text = latex_of(tmp_path, "test_ndcg_10", "online_ndcg")
    assert body(text) == [
        r" & test NDCG@10 & online NDCG \\",
        r"\multicolumn{3}{l}{\emph{MQ2008}} \\",
        r"PairRank & 0.5000 (1) & 0.5000 (1) \\",
        r"\multicolumn{3}{l}{\emph{Yahoo}} \\",
        r"PairRank & 0.5000 (1) & 0.5000 (1) \\",
        r"DBGD & 0.2500 $\pm$ 0.0000 (2) & 0.2500 $\pm$ 0.0000 (2) \\",
    ]
    assert "with perfect users" in text
    assert "intervals over seeds, of which there are n. n is in brackets." in text


def test_the_caption_names_folds_as_units_of_intervals(tmp_path):
    for fold in (1, 2, 3):
        make(tmp_path, f"dataset.fold={fold}", test={0: 0.5, 1: 0.25}, fingerprint=str(fold))
    assert r"95\% intervals over folds; n counts (fold, seed). n = 6." in latex_of(tmp_path, "test_ndcg_10")
    make(tmp_path, "ranker=pdgd", test={0: 0.5, 1: 0.25}, fingerprint="1")
    mixed = "intervals over folds, or over seeds in rows of one fold; n counts (fold, seed)."
    assert mixed in latex_of(tmp_path, "test_ndcg_10")


def test_only_what_is_significantly_best_is_bold(tmp_path):
    """DBGD is below both others, which do not differ; without it, nothing is better than all others."""
    for click, best in (("perfect", 0.1), ("informational", 0.0)):
        make(tmp_path, f"click={click}", test=shifted(best))
        make(tmp_path, f"click={click}", "ranker=pdgd", test=SEEDS)
        make(tmp_path, f"click={click}", "ranker=dbgd", test=shifted(-0.1))
    rows = body(latex_of(tmp_path, "test_ndcg_10", compares=True))[1:]
    assert [re.findall(r"\^\{(\w*)\}", row) for row in rows] == [["a", "bc", "c"], ["b", "c", "c"], ["c"]]
    assert [[r"\textbf" in cell for cell in row.split(" & ")] for row in rows] == [
        [False, True, False],
        [False, False, False],
        [False, False, False],
    ]
    marked = latex_of(tmp_path, "test_ndcg_10", baseline="pdgd")
    assert r"\textbf" not in marked, "against a baseline no row is compared with all others"
    assert "significantly higher and lower than PDGD (paired t test, Holm's correction, p $<$ 0.05)" in marked
    assert r"\textbf" not in latex_of(tmp_path, "test_ndcg_10"), "nothing was compared"


def test_rows_of_one_name_are_refused(tmp_path):
    """As those of a ranker of one's own that is called as another one in the papers."""
    for ranker in ("pairrank", "PairRank"):
        make(tmp_path, f"ranker={ranker}")
    with pytest.raises(ValueError, match=r"must not have one name, got PairRank for .*=pairrank .* and .*=PairRank "):
        latex_of(tmp_path, "test_ndcg_10")


def test_differences_have_the_names_of_figures(tmp_path):
    make(tmp_path, test=SEEDS)
    make(tmp_path, "ranker=pdgd", test=shifted(0.1))
    make(tmp_path, "ranker=pepairrank", "exploration=ensemble", test=shifted(-0.1))
    text = latex_of(tmp_path, "test_ndcg_10", baseline="pairrank", differences_only=True)
    assert [line.partition(" & ")[0] for line in body(text)] == ["ranker", "PDGD", "P2LinRank"]
    assert "In all rows: metric test NDCG@10, dataset MQ2008, click perfect, minus PairRank," in text


def test_differences_of_several_intents_and_users_are_told_apart(tmp_path):
    for words in (("click.stop=0.5",), ("click.stop=0.25",), ("click.stop=0.5", "intent=abrupt", "intent.every=5")):
        make(tmp_path, *words, test=SEEDS)
        make(tmp_path, *words, "ranker=pdgd", test=shifted(0.1))
    differences = document(tmp_path, "test_ndcg_10", baseline="pairrank", differences_only=True)
    users = sorted(line.removesuffix(r" \\") for line in body(differences.text("latex")))
    assert users == ["click", "perfect, intent abrupt, stop=0.5", "perfect, stop=0.25", "perfect, stop=0.5"]
    lines = differences.text("md").splitlines()
    assert "| intent |" in lines[0]
    assert len(set(lines[2:5])) == 3


def test_a_table_whose_rows_are_all_the_same_keeps_its_columns():
    table = TextTable.of(["ranker"], ["n"], [["a", "1"], ["a", "1"]])
    assert body(plain_table(table, []).text())[1:] == [r"a & 1 \\"] * 2


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("validation", "best mean validation NDCG after the last evaluated round"),
        ("online", "highest mean cumulative NDCG"),
    ],
)
def test_a_caption_says_what_chose_and_which_tests_were_made(tmp_path, by, reason):
    """And nothing of tests that were not made, for which two seeds are too few."""
    for ranker in ("pairrank", "pdgd"):
        make(tmp_path, f"ranker={ranker}", test={0: 0.25, 1: 0.5})
    selection = Selection(dict.fromkeys(groups_below(tmp_path), 2), [], by)
    text = latex_of(tmp_path, "test_ndcg_10", compares=True, selection=selection)
    assert f"Settings were selected by the {reason}.}}" in text
    assert "significantly" not in text


def test_comments_have_the_settings_that_a_selection_chose(tmp_path):
    for click, best in (("perfect", 1), ("informational", 2)):
        for l2 in (1, 2):
            level = {0: 0.5 if l2 == best else 0.25}
            make(tmp_path, f"click={click}", f"ranker.l2={l2}", test=level, validation=level)
    groups, labels = groups_and_labels(tmp_path)
    selection = select(groups, labels)
    chosen = labels.after_selection(selection.settings)
    text = Document(Collection(), [*selection.cells], chosen, ["test_ndcg_10"], selection).text("latex")
    assert "PairRank & 0.5000 & 0.5000 \\\\" in body(text)
    assert [line for line in text.splitlines() if "l2" in line] == [
        "% MQ2008, perfect, PairRank: l2=1",
        "% MQ2008, informational, PairRank: l2=2",
    ]
