"""Trees over rules on profiles, against a search through every rule, and what holds for every tree."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.plugins.recommend.trees import BRANCHES, grow
from ol2r_cli.plugins.recommend.trees import _binned as binned
from tests.reference.factorization_tree import grown

D, L2 = 3, 0.5


class Quadratic:
    """Members that lose b'x + x'Ax / 2, of which `known` is the share of A that the tree sees."""

    def __init__(self, members, random, known=1.0):
        root = random.normal(size=(members, D, D))
        self.a, self.b, self.known = root @ root.transpose(0, 2, 1), random.normal(size=(members, D)), known

    def value(self, vectors):
        return float(sum(b @ x + x @ a @ x / 2 for a, b, x in zip(self.a, self.b, vectors, strict=True)))

    def derivatives(self, vectors):
        gradient = np.array([b + a @ x for a, b, x in zip(self.a, self.b, vectors, strict=True)])
        return np.concatenate([gradient, self.known * self.a[:, *np.tril_indices(D)]], 1)


def random_profiles(random, members=50, features=6, values=7):
    profiles = random.integers(-2, values, (members, features)).astype(float)
    profiles[random.random(profiles.shape) < 0.4] = np.nan
    return profiles


@pytest.mark.parametrize("parent_factors", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_a_tree_is_that_of_its_definition(seed, parent_factors):
    """Rules, vectors and members of all nodes, and the loss with its penalty, by a search through all rules."""
    random = np.random.default_rng(seed)
    profiles = random_profiles(random, 30, 4, 4)
    loss = Quadratic(len(profiles), random)
    tree, node, values = grow(profiles, loss, D, 3, 20, L2, parent_factors)
    vectors, pairs = tree.vectors, [(0, grown(profiles, loss.a, loss.b, 3, L2, parent_factors))]
    for place, expected in pairs:  # grows meanwhile
        assert vectors[place] == pytest.approx(expected["vector"], rel=1e-8)
        if "feature" not in expected:
            assert tree.feature[place] == -1
            assert np.flatnonzero(node == place).tolist() == expected["members"].tolist()
            continue
        rule = tree.feature[place], tree.threshold[place]
        if rule in expected["as_good"]:  # rounding decides between rules that divide a few members likewise
            continue
        assert rule == (expected["feature"], expected["threshold"])
        assert (tree.children[place] < 0).tolist() == [child is None for child in expected["children"]]
        pairs += [(n, child) for n, child in zip(tree.children[place], expected["children"], strict=True) if child]
    assert len(tree.feature) >= len(pairs) > 9
    penalised = tree.residual if parent_factors else vectors[np.unique(node)]
    assert values[-1] == pytest.approx(loss.value(vectors[node]) + L2 / 2 * (penalised**2).sum())
    assert tree.squares(parent_factors) == pytest.approx((penalised**2).sum())


@pytest.mark.parametrize("parent_factors", [True, False])
@pytest.mark.parametrize("known", [1.0, 0.05])  # with a twentieth of the Hessian, whole steps go much too far
def test_no_level_raises_the_objective(known, parent_factors):
    """Without factors of parents a level has more vectors, whose l2 may rise: the loss falls, and not the penalty."""
    random = np.random.default_rng(3)
    profiles = random_profiles(random)
    loss = Quadratic(len(profiles), random, known)
    values = grow(profiles, loss, D, 4, 20, L2, parent_factors)[2]
    assert len(values) == 6
    assert (np.diff(values) <= 0).all() or not parent_factors
    assert values[-1] < values[0] - 1


def test_profiles_find_the_nodes_of_the_fit():
    random = np.random.default_rng(4)
    profiles = random_profiles(random, 200)
    tree, node, _ = grow(profiles, Quadratic(200, random), D, 3, 20, L2)
    names = [f"f{number}" for number in range(6)]
    assert (tree.route(profiles) == node).all()
    assert len(set(node)) > 9
    for member, profile in enumerate(profiles):
        place, total, data = 0, tree.residual[0], tree.plain(names)
        for rule in tree.path(profile, names):
            value = profile[names.index(rule["feature"])]
            assert (rule["feature"], rule["threshold"]) == (data["feature"], data["threshold"])
            assert rule["value"] == (None if np.isnan(value) else value)
            branch = "unknown" if np.isnan(value) else "left" if value >= rule["threshold"] else "right"
            assert rule["branch"] == branch
            data, place = data[branch], tree.children[place, BRANCHES.index(branch)]
            total = total + tree.residual[place]
        assert (place, data) == (node[member], {})
        assert tree.vectors[place] == pytest.approx(total)


def test_a_way_that_no_member_took_ends_above_it():
    random = np.random.default_rng(5)
    profiles = np.array([[1.0], [2.0], [1.0], [2.0]])  # nobody lacks the feature
    tree, node, _ = grow(profiles, Quadratic(4, random), D, 1, 20, L2)
    assert tree.route(np.array([[np.nan], [9.0], [-9.0]])).tolist() == [0, node[1], node[0]]
    assert [rule["branch"] for rule in tree.path(np.array([np.nan]), ["f"])] == ["unknown"]


def test_a_node_whose_members_have_the_same_profile_is_a_leaf():
    profiles = np.array([[1.0, np.nan]] * 5)
    tree, node, values = grow(profiles, Quadratic(5, np.random.default_rng(6)), D, 6, 20, L2)
    assert tree.feature.tolist() == [-1]
    assert (node == 0).all()
    assert len(values) == 2


def test_thresholds_are_all_values_or_quantiles():
    profiles = np.array([[*range(1, 101)], [*[1] * 90, *[5] * 9, 7], [np.nan] * 100], float).T
    bins, cuts = binned(profiles, 4)
    assert [cut.tolist() for cut in cuts] == [[1, 26, 51, 76], [1, 5, 7], []]
    assert np.bincount(bins[:, 0]).tolist() == [25] * 4
    assert np.bincount(bins[:, 1]).tolist() == [90, 9, 1]
    assert (bins[:, 2] == -1).all()
