"""The cosine between the deployed weights and those of the offline RankNet, from the command line to the table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from ol2r_cli import cli
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.ranker import offline as offline_ranknet
from ol2r_cli.ranker.offline import fit_ranknet
from ol2r_cli.run.run import Run, find_runs
from tests.finished import refused

WORLD = [
    "dataset.queries={train: 40, validation: 5, test: 5}",
    *("dataset.documents=12", "dataset.features=6", "dataset.nonlinearity=0", "dataset.noise=0.1"),
]
RUN = [*WORLD, "click=perfect", "positions=12", "rounds=40", "evaluate_every=20", "replicas=3", "trace_cosine=true"]


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """A run on a linear world with perfect clicks, that traces the cosine."""
    return ["run", *RUN, f"output_dir={tmp_path / 'outputs'}", f"cache_dir={tmp_path / 'cache'}"]


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


def test_the_cosine_is_null_without_a_direction_or_a_trace(arguments, tmp_path, monkeypatch):
    """In single precision too there is one; without the trace no fit is made."""
    fits = []
    monkeypatch.setattr(offline_ranknet, "fit_ranknet", lambda *_: fits.append(1) or torch.zeros(6).double())
    for number, words in enumerate((["trace_cosine=true"], ["trace_cosine=false"])):
        places = f"output_dir={tmp_path / str(number)}", f"cache_dir={tmp_path / str(number)}"
        assert cli.main([*arguments, *places, *words, "rounds=20"]) == 0
        (run,) = find_runs(tmp_path / str(number))
        assert Run.read_finished(run).evaluation["cosine"].is_null().all()
    assert len(fits) == 1
    monkeypatch.undo()
    assert cli.main([*arguments, "ranker=sgd_ranknet", "device.dtype=float32"]) == 0
    assert evaluation(tmp_path)[1].filter(round=40)["cosine"].is_not_null().all()


@pytest.mark.parametrize("ranker", ["random", "oracle", "toprank"])
def test_a_ranker_without_linear_weights_is_refused(arguments, tmp_path, capsys, ranker):
    told = refused(capsys, *arguments, f"ranker={ranker}")
    assert "trace_cosine=true needs a ranker with linear weights" in told
    assert f"leave it out with ranker={ranker}" in told
    assert list(tmp_path.iterdir()) == []


def test_another_value_is_refused(capsys):
    assert refused(capsys, "run", *WORLD, "trace_cosine=3") == "trace_cosine must be true or false, got 3"
