"""Tables of one's own: folds, splits, normalisation and groups are those that the definitions give."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from ol2r_cli.dataset.documents import DocumentDataset, Documents

QUERIES = 10
FEATURES = np.stack([np.arange(30.0), np.tile([0.0, 1.7e9, 1.7e9 + 4], 10), np.full(30, 7.0)], axis=1)
GIVEN = Documents([f"q{number // 3}" for number in range(30)], [number % 3 for number in range(30)], FEATURES)


class Table(DocumentDataset):
    """The documents that it is given."""

    def __init__(self, documents: Documents, fold: int = 1, normalise: str = "none", group=None, cache_dir: str = ""):
        super().__init__("table", fold, normalise, group, cache_dir)
        self.given = documents

    def documents(self) -> Documents:
        return self.given


@pytest.fixture
def load(tmp_path):
    return lambda documents=GIVEN, **settings: Table(documents, cache_dir=str(tmp_path), **settings).load()


def test_each_fifth_of_the_queries_tests_once_and_validates_once(load):
    folds = [load(fold=fold) for fold in (1, 2, 3, 4, 5)]
    tested, validated = ([fold.splits[split].tolist() for fold in folds] for split in ("test", "validation"))
    assert sorted(chain(*tested)) == list(range(QUERIES))
    assert validated == [*tested[1:], tested[0]]
    assert all(sorted(torch.cat([*fold.splits.values()]).tolist()) == list(range(QUERIES)) for fold in folds)
    assert len({fold.fingerprint for fold in folds}) == 5


def test_splits_do_not_depend_on_the_order_of_the_file(load):
    turned = Documents(GIVEN.query[::-1], GIVEN.label[::-1], FEATURES[::-1])
    first, second = ({data.query_ids[n] for n in data.splits["test"]} for data in (load(turned), load()))
    assert first == second


def test_splits_may_be_named(load):
    splits = load(replace(GIVEN, split=["train"] * 24 + ["test"] * 6)).splits
    assert [splits[split].tolist() for split in ("train", "validation", "test")] == [list(range(8)), [], [8, 9]]


@pytest.mark.parametrize(
    ("split", "fold", "message"),
    [
        (["train"] * 30, 2, "dataset.fold must be 1 where documents name their split, got 2"),
        (["train"] * 29 + ["test"], 1, "split must be the same for all documents of a query, got .* in row 29"),
        (["train"] * 27 + ["dev"] * 3, 1, "split must be one of train, validation, test, got 'dev'"),
        (["test"] * 30, 1, "split must be train for some queries, got none"),
    ],
)
def test_splits_that_are_none_are_refused(load, split, fold, message):
    with pytest.raises(ValueError, match=message):
        load(replace(GIVEN, split=split), fold=fold)


def test_features_are_normalised_in_double_precision(load):
    """1.7e9 + 4 is 1.7e9 in single precision. A constant feature becomes 0."""
    query = np.array([[0.0, 0, 0], [0.5, 1.7e9 / (1.7e9 + 4), 0], [1, 1, 0]])
    assert load(normalise="query_minmax").features.numpy() == pytest.approx(np.tile(query, (10, 1)), abs=1e-7)
    scaled = load(normalise="global_zscore")
    rows = np.repeat(np.isin(np.arange(QUERIES), scaled.splits["train"].numpy()), 3)
    first = FEATURES[:, 0]
    expected = (first - first[rows].mean()) / first[rows].std()
    assert scaled.features[:, 0].numpy() == pytest.approx(expected, rel=1e-6)
    assert load().features[:, 0].tolist() == first.tolist()


def test_a_feature_of_groups_may_be_named(load):
    named = replace(GIVEN, names=["number", "seconds", "seven"])
    by_name, by_number = (load(named, group={"feature": name, "quantiles": 2}) for name in ("number", 1))
    assert by_name.group.tolist() == by_number.group.tolist()
    assert by_name.features.tolist() == by_number.features.tolist()
    assert not by_name.features[:, 0].any()
    assert by_name.fingerprint == by_number.fingerprint != load(named).fingerprint
    with pytest.raises(ValueError, match=r"must be the name of a feature, got 'nmber': did you mean number\?"):
        load(named, group={"feature": "nmber", "quantiles": 2})
    with pytest.raises(ValueError, match="must be a number from 1, got 'number': data have no names"):
        load(group={"feature": "number", "quantiles": 2})


@pytest.mark.parametrize("normalise", ["none", "query_minmax"])
def test_groups_by_raw_values_compare_in_double_precision(load, normalise):
    """1.7e9 and 1.7e9 + 4 are on two sides of 1.7e9 + 2, and the same number in single precision."""
    rule = {"feature": 2, "threshold": 1.7e9 + 2, "on": "raw"}
    assert load(normalise=normalise, group=rule).group.tolist() == [1, 1, 0] * QUERIES


def test_the_table_is_that_of_the_documents(load):
    dataset = load()
    assert dataset.query_ids == [f"q{number}" for number in range(QUERIES)]
    assert dataset.offsets.tolist() == list(range(0, 31, 3))
    assert (dataset.labels.tolist(), dataset.grades) == ([0, 1, 2] * 10, 3)
    assert dataset.fingerprint == load().fingerprint
    for changed in (
        replace(GIVEN, label=[0, *GIVEN.label[1:-1], 1]),
        replace(GIVEN, features=FEATURES + np.eye(30, 3)),
        replace(GIVEN, query=["z", "z", "z", *GIVEN.query[3:]]),
    ):
        assert load(changed).fingerprint != dataset.fingerprint


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": FEATURES * np.nan}, "features must be numbers, got nan in row 0, feature 1"),
        ({"features": FEATURES[:9]}, "a row for each document, got 30, 30 and 9x3"),
        ({"features": FEATURES * 1e30}, "features must be below 3.4e38 with dataset.normalise=none"),
        ({"label": [*GIVEN.label[1:], -1]}, "label must be a whole number from 0 to 62, got -1 in row 29"),
        ({"label": ["good", *GIVEN.label[1:]]}, "label and features must be numbers: could not convert .*'good'"),
        ({"label": [63, *GIVEN.label[1:]]}, "label must be a whole number from 0 to 62, got 63 in row 0"),
        ({"label": [*GIVEN.label[1:], 0.5]}, "label must be a whole number from 0 to .*, got 0.5 in row 29"),
        ({"query": ["q1", *GIVEN.query[1:]]}, "must follow each other, got 'q1' again in row 3"),
        ({"query": ["q"] * 30}, "dataset must have 5 queries or more, got 1"),
        ({"query": [], "label": [], "features": FEATURES[:0]}, "dataset must have documents, got none"),
    ],
)
def test_documents_that_cannot_be_ranked_are_refused(load, changed, message):
    with pytest.raises(ValueError, match=message):
        load(replace(GIVEN, **changed))


def test_features_beyond_single_precision_are_named(load):
    """Seconds that differ by 1 and 2 are equal in single precision; minmax makes them 0, 1/2 and 1 before."""
    seconds = np.stack([np.arange(30.0), 1.7e9 + np.tile([0.0, 1, 2], 10)], axis=1)
    named = (
        "features 2 have values that single precision (7 digits) moves by over a thousandth of their range in a query"
    )
    (line,) = load(replace(GIVEN, features=seconds)).warnings
    assert line.startswith(named)
    assert load(replace(GIVEN, features=seconds), normalise="query_minmax").warnings == ()
