"""Normalisation by its formulas, and document groups by a feature or from a file."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from ol2r_cli.dataset import parse
from ol2r_cli.dataset.parse import blocks
from ol2r_cli.dataset.prepare import fit_transformation
from tests.dataset.letor_files import TEST_TEXT, TINY, TRAIN_TEXT, letor, write_fold


def test_normalised_variants_follow_the_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Normalised variants are cached and follow the definition."""
    raw = letor(TINY, tmp_path).load()
    table, offsets = raw.features.numpy().astype(float), raw.offsets.tolist()
    train = table[: offsets[len(raw.splits["train"])]]
    monkeypatch.setattr(parse, "BLOCK", 10)  # several blocks of queries
    for method in ("query_minmax", "query_zscore", "global_zscore"):
        variant = letor(TINY, tmp_path, normalise=method).load()
        for first, last in pairwise(offsets):
            x = table[first:last]
            base = train if method == "global_zscore" else x
            low, spread = (base.min(0), np.ptp(base, 0)) if method == "query_minmax" else (base.mean(0), base.std(0))
            varies = np.ptp(base, 0) > 0
            expected = np.where(varies, (x - low) / np.where(varies, spread, 1), 0)
            np.testing.assert_allclose(
                variant.features[first:last].numpy(), expected, rtol=2e-6, atol=2e-6, err_msg=method
            )
        built = sorted(file.name for file in tmp_path.iterdir())
        letor(TINY, tmp_path, normalise=method).load()
        assert sorted(file.name for file in tmp_path.iterdir()) == built, method
        constant, whole = np.full((7, 1), 0.1), np.array([0, 7])  # the mean of seven 0.1 is not 0.1
        (block,) = fit_transformation(constant, whole, np.ones(7, bool), method).by_block(constant, whole)
        assert not block.any(), method
    offsets = np.cumsum([0, 4, 4, 4, 25, 1, 9, 1])
    got = [(rows.start, rows.stop, start.tolist()) for rows, start in blocks(offsets)]
    assert got == [(0, 8, [0, 4]), (8, 12, [0]), (12, 37, [0]), (37, 47, [0, 1]), (47, 48, [0])]


