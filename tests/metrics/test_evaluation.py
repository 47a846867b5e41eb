"""NDCG and offline evaluation against the definitions, query by query, and what happens to equal scores."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ol2r_cli.columns import CUTOFFS
from ol2r_cli.dataset.table import LARGEST_GRADE, Intents
from ol2r_cli.metrics.evaluation import Evaluator, ScoresOverflow, _keys, is_evaluated
from ol2r_cli.metrics.ranking import dcg, gains, ideal_dcg, ndcg
from tests.reference import metrics as reference
from tests.worlds import evaluator, handmade, offline_ndcg, simulate, tiny


@given(st.lists(st.integers(0, 4), min_size=2, max_size=15), st.integers(1, 12))
def test_ndcg_is_its_definition_and_that_of_scikit_learn(labels, k):
    from sklearn.metrics import ndcg_score

    shown = torch.tensor([labels])
    value = float(ndcg(dcg(shown[:, :k]), ideal_dcg(shown, k))[0])
    assert math.isclose(value, reference.ndcg(range(len(labels)), labels, k), abs_tol=1e-12)
    worth, falling = [2.0**label - 1 for label in labels], -np.arange(len(labels), dtype=float)
    assert math.isclose(value, ndcg_score([worth], [falling], k=k, ignore_ties=True), abs_tol=1e-9)


def test_gains_are_right_up_to_the_largest_grade():
    """And data with larger grades are refused: 2^63 is beyond 64 bits."""
    assert gains(torch.arange(LARGEST_GRADE + 1, dtype=torch.int8)).tolist() == [float(2**g - 1) for g in range(63)]
    labels = [61, 62, 0, 60]
    dataset = replace(handmade([labels]), grades=63, features=torch.tensor([[3.0], [2.0], [1.0], [0.0]]))
    ranker = simulate(tiny(), [0], 1, dataset).ranker
    expected = reference.ndcg(range(4), labels, 10)
    for compiled in False, True:
        evaluate = offline_ndcg(dataset, "test", torch.tensor([0]), compiled=compiled)
        found = float(evaluate(ranker, torch.ones(1, 1, 1, dtype=torch.float64))[0, 0, -1])
        assert math.isclose(found, expected, rel_tol=1e-12), compiled
    for change in {"grades": 64}, {"intents": Intents(dataset.labels[None], 64)}:
        with pytest.raises(
            ValueError, match="must have at most 63 grades, 0 to 62, as gains are 2\\^grade - 1, got 64"
        ):
            replace(dataset, **change)


def by_definition(dataset, weights: torch.Tensor, cutoff: int, no_relevant: str) -> float:
    values = []
    for q in dataset.splits["test"].tolist():
        rows = slice(int(dataset.offsets[q]), int(dataset.offsets[q + 1]))
        scores = (dataset.features[rows].double() @ weights).numpy()
        labels = dataset.labels[rows].tolist()
        if any(labels) or no_relevant == "zero":
            values.append(reference.ndcg(np.argsort(-scores), labels, cutoff))
    return float(np.mean(values))


def test_evaluation_is_its_definition(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    lists = [torch.randint(0, 5, (n,), generator=generator).tolist() for n in (1, 2, 3, 9, 30, 31, 200)] + [[0, 0, 0]]
    dataset = handmade(lists)
    simulation = simulate(tiny(), [0, 1], 1, dataset)
    deployed = torch.randn(3, 2, 4, generator=generator).double()  # 3 snapshots of 2 replicas
    settings = product([("zero", 1, 2**29), ("skip", 4_000_000, 0)], [(False, 1.0), *product([True], [1, 1e-20, 1e20])])
    for (no_relevant, cells, cached_bytes), (compiled, scale) in settings:
        monkeypatch.setattr(Evaluator, "cached_bytes", cached_bytes)
        monkeypatch.setattr(Evaluator, "cells", cells)
        evaluate = offline_ndcg(dataset, "test", torch.tensor([0, 1]), no_relevant=no_relevant, compiled=compiled)
        found = evaluate(simulation.ranker, deployed * scale)
        for e, b, (c, cutoff) in product(range(3), range(2), enumerate(CUTOFFS)):
            expected = by_definition(dataset, deployed[e, b], cutoff, no_relevant)
            assert abs(float(found[e, b, c]) - expected) < 1e-9, no_relevant


@pytest.mark.parametrize("compiled", [True, False])
def test_evaluations_share_what_is_not_of_their_seeds(compiled):
    """Evaluations of one split share what is not of their seeds.

    A batch of runs gathers the features once; values are those of an evaluation that has the data for itself.
    """
    dataset = handmade([[2, 0, 1, 0], [0, 0, 3]] * 3)
    ranker = simulate(tiny("ranker=pdgd"), [0], 1, dataset).ranker
    deployed, seeds = torch.ones(2, 2, 4, dtype=torch.float64), torch.tensor([[3, 4], [7, 9]])
    first, second = (evaluator(dataset, "test", numbers, compiled=compiled) for numbers in seeds)
    assert first.served is second.served is not None
    assert first.tables is second.tables
    assert not torch.equal(first.tails[0], second.tails[0])
    apart = evaluator(replace(dataset), "test", seeds[1], compiled=compiled)
    assert apart.served is not second.served
    for name, values in apart(ranker, deployed).items():
        assert torch.equal(second(ranker, deployed)[name], values)


def test_compiled_evaluation_decides_in_double_precision():
    """Compiled evaluation decides what single precision leaves open.

    Documents differ in the last bits of their features, so that most sums of single precision are out of order.
    """
    generator = torch.Generator().manual_seed(0)
    lists = [torch.randint(0, 5, (40,), generator=generator).tolist() for _ in range(20)]
    dataset = handmade(lists)
    close = 1 + torch.randint(0, 8, (len(dataset.features), 136), generator=generator) * 2.0**-22
    dataset = replace(dataset, features=close * torch.rand(136, generator=generator))
    ranker = simulate(tiny(), [0, 1], 1, dataset).ranker
    deployed = torch.randn(5, 2, 136, generator=generator).double()
    tensors, compiled = (
        offline_ndcg(dataset, "test", torch.tensor([0, 1]), compiled=each)(ranker, deployed) for each in (False, True)
    )
    assert torch.equal(compiled, tensors)


SIZES = [(1.0,), (1e20,), (1e36,), (1e-30,), (1.0, 1e20), (1e-30, 1e15), (1e-40, 1.0, 1e19), (0.0, 1e36)]


@pytest.mark.parametrize("sizes", SIZES)
def test_compiled_evaluation_is_exact_for_features_of_any_size(sizes):
    """It is that of the tensors where single precision overflows or underflows, also with weights of zero."""
    generator = torch.Generator().manual_seed(0)
    lists = [[2] * 3 + [1] * 3 + [0] * 24] * 20
    dataset = handmade(lists)
    size = torch.tensor(sizes)[torch.randint(len(sizes), dataset.features.shape, generator=generator)]
    dataset = replace(dataset, features=torch.randn(dataset.features.shape, generator=generator) * size)
    ranker = simulate(tiny(), [0, 1], 1, dataset).ranker
    scales = [0.0, 1e-300, 1e-200, 1e-30, 1.0, 1e15 / max(1.0, max(sizes) / 1e20)]
    deployed = torch.randn(len(scales), 2, 4, generator=generator).double() * torch.tensor(scales)[:, None, None]
    deployed[:, 1, 0] = 0
    tensors, compiled = (
        offline_ndcg(dataset, "test", torch.tensor([0, 1]), compiled=each)(ranker, deployed) for each in (False, True)
    )
    assert torch.equal(compiled, tensors)
    assert compiled[0].max() < 0.5, "weights of zero do not rank by file order"


def test_the_bound_of_single_precision_is_wide_enough():
    """Weights are rounded to 1 and -1.5, so that A, whose score is 5 x .98 u, has 0 and is below B, whose score is 4 u.

    u = 2^-24. Partial sums are multiples of 1/2: this does not depend on the order of summation. The bound is 86 u; of
    a 64th of it the difference of 4 u would be certain.
    """
    u = 2.0**-24
    rounded = 63 / 64 * u
    weights = torch.tensor([1 + rounded] * 3 + [-1.5 + rounded] * 2 + [4 * u], dtype=torch.float64)
    assert torch.equal(weights[:5].float(), torch.tensor([1, 1, 1, -1.5, -1.5]))
    dataset = replace(handmade([[1, 0]]), features=torch.tensor([[1.0] * 5 + [0], [0] * 5 + [1]]))
    ranker = simulate(tiny(), [0], 1, dataset).ranker
    for compiled in False, True:
        evaluate = offline_ndcg(dataset, "test", torch.tensor([0]), compiled=compiled)
        assert evaluate(ranker, weights[None, None]).tolist() == [[[1.0] * 4]]


@pytest.mark.parametrize("compiled", [False, True])
def test_scores_beyond_single_precision_are_refused(compiled):
    """They are finite in double precision, and would be compared as infinite."""
    dataset = handmade([[0, 1, 2], [1], [0, 0, 3, 0]])
    dataset = replace(dataset, features=dataset.features * 1e22)
    ranker = simulate(tiny(), [0, 1, 2], 1, dataset).ranker
    deployed = torch.zeros(2, 3, 4, dtype=torch.float64)
    deployed[1, 1] = 1e17
    evaluate = evaluator(dataset, "test", torch.tensor([0, 1, 2]), compiled=compiled)
    evaluate(ranker, deployed[:1])
    for call in (lambda: evaluate(ranker, deployed), lambda: list(evaluate.lists(ranker, deployed[1]))):
        with pytest.raises(ScoresOverflow, match=r"test queries must be finite .* dataset\.normalise") as error:
            call()
        assert error.value.replicas == [1]


def test_scores_of_a_class_of_ones_own_are_evaluated(monkeypatch):
    """It may be a linear ranker that is made to score in another way: here, documents in reverse."""
    dataset = handmade([[0, 1, 2], [3, 0, 0, 0, 1]])
    ranker = simulate(tiny(), [0], 1, dataset).ranker
    deployed = torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(0)).double()
    evaluate = offline_ndcg(dataset, "test", torch.tensor([0]), compiled=True)
    reverse = evaluate(ranker, -deployed)
    score = type(ranker).score

    class Reverse(type(ranker)):
        def score(self, deployed, candidates):
            return -score(self, deployed, candidates)

    ranker.__class__ = Reverse
    assert torch.equal(evaluate(ranker, deployed), reverse)
    assert not torch.equal(evaluate(ranker, -deployed), reverse)


def test_lists_are_those_that_the_mean_is_over():
    dataset = handmade([[0, 1, 2], [3, 0, 0, 0, 1], [1], [0] * 9 + [4] * 30])
    simulation = simulate(tiny(), [0, 1], 1, dataset)
    evaluate = evaluator(dataset, "test", torch.tensor([0, 1]))
    deployed = torch.randn(1, 2, 4, generator=torch.Generator().manual_seed(0)).double()
    total, seen = torch.zeros(2, dtype=torch.float64), []
    for lists in evaluate.lists(simulation.ranker, deployed[0]):
        for number, (query, length) in enumerate(zip(lists.query.tolist(), lists.length.tolist(), strict=True)):
            start, end = dataset.offsets[query], dataset.offsets[query + 1]
            assert length == end - start
            seen.append(query)
            for b in range(2):
                rows = lists.document[b, number, :length]
                assert sorted(rows.tolist()) == list(range(start, end))
                assert torch.equal(lists.label[b, number, :length], dataset.labels[rows].long())
                scores = dataset.features[rows].double() @ deployed[0, b]
                torch.testing.assert_close(lists.score[b, number, :length], scores)
                assert torch.equal(scores, scores.sort(descending=True).values)
                total[b] += reference.ndcg(range(length), dataset.labels[rows].tolist(), 10)
    assert sorted(seen) == [0, 1, 2, 3]
    torch.testing.assert_close(total / 4, evaluate(simulation.ranker, deployed)["ndcg_10"][0])


def test_equal_scores_are_broken_at_random_but_repeatably():
    """Equal scores are broken at random, but always the same way.

    The relevant document stands first in the file: with all scores equal that must not help.
    """
    dataset = handmade([[1, 0, 0, 0, 0]] * 40)
    simulation = simulate(tiny("ranker=random"), list(range(30)), 1, dataset)
    seeds = torch.arange(30)
    test = offline_ndcg(dataset, "test", seeds)
    validation = offline_ndcg(dataset, "validation", seeds)
    deployed = simulation.ranker.deploy()[None]
    assert deployed.shape == (1, 30, 0), "it has no parameters"
    found = test(simulation.ranker, deployed)[0, :, 0]
    assert torch.equal(found, test(simulation.ranker, deployed)[0, :, 0])
    assert not torch.equal(found, validation(simulation.ranker, deployed)[0, :, 0])
    assert abs(float(found.mean()) - 0.2) < 0.05  # 1200 draws with probability 1/5: 4 standard errors


def test_scores_that_differ_by_rounding_alone_are_ties():
    scores = torch.tensor([0.1 + 0.2, 0.3, 0.3 + 1e-17, 0.0, -0.0, -1.0, 2.0], dtype=torch.float64)
    for tails in torch.tensor([[1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1]]):
        keys = _keys(scores, tails)
        assert torch.equal(keys[:3].argsort(), tails[:3].argsort()), "the tail decides"
        assert (keys[3] < keys[4]) == (tails[3] < tails[4])
        assert keys[5] < keys[3:5].min()
        assert keys[3:5].max() < keys[:3].min()
        assert keys[:3].max() < keys[6]
        assert torch.equal(keys.view(torch.int64) & 7, tails), "the tail can be read off"
    scores = torch.randn(1000, generator=torch.Generator().manual_seed(1)).double() * 1e3
    tails = torch.randint(2**29, (1000,), generator=torch.Generator().manual_seed(2))
    assert torch.equal(_keys(scores, tails).argsort(), scores.argsort())


def test_a_split_without_relevant_documents_cannot_be_skipped():
    with pytest.raises(ValueError, match="no query of the test split has a relevant document: use no_relevant=zero"):
        evaluator(handmade([[0, 0]]), "test", torch.tensor([0]), "skip")


def test_rounds_of_evaluations():
    assert [t for t in range(1, 41) if is_evaluated(t, 10, "even")] == [10, 20, 30, 40]
    assert [t for t in range(1, 101) if is_evaluated(t, 10, "log")] == [
        *[1, 2, 3, 4, 5, 6, 8, 10],
        *[13, 16, 20, 25, 32, 40, 50, 63, 79, 100],
    ]
    for power in 10**2, 10**3:
        assert sum(is_evaluated(t, 10, "log") for t in range(power + 1, 10 * power + 1)) == 10
        assert is_evaluated(power, 7, "log")
