"""Statistics of a dataset that is small enough to count by hand, and comparisons with published files."""

from __future__ import annotations

import math

import pytest
import torch

from ol2r_cli.dataset.dataset_statistics import (
    GroupStatistics,
    SplitStatistics,
    compare_with_published,
    constant_features,
    group_statistics,
    split_statistics,
)
from ol2r_cli.dataset.table import Dataset
from tests.dataset.letor_files import TEST_TEXT, TRAIN_TEXT, configured


def dataset(group: list[int] | None = None) -> Dataset:
    """Two training queries of 3 and 1 documents, one test query of 2."""
    return Dataset(
        name="hand",
        fingerprint="",
        features=torch.tensor([[1, 0.0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 0]], dtype=torch.float32),
        labels=torch.tensor([0, 2, 1, 0, 1, 0], dtype=torch.int8),
        offsets=torch.tensor([0, 3, 4, 6]),
        query_ids=["a", "b", "c"],
        grades=3,
        splits={"train": torch.tensor([0, 1]), "validation": torch.arange(0), "test": torch.tensor([2])},
        group=None if group is None else torch.tensor(group, dtype=torch.int8),
    )


def test_sizes_grades_and_attainable_ndcg_by_split():
    train, test, both = split_statistics(dataset())
    assert train == SplitStatistics("train", 2, 4, 1, 2.0, 3, [2 / 4, 1 / 4, 1 / 4], 1 / 2)
    assert test == SplitStatistics("test", 1, 2, 2, 2.0, 2, [1 / 2, 1 / 2, 0], 0)
    assert both == SplitStatistics("all", 3, 6, 1, 2.0, 3, [3 / 6, 2 / 6, 1 / 6], 1 / 3)
    assert both.attainable == pytest.approx(2 / 3)
    assert constant_features(dataset()) == [1], "constant in the training split"


def test_sizes_utilities_and_ratios_of_groups_by_split():
    assert group_statistics(dataset()) == []
    train, test, both = group_statistics(dataset([0, 0, 1, 0, 1, 1]))
    assert train == GroupStatistics("train", [3, 1], [2 / 3, 1.0])
    assert both == GroupStatistics("all", [3, 3], [2 / 3, 2 / 3])
    assert train.ratios == pytest.approx([2 / 3, 3])
    assert (test.sizes, test.utilities) == ([0, 2], pytest.approx([math.nan, 0.5], nan_ok=True))
    assert test.ratios == pytest.approx([math.nan, 0], nan_ok=True)


def test_counts_and_checksums_are_compared_with_those_published(fold):
    fold.write(train=TRAIN_TEXT, test=TEST_TEXT)
    expected, checksums = {"queries": 11, "documents": 22, "features": 3}, {"test.txt": "0" * 64}
    compared = compare_with_published(fold.source(queries=2, features=9, expected=expected, checksums=checksums))
    assert {what: found == expected for what, found, expected in compared} == {
        "queries": True,
        "documents": False,  # 19 + 2
        "features": True,  # the largest id in the files, not the declared number
        "validation file": False,
        "sha256 of test.txt": False,
    }


def test_mq2008_is_the_published_one(tmp_path, data_dir):
    published = compare_with_published(configured("mq2008", data_dir, tmp_path, fold=5))
    assert len(published) == 3 + 3
    assert [each for each in published if each[1] != each[2]] == []
