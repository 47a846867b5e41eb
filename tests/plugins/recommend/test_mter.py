"""MTER: tensors and reconstruction by the formulas in loops, gradients by autograd, laws of a fit, explanations."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from ol2r_cli.plugins.recommend.joint_tensors import MODES, Pairs, adagrad_step, joint_tensors
from ol2r_cli.plugins.recommend.mter import MTER
from tests.plugins.recommend import small

SETTINGS = {
    "decomposition": "tucker",
    "user_factors": 6,
    "item_factors": 6,
    "feature_factors": 4,
    "phrase_factors": 4,
    "ranking": 20.0,
    "factor_l2": 0.001,
    "core_l2": 0.001,
    "start": 0.2,
    "learning_rate": 0.1,
    "core_rate": 0.01,
    "steps": 60,
    "entries": 50,
    "pairs": 200,
    "validate_every": 30,
}
EQUAL = {"user_factors": 5, "item_factors": 5, "feature_factors": 5, "phrase_factors": 5}
VARIANTS = [{}, {"decomposition": "canonical", **EQUAL}, {"decomposition": "shared_canonical", **EQUAL}]


generated = partial(small.generated, users=60, items=40, of_user=12, noise_features=2)


def fitted(reviews, seed=0, validate=lambda model: 0.0, **changes):
    return small.recorded(MTER(**{**SETTINGS, **changes}), reviews, seed, validate)


@pytest.fixture(scope="module")
def world():
    """Reviews, and a fit."""
    reviews = generated()
    return reviews, fitted(reviews)[0]


def entry(model, tensor, *rows):
    return model.predict(tensor, *np.array(rows)[:, None])[0]


def in_loops(core, one, two, three):
    """(4.1.3) for one entry."""
    return sum(
        core[r, t, v] * one[r] * two[t] * three[v]
        for r in range(core.shape[0])
        for t in range(core.shape[1])
        for v in range(core.shape[2])
    )


@pytest.fixture(scope="module")
def definition():
    """Reviews, and by their definition the entries of the three tensors, by their rows."""
    reviews = generated()
    trained, signs, of_user, of_item = set(reviews.train.tolist()), Counter(), Counter(), Counter()
    mentions = zip(reviews.mention_review, reviews.mention_feature, reviews.mention_sign, strict=True)
    for review, feature, sign in mentions:
        if int(review) in trained:
            signs[reviews.user[review], reviews.item[review], feature] += int(sign)
    for review, feature, phrase in zip(reviews.phrase_review, reviews.phrase_feature, reviews.phrase, strict=True):
        if int(review) in trained:
            of_user[reviews.user[review], feature, phrase] += 1
            of_item[reviews.item[review], feature, phrase] += 1
    assert max(of_user.values()) > 1  # frequencies count
    overall = {(reviews.user[row], reviews.item[row], reviews.features): reviews.rating[row] for row in reviews.train}
    x = {key: 1 + 4 / (1 + math.exp(-sign)) for key, sign in signs.items()} | overall
    by_frequency = [
        {key: 1 + 4 * (2 / (1 + math.exp(-count)) - 1) for key, count in counts.items()}
        for counts in (of_user, of_item)
    ]
    return reviews, (x, *by_frequency)


@pytest.mark.parametrize("number", range(3), ids=MODES)
def test_tensors_are_those_of_the_definition(definition, number):
    """Draws also have entries that are 0, but an entry of X without a mention is unknown."""
    reviews, expected = definition[0], definition[1][number]
    entries = [*joint_tensors(reviews, reviews.train).values()][number]
    assert len(entries.value) == len(expected)
    assert entries.value == pytest.approx([expected[tuple(key)] for key in entries.rows.tolist()], rel=1e-12)
    drawn = entries.draw(np.random.default_rng(0), 2000)
    assert drawn.value == pytest.approx([expected.get(tuple(key), 0) for key in drawn.rows.tolist()], rel=1e-12)
    assert (drawn.value == 0).any() == (number > 0)


@pytest.mark.parametrize("changes", VARIANTS)
def test_predictions_and_scores_are_reconstructions(changes):
    reviews = generated()
    model, _ = fitted(reviews, **changes)
    state = model.state()

    def factors(tensor, mode, row):
        own = state.get(f"{mode}_of_{tensor}")
        return state[mode][row] + (own[row] if own is not None else 0)

    assert ("user_of_rating" in state) == (model.decomposition == "canonical")
    for tensor, rows in (("rating", (3, 4, 1)), ("user_phrase", (3, 1, 2)), ("item_phrase", (4, 1, 2))):
        parts = [factors(tensor, *each) for each in zip(MODES[tensor], rows, strict=True)]
        expected = in_loops(state[f"core_of_{tensor}"], *parts)
        assert entry(model, tensor, *rows) == pytest.approx(expected, rel=1e-9)
        if model.decomposition != "tucker":  # sum over r of products of three numbers, up to one scale
            core = state[f"core_of_{tensor}"]
            assert expected == pytest.approx(core[0, 0, 0] * sum(np.prod(parts, axis=0)), rel=1e-9)
    overall = [entry(model, "rating", 7, item, reviews.features) for item in range(40)]
    assert model.scores(np.array([2, 7]))[1] == pytest.approx(overall, rel=1e-5)


@pytest.mark.parametrize("changes", VARIANTS)
def test_gradients_by_hand_are_those_of_autograd(changes):
    reviews, random = generated(), np.random.default_rng(1)
    model, _ = fitted(reviews, steps=1, **changes)
    state = {name: random.random(array.shape) for name, array in model.state().items()}
    batch = {name: each.draw(random, 30) for name, each in joint_tensors(reviews, reviews.train).items()}
    pairs = Pairs(reviews, reviews.train).draw(random, 25)
    loss, found = model.gradient(state, batch, pairs)

    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in state.items()}

    def value(tensor, *rows):
        names = [[name for name in (mode, f"{mode}_of_{tensor}") if name in tensors] for mode in MODES[tensor]]
        factors = [sum(tensors[name][row] for name in parts) for parts, row in zip(names, rows, strict=True)]
        return torch.einsum("abc,sa,sb,sc->s", tensors[f"core_of_{tensor}"], *factors)

    total = sum(((value(name, *each.rows.T) - torch.tensor(each.value)) ** 2).mean() for name, each in batch.items())
    user, preferred, other = pairs.T
    overall = np.full(len(pairs), reviews.features)
    margin = value("rating", user, preferred, overall) - value("rating", user, other, overall)
    total = total - model.ranking * torch.nn.functional.logsigmoid(margin).mean()
    total.backward()
    assert loss == pytest.approx(float(total.detach()), rel=1e-12)
    fixed = set() if model.decomposition == "tucker" else {f"core_of_{name}" for name in MODES}
    assert set(found) == set(state) - fixed
    for name, (rows, slopes) in found.items():
        by_hand = np.zeros_like(state[name]).reshape(-1, slopes.shape[1])
        np.add.at(by_hand, rows, slopes)
        assert by_hand.ravel() == pytest.approx(tensors[name].grad.numpy().ravel(), rel=1e-8, abs=1e-10)


def test_a_step_is_adagrads_with_projection():
    random = np.random.default_rng(2)
    factors, squares, total = random.random((5, 3)), random.random((5, 3)), np.zeros((5, 3))
    rows, slopes, rate, l2 = np.array([4, 1, 4, 0]), random.normal(size=(4, 3)), 0.7, 0.1
    expected, gathered = factors.copy(), squares.copy()
    for row in (0, 1, 4):
        slope = slopes[rows == row].sum(0) + l2 * 2 * factors[row]  # of l2 |row|^2
        gathered[row] += slope**2
        expected[row] = np.maximum(factors[row] - rate * slope / np.sqrt(gathered[row]), 0)
    adagrad_step(factors, squares, total, rows, slopes, rate, l2)
    assert factors == pytest.approx(expected, rel=1e-12)
    assert squares == pytest.approx(gathered, rel=1e-12)
    assert (factors == 0).any()
    assert not total.any()


def test_pairs_are_those_of_the_definition():
    reviews = generated()
    ratings = {(reviews.user[row], reviews.item[row]): reviews.rating[row] for row in reviews.train}
    pairs, kinds = Pairs(reviews, reviews.train).draw(np.random.default_rng(0), 3000), Counter()
    for user, preferred, other in pairs.tolist():
        assert ratings[user, preferred] > ratings.get((user, other), -math.inf)
        kinds[(user, other) in ratings] += 1
    assert set(kinds) == {False, True}  # a lower rating, and no review


@pytest.mark.parametrize("changes", VARIANTS)
def test_factors_are_not_negative_and_the_objective_falls(changes):
    model, rows = fitted(generated(), **changes, steps=300)
    assert all(array.min() >= 0 for array in model.state().values())
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert rows[-1]["objective"] < 0.7 * rows[0]["objective"]


def test_the_best_state_by_validation_is_kept():
    qualities, seen = iter([0.1, 0.4, 0.2]), []

    def validate(model):
        seen.append(model.scores(np.arange(5)))
        return next(qualities)

    model, rows = fitted(generated(), validate=validate, steps=70)
    assert [row["validation_ndcg_50"] for row in rows] == [0.1, 0.4, 0.2]
    assert (model.scores(np.arange(5)) == seen[1]).all()
    assert not (seen[1] == seen[2]).all()


def test_the_same_seed_gives_the_same_state(world):
    reviews, model = world
    again, other, loaded = fitted(reviews)[0].state(), fitted(reviews, seed=1)[0].state(), MTER(**SETTINGS)
    for name, array in model.state().items():
        assert array.tobytes() == again[name].tobytes()
        assert name.startswith("core") or array.tobytes() != other[name].tobytes()
    loaded.load(model.state(), reviews)
    assert (loaded.scores(np.arange(60)) == model.scores(np.arange(60))).all()
    assert loaded.explain(3, 5) == model.explain(3, 5)


def test_renumbering_permutes_the_results(world):
    reviews, model = world
    renamed, user, item = small.renumbered(reviews)
    other, _ = fitted(renamed)
    assert set(reviews.item[reviews.train]) == set(range(reviews.items))  # items without reviews are interchangeable
    assert other.scores(user)[:, item] == pytest.approx(model.scores(np.arange(60)), rel=1e-5)
    for who, what in ((0, 1), (17, 30), (59, 39)):
        assert other.explain(int(user[who]), int(item[what])).phrases == model.explain(who, what).phrases


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_planted_structure_is_found(seed):
    """With much weight on pairs, a user's best items are of the leaf that it likes. With little, an item's reviews say
    which of two phrases for a feature fits it."""
    source = small.source(users=300, items=120, of_user=20, noise_features=0, taste=0.8, seed=seed)
    reviews, (user_leaf, item_leaf, liked) = source.load(), map(np.array, source.planted())
    settings = {"user_factors": 10, "item_factors": 10, "feature_factors": 6, "phrase_factors": 12}
    settings |= {"steps": 2000, "validate_every": 2000}
    model, _ = fitted(reviews, seed, **settings)
    best = np.argsort(-model.scores(np.arange(300)), axis=1)[:, :10]
    assert (item_leaf[best] == liked[user_leaf][:, None]).mean() > 0.9  # at random a sixth
    model, _ = fitted(reviews, seed, **settings, ranking=2.0)
    for feature in (0, 1):  # users mention them of all items
        rows = (np.arange(120), np.array([feature]))
        one, other = (model.predict("item_phrase", *rows, np.array([2 * feature + number])) for number in (0, 1))
        assert ((other > one) == (np.arange(120) % 2 == 1)).mean() > 0.9


def shares(values):
    return {key: value / sum(values.values()) for key, value in values.items()}


def over_average(values, item, items):
    """Shares of an item less those of the mean over items."""
    usual = shares({key: float(np.mean([values[each][key] for each in items])) for key in values[item]})
    return {key: share - usual[key] for key, share in shares(values[item]).items()}


SHOWN = [(0, 1), (20, 7), (59, 39)]


@pytest.mark.parametrize(("user", "item"), SHOWN)
def test_features_tell_an_item_from_the_average_one(world, user, item):
    """By single entries, of what training has."""
    reviews, model = world
    items, mentions = set(reviews.item[reviews.train].tolist()), np.isin(reviews.mention_review, reviews.train)
    known = set(reviews.mention_feature[mentions].tolist())
    likes = {i: {feature: entry(model, "rating", user, i, feature) for feature in known} for i in {*items, item}}
    apart = over_average(likes, item, items)
    of_its = set(reviews.mention_feature[mentions & (reviews.item[reviews.mention_review] == item)].tolist())
    features = sorted((feature for feature in of_its if apart[feature] > 0), key=lambda f: -apart[f])[:3]
    explanation = model.explain(user, item)
    assert explanation.features == tuple(f"feature {feature}" for feature in features)
    assert explanation.contributions == pytest.approx([apart[feature] for feature in features])


@pytest.mark.parametrize(("user", "item"), SHOWN)
def test_phrases_of_features_are_those_that_fit_the_item(world, user, item):
    """Of the two of training that fit best, those that fit the average item less."""
    reviews, model = world
    items, trained = set(reviews.item[reviews.train].tolist()), np.isin(reviews.phrase_review, reviews.train)
    explanation, said = model.explain(user, item), []
    for feature in (int(name.removeprefix("feature ")) for name in explanation.features):
        of_feature = set(reviews.phrase[trained & (reviews.phrase_feature == feature)].tolist())
        assert len(of_feature) < reviews.phrases
        likes = {phrase: entry(model, "user_phrase", user, feature, phrase) for phrase in of_feature}
        fit = {
            i: {phrase: like * entry(model, "item_phrase", i, feature, phrase) for phrase, like in likes.items()}
            for i in {*items, item}
        }
        larger, first = over_average(fit, item, items), sorted(fit[item], key=lambda phrase: -fit[item][phrase])[:2]
        names = [f"phrase {phrase}" for phrase in first if larger[phrase] > 0]
        its = f" ({', '.join(names)})" if names else ""
        assert f"its feature {feature}{its}" in explanation.sentence
        said += names
    assert explanation.phrases == tuple(said)


def test_reviews_without_phrases_or_mentions_say_less():
    reviews = generated()
    none = np.empty(0, np.int32)
    bare = replace(reviews, phrase_review=none, phrase_feature=none, phrase=none, phrase_names=())
    explanation = fitted(bare)[0].explain(3, 5)
    assert explanation.phrases == ()
    *first, last = (f"its {name}" for name in explanation.features)
    assert explanation.sentence == f"You may like this item for {', '.join(first)} and {last}."
    bare = replace(bare, mention_review=none, mention_feature=none, mention_sign=none.astype(np.int8))
    explanation = fitted(bare)[0].explain(3, 5)
    assert explanation.features == ()
    assert explanation.sentence == "You may like this item because users like you do."


def test_bad_settings_and_a_fit_that_diverges_get_one_line():
    told = r"canonical needs equal .*: type model.user_factors=5 .*model.phrase_factors=5"
    with pytest.raises(ValueError, match=told):
        MTER(**{**SETTINGS, "decomposition": "canonical", **EQUAL, "item_factors": 6})
    with pytest.raises(FloatingPointError, match="the objective is not a finite number"):
        fitted(generated(), learning_rate=1e200)
