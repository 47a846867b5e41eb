"""The laws of the generated world, from its definition; n = 200,000 gives standard errors of about 0.003."""

from __future__ import annotations

import numpy as np
import pytest

from ol2r_cli.dataset.world import POPULARITY, QUALITIES, World, _interplay, _normalised

COUNT = 200_000


def draw(nonlinearity: float = 0.5, noise: float = 0.0, features: int = 60) -> tuple[World, np.ndarray]:
    world = World(features, nonlinearity, noise, 0.6, np.random.default_rng(1))
    return world, world.qualities(COUNT, np.random.default_rng(2))


def test_qualities_are_independent_but_popularity_leans_on_relevance():
    world, quality = draw()
    correlation = np.corrcoef(quality)
    others = np.delete(np.arange(QUALITIES + 2), POPULARITY)
    assert np.abs(correlation[np.ix_(others, others)] - np.eye(QUALITIES + 1)).max() < 0.015
    assert quality.std(1) == pytest.approx(np.ones(QUALITIES + 2), abs=0.01)
    assert np.corrcoef(quality[POPULARITY], world.weight @ quality[:QUALITIES])[0, 1] == pytest.approx(0.25, abs=0.01)


def test_interplay_has_mean_0_variance_1_and_no_linear_part():
    _, quality = draw()
    interplay = _interplay(quality)
    assert interplay.mean() == pytest.approx(0, abs=0.01)
    assert interplay.var() == pytest.approx(1, abs=0.02)
    assert np.abs([np.corrcoef(interplay, row)[0, 1] for row in quality]).max() < 0.015


@pytest.mark.parametrize("nonlinearity", [0.0, 0.3, 1.0])
def test_nonlinearity_is_the_variance_that_regression_on_qualities_leaves(nonlinearity: float):
    world, quality = draw(nonlinearity)
    lengths = np.array([COUNT])  # one query: its difficulty is one constant
    utility = world.utility(quality, lengths, np.random.default_rng(3)).astype(np.float64)
    utility -= utility.mean()
    explained = quality.T @ np.linalg.lstsq(quality.T, utility, rcond=None)[0]
    assert utility.var() == pytest.approx(1, abs=0.02)
    assert (utility - explained).var() == pytest.approx(nonlinearity, abs=0.02)


def test_noise_is_the_deviation_of_the_error():
    (world, quality), lengths = draw(noise=0.8), np.array([COUNT])
    assert world.utility(quality, lengths, np.random.default_rng(3)).var() == pytest.approx(1 + 0.8**2, abs=0.03)


def test_kinds_of_features_have_their_shares_at_any_width():
    shares = {"plain": 0.3, "heavy": 0.25, "saturated": 0.1, "count": 0.2, "query": 0.06, "noise": 0.09}
    for features in (1, 10, 136):
        world = World(features, 0.5, 0.0, 0.6, np.random.default_rng(1))
        assert sum(kind.astype(int) for kind in world.kind.values()).tolist() == [1] * features
        for kind, share in shares.items():
            assert abs(world.kind[kind].sum() - share * features) <= 1


def test_noise_features_know_nothing_and_all_others_something():
    world, quality = draw(features=100)
    seen = world.features(quality, np.array([COUNT]), np.random.default_rng(3))
    for feature in range(100):
        if not world.kind["query"][feature]:
            shown = abs(np.corrcoef(seen[:, feature], quality[world.shown[feature]])[0, 1])
            assert shown < 0.02 if world.kind["noise"][feature] else shown > 0.2


def test_normalisation_by_query():
    view = np.array([[2, 4, 3, 7, 7], [5, 5, 1, 2, 4]], dtype=np.float32)
    expected = [[0, 1, 0.5, 0, 0], [1, 1, 0, 0, 1]]  # lists of 3 and 2 documents
    assert _normalised(view, np.array([3, 2])).tolist() == expected
