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
        splits={"train": torch.tensor([0, 1]), "validation": torch.arange(0), "test": torch.tensor([2])},
        group=None if group is None else torch.tensor(group, dtype=torch.int8),
    )


def test_sizes_grades_attainable_ndcg_and_groups_by_split():
    train, test, both = split_statistics(dataset())
    assert (train.name, train.queries, train.documents) == ("train", 2, 4)
    assert (train.shortest, train.median, train.longest) == (1, 2.0, 3)
    assert train.grades == [2 / 4, 1 / 4, 1 / 4]
    assert (train.without_relevant, train.attainable) == (0.5, 0.5)
    assert (test.name, test.without_relevant, test.grades) == ("test", 0.0, [0.5, 0.5, 0.0])
    assert (both.name, both.queries, both.documents) == ("all", 3, 6)
    assert both.attainable == pytest.approx(2 / 3)
    assert constant_features(dataset()) == [1], "constant in the training split"
    assert group_statistics(dataset()) == []
    train, test, both = group_statistics(dataset([0, 0, 1, 0, 1, 1]))
    assert (train.sizes, train.utilities) == ([3, 1], [2 / 3, 1.0])
    assert train.ratios == pytest.approx([2 / 3, 3])
    assert test.sizes == [0, 2]
    assert math.isnan(test.utilities[0])
    assert test.ratios == pytest.approx([math.nan, 0], nan_ok=True)
    assert (both.sizes, both.utilities) == ([3, 3], [2 / 3, 2 / 3])


def test_counts_and_checksums_are_the_published_ones(tmp_path: Path, data_dir: Path):
    """Counts and checksums are compared with the published ones."""
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)
    known = {"expected": {"queries": 11, "documents": 22, "features": 3}, "checksums": {"test.txt": "0" * 64}}
    compared = compare_with_published(letor(tmp_path / "set", tmp_path / "cache", queries=2, features=9, **known))
    assert {what: found == expected for what, found, expected in compared} == {
        "queries": True,
        "documents": False,  # 19 + 2
        "features": True,  # the largest id in the files, not the declared number
        "validation file": False,
        "sha256 of test.txt": False,
    }
    published = compare_with_published(configured("mq2008", data_dir, tmp_path, fold=5))
    assert len(published) == 3 + 3
    assert [each for each in published if each[1] != each[2]] == []
