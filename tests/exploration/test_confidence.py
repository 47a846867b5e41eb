"""Widths and certain pairs against an explicit inverse and the paper's definition, pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ol2r_cli.config.ranges import check_settings
from ol2r_cli.exploration.confidence import Confidence
from ol2r_cli.exploration.divide_and_conquer import ScoreOrder
from ol2r_cli.interfaces import Candidates, Interaction, Prediction, Preferences, Proposal, RunContext
from ol2r_cli.learning.covariance import add_outer_products
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.streams import Streams
from tests.reference import pairrank as reference

FEATURES, DOCUMENTS, ROUNDS = 5, 9, 12
READINGS = {"full": "full", "diagonal": "diagonal_of_inverse", "inverse_diagonal": "inverse_of_diagonal"}


def learned(rounds: int = ROUNDS, refresh: int = 256, **settings) -> tuple[Confidence, np.ndarray]:
    """An exploration after some rounds of random pairs, and the differences it was shown."""
    given = {"alpha": 0.3, "covariance": "full", "shuffle": "conservative", "transitive": True, "l2": 0.1} | settings
    exploration = Confidence(**given)
    exploration.refresh = refresh
    table = torch.rand(50, FEATURES, generator=torch.Generator().manual_seed(1))
    exploration.setup(RunContext(1, DOCUMENTS, FEATURES, 10, 1, rounds, 5), table)
    differences = []
    for t in range(rounds):
        candidates = candidates_of(t)
        pairs = Preferences(
            torch.tensor([[0, 3, 1]]), torch.tensor([[2, 1, 4]]), torch.tensor([[True, True, t % 2 == 0]])
        )
        prediction = Prediction(torch.zeros(1, 1, DOCUMENTS).double(), lambda c=candidates: LinearTangent(c.features))
        order = torch.arange(DOCUMENTS)[None]
        nothing = torch.zeros(1, DOCUMENTS, dtype=torch.bool)
        proposal = Proposal(order, torch.zeros(1, DOCUMENTS).double())
        interaction = Interaction(candidates, prediction, proposal, order, order, nothing, nothing, pairs)
        exploration.learn(interaction, Streams(torch.tensor([0])).at("learn", t))
        x = candidates.features[0].numpy()
        differences += [x[w] - x[v] for w, v, ok in ((0, 2, True), (3, 1, True), (1, 4, t % 2 == 0)) if ok]
    return exploration, np.array(differences)


def candidates_of(seed: int) -> Candidates:
    features = torch.rand(1, DOCUMENTS, FEATURES, generator=torch.Generator().manual_seed(seed)).double()
    slots = torch.arange(DOCUMENTS)[None]
    return Candidates(torch.tensor([0]), slots, features, torch.ones(1, DOCUMENTS, dtype=torch.bool))


@pytest.mark.parametrize("covariance", READINGS)
@pytest.mark.parametrize("refresh", [256, 5])
def test_widths_are_those_of_an_explicit_inverse(covariance, refresh):
    exploration, differences = learned(covariance=covariance, refresh=refresh)
    m = reference.information(differences, 0.1)
    x = candidates_of(99).features
    squared = exploration._squared_widths(slice(None), x)[0]
    for i in range(DOCUMENTS):
        for j in range(DOCUMENTS):
            if i != j:
                expected = reference.width((x[0, i] - x[0, j]).numpy(), m, READINGS[covariance])
                assert math.isclose(float(squared[i, j]), expected**2, rel_tol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3, "theory"])
@pytest.mark.parametrize("covariance", READINGS)
def test_certain_pairs_are_those_of_definition_3(alpha, covariance):
    exploration, differences = learned(alpha=alpha, covariance=covariance)
    if alpha == "theory":  # Lemma 2 makes next to nothing certain: take a slope that lets some pairs through
        exploration.steepness = 0.004
        c_mu = 0.5 / exploration.steepness
        alpha = reference.theoretical_alpha(reference.information(differences, 0.1), 0.1, 1 / ROUNDS, c_mu)
    candidates = candidates_of(7)
    theta = np.random.default_rng(3).normal(size=FEATURES)
    x = candidates.features[0].numpy()
    expected = reference.certain_rank_order(
        x, theta, reference.information(differences, 0.1), alpha, READINGS[covariance]
    )
    scores = torch.from_numpy(x @ theta)[None]
    prediction = Prediction(scores[:, None], lambda: LinearTangent(candidates.features))
    order = torch.arange(DOCUMENTS)[None]
    found = exploration.certain(ScoreOrder(slice(None), prediction, order, scores, candidates.mask))[0].numpy()
    assert (found == expected).all()
    assert 0 < expected.sum() < DOCUMENTS * (DOCUMENTS - 1) / 2 or alpha == 0


def test_theory_takes_its_slope_from_the_widest_pair_of_the_table():
    exploration, _ = learned(alpha="theory")
    table = torch.rand(50, FEATURES, generator=torch.Generator().manual_seed(1)).double().numpy()
    longest = np.linalg.norm(table.max(0) - table.min(0))
    slope = 1 / (1 + math.exp(-longest)) / (1 + math.exp(longest))
    assert math.isclose(exploration.steepness, 2 * 0.25 / slope, rel_tol=1e-6)


def test_theory_is_the_factor_of_lemma_2_and_depends_on_the_number_of_rounds():
    exploration, differences = learned(alpha="theory", l2=4.0)
    information = reference.information(differences, 4.0)
    expected = reference.theoretical_alpha(information, 4.0, 1 / ROUNDS, 0.5 / exploration.steepness)
    assert math.isclose(float(exploration._alpha(slice(None))), expected, rel_tol=1e-9)


def test_equal_documents_are_never_certain_and_padding_is_always_last():
    exploration, _ = learned(alpha=0.0)
    features = torch.rand(1, 4, FEATURES, generator=torch.Generator().manual_seed(2)).double()
    features[0, 1] = features[0, 0]
    mask = torch.tensor([[True, True, True, False]])
    scores = (features * torch.randn(FEATURES, generator=torch.Generator().manual_seed(2)).double()).sum(2)
    prediction = Prediction(scores[:, None], lambda: LinearTangent(features))
    candidates = Candidates(torch.tensor([0]), torch.arange(4)[None], features, mask)
    proposal = exploration.propose(prediction, candidates, Streams(torch.tensor([0])).at("explore", 0))
    assert proposal.certain is not None
    certain = proposal.certain[0]
    assert not certain[0, 1]
    assert not certain[1, 0]
    assert certain[:3, 3].all()
    assert not certain[3].any()


def test_woodbury_adds_outer_products_and_ignores_zero_rows():
    matrix = torch.eye(4).double() * 0.01
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).double()
    rows[1] = 0
    inverse = torch.linalg.inv(matrix)[None].clone()
    add_outer_products(inverse, rows[None])
    assert torch.allclose(inverse[0], torch.linalg.inv(matrix + rows.mT @ rows), rtol=1e-10)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("alpha", -1, "exploration.alpha must be from 0 to 1e.100 or theory, got -1"),
        ("alpha", "big", "exploration.alpha must be from 0 to 1e.100 or theory, got 'big'"),
        ("covariance", "half", "must be one of full, diagonal, inverse_diagonal, got 'half'"),
        ("shuffle", "x", "exploration.shuffle must be one of conservative, random, got 'x'"),
        ("l2", 0, "exploration.l2 must be above 0, got 0"),
    ],
)
def test_settings_outside_their_range_are_refused(setting, value, message):
    settings = {"alpha": 0.1, "covariance": "full", "shuffle": "random", "transitive": True, "l2": 1.0}
    with pytest.raises(ValueError, match=message):
        check_settings(Confidence, settings | {setting: value}, "exploration")