def test_a_table_is_parsed_in_less_memory_than_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever its size: what is in memory is a chunk of the text, and a block of the table."""
    monkeypatch.setattr(parse, "CHUNK", 1 << 16)
    monkeypatch.setattr(parse, "BLOCK", 100)
    rows, width = 8_000, 150
    features = " ".join(f"{number}:{number % 7}" for number in range(1, width + 1))
    lines = [f"{row % 3} qid:{row // 20} {features}\n" for row in range(rows)]
    lines[0] = "0 qid:0 1:NULL 2:5\n"
    lines[-1] = f"0 qid:{(rows - 1) // 20} 1:NULL {width + 1}:1\n"  # so that the last chunk is wider
    folder = write_fold(tmp_path / "set", train="".join(lines), test=TEST_TEXT)
    del lines
    source = letor(folder, tmp_path / "cache", normalise="query_minmax", missing="minimum")
    letor(TINY, tmp_path / "cache").load()  # numba and what else is kept
    tracemalloc.start()
    table = source.load()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.features.shape == (rows + 2, width + 1)
    assert peak < 0.5 * table.features.nbytes, f"{peak / table.features.nbytes:.2f} of the table"
    assert table.features[rows - 1].nonzero().flatten().tolist() == [width]
    raw = letor(folder, tmp_path / "cache", missing="minimum").load().features
    assert raw[0, :4].tolist() == [1, 5, 0, 0], "the minimum of the query, which is in several chunks"
    assert raw[-3:, -1].tolist() == [1, 0, 0]


def test_features_constant_over_training_are_dropped(tmp_path: Path):
    write_fold(tmp_path / "set", train=TRAIN_TEXT, test=TEST_TEXT)  # feature 2 is 5 in train, 6 in test
    raw = letor(tmp_path / "set", tmp_path / "cache").load().features
    kept = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True).load().features
    assert torch.equal(kept, raw[:, [0, 2]])
    # Within queries only feature 3 varies.
    scaled = letor(tmp_path / "set", tmp_path / "cache", drop_constant=True, normalise="query_minmax").load()
    assert scaled.features.shape[1] == 1
    write_fold(tmp_path / "same", train="0 qid:1 1:1\n")
    with pytest.raises(ValueError, match=r"^dataset\.drop_constant must be false here: every feature is constant"):
        letor(tmp_path / "same", tmp_path / "cache", drop_constant=True).load()


def test_groups_by_thresholds_before_or_after_normalisation(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2 2:1\n1 qid:1 1:4 2:2\n2 qid:1 1:3 2:3\n", test="0 qid:2 1:9 2:4\n")

    def load(**group):
        return letor(
            tmp_path / "set", tmp_path / "cache", normalise="query_minmax", group={"feature": 1, **group}
        ).load()

    scaled = load(threshold=0.5)  # feature 1 is 0, 1, .5 and, alone in its query, 0
    assert scaled.group.tolist() == [1, 0, 1, 1]
    assert scaled.features[:, 0].tolist() == [0, 0, 0, 0]
    assert scaled.features[:, 1].tolist() == [0, 0.5, 1, 0]
    raw = load(threshold=3, on="raw", zeroed=False)
    assert raw.group.tolist() == [1, 0, 1, 0]
    assert raw.features[:, 0].tolist() == [0, 1, 0.5, 0]
    # The group is the number of thresholds that a document does not exceed, in whatever order they are typed.
    assert load(threshold=[3.5, 2], on="raw").group.tolist() == [2, 0, 1, 0]
    assert load(threshold=[2, 3.5], on="raw").group.tolist() == [2, 0, 1, 0]
    assert load(threshold=[3.5, 2.0], on="raw").fingerprint == load(threshold=[3.5, 2], on="raw").fingerprint
    assert load(threshold=3.0, on="raw").fingerprint == load(threshold=3, on="raw").fingerprint
    assert load(threshold=[3.5, 2], on="raw").fingerprint != load(threshold=3.5, on="raw").fingerprint
    with pytest.raises(ValueError, match=r"dataset\.group\.feature must be at most 2, got 3"):
        load(threshold=1, feature=3)


def test_training_quantiles_make_groups_of_about_equal_size(tmp_path: Path):
    """Quantiles of the training split make groups of about equal size.

    Feature 1 is 1, 2, .., 9 in training: the thresholds are 6 and 3. Test documents do not move them.
    """
    train = "".join(
        f"{value % 2} qid:1 1:{value} 2:{int(value > 8)} 3:{int(value > 2)}\n" for value in (5, 1, 9, 2, 8, 3, 7, 4, 6)
    )
    write_fold(tmp_path / "set", train=train, test="0 qid:2 1:100 2:0\n1 qid:2 1:6.5 2:1\n0 qid:2 1:3 2:1\n")

    def load(**group):
        rule = {"feature": 1, "quantiles": 3, "on": "raw", **group}
        return letor(tmp_path / "set", tmp_path / "cache", group=rule).load()

    thirds = load()
    assert thirds.group.tolist() == [1, 2, 0, 2, 0, 2, 0, 1, 1, 0, 0, 2]
    assert thirds.features[:, 0].abs().sum() == 0
    assert load(quantiles=2, zeroed=False).group.tolist() == [1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1]
    assert load(quantiles=2).fingerprint != thirds.fingerprint
    too_few = (
        "^dataset.group.quantiles must be less, or dataset.group.feature another, as feature {} has too few values"
    )
    for feature, quantiles, found in ((2, 3, "0, 0"), (3, 2, "1")):
        message = f"{too_few.format(feature)}: its quantiles are {found}, the largest is 1$"
        with pytest.raises(ValueError, match=message):
            load(feature=feature, quantiles=quantiles)


def test_groups_from_a_file(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2\n1 qid:1 1:4\n", test="0 qid:2 1:9\n")
    file = tmp_path / "groups.txt"
    source = letor(tmp_path / "set", tmp_path / "cache", group={"file": str(file)})
    with pytest.raises(ValueError, match=r"^dataset\.group\.file must be a file, got .*groups\.txt$"):
        source.load()
    file.write_text("0\n1\n2\n")
    before = source.load()
    assert before.group.tolist() == [0, 1, 2]
    file.write_text("0\n1\n10\n")
    assert source.load().fingerprint != before.fingerprint
    for text, message in (
        ("0\x0c\n-1\n2\n", r"groups\.txt:2: found '-1', expected"),  # where Python ends a line, but no editor
        ("0\n-1\n2\n", r"groups\.txt:2: found '-1', expected a whole number from 0 to 127"),
        ("0\n1\n", r"one line per document \(3\), got 2 lines"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            source.load()


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
def test_a_bad_rule_names_the_setting(tmp_path: Path, rule, message):
    with pytest.raises(ValueError) as error:
        letor(TINY, tmp_path, group=rule)
    assert str(error.value).startswith(f"dataset.group{message}")
