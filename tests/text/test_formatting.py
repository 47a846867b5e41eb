"""Numbers, durations, names and help as text."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from ol2r_cli.commands.command import HelpFormatter
from ol2r_cli.text.formatting import byte_size, duration, nearest, shortened


def test_sizes_durations_and_nearest_names():
    sizes = {0: "0 B", 812: "812 B", 1000: "1.0 kB", 1_440_000: "1.4 MB", 2.5e9: "2.5 GB", 3e15: "3000.0 TB"}
    assert {count: byte_size(count) for count in sizes} == sizes
    durations = {8.24: "8.2s", 59.4: "59.4s", 185: "3m 05s", 7620: "2h 07m", 3 * 86400 + 4 * 3600: "3d 04h"}
    assert {seconds: duration(seconds) for seconds in durations} == durations
    assert nearest("pairnk", ["pairrank", "oracle"], "ranker=") == ": did you mean ranker=pairrank?"
    assert nearest("xyz", ["pairrank", "oracle"]) == ""


LABELS = ["ranker=pdgd ranker.l2=0.1 seed=1", "ranker=pdgd ranker.l2=0.25 seed=2"]


@pytest.mark.parametrize(
    ("labels", "width", "short"),
    [
        (LABELS, 33, LABELS),
        (LABELS, 32, ["ranker.l2=0.1 seed=1", "ranker.l2=0.25 seed=2"]),
        (LABELS, 20, ["l2=0.1 seed=1", "l2=0.25 seed=2"]),
        (LABELS, 13, ["0.1 1", "0.25 2"]),
        (LABELS, 5, ["0.1 1", "…25 2"]),
        (["ranker=pdgd ranker/model=mlp"], 20, ["pdgd mlp"]),
        (["a long name"], 5, ["…name"]),
    ],
)
def test_labels_without_room_lose_what_they_share(labels, width, short):
    assert shortened(labels, width) == short


def test_help_is_no_wider_than_the_terminal(monkeypatch):
    """Help is no wider than the terminal, and an explanation stands below a long example."""
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
