"""Normalisation by its formulas, and document groups by a feature or from a file."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import torch

from ol2r_cli.dataset.prepare import fit_transformation
from tests.dataset.letor_files import TEST_TEXT, TINY, TRAIN_TEXT, Fold, letor, parser_set_to

METHODS = ("query_minmax", "query_zscore", "global_zscore")


@pytest.mark.parametrize("method", METHODS)
def test_normalised_variants_follow_the_definition(tmp_path, method):
    """And are cached."""
    raw = letor(TINY, tmp_path).load()
    table, offsets = raw.features.numpy().astype(float), raw.offsets.tolist()
    train = table[: offsets[len(raw.splits["train"])]]
    with parser_set_to(BLOCK=3):  # several blocks of queries, also of one that is longer
        found = letor(TINY, tmp_path, normalise=method).load().features.numpy()
    for first, last in pairwise(offsets):
        x = table[first:last]
        base = train if method == "global_zscore" else x
        low, spread = (base.min(0), np.ptp(base, 0)) if method == "query_minmax" else (base.mean(0), base.std(0))
        varies = np.ptp(base, 0) > 0
        expected = np.where(varies, (x - low) / np.where(varies, spread, 1), 0)
        np.testing.assert_allclose(found[first:last], expected, rtol=2e-6, atol=2e-6)
    built = sorted(tmp_path.iterdir())
    letor(TINY, tmp_path, normalise=method).load()
    assert sorted(tmp_path.iterdir()) == built


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_becomes_0_though_its_mean_is_rounded(method):
    constant, whole = np.full((7, 1), 0.1), np.array([0, 7])  # the mean of seven 0.1 is not 0.1
    (block,) = fit_transformation(constant, whole, np.ones(7, bool), method).by_block(constant, whole)
    assert not block.any()


def test_a_table_is_parsed_in_less_memory_than_it_has(fold):
    """Whatever its size: what is in memory is a chunk of the text, and a block of the table."""
    rows, width = 8_000, 150
    features = " ".join(f"{number}:{number % 7}" for number in range(1, width + 1))
    lines = [f"{row % 3} qid:{row // 20} {features}\n" for row in range(rows)]
    lines[0] = "0 qid:0 1:NULL 2:5\n"
    lines[-1] = f"0 qid:{(rows - 1) // 20} 1:NULL {width + 1}:1\n"  # so that the last chunk is wider
    fold.write(train="".join(lines), test=TEST_TEXT)
    del lines
    source = fold.source(normalise="query_minmax", missing="minimum")
    letor(TINY, fold.cache).load()  # numba and what else is kept
    with parser_set_to(CHUNK=1 << 16, BLOCK=100):
        tracemalloc.start()
        table = source.load()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        raw = fold.load(missing="minimum").features
    assert table.features.shape == (rows + 2, width + 1)
    assert peak < 0.5 * table.features.nbytes, f"{peak / table.features.nbytes:.2f} of the table"
    assert table.features[rows - 1].nonzero().flatten().tolist() == [width]
    assert raw[0, :4].tolist() == [1, 5, 0, 0], "the minimum of the query, which is in several chunks"
    assert raw[-3:, -1].tolist() == [1, 0, 0]


def test_features_constant_over_training_are_dropped(fold):
    fold.write(train=TRAIN_TEXT, test=TEST_TEXT)  # feature 2 is 5 in train, 6 in test
    assert torch.equal(fold.load(drop_constant=True).features, fold.load().features[:, [0, 2]])
    # Within queries only feature 3 varies.
    assert fold.load(drop_constant=True, normalise="query_minmax").features.shape[1] == 1
    fold.write(train="0 qid:1 1:1\n")
    with pytest.raises(ValueError, match=r"^dataset\.drop_constant must be false here: every feature is constant"):
        fold.load(drop_constant=True)


@pytest.fixture
def grouped(fold: Fold):
    """Four documents by a rule about feature 1: 2, 4, 3 in a query, and 9 in another; normalised 0, 1, .5 and 0."""
    fold.write(train="0 qid:1 1:2 2:1\n1 qid:1 1:4 2:2\n2 qid:1 1:3 2:3\n", test="0 qid:2 1:9 2:4\n")
    return lambda **rule: fold.load(normalise="query_minmax", group={"feature": 1, **rule})


@pytest.mark.parametrize(
    ("rule", "groups"),
    [
        ({"threshold": 0.5}, [1, 0, 1, 1]),
        ({"threshold": 3, "on": "raw"}, [1, 0, 1, 0]),
        # The group is the number of thresholds that a document does not exceed, in whatever order they are typed.
        ({"threshold": [3.5, 2], "on": "raw"}, [2, 0, 1, 0]),
        ({"threshold": [2, 3.5], "on": "raw"}, [2, 0, 1, 0]),
    ],
)
def test_groups_by_thresholds_before_or_after_normalisation(grouped, rule, groups):
    assert grouped(**rule).group.tolist() == groups


def test_the_feature_of_groups_is_zeroed_unless_it_is_kept(grouped):
    second = [0, 0.5, 1, 0]
    assert grouped(threshold=0.5).features.T.tolist() == [[0, 0, 0, 0], second]
    assert grouped(threshold=3, on="raw", zeroed=False).features.T.tolist() == [[0, 1, 0.5, 0], second]
    with pytest.raises(ValueError, match=r"dataset\.group\.feature must be at most 2, got 3"):
        grouped(threshold=1, feature=3)


def test_thresholds_of_one_value_have_one_fingerprint(grouped):
    whole, real, one, one_real = (
        grouped(threshold=threshold, on="raw").fingerprint for threshold in ([3.5, 2], [3.5, 2.0], 3, 3.0)
    )
    assert (whole, one) == (real, one_real)
    assert whole != one


NINTHS = "".join(f"{v % 2} qid:1 1:{v} 2:{int(v > 8)} 3:{int(v > 2)}\n" for v in (5, 1, 9, 2, 8, 3, 7, 4, 6))


@pytest.fixture
def by_quantiles(fold: Fold):
    """Feature 1 is 1, 2, .., 9 in training: the thresholds are 6 and 3. Test documents do not move them."""
    fold.write(train=NINTHS, test="0 qid:2 1:100 2:0\n1 qid:2 1:6.5 2:1\n0 qid:2 1:3 2:1\n")
    return lambda **rule: fold.load(group={"feature": 1, "quantiles": 3, "on": "raw", **rule})


def test_training_quantiles_make_groups_of_about_equal_size(by_quantiles):
    thirds, halves = by_quantiles(), by_quantiles(quantiles=2)
    assert thirds.group.tolist() == [1, 2, 0, 2, 0, 2, 0, 1, 1, 0, 0, 2]
    assert halves.group.tolist() == [1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1]
    assert halves.fingerprint != thirds.fingerprint
    assert not thirds.features[:, 0].any()


@pytest.mark.parametrize(("feature", "quantiles", "found"), [(2, 3, "0, 0"), (3, 2, "1")])
def test_quantiles_of_too_few_values_are_refused(by_quantiles, feature, quantiles, found):
    has = f"as feature {feature} has too few values: its quantiles are {found}, the largest is 1$"
    with pytest.raises(
        ValueError, match=rf"^dataset.group.quantiles must be less, or dataset.group.feature another, {has}"
    ):
        by_quantiles(feature=feature, quantiles=quantiles)


def test_groups_from_a_file(fold):
    fold.write(train="0 qid:1 1:2\n1 qid:1 1:4\n", test="0 qid:2 1:9\n")
    file = fold.folder / "groups.txt"
    source = fold.source(group={"file": str(file)})
    with pytest.raises(ValueError, match=r"^dataset\.group\.file must be a file, got .*groups\.txt$"):
        source.load()
    file.write_text("0\n1\n2\n")
    before = source.load()
    assert before.group.tolist() == [0, 1, 2]
    file.write_text("0\n1\n10\n")
    assert source.load().fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\x0c\n-1\n2\n", r"groups\.txt:2: found '-1', expected"),  # where Python ends a line, but no editor
        ("0\n-1\n2\n", r"groups\.txt:2: found '-1', expected a whole number from 0 to 127"),
        ("0\n1\n", r"one line per document \(12\), got 2 lines"),
    ],
)
def test_a_file_that_is_none_of_groups_is_refused(fold, text, message):
    fold.write(train=NINTHS, test="0 qid:2 1:9\n0 qid:2 1:9\n0 qid:2 1:9\n", groups=text)
    with pytest.raises(ValueError, match=message):
        fold.load(group={"file": str(fold.folder / "groups.txt")})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"feature": 3}, " must be null, {file: FILE} or {feature: ID, threshold: X, on:"),
        ({"feature": 1, "quantiles": 2, "threshold": 1}, " must be null, {file: FILE} or {feature: ID,"),
        ({"feature": 0, "threshold": 1}, ".feature must be 1 or more or text, got 0"),
        ({"feature": 1, "threshold": []}, ".threshold must be a number, or a list of 1 to 127 different"),
        ({"feature": 1, "threshold": [1, 1]}, ".threshold must be a number, or a list of 1 to 127 diff"),
        ({"feature": 1, "quantiles": 1}, ".quantiles must be null or from 2 to 128, got 1"),
    ],
)
def test_a_bad_rule_names_the_setting(tmp_path, rule, message):
    with pytest.raises(ValueError) as error:
        letor(TINY, tmp_path, group=rule)
    assert str(error.value).startswith(f"dataset.group{message}")
