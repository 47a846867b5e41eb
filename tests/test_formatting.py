"""Numbers, durations, names, help and tables as text."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest
from rich.text import Text

from ol2r_cli.command import HelpFormatter
from ol2r_cli.formatting import byte_size, duration, nearest, print_table, shortened, show


def test_sizes_durations_and_nearest_names():
    sizes = {0: "0 B", 812: "812 B", 1000: "1.0 kB", 1_440_000: "1.4 MB", 2.5e9: "2.5 GB", 3e15: "3000.0 TB"}
    assert {count: byte_size(count) for count in sizes} == sizes
    durations = {8.24: "8.2s", 59.4: "59.4s", 185: "3m 05s", 7620: "2h 07m", 3 * 86400 + 4 * 3600: "3d 04h"}
    assert {seconds: duration(seconds) for seconds in durations} == durations
    assert nearest("pairnk", ["pairrank", "oracle"], "ranker=") == ": did you mean ranker=pairrank?"
    assert nearest("xyz", ["pairrank", "oracle"]) == ""


def test_labels_without_room_lose_what_they_share():
    labels = ["ranker=pdgd ranker.l2=0.1 seed=1", "ranker=pdgd ranker.l2=0.25 seed=2"]
    for width, short in (
        (33, labels),
        (32, ["ranker.l2=0.1 seed=1", "ranker.l2=0.25 seed=2"]),
        (20, ["l2=0.1 seed=1", "l2=0.25 seed=2"]),
        (13, ["0.1 1", "0.25 2"]),
        (5, ["0.1 1", "…25 2"]),
    ):
        assert shortened(labels, width) == short
    assert shortened(["ranker=pdgd ranker/model=mlp"], 20) == ["pdgd mlp"]
    assert shortened(["a long name"], 5) == ["…name"]


def test_columns_are_aligned_and_text_is_wrapped_on_a_terminal(capsys, monkeypatch: pytest.MonkeyPatch):
    show([["a", "1"], ["bcd", "20"]], headings=["name", "n"], numbers=True)
    show([["a", "first"], ["bcd", "second"]], indent=2)
    assert capsys.readouterr().out == "name   n\na      1\nbcd   20\n  a    first\n  bcd  second\n"
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show([["name", "a long comment " * 5]], headings=["setting", "comment"])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 30 for line in lines[1:])
    assert " ".join(lines).count("comment") == 1 + 5, "nothing is cut"


def test_no_number_is_broken_on_a_terminal_and_what_has_no_room_is_a_second_table(capsys, monkeypatch):
    values = [f"{0.4 + column:.4f} ± 0.0{column}25 ↓" for column in range(6)]
    labels = ["synthetic informational", "pairrank with a long label"], ["mq2008", "pdgd"]
    heads = ["dataset", "ranker", *(f"test NDCG@{column}" for column in range(6))]
    for width, tables in ((50, 6), (80, 2)):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(heads, [[*label, *values] for label in labels], [False] * 2 + [True] * 6)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        assert [" ".join(lines).count(value) for value in values] == [2] * 6
        assert len([line for line in lines if line.startswith("mq2008")]) == tables
        assert " ".join(" ".join(lines).split()).count("informational") == tables, "nor a word"
    monkeypatch.setenv("COLUMNS", "50")
    cells = ["rounds=60 measure.ndcg.discount=0.9995", *["0.4123 ± 0.0021"] * 2]
    print_table(["settings", "a", "b"], [list(map(Text, cells))], [False, True, True])
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == ["rounds=60", "measure.ndcg.disco", "unt=", "0.9995"], "broken before its value"


def test_help_is_no_wider_than_the_terminal_and_an_explanation_stands_below_a_long_example(monkeypatch):
    monkeypatch.setenv("COLUMNS", "42")
    epilog = "examples:\n  run a  short\n  run rounds=1000 clicks=perfect   what it is for " + "and more " * 4
    parser = ArgumentParser("x", description="one two " * 9, epilog=epilog, formatter_class=HelpFormatter)
    lines = parser.format_help().splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[-4:-1] == [
        "  run a  short",
        "  run rounds=1000 clicks=perfect",
        "      what it is for and more and more",
    ]
