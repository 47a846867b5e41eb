"""Document groups: by a threshold before or after normalisation, and from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dataset.letor_files import TINY, letor, write_fold


def test_groups_by_threshold_before_or_after_normalisation(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2 2:1\n1 qid:1 1:4 2:2\n2 qid:1 1:3 2:3\n", test="0 qid:2 1:9 2:4\n")

    def load(**group):
        rule = {"feature": 1, **group}
        return letor(tmp_path / "set", tmp_path / "cache", normalise="query_minmax", group=rule).load()

    scaled = load(threshold=0.5)  # feature 1 is 0, 1, .5 and, alone in its query, 0
    assert scaled.group.tolist() == [1, 0, 1, 1]
    assert scaled.features[:, 0].tolist() == [0, 0, 0, 0]
    assert scaled.features[:, 1].tolist() == [0, 0.5, 1, 0]
    raw = load(threshold=3, on="raw", zeroed=False)
    assert raw.group.tolist() == [1, 0, 1, 0]
    assert raw.features[:, 0].tolist() == [0, 1, 0.5, 0]
    with pytest.raises(ValueError, match=r"dataset\.group\.feature must be at most 2, got 3"):
        load(threshold=1, feature=3)


def test_several_thresholds_make_several_groups(tmp_path: Path):
    """The group is the number of thresholds that a document does not exceed, in whatever order they are typed."""
    write_fold(tmp_path / "set", train="0 qid:1 1:2\n1 qid:1 1:4\n2 qid:1 1:3\n", test="0 qid:2 1:9\n")

    def load(threshold):
        rule = {"feature": 1, "threshold": threshold, "on": "raw"}
        return letor(tmp_path / "set", tmp_path / "cache", group=rule).load()

    assert load([3.5, 2]).group.tolist() == load([2, 3.5]).group.tolist() == [2, 0, 1, 0]
    assert load([3]).group.tolist() == load(3).group.tolist() == [1, 0, 1, 0]
    assert load([3.5, 2]).fingerprint != load(3.5).fingerprint


def test_quantiles_of_the_training_split_make_groups_of_about_equal_size(tmp_path: Path):
    """Feature 1 is 1, 2, .., 9 in training: the thresholds are 6 and 3. Test documents do not move them."""
    train = "".join(f"{value % 2} qid:1 1:{value} 2:{value > 8}\n".replace("True", "1").replace("False", "0")
                    for value in (5, 1, 9, 2, 8, 3, 7, 4, 6))  # fmt: skip
    write_fold(tmp_path / "set", train=train, test="0 qid:2 1:100 2:0\n1 qid:2 1:6.5 2:1\n0 qid:2 1:3 2:1\n")

    def load(**group):
        rule = {"quantiles": 3, "on": "raw", **group}
        return letor(tmp_path / "set", tmp_path / "cache", group={"feature": 1, **rule}).load()

    thirds = load()
    assert thirds.group.tolist() == [1, 2, 0, 2, 0, 2, 0, 1, 1, 0, 0, 2]
    assert thirds.features[:, 0].abs().sum() == 0
    assert load(quantiles=2, zeroed=False).group.tolist() == [1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1]
    assert load(quantiles=2).fingerprint != thirds.fingerprint
    with pytest.raises(
        ValueError,
        match=r"^dataset.group.quantiles must be less, or dataset.group.feature another, as feature 2 has too "
        r"few values: its quantiles are 0, 0, the largest is 1$",
    ):
        load(feature=2)


def test_groups_from_a_file(tmp_path: Path):
    write_fold(tmp_path / "set", train="0 qid:1 1:2\n1 qid:1 1:4\n", test="0 qid:2 1:9\n")
    file = tmp_path / "groups.txt"

    def load():
        return letor(tmp_path / "set", tmp_path / "cache", group={"file": str(file)}).load()

    file.write_text("0\n1\n2\n")
    before = load()
    assert before.group.tolist() == [0, 1, 2]
    file.write_text("0\n1\n10\n")
    assert load().fingerprint != before.fingerprint
    file.write_text("0\n-1\n2\n")
    with pytest.raises(ValueError, match=r"groups\.txt:2: found '-1', expected a whole number from 0 to 127"):
        load()
    file.write_text("0\n1\n")
    with pytest.raises(ValueError, match=r"one line per document \(3\), got 2 lines"):
        load()


def test_a_bad_rule_names_the_setting(tmp_path: Path):
    cases: list[tuple[Any, str]] = [
        ({"feature": 3}, "dataset.group must be null, {file: FILE} or {feature: ID, threshold: X, on:"),
        ({"feature": 0, "threshold": 1}, "dataset.group.feature must be 1 or more, got 0"),
        ({"feature": True, "threshold": 1}, "dataset.group.feature must be a whole number, got True"),
        ({"feature": 1, "threshold": "x"}, "dataset.group.threshold must be a number or a list [..,..] of which each"),
        ({"feature": 1, "threshold": []}, "dataset.group.threshold must be a number, or a list of 1 to 127 different"),
        ({"feature": 1, "threshold": [1, 1]}, "dataset.group.threshold must be a number, or a list of 1 to 127 diff"),
        ({"feature": 1, "quantiles": 1}, "dataset.group.quantiles must be from 2 to 128, got 1"),
        ({"feature": 1, "quantiles": 2.5}, "dataset.group.quantiles must be a whole number, got 2.5"),
        ({"feature": 1, "quantiles": 2, "threshold": 1}, "dataset.group must be null, {file: FILE} or {feature: ID,"),
        ({"feature": 1, "threshold": float("inf")}, "dataset.group.threshold must be finite, got inf"),
        ({"feature": 1, "threshold": 1, "on": "x"}, "dataset.group.on must be one of raw, normalised, got 'x'"),
        ({"feature": 1, "threshold": 1, "zeroed": 1}, "dataset.group.zeroed must be true or false, got 1"),
    ]
    for rule, message in cases:
        with pytest.raises(ValueError) as error:
            letor(TINY, tmp_path, group=rule)
        assert str(error.value).startswith(message)
    with pytest.raises(ValueError, match=r"^dataset\.group\.file must be a file, got .*nowhere$"):
        letor(TINY, tmp_path, group={"file": "nowhere"}).load()
