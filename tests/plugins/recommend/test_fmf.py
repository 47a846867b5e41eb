"""FMF: the vectors and biases of items by their normal equations, and the scores of new users."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plugins.recommend.small import fit, generated


@pytest.mark.parametrize("biased", [False, True])
def test_items_are_the_least_squares_of_the_vectors_of_leaves(biased):
    of, l2 = generated(users=60, items=30, of_user=12), 4.0
    words = ["model=fmf", "model.factors=3", f"model.l2={l2}", "model.node_l2=1", "model.steps=1"]
    made, _ = fit(of, *words, f"model.item_bias={str(biased).lower()}")
    for item in range(of.items):
        rows = of.train[of.item[of.train] == item]
        known = made.user[of.user[rows]].astype(float)
        if biased:
            known = np.column_stack([known, np.ones(len(rows))])
        # The least of |ratings - known x|^2 + l2 / 2 |x|^2.
        expected = np.linalg.solve(known.T @ known + l2 / 2 * np.eye(known.shape[1]), known.T @ of.rating[rows])
        assert made.item[item] == pytest.approx(expected[:3], rel=1e-4, abs=1e-5)
        assert made.bias[item] == pytest.approx(expected[3] if biased else 0.0, rel=1e-4, abs=1e-5)
    profile = of.user_profile(of.train)[7]
    assert made.fold_in(profile) == pytest.approx(made.scores(np.array([7]))[0], rel=1e-5), "of its leaf alone"
