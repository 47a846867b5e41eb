"""FacT: its objective and derivatives by definition, laws of a fit, planted rules, explanations and interviews."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd.functional import hessian as hessian_of
from torch.autograd.functional import jacobian

from ol2r_cli.plugins.recommend import factors
from ol2r_cli.plugins.recommend.fact import ANSWERS, FacT, said
from ol2r_cli.plugins.recommend.factors import Reviewed, Side
from ol2r_cli.plugins.recommend.trees import Tree
from tests.plugins.recommend.small import generated, recorded, renumbered, source

SMALL = {
    "factors": 4,
    "depth": 2,
    "item_depth": 2,
    "thresholds": 16,
    "normalized": True,
    "bpr": 20.0,
    "user_l2": 2.0,
    "item_l2": 3.0,
    "personal": 0.9,
    "node_l2": 20.0,
    "parent_factors": True,
    "samples": 5,
    "start_epochs": 30,
    "alternations": 2,
    "epochs": 10,
    "learning_rate": 0.0025,
    "item_bias": False,
}
BPR, L2 = 3.0, 0.4


def fitted(reviews, seed=0, validate=lambda model: 0.0, **changes):
    return recorded(FacT(**{**SMALL, **changes}), reviews, seed, validate)


@pytest.fixture(scope="module")
def world():
    """Reviews, and a fit."""
    reviews = generated()
    return reviews, fitted(reviews, depth=4, item_depth=4)[0]


def reviewed(random, users=4, items=6, reviews=9):
    cells = random.permutation(users * items)[:reviews]
    return Reviewed(cells // items, cells % items, random.integers(1, 6, reviews).astype(float), users, items)


def by_definition(users, items, data, others, bpr):
    """(4.2.2) without l2, as tensors of torch; each pair has its share of bpr. Items may have a bias at the end."""
    d, total = users.shape[1], torch.zeros((), dtype=torch.float64)

    def score(i, j):
        return users[i] @ items[j, :d] + items[j, d:].sum()

    for i, j, rating, sampled in zip(data.user, data.item, data.rating, others, strict=True):
        total = total + (rating - score(i, j)) ** 2
        for k in sampled:
            margin = score(i, j) - score(i, k)
            total = total - bpr / len(sampled) * torch.nn.functional.logsigmoid(margin)
    return total


def small_problem(seed, biases=0):
    random = np.random.default_rng(seed)
    data = reviewed(random)
    users, items = random.normal(size=(4, 3)), random.normal(size=(6, 3 + biases))
    return data, data.others(np.arange(9), 2, random), users, items


def unpacked(derivatives, d=3):
    """Gradient [n, d] and Hessian [n, d, d]."""
    hessian = np.zeros((len(derivatives), d, d))
    hessian[:, *np.tril_indices(d)] = derivatives[:, d:]
    return derivatives[:, :d], hessian + np.tril(hessian, -1).transpose(0, 2, 1)


@pytest.mark.parametrize("biases", [0, 1])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_derivatives_of_a_side_follow_the_definition(side, seed, biases):
    data, others, *vectors = small_problem(seed, biases)
    d = vectors[side].shape[1]
    objective = Side(data, others, side, vectors[1 - side], BPR, L2)
    often = [9 / 6] * 6 if side else [(data.user == i).sum() for i in range(4)]  # 9 reviews, 6 items

    def value(flat):
        own, given = flat.view(vectors[side].shape), torch.tensor(vectors[1 - side])
        squares = torch.tensor(often, dtype=torch.float64) @ (own**2).sum(1)
        return by_definition(*((given, own) if side else (own, given)), data, others, BPR) + L2 / 2 * squares

    flat = torch.tensor(vectors[side]).flatten()
    assert objective.value(vectors[side]) == pytest.approx(float(value(flat)), rel=1e-12)
    gradient, hessian = unpacked(objective.derivatives(vectors[side]), d)
    assert gradient.ravel() == pytest.approx(jacobian(value, flat).numpy(), rel=1e-9)
    exact, blocks = hessian_of(value, flat).numpy(), np.zeros((flat.numel(), flat.numel()))
    for number, block in enumerate(hessian):
        blocks[d * number : d * number + d, d * number : d * number + d] = block
    if side:  # a bound: all items may move at once
        assert np.linalg.eigvalsh(blocks - exact).min() > -1e-9
        assert np.trace(blocks) <= 2 * np.trace(exact)
    else:
        assert blocks == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("parent_factors", "of_nodes"), [(True, 1 + 4 + 9), (False, (1 + 4) + (1 + 9))])
def test_the_objective_of_a_fit_has_every_l2(parent_factors, of_nodes):
    """Of vectors, of personal residuals, and of the residuals of nodes or the vectors of leaves."""
    data, others, users, items = small_problem(2)
    model, leaves = FacT(**{**SMALL, "parent_factors": parent_factors}), [users / 2, items / 3]
    below = np.array([[1, 2, -1], [-1, -1, -1], [-1, -1, -1]])
    trees = [Tree(np.array([0, -1, -1]), np.zeros(3), below, size * np.diag([1.0, 2, 3])) for size in (1, 2)]
    expected = float(by_definition(torch.tensor(users), torch.tensor(items), data, others, SMALL["bpr"]))
    often = [(data.user == i).sum() for i in range(4)], [9 / 6] * 6
    for counts, l2, vectors, of_leaf in zip(
        often, (SMALL["user_l2"], SMALL["item_l2"]), (users, items), leaves, strict=True
    ):
        for count, vector, leaf in zip(counts, vectors, of_leaf, strict=True):
            rest = SMALL["personal"] * ((vector - leaf) ** 2).sum()
            expected += count * l2 / 2 * ((1 - SMALL["personal"]) * (vector**2).sum() + rest)
    expected += SMALL["node_l2"] / 2 * (1 + 4) * of_nodes
    assert model._objective(data, others, [users, items], leaves, trees) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("change", [{"parent_factors": False}, {"seed": 1}], ids=str)
def test_another_setting_or_seed_gives_another_fit(world, change):
    reviews, model = world
    assert not np.allclose(fitted(reviews, depth=4, item_depth=4, **change)[0].users, model.users)


@pytest.mark.parametrize("biases", [0, 1])
def test_a_step_of_descent_follows_the_gradient_of_one_review(biases):
    data, others, users, items = small_problem(1, biases)
    bases, rate = (users / 3, items / 2), 0.01
    for n in range(len(data.user)):
        i, k = int(data.user[n]), int(others[n, 0])
        one = Reviewed(data.user[n : n + 1], data.item[n : n + 1], data.rating[n : n + 1], 4, 6)
        tensors = [torch.tensor(of_side, requires_grad=True) for of_side in (users, items)]
        far = [((tensor - torch.tensor(base)) ** 2).sum(1) for tensor, base in zip(tensors, bases, strict=True)]
        total = by_definition(*tensors, one, others[n : n + 1, :1], BPR) + L2 / 2 * far[0][i] + L2 * far[1][k]
        total.backward()
        expected = [(tensor - rate * tensor.grad).detach().numpy() for tensor in tensors]
        ahead = factors.facing(users, items)
        assert (ahead[:, 3:] == 1).all()
        factors.descend(ahead, items, 3, *bases, one.user, one.item, one.rating, others[n, :1], rate, BPR, L2, 2 * L2)
        assert (ahead[:, 3:] == 1).all(), "the 1 of a bias is not fitted"
        users = ahead[:, :3]
        assert users == pytest.approx(expected[0], rel=1e-12)
        assert items == pytest.approx(expected[1], rel=1e-12)


@given(st.integers(0, 1000))
def test_samples_are_items_that_the_user_has_not_reviewed(seed):
    """The others are as they were drawn. Who has reviewed all gets any."""
    data = reviewed(np.random.default_rng(seed), reviews=20)
    sampled = data.others(np.arange(20), 3, np.random.default_rng(seed))
    drawn = np.random.default_rng(seed).integers(6, size=(20, 3))
    for user, own, before in zip(data.user, sampled, drawn, strict=True):
        of_user = data.item[data.user == user]
        if len(of_user) < 6:
            assert not np.isin(own, of_user).any()
            assert (own == before)[~np.isin(before, of_user)].all()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_planted_rules_are_found(seed):
    """Nodes of two levels separate the planted leaves. Rules may use other features below the root: who likes items
    without feature 2 also mentions it less."""
    made = source(users=300, items=120, of_user=20, taste=0.8, seed=seed)
    model, _ = fitted(made.load(), seed, normalized=False, alternations=1)
    trees, planted = (model.user_tree, model.item_tree), made.planted()[:2]
    for tree, profiles, leaves, features in zip(trees, model.profiles, planted, ({0, 1}, {2, 3}), strict=True):
        table = np.zeros((len(tree.feature), 6), int)
        np.add.at(table, (tree.route(profiles), leaves), 1)
        assert table.max(1).sum() > 0.97 * len(profiles)
        assert (table.sum(1) > 0).sum() <= 9
        assert tree.feature[0] in features


def test_the_objective_falls_and_the_best_alternation_is_kept(world):
    reviews, _ = world
    scores, seen = [0.0, 0.5, 0.0, 0.2, *[0.0] * 20], []  # of leaves and of vectors, in turn

    def validate(model):
        seen.append(model.scores(np.arange(5)))
        return scores[len(seen) - 1]

    model, rows = fitted(reviews, validate=validate, alternations=9, start_epochs=0)
    assert 2 <= len(rows) < 9  # it ended where the objective did not fall
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert (np.diff([row["objective"] for row in rows]) < 0).all()
    assert [row["validation_ndcg_50"] for row in rows[:2]] == [0.5, 0.2]
    assert (model.scores(np.arange(5)) == seen[1]).all()


def test_the_vectors_of_leaves_are_those_of_the_trees(world):
    reviews, _ = world
    seen = []
    model, _ = fitted(reviews, validate=lambda one: seen.append((one.users, one.items)) or 0.0, alternations=1)
    for leaves, tree, profiles in zip(seen[0], (model.user_tree, model.item_tree), model.profiles, strict=True):
        assert leaves == pytest.approx(tree.vectors[tree.route(profiles)])


def test_a_loaded_state_scores_and_explains_as_before(world):
    reviews, model = world
    loaded = FacT(**SMALL)
    loaded.load(model.state(), reviews)
    assert (loaded.scores(np.arange(120)) == model.scores(np.arange(120))).all()
    assert loaded.explain(3, 4) == model.explain(3, 4)
    assert loaded.trees() == model.trees()


def test_renumbering_permutes_the_results(world):
    """To the last bit, so that the same seed gives the same fit."""
    reviews, model = world
    renamed, users, items = renumbered(reviews)
    other, _ = fitted(renamed, depth=4, item_depth=4)
    assert (other.scores(users)[:, items] == model.scores(np.arange(120))).all()
    there, here = other.explain(int(users[3]), int(items[4])), model.explain(3, 4)
    assert there.contributions == pytest.approx(here.contributions)
    assert replace(there, contributions=()) == replace(here, contributions=())


def test_explanations_are_what_is_said_of_both_paths(world):
    reviews, model = world
    counts, names = reviews.user_profile(reviews.train), reviews.feature_names
    shares, of_items = counts / np.nansum(counts, axis=1, keepdims=True), reviews.item_profile(reviews.train)
    for number in range(60):
        explanation = model.explain(number, number)
        user, item = model.user_tree.path(shares[number], names), model.item_tree.path(of_items[number], names)
        assert explanation.paths == {"user": [{**rule, "share": True} for rule in user], "item": item}
        over = dict(zip(names, model.over_average(number, number), strict=True))
        features, sentence = said(user, item, over)
        assert (explanation.features, explanation.sentence) == (features, sentence)
        assert explanation.contributions == tuple(over[name] for name in features)


@pytest.mark.parametrize("item_bias", [False, True])
def test_contributions_are_what_rules_add_to_a_score(item_bias):
    """By the rules of each path one by one, less the mean over the items that training reviews have."""
    reviews = generated()
    reviews = replace(reviews, train=reviews.train[reviews.item[reviews.train] != 9])  # without a training review
    model, _ = fitted(reviews, depth=3, item_depth=3, alternations=1, start_epochs=5, item_bias=item_bias)

    def added(user, item):
        total = np.zeros(reviews.features)
        users = np.append(model.users[user], [1.0] * item_bias)
        for tree, profile, other in (
            (model.user_tree, model.profiles[0][user], model.items[item][:4]),
            (model.item_tree, model.profiles[1][item], users),
        ):
            for depth, one in enumerate(tree.path(profile, range(reviews.features))):
                node = node if depth else 0
                node = tree.children[node, ("left", "right", "unknown").index(one["branch"])]
                total[one["feature"]] += tree.residual[node] @ other if node >= 0 else 0
        return total

    items = [item for item in range(reviews.items) if item != 9]
    for user, item in ((0, 1), (17, 40), (30, 9)):
        expected = added(user, item) - np.mean([added(user, other) for other in items], axis=0)
        assert model.over_average(user, item) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def rule(feature, branch, value):
    return {"feature": feature, "threshold": 2.0, "value": value, "branch": branch}


def test_sentences_have_the_templates_of_the_dissertation():
    """With the features that contribute most first; those that contribute less than on average are not named."""
    user = [rule("case", "left", 3), rule("price", "right", 1), rule("ear", "unknown", None), rule("fit", "left", 2)]
    item = [rule("case", "right", 1), rule("price", "left", 4), rule("size", "right", -1), rule("ear", "left", 9)]
    over = {"case": 0.2, "price": 0.3, "ear": 0.1, "fit": 0.4, "size": 0.5}
    assert said(user, item, over) == (
        ("price", "case"),
        "We recommend this item to you because its excellent price matches your taste in price "
        "and its good case matches your emphasis on case.",
    )
    assert said(user[2:], item[2:], over) == (
        ("fit", "ear"),
        "We guess you would like this item because of your preference for fit and its excellent ear.",
    )
    assert said(user, item, {**over, "price": 0.1})[0] == ("case", "price")
    assert said(user, item, {**over, "price": -0.3, "case": 0.0})[0] == ("fit", "ear")
    assert said(user[1:2], item[2:3], over)[1] == "We guess you would like this item because of your choice of price."
    assert said(user[2:3], item[2:3], over) == (
        (),
        "We guess you would like this item because customers with reviews like yours do.",
    )


def test_an_interview_asks_once_about_a_feature(world):
    """It leads to the leaf of the answers, or ends above a way that nobody took."""
    _, model = world
    one, residual = FacT(**SMALL), np.random.default_rng(0).normal(size=(8, 4))
    vars(one).update(vars(model))
    # The rules of nodes 0 and 1 are on feature 1, which nobody is without, and that of node 2 is on feature 0.
    children = np.array([[1, 2, -1], [3, 4, -1], [5, 6, 7], *[[-1] * 3] * 5])
    one.user_tree = Tree(np.array([1, 1, 0, *[-1] * 5]), np.zeros(8), children, residual)
    for answers, way in {(0,): [0, 1, 3], (1, 0): [0, 2, 5], (1, 2): [0, 2, 7], (2,): [0]}.items():
        asked, given = [], iter(answers)
        scores = one.interview(lambda *asks, asked=asked, given=given: asked.append(asks) or next(given))
        assert scores == pytest.approx(model.items @ residual[way].sum(0), rel=1e-5, abs=1e-6)
        names = ["feature 1", "feature 0"][: len(answers)]
        assert asked == [(f"How do you like this {name}?", ANSWERS) for name in names]


def test_a_new_user_gets_the_vector_of_its_leaf(world):
    """However many reviews its profile counts."""
    reviews, model = world
    counts = reviews.user_profile(reviews.train)
    leaves = model.user_tree.vectors[model.user_tree.route(model.profiles[0])]
    for user in range(20):
        expected = model.items @ leaves[user]
        assert model.fold_in(counts[user]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert (model.fold_in(3 * counts[user]) == model.fold_in(counts[user])).all()


def test_an_item_bias_is_of_all_users_also_new_ones(world):
    """Where half of the reviews are of five items, whoever writes them, their biases are the highest."""
    reviews, _ = world
    random, item = np.random.default_rng(0), reviews.item.copy()
    item = np.where(random.random(len(item)) < 0.5, random.integers(5, size=len(item)), item).astype(np.int32)
    model, _ = fitted(replace(reviews, item=item), item_bias=True, factors=2, start_epochs=60)
    bias = model.items[:, 2]
    assert bias[:5].min() > bias[5:].max()
    users = np.arange(reviews.users)
    assert model.scores(users) == pytest.approx(model.users @ model.items[:, :2].T + bias, rel=1e-4, abs=1e-5)
    leaf = model.user_tree.vectors[model.user_tree.route(np.full((1, reviews.features), np.nan))[0]]
    new = model.fold_in(np.full(reviews.features, np.nan))
    assert new == pytest.approx(model.items[:, :2] @ leaf + bias, rel=1e-4, abs=1e-5)
    loaded = FacT(**{**SMALL, "item_bias": True})
    loaded.load(model.state(), reviews)
    assert (loaded.fold_in(np.full(reviews.features, np.nan)) == new).all()


def test_a_fit_that_diverges_says_so():
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError, match="not a finite number"):
        fitted(generated(), learning_rate=50.0, start_epochs=3)
