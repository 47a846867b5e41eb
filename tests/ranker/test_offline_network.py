"""The network trained offline among the online rankers: what it learns, that it is fitted once, and what it keeps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning import offline_fits as network_fit
from ol2r_cli.ranker import offline as offline_network
from tests.worlds import handmade, offline_ndcg, simulate, tiny

LISTS = [[4, 0, 1, 2, 0, 3], [1, 0, 0], [0, 2], [0, 0], [3, 1, 0]]
SMALL = ["ranker=offline_network", "ranker.model.width=8"]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for every fit that is made; all are worth keeping."""
    made: list[str] = []
    fit = network_fit.NetworkFit.__call__

    def counted(self, *given):
        made.append("fit")
        return fit(self, *given)

    monkeypatch.setattr(network_fit.NetworkFit, "__call__", counted)
    monkeypatch.setattr(offline_network, "LEAST_WORK", 0)
    return made


def simulation(folder: Path, dataset=None, *overrides: str, seeds=(0, 1), **more):
    small = SMALL[:1] if "ranker/model=linear" in overrides else SMALL
    config = tiny(*small, f"cache_dir={folder}", *overrides)
    return simulate(config, list(seeds), 1, dataset or handmade(LISTS), **more)


def fitted(folder: Path, dataset=None, *overrides: str, **more) -> torch.Tensor:
    """The parameters of the ranker that a configuration names."""
    return simulation(folder, dataset, *overrides, **more).ranker.deploy()


def ndcg(ranker, dataset) -> float:
    """Test NDCG@10."""
    evaluator = offline_ndcg(dataset, "test", torch.tensor([0]), dtype=ranker.theta.dtype)
    return float(evaluator(ranker, ranker.deploy()[:1][None])[0, 0, -1])


@pytest.mark.parametrize("loss", ["lambdarank", pytest.param("ranknet", marks=pytest.mark.slow)])
def test_it_learns_what_a_linear_ranker_cannot(tmp_path, loss):
    """Labels grow with |x_1 - x_2|: linear scores are right about every second pair."""
    world = handmade([[0] * 15] * 30, features=3)
    distance = (world.features[:, 0] - world.features[:, 1]).abs().reshape(30, 15)
    dataset = dataclasses.replace(world, labels=(distance.argsort(1).argsort(1) // 3).to(torch.int8).flatten())
    wide, linear = (
        ndcg(simulation(tmp_path, dataset, f"ranker.loss={loss}", "ranker.batch=2", model).ranker, dataset)
        for model in ("ranker.model.width=20", "ranker/model=linear")
    )
    assert wide > 0.95
    assert linear < 0.85


def test_all_replicas_and_seeds_of_the_run_share_one_network(tmp_path):
    first = fitted(tmp_path)
    assert torch.equal(first[0], first[1])
    assert torch.equal(fitted(tmp_path, seeds=(7,))[0], first[0])
    assert not torch.equal(fitted(tmp_path, None, "ranker.seed=1"), first)


def test_it_serves_in_either_precision_what_was_fitted_in_its_own(tmp_path):
    single, double = (fitted(tmp_path, dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    assert torch.equal(single.double(), double)


def test_a_fit_is_made_once_and_another_for_whatever_else(tmp_path, fits):
    short = "ranker.epochs=4"
    first = fitted(tmp_path, None, short)
    assert torch.equal(fitted(tmp_path, None, short), first)
    assert fits == ["fit"]
    others = ["loss=ranknet", "learning_rate=0.02", "batch=2", "epochs=3", "patience=2", "seed=1"]
    others += ["model.width=6", "model.init=standard"]
    for setting in others:
        fitted(tmp_path, None, *([short] if "epochs" not in setting else []), f"ranker.{setting}")
    fitted(tmp_path, None, "ranker/model=linear", short)
    fitted(tmp_path, handmade([[3 - label % 4 for label in labels] for labels in LISTS]), short)
    assert len(fits) == len(list((tmp_path / "offline").glob("*/theta.npy"))) == len(others) + 3


def test_an_interrupted_fit_leaves_nothing_to_believe(tmp_path, fits, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(network_fit.Objective, "ndcg", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitted(tmp_path)
    assert not list((tmp_path / "offline").iterdir())
    fitted(tmp_path)
    assert fits == ["fit", "fit"]


def test_where_no_label_differs_the_initial_network_stays(tmp_path):
    flat = fitted(tmp_path, handmade([[0, 0, 0], [2, 2]]))
    model = build(tiny(*SMALL).ranker).model
    candidates, _ = handmade(LISTS).split("test", dtype=torch.float32).serve(torch.tensor([0]))
    assert float(model.forward(flat[:1, None].float(), candidates.features).scores.abs().max()) < 1e-5


def test_only_a_long_fit_is_announced(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(network_fit, "QUIET", 1e9)  # a busy machine may need seconds
    fitted(tmp_path)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(network_fit, "QUIET", -1)
    fitted(tmp_path)
    assert capsys.readouterr() == ("", "fitting the offline network: epoch 1 of at most 50 ..\n")


def test_it_needs_the_labels():
    ranker, context = build(tiny(*SMALL).ranker), RunContext(1, 3, 4, 3, 1, 1, 5)
    with pytest.raises(ValueError, match="needs the labels"):
        ranker.setup(context, torch.rand(3, 4))
