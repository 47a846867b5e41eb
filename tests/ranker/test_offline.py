"""RankNet and the network that are fitted offline: what they learn, that a fit is made once, and what is kept."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning import offline_fits
from ol2r_cli.ranker import offline
from tests.choices import names
from tests.reference import objective as reference
from tests.worlds import handmade, offline_ndcg, simulate, tiny

L2 = 1e-3
LISTS = [[4, 0, 1, 2, 0, 3], [1, 0, 0], [0, 2], [0, 0], [3, 1, 0]]
RANKNET, NETWORK = "ranker=offline_ranknet", "ranker=offline_network"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ranker of every fit that is made; all are worth keeping."""
    made: list[str] = []
    for cls in offline.OfflineRankNet, offline.OfflineNetwork:

        def counted(self, *given, fitted=cls.fitted):
            made.append(self.choice)
            return fitted(self, *given)

        monkeypatch.setattr(cls, "fitted", counted)
    monkeypatch.setattr(offline, "LEAST_WORK", 0)
    return made


def simulation(folder: Path, *overrides: str, dataset=None, seeds=(0, 1), **more):
    small = ["ranker.model.width=8"] if NETWORK in overrides and "ranker/model=linear" not in overrides else []
    config = tiny(f"cache_dir={folder}", *overrides[:1], *small, *overrides[1:])
    return simulate(config, list(seeds), 1, dataset or handmade(LISTS), **more)


def fitted(folder: Path, *overrides: str, **more) -> torch.Tensor:
    """The parameters of the ranker that a configuration names."""
    return simulation(folder, *overrides, **more).ranker.deploy()


def fit_files(folder: Path) -> list[Path]:
    """The parameters of every fit that is kept."""
    return sorted((folder / "offline").glob("*/theta.npy"))


@pytest.mark.slow
def test_no_online_ranker_has_a_lower_training_objective(tmp_path):
    """After rounds enough to be near it; and the best of them comes near it."""
    dataset = build(tiny("dataset.nonlinearity=0").dataset).load()
    rows = []
    for query in dataset.splits["train"]:
        own = slice(dataset.offsets[query], dataset.offsets[query + 1])
        features, labels = dataset.features[own].double().numpy(), dataset.labels[own]
        rows += [features[i] - features[j] for i, j in (labels[:, None] > labels[None]).nonzero().tolist()]
    rows = np.array(rows)

    def objective(theta):
        return reference.objective(theta.double().numpy(), rows, np.ones(len(rows)), L2 / 2, "mean")

    least = objective(fitted(tmp_path, RANKNET, f"ranker.l2={L2}", dataset=dataset)[0])
    reached = {}
    for name in names("ranker"):
        config = tiny(f"ranker={name}", "click=perfect", "dataset.nonlinearity=0", f"cache_dir={tmp_path}")
        if build(config.ranker).linear and name != "offline_ranknet":
            simulation = simulate(config, [0], 60, dataset)
            for _ in simulation.play():
                pass
            reached[name] = objective(simulation.ranker.deploy()[0])
    assert len(reached) >= 5
    assert min(reached.values()) > least
    assert min(reached.values()) < least + 0.5 * (np.log(2) - least)  # log 2 at theta = 0


