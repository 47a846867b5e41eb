"""Tables as text."""

from __future__ import annotations

from rich.console import Console

from ol2r_cli.report.text_table import Cell, TextTable, latex, markdown, terminal

TABLE = TextTable.of(
    ["", "ranker"],
    ["test NDCG@10"],
    [["a", "pair_rank & co", Cell("0.5000 ± 0.0100", "bc", best=True)], ["b", "pd|gd", Cell("-0.2500", "↓")]],
)


def test_markdown_is_aligned_and_marks_are_behind_the_values():
    assert markdown(TABLE).splitlines() == [
        "|     | ranker         |       test NDCG@10 |",
        "| --- | -------------- | -----------------: |",
        "| a   | pair_rank & co | 0.5000 ± 0.0100 ᵇᶜ |",
        r"| b   | pd\|gd         |          -0.2500 ↓ |",
    ]


def test_latex_is_escaped_with_superscripts_and_the_best_in_bold():
    assert latex(TABLE, ["2 runs at 95%."]).splitlines() == [
        r"% \usepackage{booktabs}",
        "% 2 runs at 95%.",
        r"\begin{tabular}{llr}",
        r"\toprule",
        r" & ranker & test NDCG@10 \\",
        r"\midrule",
        r"a & pair\_rank \& co & \textbf{0.5000 $\pm$ 0.0100}$^{bc}$ \\",
        r"b & pd\textbar{}gd & $-$0.2500$^{\downarrow}$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    odd = latex(TextTable.of(["x"], [], [["\\&%$#_{}~^<1e-05 a-b"]])).splitlines()[5]
    minus_within_a_word_or_exponent_stays = r"$<$1e-05 a-b \\"
    escaped = r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}"
    assert odd == escaped + minus_within_a_word_or_exponent_stays


def test_columns_without_anything_are_left_out():
    table = TextTable.of(["a", "b"], ["c"], [["1", "", ""], ["", "", "2"]])
    assert table.without_empty() == TextTable.of(["a"], ["c"], [["1", ""], ["", "2"]])


def test_on_a_terminal_everything_is_there(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    terminal([TABLE], ["A line with [brackets] under it."])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines == [
        ["ranker", "test", "NDCG@10"],
        ["a", "pair_rank", "&", "co", "0.5000", "±", "0.0100", "ᵇᶜ"],
        ["b", "pd|gd", "-0.2500", "↓"],
        ["A", "line", "with", "[brackets]", "under", "it."],
    ]
    assert Console().width == 60
