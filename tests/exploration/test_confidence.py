"""Widths and certain pairs against an explicit inverse and the paper's definition, pair by pair."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ol2r_cli import loops
from ol2r_cli.config.instantiate import build
from ol2r_cli.exploration.confidence import Confidence, Ensemble
from ol2r_cli.exploration.divide_and_conquer import ScoreOrder
from ol2r_cli.interfaces import Candidates, Interaction, Prediction, Preferences, Proposal, RunContext
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.streams import Streams
from tests.reference import pairrank as reference
from tests.reference.blocks import partition, transitive_closure
from tests.reference.ensemble import certain as unanimous
from tests.reference.relations import from_edges
from tests.reference.shuffles import order_by_clocks
from tests.rounds import LISTS, SEEDS, fresh, propose, rounds, some_scores
from tests.worlds import handmade, simulate, tiny

FEATURES, DOCUMENTS, ROUNDS = 5, 9, 12
READINGS = {"full": "full", "diagonal": "diagonal_of_inverse", "inverse_diagonal": "inverse_of_diagonal"}


def learned(refresh: int = 256, **more) -> tuple[Confidence, np.ndarray]:
    """An exploration after some rounds of random pairs, and the differences it was shown."""
    chosen = {"alpha": 0.3, "covariance": "full", "shuffle": "conservative", "transitive": True, "l2": 0.1} | more
    exploration = Confidence(**chosen)
    exploration.refresh = refresh
    table = torch.rand(50, FEATURES, generator=torch.Generator().manual_seed(1))
    exploration.setup(RunContext(1, DOCUMENTS, FEATURES, 10, 1, ROUNDS, 5), table)
    differences = []
    for t in range(ROUNDS):
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


def test_certain_pairs_are_those_of_definition_3():
    """As tensors and as the loops for one list."""
    candidates = candidates_of(7)
    theta, x = np.random.default_rng(3).normal(size=FEATURES), candidates.features[0].numpy()
    scores, order = torch.from_numpy(x @ theta)[None], torch.arange(DOCUMENTS)[None]
    by_score = scores.argsort(1, descending=True)
    prediction = Prediction(scores[:, None], lambda: LinearTangent(candidates.features))
    for covariance, width, refresh in itertools.product(READINGS, (0.0, 0.05, 0.3, "theory"), (256, 5)):
        exploration, differences = learned(alpha=width, covariance=covariance, refresh=refresh)
        information, alpha = reference.information(differences, 0.1), width
        if width == "theory":  # Lemma 2 makes next to nothing certain: take a slope that lets some pairs through
            exploration.steepness = 0.004
            alpha = reference.theoretical_alpha(information, 0.1, 1 / ROUNDS, 0.5 / exploration.steepness)
        expected = reference.certain_rank_order(x, theta, information, alpha, READINGS[covariance])
        found = exploration.certain(ScoreOrder(slice(None), prediction, order, scores, candidates.mask))[0].numpy()
        assert (found == expected).all(), (covariance, width)
        assert 0 < expected.sum() < DOCUMENTS * (DOCUMENTS - 1) / 2 or alpha == 0
        ranked = ScoreOrder(slice(0, 1), prediction, by_score, scores.gather(1, by_score), candidates.mask, loops=True)
        rank = by_score[0].numpy()
        assert (exploration.certain(ranked)[0].numpy() == expected[rank][:, rank]).all(), (covariance, width)


def test_theory_takes_its_slope_from_the_widest_pair_of_the_table():
    exploration, _ = learned(alpha="theory")
    table = torch.rand(50, FEATURES, generator=torch.Generator().manual_seed(1)).double().numpy()
    longest = np.linalg.norm(table.max(0) - table.min(0))
    slope = 1 / (1 + math.exp(-longest)) / (1 + math.exp(longest))
    assert math.isclose(exploration.steepness, 2 * 0.25 / slope, rel_tol=1e-6)


def test_equal_documents_are_never_certain_and_padding_is_always_last():
    exploration, _ = learned(alpha=0.0)
    features = candidates_of(2).features[:, :4]
    features[0, 1] = features[0, 0]
    scores = features @ torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0]).double()
    prediction = Prediction(scores[:, None], lambda: LinearTangent(features))
    candidates = Candidates(torch.tensor([0]), torch.arange(4)[None], features, torch.arange(4)[None] < 3)
    certain = exploration.propose(prediction, candidates, Streams(torch.tensor([0])).at("explore", 0)).certain[0]
    assert not certain[0, 1]
    assert not certain[1, 0]
    assert certain[:3, 3].all()
    assert not certain[3].any()


def state(rng, features: int, pairs: int):
    """M and M^-1 after some pairs of features in [0, 1]."""
    rows = rng.random((pairs, features)) - rng.random((pairs, features))
    matrix = 0.1 * np.eye(features) + rows.T @ rows
    return matrix, np.linalg.inv(matrix)


def margins_and_widths(x, inverse, scores):
    """(sigma(s_i - s_j) - 1/2)^2 and |x_i - x_j|^2, in double precision, pair by pair."""
    margin = 1 / (1 + np.exp(np.minimum(scores[None] - scores[:, None], 700))) - 0.5
    apart = x[:, None] - x[None]
    return margin**2, np.einsum("ijf,fg,ijg->ij", apart, inverse, apart)


def confident(x, matrix, inverse, scores, scale, form=None):
    certain = np.zeros((len(x), len(x)), np.bool_)
    form = loops.certain_pairs.FULL if form is None else form
    loops.certain_pairs.confident(x, matrix, inverse, form, scores, scale, certain)
    return certain


def test_pairs_in_single_precision_are_those_of_double_precision():
    forms = loops.certain_pairs
    for documents in 1, 2, 63, 64, 65, 150:
        rng = np.random.default_rng(documents)
        matrix, inverse = state(rng, 30, 40)
        x, scores = rng.random((documents, 30)), np.sort(rng.normal(size=documents))[::-1].copy()
        for form, used in (
            (forms.FULL, inverse),
            (forms.DIAGONAL, np.diag(np.diag(inverse))),
            (forms.INVERSE_DIAGONAL, np.diag(1 / np.diag(matrix))),
        ):
            margin, width = margins_and_widths(x, used, scores)
            pairs = np.triu_indices(documents, 1)
            scale = float(np.median(margin[pairs] / width[pairs])) * 0.999 if documents > 2 else 0.1
            expected = np.triu(margin > scale * width, 1)
            found = confident(x, matrix, inverse, scores, scale, form)
            np.testing.assert_array_equal(found, expected, f"{documents} documents, form {form}")


def test_a_pair_next_to_its_width():
    """alpha^2 is chosen so that one pair is certain, or not, by a small share of its width."""
    for shift, size in (0, 1), (1e4, 1), (0, 1e-9), (0, 1e-25), (0, 1e6), (0, 1e25):
        rng = np.random.default_rng(1)
        matrix, inverse = state(rng, 20, 30)
        x, scores = size * rng.random((12, 20)) + shift, np.sort(rng.normal(size=12))[::-1].copy()
        margin, width = margins_and_widths(x - x.mean(0), inverse, scores)
        for i, j in zip(*np.triu_indices(12, 1), strict=True):
            for share in (-3e-8, -1e-9, 1e-9, 3e-8):
                scale = margin[i, j] / width[i, j] * (1 + share)
                certain = confident(x, matrix, inverse, scores, float(scale))
                assert certain[i, j] == (share < 0), (shift, size)


def test_equal_documents_and_far_scores():
    rng = np.random.default_rng(2)
    matrix, inverse = state(rng, 5, 10)
    x = rng.random((6, 5))
    x[3] = x[2]
    scores = np.array([3.0, 2, 1, 1, 0, -1])
    assert not confident(x, matrix, inverse, scores, 0.0)[2, 3]
    assert not confident(x, matrix, inverse, scores, 1e-300)[2, 3]
    far = 1000 * scores  # e^-4000 is not a number
    margin, width = margins_and_widths(x, inverse, far)
    np.testing.assert_array_equal(confident(x, matrix, inverse, far, 0.5), np.triu(margin > 0.5 * width, 1))


def check_ensemble(proposal, scores, lengths, clocks, shuffle) -> int:
    """Pairs, blocks and order of every replica, by the oracles; how many pairs are certain."""
    found = 0
    for b, length in enumerate(lengths):
        certain = from_edges(length, unanimous(scores[b, :, :length].tolist()))
        assert (proposal.certain[b, :length, :length].numpy() == certain).all()
        blocks = [set(np.flatnonzero(proposal.block[b, :length].numpy() == n)) for n in range(length)]
        assert [block for block in blocks if block] == partition(certain)
        served = order_by_clocks(certain, partition(certain), clocks[b].tolist(), shuffle)
        assert tuple(proposal.order[b, :length].tolist()) == served
        assert (transitive_closure(certain) == certain).all(), "there is nothing to close"
        found += int(certain.sum())
    return found


def test_an_ensemble_explores_where_its_members_disagree():
    """Three replicas with lists of different length; the oracles get the members' scores. With both forms."""
    for form, members, shuffle in (False, 2, "conservative"), (True, 5, "random"), (True, 2, "conservative"):
        words = f"ranker.members={members}", f"exploration.shuffle={shuffle}", "click=perfect", "positions=20"
        clocks, found, pairs = fresh(), 0, 0
        for t, one in rounds(simulate(tiny("ranker=pepairrank", *words), SEEDS, 12, handmade(LISTS), loops=form)):
            lengths = one.candidates.mask.sum(1).tolist()
            drawn = clocks.at("explore", t).exponential(one.candidates.mask.shape[1])
            found += check_ensemble(one.proposal, one.prediction.scores, lengths, drawn, shuffle)
            pairs += sum(length * (length - 1) // 2 for length in lengths)
            torch.testing.assert_close(one.proposal.scores, one.prediction.scores.mean(1))
        assert 0.1 * pairs < found < 0.9 * pairs, (form, members, shuffle)


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans(), st.booleans())
def test_any_opinions(members, seed, ties, alike):
    """With equal scores, which are never certain, and with members that mostly agree."""
    lengths = [12, 1, 5, 2, 9]
    scores = some_scores(len(lengths), members, 12, seed, ties)
    scores = scores[:, :1] + 0.3 * scores if alike else scores
    clocks = fresh(range(len(lengths))).at("explore", 0).exponential(12)
    for shuffle in "conservative", "random":
        check_ensemble(propose(Ensemble(shuffle), scores, lengths, 10), scores, lengths, clocks, shuffle)


