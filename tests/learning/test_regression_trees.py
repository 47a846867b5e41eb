"""The flat form of regression trees against a walk from the root, at thresholds and beside them, without LightGBM."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.learning import lambdamart_fit as regression_trees
from ol2r_cli.learning.lambdamart_fit import RegressionTrees, _tree
from tests.reference import regression_trees as reference

LEAVES = 9
FEATURES = 3
TREES = 6


def drawn_tree(random: np.random.Generator, leaves: int) -> dict:
    """A tree of any shape; its thresholds are float32 numbers, or lie between two of them."""
    if leaves == 1:
        return {"leaf_value": float(random.normal())}
    left = int(random.integers(1, leaves))
    threshold = float(np.float32(random.integers(-4, 5) / 10)) + random.choice([0, 1e-12, -1e-12])
    children = drawn_tree(random, left), drawn_tree(random, leaves - left)
    node = {"split_feature": int(random.integers(FEATURES)), "threshold": threshold, "decision_type": "<="}
    return {**node, "missing_type": "None", "left_child": children[0], "right_child": children[1]}


def drawn_forest(seed: int) -> list[dict]:
    """Trees of 1 to 9 leaves, one of them a single leaf."""
    random = np.random.default_rng(seed)
    return [{"tree_structure": drawn_tree(random, leaves)} for leaves in (LEAVES, 1, 4, 2, 7)]


def documents(seed: int) -> torch.Tensor:
    """Float32 features at the thresholds and at their neighbours on both sides."""
    random = np.random.default_rng(seed)
    values = (random.integers(-5, 6, (200, FEATURES)) / 10).astype(np.float32)
    away = random.integers(-1, 2, values.shape)
    moved = np.nextafter(values, np.where(away > 0, np.inf, -np.inf).astype(np.float32))
    return torch.from_numpy(np.where(away == 0, values, moved))


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_a_walk_from_the_root(seed, monkeypatch):
    monkeypatch.setattr(regression_trees, "CELLS", 7 * TREES)  # several parts, the last one shorter
    forest, rows = drawn_forest(seed), documents(seed)
    trees = RegressionTrees(TREES, LEAVES)
    parameters = trees.parameters([_tree(tree["tree_structure"]) for tree in forest])
    assert parameters.shape == (TREES * (4 * LEAVES - 3),)
    assert parameters.isfinite().all()
    expected = torch.tensor([reference.score(forest, row) for row in rows.tolist()], dtype=torch.float64)
    assert len(expected.unique()) > 10
    assert torch.equal(trees.scores(parameters, rows.double()), expected)
    single = trees.scores(parameters.float(), rows)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), expected, rtol=0, atol=1e-5)


def test_a_threshold_between_two_float32_numbers_separates_them_in_either_precision():
    below, above = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    node = {"split_feature": 0, "left_child": {"leaf_value": -1.0}, "right_child": {"leaf_value": 1.0}}
    for threshold, expected in (
        (float(below), [-1, 1]),
        ((float(below) + float(above)) / 2, [-1, 1]),
        (np.nextafter(float(above), 0), [-1, 1]),  # nearest to the float32 number above
        (np.nextafter(float(below), 0), [1, 1]),
        (float(above), [-1, -1]),
        (1e300, [-1, -1]),  # LightGBM's largest threshold
    ):
        trees = RegressionTrees(1, 2)
        parameters = trees.parameters([_tree({**node, "threshold": threshold})])
        for dtype in torch.float32, torch.float64:
            rows = torch.tensor([[below], [above]]).to(dtype)
            assert trees.scores(parameters.to(dtype), rows).tolist() == expected, threshold


def test_trees_that_are_not_there_count_nothing():
    trees = RegressionTrees(3, 4)
    assert not trees.scores(trees.parameters([]), torch.randn(5, 2).double()).any()