def test_where_labels_follow_a_linear_score_its_ndcg_is_one(tmp_path):
    """A misplaced pair costs at least log 2 / pairs; weights that separate all cost less, if l2 is small enough."""
    world = handmade([[0] * 15] * 20)
    scores = (world.features @ torch.tensor([1.0, -2.0, 0.5, 3.0])).reshape(20, 15)
    labels = (scores.argsort(1).argsort(1) // 3).to(torch.int8).flatten()  # three documents of each grade
    dataset = dataclasses.replace(world, labels=labels)
    config = tiny("ranker=offline_ranknet", "ranker.l2=1e-9", f"cache_dir={tmp_path}")
    ranker = simulate(config, [0], 1, dataset).ranker
    evaluator = offline_ndcg(dataset, "test", torch.tensor([0]))
    assert torch.allclose(evaluator(ranker, ranker.deploy()[None]), torch.ones(1, 1, 4, dtype=torch.float64))


@pytest.mark.parametrize("loss", ["lambdarank", pytest.param("ranknet", marks=pytest.mark.slow)])
def test_a_network_learns_what_a_linear_ranker_cannot(tmp_path, loss):
    """Labels grow with |x_1 - x_2|: linear scores are right about every second pair."""
    world = handmade([[0] * 15] * 30, features=3)
    distance = (world.features[:, 0] - world.features[:, 1]).abs().reshape(30, 15)
    dataset = dataclasses.replace(world, labels=(distance.argsort(1).argsort(1) // 3).to(torch.int8).flatten())
    reached = []
    for model in "ranker.model.width=20", "ranker/model=linear":
        words = NETWORK, model, f"ranker.loss={loss}", "ranker.batch=2"
        ranker = simulation(tmp_path, *words, dataset=dataset).ranker
        evaluate = offline_ndcg(dataset, "test", torch.tensor([0]), dtype=ranker.theta.dtype)
        reached.append(float(evaluate(ranker, ranker.deploy()[:1][None])[0, 0, -1]))
    assert reached[0] > 0.95
    assert reached[1] < 0.85


def test_all_replicas_seeds_and_precisions_share_one_fit(tmp_path):
    for ranker in RANKNET, NETWORK:
        first = fitted(tmp_path, ranker)
        assert torch.equal(first[0], first[1])
        assert torch.equal(fitted(tmp_path, ranker, seeds=(7,))[0], first[0])
        single = fitted(tmp_path, ranker, dtype=torch.float32)
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), first.double(), rtol=1e-6, atol=1e-6)


def test_a_fit_is_made_once_and_another_for_whatever_else(tmp_path, fits):
    short = NETWORK, "ranker.epochs=4"
    world = handmade(LISTS)
    reverse = handmade([[4 - label for label in labels] for labels in LISTS])
    others = [(*short, f"ranker.{word}") for word in ("loss=ranknet", "learning_rate=0.02", "batch=2", "patience=2")]
    others += [(*short, "ranker.seed=1"), (NETWORK, "ranker.epochs=3"), (*short, "ranker.model.init=standard")]
    others += [(*short, "ranker.model.width=6"), (*short, "ranker/model=linear"), (RANKNET, f"ranker.l2={10 * L2}")]
    datasets = [reverse, handmade(LISTS, features=3), dataclasses.replace(world, fingerprint="another")]
    datasets.append(dataclasses.replace(world, splits={**world.splits, "train": torch.tensor([0, 1])}))
    for words in (RANKNET, f"ranker.l2={L2}"), short:
        first = fitted(tmp_path, *words)
        assert torch.equal(fitted(tmp_path, *words), first)
        for dataset in datasets:
            fitted(tmp_path, *words, dataset=dataset)
    for words in others:
        fitted(tmp_path, *words)
    assert len(fits) == len(fit_files(tmp_path)) == 2 * (1 + len(datasets)) + len(others)
    linear = RANKNET, f"ranker.l2={L2}"
    torch.testing.assert_close(
        fitted(tmp_path, *linear, dataset=reverse), -fitted(tmp_path, *linear), rtol=0, atol=1e-5
    )


def test_a_damaged_or_interrupted_fit_is_made_again(tmp_path, fits, monkeypatch):
    whole = fitted(tmp_path, RANKNET)
    (file,) = fit_files(tmp_path)
    content = file.read_bytes()
    for damaged in content[:-40], b"", content[:-3] + b"?" + content[-2:]:
        file.write_bytes(damaged)
        assert torch.equal(fitted(tmp_path, RANKNET), whole)
        assert file.read_bytes() == content
    assert len(fits) == 4

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(offline_fits.Objective, "ndcg", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fitted(tmp_path, NETWORK)
    assert fit_files(tmp_path) == [file], "nothing half-written"


def test_only_a_fit_that_takes_time_is_kept(tmp_path, monkeypatch):
    work = sum(len(labels) * (len(labels) + 4) for labels in LISTS)
    for least, kept in ((work + 1, 0), (work, 1)):
        monkeypatch.setattr(offline, "LEAST_WORK", least)
        fitted(tmp_path, RANKNET)
        assert len(fit_files(tmp_path)) == kept


def test_the_folder_is_written_as_in_a_shell_and_named_where_it_cannot_be(tmp_path, fits, monkeypatch):
    monkeypatch.setenv("OL2R_TEST_FOLDER", os.fspath(tmp_path))
    fitted(Path("$OL2R_TEST_FOLDER/cache"), RANKNET)
    assert len(fit_files(tmp_path / "cache")) == 1
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cache_dir must be a writable folder .* type cache_dir=FOLDER"):
        fitted(tmp_path / "file", RANKNET)


def test_where_no_label_differs_nothing_is_learned(tmp_path):
    flat = handmade([[0, 0, 0], [2, 2]])
    assert not fitted(tmp_path, RANKNET, dataset=flat).any()
    ranker = simulation(tmp_path, NETWORK, dataset=flat).ranker
    candidates, _ = handmade(LISTS).split("test", dtype=torch.float32).serve(torch.tensor([0]))
    scores = ranker.model.forward(ranker.deploy()[:1, None].float(), candidates.features).scores
    assert float(scores.abs().max()) < 1e-5


def test_an_optimum_out_of_reach_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(offline_fits, "STEPS", 1)
    with pytest.raises(ValueError, match=r"^ranker.l2 must be larger to fit these features, got 0.001 \("):
        fitted(tmp_path, RANKNET, f"ranker.l2={L2}")


def test_only_a_long_fit_is_announced(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(offline_fits, "QUIET", 1e9)  # a busy machine may need seconds
    fitted(tmp_path, NETWORK)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(offline_fits, "QUIET", -1)
    fitted(tmp_path, NETWORK)
    assert capsys.readouterr() == ("", "fitting the offline network: epoch 1 of at most 50 ..\n")


def test_they_need_the_labels():
    for word in RANKNET, NETWORK:
        with pytest.raises(ValueError, match=f"^{word} needs the labels"):
            build(tiny(word).ranker).setup(RunContext(1, 3, 4, 3, 1, 1, 5), torch.rand(3, 4))
