"""`ol2r bench`: a row for each ranker and number of replicas, named by what was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ol2r_cli.plugins.authoring import bench
from ol2r_cli.plugins.authoring.bench import main, measure
from tests.finished import refused

SMALL = ["dataset.queries={train: 5, validation: 0, test: 2}", "dataset.documents=6"]


def test_a_row_for_each_ranker_also_an_own_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine.yaml").write_text("_target_: ol2r_cli.ranker.model_ranker.RandomRanker\n")
    small = [*SMALL, "--rounds", "120", "--config-dir", str(tmp_path)]
    assert main(["mine", "random", *small, "--replicas", "1", "2"]) == 0
    rows = [line.removesuffix("1.00") for line in capsys.readouterr().out.splitlines()]
    heads = [row.partition(" dataset.queries")[0] for row in rows[5:]]
    assert heads == ["mine", "mine", "random", "random"]
    benchmark = measure("random", 3, 120, [*SMALL, "click=perfect"])
    assert benchmark.label == f"random {' '.join(SMALL)} click=perfect"
    assert (benchmark.replicas, benchmark.rounds) == (3, 120)
    assert min(benchmark.speed, benchmark.learning, benchmark.evaluation, benchmark.late) > 0
    assert benchmark.speed == 360 / (benchmark.learning + benchmark.evaluation)


def test_a_first_benchmark_on_little_data_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    played = []
    timed = bench._timed
    monkeypatch.setattr(bench, "_timed", lambda *given: played.append(given[0][-2:]) or timed(*given))
    measure("random", 1, 70, SMALL)
    assert played == [[bench.LITTLE, "rounds=64"], [SMALL[-1], "rounds=70"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [("mien --rounds 2", "ranker must be one of "), ("random rounds=20", "rounds must be an option: type --rounds 20")],
)
def test_a_slip_is_one_line(capsys, words, told):
    assert refused(capsys, "bench", *words.split(), *SMALL).startswith(told)
