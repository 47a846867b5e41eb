"""Tables of text: aligned in a pipe, wrapped on a terminal."""

from __future__ import annotations

import re

from ol2r_cli.text.table import TextTable, print_table, show


def lines_without_style(output: str) -> list[str]:
    return re.sub(r"\x1b\[\d*m", "", output).splitlines()


def test_columns_are_aligned_and_text_is_wrapped(capsys, on_terminal):
    show([["a", "1"], ["bcd", "20"]], headings=["name", "n"], numbers=True)
    show([["a", "first"], ["bcd", "second"]], indent=2)
    assert capsys.readouterr().out == "name   n\na      1\nbcd   20\n  a    first\n  bcd  second\n"
    on_terminal(30)
    show([["name", "a long comment " * 5]], headings=["setting", "comment"])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 30 for line in lines[1:])
    assert " ".join(lines).count("comment") == 1 + 5, "nothing is cut"


def test_no_number_is_broken_on_a_terminal(capsys, on_terminal):
    """What has no room beside the first columns is a second table with the same first columns."""
    values = [f"{0.4 + column:.4f} ± 0.0{column}25 ↓" for column in range(6)]
    labels = ["synthetic informational", "pairrank with a long label"], ["mq2008", "pdgd"]
    heads = ["dataset", "ranker", *(f"test NDCG@{column}" for column in range(6))]
    for width, tables in ((50, 6), (80, 2)):
        on_terminal(width)
        print_table(TextTable.of(heads[:2], heads[2:], [[*label, *values] for label in labels]))
        lines = lines_without_style(capsys.readouterr().out)
        assert max(map(len, lines)) <= width
        assert [" ".join(lines).count(value) for value in values] == [2] * 6
        assert len([line for line in lines if line.startswith("mq2008")]) == tables
        assert " ".join(" ".join(lines).split()).count("informational") == tables, "nor a word"
    on_terminal(50)
    cells = ["rounds=60 measure.ndcg.discount=0.9995", *["0.4123 ± 0.0021"] * 2]
    print_table(TextTable.of(["settings"], ["a", "b"], [cells]))
    lines = [line.split()[0] for line in lines_without_style(capsys.readouterr().out)[1:]]
    assert lines == ["rounds=60", "measure.ndcg.disco", "unt=", "0.9995"], "broken before its value"