def test_an_ensemble_of_one_is_refused():
    words = r"^the exploration Ensemble needs .* use ranker=pepairrank with ranker.members=2 or more$"
    with pytest.raises(ValueError, match=words):
        simulate(tiny("ranker=pepairrank", "ranker.members=1"), [0], 1)
    simulate(tiny("ranker=pepairrank", "ranker.members=1", "exploration=none"), [0], 1)


def test_settings_outside_their_range_are_refused():
    for ranker, setting, message in (
        ("pairrank", "alpha=-1", "must be from 0 to 1e.100 or theory, got -1"),
        ("pairrank", "covariance=half", "must be one of full, diagonal, inverse_diagonal, got 'half'"),
        ("pairrank", "l2=0", "must be above 0, got 0"),
        ("pepairrank", "shuffle=x", "must be one of conservative, random, got 'x'"),
        ("olranknet", "alpha=-1", "must be from 0 to 1e.100, got -1"),
        ("olranknet", "tangent_at=x", "must be one of serving, refit, got 'x'"),
        ("olranknet", "precision=half", "must be one of float64, float32, got 'half'"),
        ("epsilon_greedy", "epsilon=1.1", "must be from 0 to 1, got 1.1"),
        ("epsilon_greedy", "epsilon=nan", "must be from 0 to 1, got nan"),
        ("mgd exploration=probabilistic_interleaving", "tau=0", "must be above 0, got 0"),
    ):
        with pytest.raises(ValueError, match=f"exploration.{setting.partition('=')[0]} {message}"):
            build(tiny(*f"ranker={ranker}".split(), f"exploration.{setting}").exploration)
