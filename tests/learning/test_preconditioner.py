"""The covariance of features against its definition over all pairs of documents; test_refitted.py uses it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import Candidates
from ol2r_cli.learning.refit import FeatureCovariance
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.ranker.model.mlp import MLP
from tests.reference.preconditioner import second_moment
from tests.worlds import simulate, tiny

LENGTHS = [(4, 2), (1, 5), (3, 3)]  # documents of each of two replicas, in three rounds
FEATURES, WIDTH = 5, 4


def candidates(lengths, seed, scale=1.0):
    """Queries of these lengths; padding is not 0, and a feature that is always 1 varies nowhere."""
    features = scale * torch.rand(len(lengths), max(lengths), FEATURES, generator=torch.Generator().manual_seed(seed))
    features[..., 2] = 1
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Candidates(torch.zeros(len(lengths)).long(), torch.zeros(mask.shape).long(), features.double(), mask)


def test_it_is_the_second_moment_over_all_pairs_of_documents():
    """In units of its largest eigenvalue, so that the scale of the features cancels; without two documents that differ
    it is the damping alone."""
    context = dataclasses.replace(simulate(tiny(), [0, 1], 1).context, features=FEATURES)
    found = {}
    for scale in 1.0, 100.0:
        covariance, seen = FeatureCovariance(0.1), [[], []]
        covariance.setup(context)
        for _ in range(2):
            damped, share = covariance.damped()
            assert share.tolist() == [1, 1]
            torch.testing.assert_close(damped, 0.1 * torch.eye(FEATURES).double().expand(2, -1, -1))
            covariance.observe(candidates((1, 1), 0))
        covariance.rounds.zero_()
        for seed, lengths in enumerate(LENGTHS):
            one = candidates(lengths, seed, scale)
            covariance.observe(one)
            for replica, length in enumerate(lengths):
                seen[replica].append(one.features[replica, :length].numpy())
        found[scale] = covariance.damped()
        for replica, queries in enumerate(seen):
            moment = second_moment(queries)
            largest = np.linalg.eigvalsh(moment).max()
            assert 1 / float(found[scale][1][replica]) == pytest.approx(largest, rel=4e-4)
            expected = moment * float(found[scale][1][replica]) + 0.1 * np.eye(FEATURES)
            assert found[scale][0][replica].numpy() == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(found[1.0][0], found[100.0][0])
    torch.testing.assert_close(found[1.0][1], 1e4 * found[100.0][1])


def test_members_and_replicas_have_matrices_of_their_own():
    """All parameters of a linear score act on the features, and W_1 of a network, but for its last column, biases."""
    direction, matrix = torch.rand(2, 3, FEATURES).double(), torch.rand(2, FEATURES, FEATURES).double()
    assert torch.equal(Linear().on_features(direction, matrix), direction @ matrix)
    for init in "standard", "pytorch":
        model = MLP(WIDTH, 1, init)
        direction, matrix = torch.rand(2, 3, model.size(FEATURES)), torch.rand(2, FEATURES, FEATURES)
        first, last = model.matrices(model.on_features(direction, matrix), FEATURES)
        before, unchanged = model.matrices(direction, FEATURES)
        torch.testing.assert_close(first[..., :FEATURES], before[..., :FEATURES] @ matrix[:, None])
        assert torch.equal(first[..., FEATURES:], before[..., FEATURES:])
        assert torch.equal(last, unchanged)
