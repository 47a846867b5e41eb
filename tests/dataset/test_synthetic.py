"""The generated dataset: repeatable, within its settings, and like MSLR-WEB10K where it says so."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ol2r_cli.dataset.synthetic import Synthetic
from ol2r_cli.dataset.table import Dataset

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "queries": {"train": 8, "validation": 3, "test": 4},
    "documents": 20,
    "features": 12,
    "grades": [0.5, 0.3, 0.2],
    "nonlinearity": 0.5,
    "noise": 0.8,
    "group_ratio": 0.6,
    "seed": 0,
}


def small(**changes: Any) -> Dataset:
    return Synthetic(**(SMALL | changes)).load()


def digest(dataset: Dataset) -> str:
    tensors = dataset.features, dataset.labels, dataset.offsets, dataset.group
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()


@pytest.fixture(scope="module")
def default() -> Dataset:
    return instantiate(OmegaConf.load(ROOT / "configs" / "dataset" / "synthetic.yaml")).load()


def per_query(dataset: Dataset, column: torch.Tensor) -> list[torch.Tensor]:
    return list(column.split(dataset.offsets.diff().tolist()))


def test_another_process_with_other_threads_draws_the_same():
    script = (
        "import tests.dataset.test_synthetic as t, torch; torch.set_num_threads(2); "
        "d = t.small(); print(d.fingerprint, t.digest(d))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert printed.split() == [small().fingerprint, digest(small())]


def test_the_numbers_of_this_version_do_not_change():
    """A frozen value on purpose: should it differ, the same fingerprint stands for other numbers. Raise _VERSION."""
    assert digest(small()) == "097800b34a3a35e3eced8c23f11f18e141d70a84561ff5f71a9c270bf094813e"


def test_a_split_keeps_its_queries_when_it_or_another_grows():
    few, many = small(), small(queries={"train": 60, "validation": 0, "test": 55})
    for split in ("train", "test"):
        first, other = few.split(split), many.split(split)
        for query in range(len(first)):
            (a, labels_a), (b, labels_b) = (s.serve(torch.tensor([query])) for s in (first, other))
            assert torch.equal(a.features, b.features)
            assert torch.equal(labels_a, labels_b)
            assert torch.equal(a.group, b.group)


def test_different_seeds_and_splits_share_no_list():
    assert digest(small()) != digest(small(seed=1))
    dataset = small(queries={"train": 5, "validation": 5, "test": 5}, documents=1, features=1)
    tables = [
        torch.cat([part.serve(torch.arange(5))[0].features.flatten()]) for part in map(dataset.split, dataset.splits)
    ]
    assert not torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[1], tables[2])


def test_sizes_are_those_of_the_settings():
    dataset = small(queries={"train": 51, "validation": 0, "test": 4}, features=7)
    assert {split: len(queries) for split, queries in dataset.splits.items()} == {
        "train": 51,
        "validation": 0,
        "test": 4,
    }
    assert torch.equal(torch.cat(list(dataset.splits.values())), torch.arange(55))
    assert dataset.query_ids[50:52] == ["train-51", "test-1"]
    assert dataset.features.shape == (dataset.offsets[-1], 7)
    assert dataset.features.dtype == torch.float32
    assert dataset.labels.dtype == torch.int8
    assert dataset.grades == 3
    with pytest.raises(ValueError, match="no validation split"):
        dataset.split("validation")


@pytest.mark.parametrize("documents", [1, 8, 120])
def test_list_lengths_have_the_mean_and_touch_both_limits(documents: int):
    settings = SMALL | {"documents": documents, "queries": {"train": 200_000, "validation": 0, "test": 0}}
    lengths = Synthetic(**settings)._lengths("train")
    assert lengths.min() == min(5, documents)
    assert lengths.max() == 5 * documents  # a gamma variable of shape 3 exceeds five times its mean in 4 of 100,000
    # Standard error: 0.0013 of the mean. Where the lower limit is near the mean, it lifts it.
    assert documents * 0.99 < lengths.mean() < documents * (1.01 if documents == 120 else 1.4)


def test_the_table_has_lists_of_these_lengths():
    synthetic = Synthetic(**SMALL)
    lengths = [synthetic._lengths(split)[:count] for split, count in SMALL["queries"].items()]
    assert synthetic.load().offsets.diff().tolist() == np.concatenate(lengths).tolist()


def test_features_span_0_to_1_in_every_query_and_constants_are_0(default: Dataset):
    for features in per_query(default, default.features):
        low, high = features.amin(0), features.amax(0)
        assert (low == 0).all()
        assert ((high == 1) | (high == 0)).all()
    constant = (default.features == 0).all(0)
    assert 4 <= constant.sum() <= 12


def test_features_are_correlated_redundant_and_partly_discrete(default: Dataset):
    sample = default.features[: default.offsets[100]].numpy()
    varying = sample[:, sample.std(0) > 0]
    correlation = np.abs(np.corrcoef(varying.T)) - np.eye(varying.shape[1])
    assert correlation.mean() > 0.1
    assert (correlation.max(0) > 0.5).mean() > 0.5  # features with a near relative
    distinct = [len(np.unique(column)) for column in default.features[: default.offsets[1]].numpy().T]
    assert sum(1 < count <= 20 for count in distinct) > 20


def test_grades_are_mixed_as_in_mslr_and_differently_by_query(default: Dataset):
    """Counts of the 1,200,192 documents of WEB10K: 624,263, 386,280, 159,451, 21,317, 8,881."""
    published = torch.tensor([624263, 386280, 159451, 21317, 8881]) / 1200192
    shares = default.labels.long().bincount(minlength=5) / len(default.labels)
    assert (shares - published).abs().max() < 0.02
    assert ((shares / published - 1).abs() < 0.2).all()
    irrelevant = torch.stack([(labels == 0).float().mean() for labels in per_query(default, default.labels)])
    assert irrelevant.std() > 0.1


def test_the_mix_of_grades_is_the_setting():
    dataset = small(queries={"train": 1000, "validation": 0, "test": 0}, features=1, grades=[0.9, 0.1])
    assert dataset.grades == 2
    assert float(dataset.labels.double().mean()) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("ratio", [0.05, 0.6, 0.95])
def test_groups_have_the_ratio_and_the_popular_are_a_little_more_relevant(ratio: float):
    dataset = small(queries={"train": 500, "validation": 0, "test": 0}, features=1, group_ratio=ratio)
    popular = dataset.group == 0
    assert float(popular.double().mean()) == pytest.approx(ratio, abs=0.015)
    merit = dataset.labels[popular].double().mean() / dataset.labels[~popular].double().mean()
    assert 1.05 < merit < 1.6
