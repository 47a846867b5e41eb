"""Statistics of a dataset that is small enough to count by hand, and comparisons with published files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from ol2r_cli.dataset.dataset_statistics import (
    compare_with_published,
    constant_features,
    group_statistics,
    split_statistics,
)
from ol2r_cli.dataset.table import Dataset
from tests.dataset.letor_files import TEST_TEXT, TRAIN_TEXT, configured, letor, write_fold


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
        splits={
            "train": torch.tensor([0, 1]),
            "validation": torch.tensor([], dtype=torch.int64),
            "test": torch.tensor([2]),
        },
        group=None if group is None else torch.tensor(group, dtype=torch.int8),
    )


def test_sizes_grades_and_attainable_ndcg_by_split():
    train, test, both = split_statistics(dataset())
    assert (train.name, train.queries, train.documents) == ("train", 2, 4)
    assert (train.shortest, train.median, train.longest) == (1, 2.0, 3)
    assert train.grades == [2 / 4, 1 / 4, 1 / 4]
    assert (train.without_relevant, train.attainable) == (0.5, 0.5)
    assert (test.name, test.without_relevant, test.grades) == ("test", 0.0, [0.5, 0.5, 0.0])
    assert (both.name, both.queries, both.documents) == ("all", 3, 6)
    assert both.attainable == pytest.approx(2 / 3)


def test_constant_features_are_those_of_the_training_split():
    assert constant_features(dataset()) == [1]


def test_groups_have_sizes_utilities_and_ratios():
    assert group_statistics(dataset()) == []
    train, test, both = group_statistics(dataset([0, 0, 1, 0, 1, 1]))
    assert (train.sizes, train.utilities) == ([3, 1], [2 / 3, 1.0])
    assert train.merits[0] == pytest.approx((2 / 3) / 1)
    assert train.parities == [3]
    assert test.sizes == [0, 2]
    assert math.isnan(test.utilities[0])
    assert math.isnan(test.merits[0])
    assert test.parities == [0]
    assert (both.sizes, both.utilities) == ([3, 3], [2 / 3, 2 / 3])


def test_check_compares_counts_and_checksums(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)
    expected = {"queries": 11, "documents": 22, "features": 3}
    checksums = {"test.txt": "0" * 64}
    comparisons = compare_with_published(
        letor(tmp_path / "set", tmp_path / "cache", queries=2, features=9, expected=expected, checksums=checksums)
    )
    assert {comparison.what: comparison.agrees for comparison in comparisons} == {
        "queries": True,
        "documents": False,  # 19 + 2
        "features": True,  # the largest id in the files, not the declared number
        "validation file": False,
        "sha256 of test.txt": False,
    }


def test_mq2008_is_what_was_published(data_dir: Path, tmp_path: Path):
    for fold in (1, 5):
        comparisons = compare_with_published(configured("mq2008", data_dir, tmp_path, fold=fold))
        assert len(comparisons) == 3 + 3
        assert [comparison for comparison in comparisons if not comparison.agrees] == []
