"""The generated dataset: repeatable, within its settings, like MSLR-WEB10K, and true to its definition."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.dataset import cache as dataset_cache
from ol2r_cli.dataset import synthetic
from ol2r_cli.dataset.synthetic import (
    DocumentGenerator,
    Synthetic,
)
from ol2r_cli.dataset.table import Dataset

CONFIG = Path(__file__).parents[2] / "configs" / "dataset" / "synthetic.yaml"
SMALL: dict[str, Any] = {
    "popularity": "uniform",
    "queries": {"train": 8, "validation": 3, "test": 4},
    "documents": 20,
    "features": 12,
    "grades": [0.5, 0.3, 0.2],
    "nonlinearity": 0.5,
    "noise": 0.8,
    "group_ratio": 0.6,
    "intents": None,
    "intent": None,
    "seed": 0,
}


COUNT = 200_000  # documents; standard errors of correlations are then about 0.003


def small(**changes: Any) -> Dataset:
    """A small dataset, its settings checked as `build` does."""
    check_settings(Synthetic, SMALL | changes, "dataset")
    return Synthetic(**(SMALL | changes)).load()


def digest(dataset: Dataset) -> str:
    tensors = dataset.features, dataset.labels, dataset.offsets, dataset.group
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


@pytest.fixture(scope="module")
def default() -> Dataset:
    return instantiate(OmegaConf.load(CONFIG)).load()


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("queries", {"train": 8, "test": 4}, ".validation is missing: SplitSizes needs it"),
        ("grades", [1.0], " must be 2 to 63 shares that sum to 1, got [1.0]"),
        ("grades", [0.5, 0.4], " must be 2 to 63 shares that sum to 1, got [0.5, 0.4]"),
        ("group_ratio", 1.0, " must be between 0 and 1 or a list [..,..] of which each is between 0 and 1, got 1.0"),
        ("group_ratio", [0.5, 0.4], " must be a share, or 2 to 128 shares that sum to 1, got [0.5, 0.4]"),
        ("intents", {"number": 3, "overlap": -0.9}, ".overlap of 3 intents must be -0.5 or more, got -0.9"),
    ],
)
def test_a_setting_out_of_range_names_what_is_allowed(setting, value, message):
    with pytest.raises(ValueError) as error:
        small(**{setting: value})
    assert str(error.value).startswith(f"dataset.{setting}{message}")


def test_the_numbers_of_this_version_do_not_change():
    """A frozen value on purpose: should it differ, the same fingerprint stands for other numbers. Raise _VERSION."""
    assert digest(small()) == "097800b34a3a35e3eced8c23f11f18e141d70a84561ff5f71a9c270bf094813e"
    reordered = {"test": 4, "train": 8, "validation": 3}
    assert small(queries=reordered).fingerprint == small().fingerprint
    for documents in (1, 20):  # of 200,000 lists some are beyond both limits of lengths
        settings = SMALL | {"documents": documents, "queries": {"train": 200_000, "validation": 0, "test": 0}}
        lengths = Synthetic(**settings).lengths("train")
        assert (lengths.min(), lengths.max()) == (min(5, documents), 5 * documents)


def test_where_numpy_draws_other_numbers_the_data_are_others(monkeypatch):
    before = small()
    monkeypatch.setattr(synthetic, "other_numbers", lambda: [0.5])
    after = small()
    assert after.fingerprint != before.fingerprint
    assert (before.warnings, len(after.warnings)) == ((), 1)


def test_an_overlap_of_0_is_one_of_0_0():
    """The documented way is without a point."""
    whole, real = (small(intents={"number": 2, "overlap": overlap}) for overlap in (0, 0.0))
    assert real.fingerprint == whole.fingerprint
    decisive = {**SMALL, "intents": {"number": 2, "overlap": 0}}
    del decisive["popularity"], decisive["intent"]
    assert whole.fingerprint == dataset_cache.digest([1, decisive])


def test_a_split_keeps_its_queries_when_it_or_another_grows():
    few, many = small(), small(queries={"train": 60, "validation": 0, "test": 55})
    assert [len(many.splits[split]) for split in ("train", "validation", "test")] == [60, 0, 55]
    assert torch.equal(torch.cat(list(many.splits.values())), torch.arange(115))
    assert many.query_ids[59:61] == ["train-60", "test-1"]
    with pytest.raises(ValueError, match="no validation split"):
        many.split("validation")
    for split in ("train", "test"):
        first, other = few.split(split), many.split(split)
        for query in range(len(first)):
            (a, labels_a), (b, labels_b) = (s.serve(torch.tensor([query])) for s in (first, other))
            assert torch.equal(a.features, b.features)
            assert torch.equal(labels_a, labels_b)
            assert torch.equal(a.group, b.group)


def test_features_are_scaled_correlated_and_partly_discrete(default):
    for features in default.features.split(default.offsets.diff().tolist()):
        high = features.amax(0)
        assert (features.amin(0) == 0).all()
        assert ((high == 1) | (high == 0)).all()
    assert 4 <= (default.features == 0).all(0).sum() <= 12
    sample = default.features[: default.offsets[100]].numpy()
    varying = sample[:, sample.std(0) > 0]
    correlation = np.abs(np.corrcoef(varying.T)) - np.eye(varying.shape[1])
    assert correlation.mean() > 0.1
    assert (correlation.max(0) > 0.5).mean() > 0.5  # features with a near relative
    distinct = [len(np.unique(column)) for column in default.features[: default.offsets[1]].numpy().T]
    assert sum(1 < count <= 20 for count in distinct) > 20


def test_grades_are_mixed_as_in_mslr_and_differently_by_query(default):
    """Counts of the 1,200,192 documents of WEB10K: 624,263, 386,280, 159,451, 21,317, 8,881."""
    published = torch.tensor([624263, 386280, 159451, 21317, 8881]) / 1200192
    shares = default.labels.long().bincount(minlength=3) / len(default.labels)
    assert (shares - published).abs().max() < 0.02
    assert ((shares / published - 1).abs() < 0.2).all()
    by_query = default.labels.split(default.offsets.diff().tolist())
    assert torch.stack([(labels == 0).float().mean() for labels in by_query]).std() > 0.1


RATIOS = {"few": 0.05, "two": 0.6, "many": 0.95, "same": [0.6, 0.4], "three": [0.5, 0.1, 0.4]}


@cache
def of_ratio(name: str) -> Dataset:
    return small(queries={"train": 500, "validation": 0, "test": 0}, features=1, group_ratio=RATIOS[name])


@pytest.mark.parametrize("name", RATIOS)
def test_groups_have_their_shares(name):
    """And the popular are a little more relevant."""
    dataset, ratio = of_ratio(name), RATIOS[name]
    shares = dataset.group.bincount() / len(dataset.group)
    assert shares.tolist() == pytest.approx(ratio if isinstance(ratio, list) else [ratio, 1 - ratio], abs=0.015)
    popular = dataset.group == 0
    assert 1.05 < dataset.labels[popular].double().mean() / dataset.labels[~popular].double().mean() < 1.6


def test_groups_are_cuts_of_the_same_popularity():
    two, same, three = (of_ratio(name) for name in ("two", "same", "three"))
    assert torch.equal(same.group, two.group)
    assert torch.equal(same.features, two.features)
    assert torch.equal(three.group == 2, two.group == 1)
    assert three.fingerprint != two.fingerprint


def draw(**changes: Any) -> tuple[DocumentGenerator, np.ndarray]:
    generator = DocumentGenerator(Synthetic(**(SMALL | {"features": 60, "noise": 0.0} | changes)))
    return generator, generator.qualities(COUNT, np.random.default_rng(2))


def utilities(generator: DocumentGenerator, quality: np.ndarray) -> np.ndarray:
    """Of the documents of one query, whose difficulty is one constant, for each intent."""
    return generator.utility(quality, np.array([COUNT]), np.random.default_rng(3))


@pytest.mark.parametrize(("nonlinearity", "noise"), [(0.0, 0.0), (0.3, 0.0), (1.0, 0.0), (0.3, 0.8)])
def test_nonlinearity_and_noise_are_variance_beyond_qualities(nonlinearity, noise):
    """Nonlinearity is what a regression on the qualities leaves of the signal; the noise adds its own variance."""
    generator, quality = draw(nonlinearity=nonlinearity, noise=noise)
    (utility,) = utilities(generator, quality).astype(np.float64)
    utility -= utility.mean()
    explained = quality.T @ np.linalg.lstsq(quality.T, utility, rcond=None)[0]
    assert utility.var() == pytest.approx(1 + noise**2, abs=0.03)
    assert (utility - explained).var() == pytest.approx(nonlinearity + noise**2, abs=0.03)


@pytest.mark.parametrize(
    ("number", "overlap", "nonlinearity"),
    [(2, 0.0, 0.5), (2, -1.0, 0.0), (3, -0.5, 1.0), (4, 0.3, 0.5), (4, 1.0, 0.0), (4, 0.3, 1.0)],
)
def test_intents_overlap_as_much_as_stated(number, overlap, nonlinearity):
    """Signals have variance 1 and the stated correlation, also where they are linear, or nothing of them is."""
    generator, quality = draw(nonlinearity=nonlinearity)
    alone = utilities(generator, quality)
    generator, _ = draw(nonlinearity=nonlinearity, intents={"number": number, "overlap": overlap})
    utility = utilities(generator, quality)
    assert np.array_equal(utility[:1], alone)
    assert utility.std(1) == pytest.approx(np.ones(number), abs=0.02)
    assert np.corrcoef(utility) == pytest.approx(np.where(np.eye(number), 1, overlap), abs=0.02)


def test_the_first_intent_is_that_of_a_dataset_without_intents():
    intents = {"number": 3, "overlap": -0.2}
    plain, several, second = small(), small(intents=intents), small(intents=intents, intent=2)
    assert torch.equal(plain.features, several.features)
    assert torch.equal(plain.labels, several.labels)
    assert torch.equal(several.intents.labels[0], several.labels)
    assert torch.equal(second.labels, several.intents.labels[1])
    assert not torch.equal(second.labels, plain.labels)
    assert len({plain.fingerprint, several.fingerprint, second.fingerprint}) == 3


def test_only_features_of_noise_show_no_quality():
    generator, quality = draw()
    view = generator.features(quality, np.array([COUNT]), np.random.default_rng(3))
    for feature in np.flatnonzero(~generator.transform["query"]):
        shown = abs(np.corrcoef(view[:, feature], quality[generator.shown[feature]])[0, 1])
        assert shown < 0.02 if generator.transform["noise"][feature] else shown > 0.2


@pytest.mark.parametrize(
    "size", [{"documents": 21}, {"features": 13}, {"queries": {"train": 16, "validation": 0, "test": 0}}], ids=str
)
def test_a_table_that_does_not_fit_in_memory_is_refused(monkeypatch, size):
    monkeypatch.setattr("ol2r_cli.dataset.synthetic.available_memory", lambda _: 15 * 20 * 12 * 4)
    assert len(small().query_ids) == 15
    with pytest.raises(ValueError, match=r"documents and dataset\.features must be smaller: they need . GiB, and"):
        small(**size)
