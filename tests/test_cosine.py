"""The cosine between the deployed weights and those of the offline RankNet, from the command line to the table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.learning.offline_fits import fit_ranknet
from ol2r_cli.ranker import offline as offline_ranknet
from ol2r_cli.run.run import Run, find_runs

WORLD = [
    "dataset.queries={train: 40, validation: 5, test: 5}",
    "dataset.documents=12",
    "dataset.features=6",
    "dataset.nonlinearity=0",
    "dataset.noise=0.1",
]


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """A run on a linear world with perfect clicks, that traces the cosine."""
    places = f"output_dir={tmp_path / 'outputs'}", f"cache_dir={tmp_path / 'cache'}"
    return [
        "run",
        *WORLD,
        *places,
        "click=perfect",
        "positions=12",
        "rounds=40",
        "evaluate_every=20",
        "replicas=3",
        "trace_cosine=true",
    ]


def evaluation(tmp_path: Path) -> tuple[Path, pl.DataFrame]:
    """The directory of the only run, and its table."""
    (run,) = find_runs(tmp_path / "outputs")
    return run, Run.read_finished(run).evaluation


def test_the_offline_ranker_points_where_it_points(arguments, tmp_path):
    assert cli.main([*arguments, "ranker=offline_ranknet"]) == 0
    run, table = evaluation(tmp_path)
    assert set(table["split"]) == {"validation", "test"}
    assert table["cosine"].to_list() == pytest.approx([1.0] * len(table), abs=1e-6)
    assert '"cosine"' in (run / "summary.json").read_text()


def test_pairrank_turns_towards_it(arguments, tmp_path):
    """What is recorded last is the cosine of the weights that were saved."""
    unregularised = ["ranker.reduction=sum", "ranker.l2=0.1"]  # as the offline fit that gives the direction
    assert cli.main([*arguments, "rounds=200", *unregularised]) == 0
    run, table = evaluation(tmp_path)
    table = table.sort("seed", "round")
    both = [table.filter(split=split)["cosine"].to_list() for split in ("validation", "test")]
    assert both[0] == both[1]
    assert table.filter(round=0)["cosine"].is_null().all(), "theta = 0 has no direction"
    trained = table.filter(pl.col("round") > 0)
    assert trained["cosine"].is_between(-1, 1).all()
    early, late = (trained.filter(round=round)["cosine"].mean() for round in (20, 200))
    assert late > early + 0.1
    assert late > 0.8
    config = compose([*WORLD, "ranker=offline_ranknet"]).config
    dataset = build(config.dataset).load()
    offline = fit_ranknet(dataset.features, dataset.oracle(), config.ranker.l2)
    deployed = torch.load(run / "ranker.pt", weights_only=True)["deployed"]
    last = table.filter(round=200, split="test").sort("seed")["cosine"].to_list()
    for theta, cosine in zip(deployed.double(), last, strict=True):
        assert cosine == pytest.approx(float(theta @ offline) / float(theta.norm() * offline.norm()), abs=1e-6)


def test_in_single_precision(arguments, tmp_path):
    assert cli.main([*arguments, "ranker=sgd_ranknet", "device.dtype=float32"]) == 0
    assert evaluation(tmp_path)[1].filter(round=40)["cosine"].is_not_null().all()


def test_the_cosine_to_no_direction_is_null(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr(offline_ranknet, "fit_ranknet", lambda features, oracle, l2: torch.zeros(6).double())
    assert cli.main(arguments) == 0
    assert evaluation(tmp_path)[1]["cosine"].is_null().all()


def test_without_the_trace_no_fit_is_made(arguments, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("fitted")

    monkeypatch.setattr(offline_ranknet, "fit_ranknet", refuse)
    assert cli.main([*arguments, "trace_cosine=false"]) == 0
    assert evaluation(tmp_path)[1]["cosine"].is_null().all()


@pytest.mark.parametrize("ranker", ["random", "oracle", "toprank"])
def test_a_ranker_without_linear_weights_has_no_cosine(arguments, tmp_path, capsys, ranker):
    assert cli.main([*arguments, f"ranker={ranker}"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "trace_cosine=true needs a ranker with linear weights" in captured.err
    assert f"leave it out with ranker={ranker}" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_it_is_true_or_false(arguments, capsys):
    assert cli.main([*arguments, "trace_cosine=3"]) == 2
    assert "trace_cosine must be true or false, got 3" in capsys.readouterr().err
