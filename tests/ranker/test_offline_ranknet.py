"""The offline RankNet among the online rankers, and what it keeps on disk."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning import offline_fits as ranknet_fit
from ol2r_cli.ranker import offline as offline_ranknet
from tests.choices import names
from tests.reference import objective as reference
from tests.worlds import handmade, offline_ndcg, simulate, tiny

L2 = 1e-3
LISTS = [[4, 0, 1, 2, 0, 3], [1, 0, 0], [0, 2]]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The l2 of every fit that is made; all are worth keeping."""
    made: list[float] = []

    def counted(features, oracle, l2):
        made.append(l2)
        return fit(features, oracle, l2)

    fit = offline_ranknet.fit_ranknet
    monkeypatch.setattr(offline_ranknet, "fit_ranknet", counted)
    monkeypatch.setattr(offline_ranknet, "LEAST_WORK", 0)
    return made


def fitted(folder: Path, dataset=None, l2: float = L2) -> torch.Tensor:
    """The weights of the ranker that a configuration names."""
    config = tiny("ranker=offline_ranknet", f"ranker.l2={l2}", f"cache_dir={folder}")
    return simulate(config, [0, 1], 1, dataset or handmade(LISTS)).ranker.deploy()


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

    least = objective(fitted(tmp_path, dataset)[0])
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


def test_a_fit_is_made_once(tmp_path, fits):
    first = fitted(tmp_path)
    (file,) = fit_files(tmp_path)
    written = file.stat().st_mtime_ns
    assert torch.equal(fitted(tmp_path), first)
    assert fits == [L2]
    assert file.stat().st_mtime_ns == written
    torch.testing.assert_close(torch.from_numpy(np.load(file)), first[0], rtol=0, atol=0)


def test_another_setting_labels_features_or_dataset_is_another_fit(tmp_path, fits):
    world = handmade(LISTS)
    reverse = [[4 - label for label in labels] for labels in LISTS]
    others = [
        (handmade(LISTS), 10 * L2),
        (handmade(reverse), L2),
        (handmade(LISTS, features=3), L2),
        (dataclasses.replace(world, fingerprint="another"), L2),
        (dataclasses.replace(world, splits={**world.splits, "train": torch.tensor([0, 1])}), L2),
    ]
    for dataset, l2 in [(world, L2), *others]:
        fitted(tmp_path, dataset, l2)
    assert len(fits) == len(fit_files(tmp_path)) == 1 + len(others)
    torch.testing.assert_close(fitted(tmp_path, handmade(reverse)), -fitted(tmp_path), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-40], lambda content: b"", lambda content: content[:-3] + b"?" + content[-2:]]
)
def test_a_damaged_file_is_not_believed(tmp_path, fits, damage):
    whole = fitted(tmp_path)
    (file,) = fit_files(tmp_path)
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert torch.equal(fitted(tmp_path), whole)
    assert fits == [L2, L2]
    assert file.read_bytes() == content
    assert list(file.parents[1].iterdir()) == [file.parent], "nothing half-written"


def test_only_a_fit_that_takes_time_is_kept(tmp_path, monkeypatch):
    fitted(tmp_path)
    assert list(tmp_path.iterdir()) == []
    pairs = sum(len(labels) * (len(labels) + 4) for labels in LISTS)
    for least, kept in ((pairs + 1, 0), (pairs, 1)):
        monkeypatch.setattr(offline_ranknet, "LEAST_WORK", least)
        fitted(tmp_path)
        assert len(fit_files(tmp_path)) == kept


def test_a_folder_that_cannot_be_written_is_named(tmp_path, fits):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"cache_dir must be a writable folder .* type cache_dir=FOLDER"):
        fitted(tmp_path / "file")
    assert fits == []


def test_the_folder_may_be_written_as_in_a_shell(tmp_path, fits, monkeypatch):
    monkeypatch.setenv("OL2R_TEST_FOLDER", os.fspath(tmp_path))
    fitted(Path("$OL2R_TEST_FOLDER/cache"))
    assert len(fit_files(tmp_path / "cache")) == 1


def test_where_no_label_differs_there_is_no_direction(tmp_path, fits):
    assert not fitted(tmp_path, handmade([[0, 0, 0], [2, 2]])).any()


def test_an_optimum_out_of_reach_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(ranknet_fit, "STEPS", 1)
    with pytest.raises(ValueError, match=r"^ranker.l2 must be larger to fit these features, got 0.001 \("):
        fitted(tmp_path)


def test_it_needs_the_labels():
    ranker, context = build(tiny("ranker=offline_ranknet").ranker), RunContext(1, 3, 4, 3, 1, 1, 5)
    with pytest.raises(ValueError, match="needs the labels"):
        ranker.setup(context, torch.rand(3, 4))
