"""`ol2r bench`: a row for each ranker and number of replicas, named by what was typed."""

from __future__ import annotations

import pytest

from ol2r_cli.commands.bench import main, measure

SMALL = ["dataset.queries={train: 5, validation: 0, test: 2}", "dataset.documents=6"]


def test_a_measurement_is_named_by_what_was_typed():
    benchmark = measure("random", 3, 60, [*SMALL, "click=perfect"])
    assert benchmark.label == f"random {' '.join(SMALL)} click=perfect"
    assert (benchmark.replicas, benchmark.rounds) == (3, 60)
    assert benchmark.speed > 0
    assert benchmark.learning > 0


def test_the_table_has_a_row_for_each_ranker(capsys: pytest.CaptureFixture[str]):
    assert main(["random", "pdgd", *SMALL, "--rounds", "60", "--replicas", "1", "2"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    names = [row[0] for row in rows if row and row[0] in ("random", "pdgd") and not row[0].endswith(",")]
    assert names.count("random") == names.count("pdgd") == 2


def test_own_choices_and_a_slip(tmp_path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text("_target_: ol2r_cli.ranker.anchors.RandomRanker\n")
    small = [*SMALL, "--rounds", "2", "--replicas", "1"]
    assert main(["mine", *small, "--config-dir", str(tmp_path)]) == 0
    assert "\nmine dataset.queries" in capsys.readouterr().out
    assert main(["mien", *small]) == 2
    assert capsys.readouterr().err.startswith("ol2r bench: ranker must be one of ")


def test_rounds_and_replicas_are_options(capsys: pytest.CaptureFixture[str]):
    assert main(["random", *SMALL, "rounds=20"]) == 2
    assert capsys.readouterr().err == "ol2r bench: rounds must be an option: type --rounds 20\n"
