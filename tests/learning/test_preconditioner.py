"""The preconditioner of refits against its definition over all pairs of documents and all parameters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Candidates
from ol2r_cli.learning.refit import FeatureCovariance
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model.mlp import MLP
from tests.reference.preconditioner import preconditioner, second_moment
from tests.worlds import simulate, tiny

LENGTHS = [(4, 2), (1, 5), (3, 3)]  # documents of each of two replicas, in three rounds
FEATURES, WIDTH = 5, 4


def candidates(lengths, seed, scale=1.0):
    """Queries of these lengths; padding is not 0, and a feature that is always 1 varies nowhere."""
    features = scale * torch.rand(len(lengths), max(lengths), FEATURES, generator=torch.Generator().manual_seed(seed))
    features[..., 2] = 1
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Candidates(torch.zeros(len(lengths)).long(), torch.zeros(mask.shape).long(), features.double(), mask)


def observed(damping, scale=1.0):
    """The covariance after three rounds, and the documents that each replica met."""
    covariance, seen = FeatureCovariance(damping), [[], []]
    context = simulate(tiny(), [0, 1], 1).context
    covariance.setup(dataclasses.replace(context, features=FEATURES))
    for seed, lengths in enumerate(LENGTHS):
        one = candidates(lengths, seed, scale)
        covariance.observe(one)
        for replica, length in enumerate(lengths):
            seen[replica].append(one.features[replica, :length].numpy())
    return covariance, seen


def network():
    return [np.zeros((WIDTH, FEATURES)), np.zeros((WIDTH, WIDTH)), np.zeros(WIDTH)]


def applied(precondition, pull):
    """What `GradientRefit` multiplies u and P g by, for every unit direction [B P P]."""
    model = MLP(WIDTH, 2, "antisymmetric")
    size = model.size(FEATURES)
    directions = torch.eye(size).double().expand(len(pull), -1, -1)
    parts = [model.on_features(directions, matrix) for matrix in precondition.matrices(pull, torch.float64)]
    return [part / (1 + pull)[:, None, None] for part in parts]


@pytest.mark.parametrize("damping", [0.02, 0.1, 3.0])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1e6])
def test_it_is_the_inverse_over_all_pairs_of_documents(damping, rate):
    covariance, seen = observed(damping)
    precondition = covariance.preconditioner()
    pull = rate * precondition.scale
    shrink, through = applied(precondition, pull)
    for replica, queries in enumerate(seen):
        moment = second_moment(queries)
        assert (covariance.total[replica] / 3).numpy() == pytest.approx(moment, abs=1e-12)
        whole = preconditioner(network(), moment, damping)
        expected = np.linalg.inv(np.eye(len(whole)) + rate * whole)
        assert shrink[replica].numpy() == pytest.approx(expected, abs=1e-9)
        scaled = through[replica] * precondition.scale[replica]
        assert scaled.numpy() == pytest.approx(expected @ whole, abs=1e-9 * np.abs(whole).max())


def test_the_scale_of_the_features_cancels():
    """Features of another unit: scores are as they were where W_1 takes the opposite unit, step by step."""
    small, large = (observed(0.1, scale)[0].preconditioner() for scale in (1.0, 100.0))
    assert torch.allclose(small.damped, large.damped)
    assert torch.allclose(small.scale, 1e4 * large.scale)


def test_without_two_documents_that_differ_it_is_the_identity():
    covariance = FeatureCovariance(0.1)
    context = simulate(tiny(), [0, 1], 1).context
    covariance.setup(dataclasses.replace(context, features=FEATURES))
    for _ in range(2):
        precondition = covariance.preconditioner()
        assert precondition.scale.tolist() == [1, 1]
        shrink, through = applied(precondition, torch.zeros(2).double())
        inputs = WIDTH * FEATURES
        assert torch.allclose(shrink, torch.eye(shrink.shape[1]).double().expand_as(shrink))
        assert torch.allclose(through[:, inputs:, inputs:], shrink[:, inputs:, inputs:])
        assert torch.allclose(through[:, :inputs, :inputs], 11 * shrink[:, :inputs, :inputs])
        covariance.observe(candidates((1, 1), 0))


def test_a_linear_score_is_preconditioned_as_a_whole():
    direction, matrix = torch.rand(2, 3, FEATURES).double(), torch.rand(2, FEATURES, FEATURES).double()
    assert torch.equal(Linear().on_features(direction, matrix), direction @ matrix)


@pytest.mark.parametrize("init", ["standard", "pytorch"])
def test_members_and_replicas_have_matrices_of_their_own(init):
    """Biases, the last column of W_1, belong to no feature."""
    model = MLP(WIDTH, 1, init)
    direction, matrix = torch.rand(2, 3, model.size(FEATURES)), torch.rand(2, FEATURES, FEATURES)
    found = model.matrices(model.on_features(direction, matrix), FEATURES)
    given = model.matrices(direction, FEATURES)
    for b in range(2):
        for n in range(3):
            assert torch.allclose(found[0][b, n, :, :FEATURES], given[0][b, n, :, :FEATURES] @ matrix[b])
            assert torch.equal(found[0][b, n, :, FEATURES:], given[0][b, n, :, FEATURES:])
            assert torch.equal(found[1][b, n], given[1][b, n])
