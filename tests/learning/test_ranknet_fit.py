"""The offline fit against its definition: every pair written out, and the exact optimum of the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Oracle
from ol2r_cli.learning import offline_fits as ranknet_fit
from tests.reference import objective as reference

LISTS = [[2, 0, 1], [0], [4, 4], [0] * 9, [1, 0], [0, 3, 0, 1, 1, 2, 0], [1, 0, 0, 4, 2, 2, 0, 0, 1, 0, 3], [0, 2]]
LISTS += [[n % 4 for n in range(29)], [n % 3 for n in range(30)]]  # near enough to be padded and worked on together
WIDTH = 5


def world(lists=LISTS, width=WIDTH, seed=0):
    """Random features, and labels of which other splits own the first seven rows and the last three."""
    length = torch.tensor([len(labels) for labels in lists])
    start = 7 + length.cumsum(0) - length
    labels = torch.tensor([0, 1, 2, 3, 4, 0, 1, *(label for labels in lists for label in labels), 1, 2, 3])
    features = torch.rand(len(labels), width, generator=torch.Generator().manual_seed(seed))
    return features, Oracle(labels.to(torch.int8), start, length, "by hand")


def written_out(features, oracle):
    """x_better - x_worse of every pair, by the definition."""
    rows = [
        features[better].double().numpy() - features[worse].double().numpy()
        for start, length in zip(oracle.start.tolist(), oracle.length.tolist(), strict=True)
        for better in range(start, start + length)
        for worse in range(start, start + length)
        if oracle.labels[better] > oracle.labels[worse]
    ]
    return np.array(rows).reshape(-1, features.shape[1])


def measured(function, theta, rows, l2):
    """A function of the reference: its mean form counts l2 |theta|^2, ours l2/2 |theta|^2."""
    return function(theta, rows, np.ones(len(rows)), l2 / 2, "mean")


@pytest.mark.parametrize("cells", [1, 60, ranknet_fit.CELLS])
def test_loss_gradient_and_curvature_are_those_of_the_pairs(cells, monkeypatch):
    monkeypatch.setattr(ranknet_fit, "CELLS", cells)
    features, oracle = world()
    rows, pairs = written_out(features, oracle), ranknet_fit.TrainingPairs(features, oracle)
    assert pairs.count == len(rows)
    theta = np.random.default_rng(1).normal(size=WIDTH)
    loss, gradient = pairs.loss(torch.from_numpy(theta))
    assert float(loss) == pytest.approx(measured(reference.objective, theta, rows, 0), rel=1e-12)
    np.testing.assert_allclose(gradient, measured(reference.gradient, theta, rows, 0), rtol=0, atol=1e-12)
    curvature = reference.hessian(np.zeros(WIDTH), rows, 0, "mean")
    np.testing.assert_allclose(pairs.curvature(), curvature, rtol=0, atol=1e-12)


@pytest.mark.parametrize("l2", [10, 1e-2, 1e-4, 1e-7])
@pytest.mark.parametrize("width", [3, 12])
def test_the_fit_is_the_optimum(l2, width):
    features, oracle = world(width=width)
    rows, theta = written_out(features, oracle), ranknet_fit.fit_ranknet(features, oracle, l2)
    slope = measured(reference.gradient, theta.numpy(), rows, l2)
    assert np.linalg.norm(slope) < 1e-6
    least = measured(reference.objective, reference.optimum(rows, np.ones(len(rows)), l2 / 2, "mean"), rows, l2)
    assert measured(reference.objective, theta.numpy(), rows, l2) <= least + 1e-10


def test_the_optimum_of_one_pair_by_hand():
    """For x_better - x_worse = 1 the optimum solves l2 theta = sigma(-theta)."""
    oracle = Oracle(torch.tensor([0, 1], dtype=torch.int8), torch.tensor([0]), torch.tensor([2]), "by hand")
    theta = float(ranknet_fit.fit_ranknet(torch.tensor([[0.25], [1.25]]), oracle, 0.1))
    assert 0.1 * theta == pytest.approx(1 / (1 + np.exp(theta)), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_features_of_another_scale_only_scale_the_weights(scale):
    """With features c x and l2 c^2 the objective is that of c theta."""
    features, oracle = world()
    theta = ranknet_fit.fit_ranknet(features, oracle, 1e-3)
    scaled = ranknet_fit.fit_ranknet(features * scale, oracle, 1e-3 * scale**2)
    torch.testing.assert_close(scaled * scale, theta, rtol=1e-4, atol=1e-6)


def test_twins_and_constants_among_the_features_share_and_get_nothing():
    features, oracle = world()
    theta = ranknet_fit.fit_ranknet(torch.cat([features, features, torch.ones(len(features), 1)], 1), oracle, 1e-3)
    torch.testing.assert_close(theta[:WIDTH], theta[WIDTH:-1], rtol=0, atol=1e-6)
    assert abs(float(theta[-1])) < 1e-12


@pytest.mark.parametrize("lists", [[[0, 0], [3, 3, 3], [1]], [[2]]])
def test_without_a_pair_the_weights_are_zero(lists):
    assert torch.equal(ranknet_fit.fit_ranknet(*world(lists), 1e-4), torch.zeros(WIDTH, dtype=torch.float64))


def test_nothing_is_read_of_other_splits():
    features, oracle = world()
    theta = ranknet_fit.fit_ranknet(features, oracle, 1e-3)
    elsewhere = torch.ones(len(features), dtype=torch.bool)
    elsewhere[7:-3] = False
    features[elsewhere] = torch.nan
    labels = torch.where(elsewhere, 4, oracle.labels).to(torch.int8)
    other = Oracle(labels, oracle.start, oracle.length, oracle.fingerprint)
    assert torch.equal(ranknet_fit.fit_ranknet(features, other, 1e-3), theta)


def test_only_a_long_fit_is_announced(capsys, monkeypatch):
    features, oracle = world()
    ranknet_fit.fit_ranknet(features, oracle, 1e-3)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(ranknet_fit, "PATIENCE", 0)
    ranknet_fit.fit_ranknet(features, oracle, 1e-3)
    pairs = len(written_out(features, oracle))
    assert capsys.readouterr() == ("", f"fitting the offline ranker on {pairs} pairs ..\n")


def test_an_optimum_out_of_reach_is_an_error(monkeypatch):
    monkeypatch.setattr(ranknet_fit, "STEPS", 1)
    with pytest.raises(FloatingPointError, match="the gradient stays at "):
        ranknet_fit.fit_ranknet(*world(), 1e-3)
