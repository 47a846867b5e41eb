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
from ol2r_cli.dataset.table import LARGEST_GRADE, Dataset, Intents
from ol2r_cli.interfaces import Ranker
from ol2r_cli.metrics.evaluation import Evaluator, ScoresOverflow, is_evaluated
from ol2r_cli.metrics.ranking import dcg, gains, ideal_dcg, ndcg
from tests.reference import metrics as reference
from tests.worlds import evaluator, handmade, measures, offline_ndcg, simulate, tiny


@given(st.lists(st.integers(0, 4), min_size=2, max_size=15), st.integers(1, 12))
def test_ndcg_is_its_definition_and_that_of_scikit_learn(labels, k):
    from sklearn.metrics import ndcg_score

    shown = torch.tensor([labels])
    value = float(ndcg(dcg(shown[:, :k]), ideal_dcg(shown, k))[0])
    assert math.isclose(value, reference.ndcg(range(len(labels)), labels, k), abs_tol=1e-12)
    worth, falling = [2.0**label - 1 for label in labels], -np.arange(len(labels), dtype=float)
    assert math.isclose(value, ndcg_score([worth], [falling], k=k, ignore_ties=True), abs_tol=1e-9)


SEEDS = torch.tensor([0, 1])


def deployed(snapshots: int, features: int = 4) -> torch.Tensor:
    """Parameters [E, 2, P] of two replicas of a linear ranker."""
    return torch.randn(snapshots, 2, features, generator=torch.Generator().manual_seed(1)).double()


def linear(dataset: Dataset, replicas: int = 2) -> Ranker:
    return simulate(tiny(), list(range(replicas)), 1, dataset).ranker


def with_features(labels: list[list[int]], features: torch.Tensor) -> Dataset:
    return replace(handmade(labels), features=features)


@pytest.mark.parametrize("compiled", [True, False])
def test_gains_are_right_up_to_the_largest_grade(compiled):
    """2^63, the gain of the next one, is beyond 64 bits."""
    assert gains(torch.arange(LARGEST_GRADE + 1, dtype=torch.int8)).tolist() == [float(2**g - 1) for g in range(63)]
    labels = [61, 62, 0, 60]
    dataset = replace(with_features([labels], torch.tensor([[3.0], [2.0], [1.0], [0.0]])), grades=63)
    evaluate = offline_ndcg(dataset, "test", SEEDS[:1], compiled=compiled)
    found = evaluate(linear(dataset, 1), torch.ones(1, 1, 1, dtype=torch.float64))[0, 0, -1]
    assert found.item() == pytest.approx(reference.ndcg(range(4), labels, 10), rel=1e-12)


@pytest.mark.parametrize(
    "change", [{"grades": 64}, {"intents": Intents(torch.zeros(1, 2, dtype=torch.int8), 64)}], ids=["labels", "intents"]
)
def test_data_with_more_grades_are_refused(change):
    message = r"must have at most 63 grades, 0 to 62, as gains are 2\^grade - 1, got 64"
    with pytest.raises(ValueError, match=message):
        replace(handmade([[0, 1]]), **change)


def by_definition(dataset: Dataset, weights: torch.Tensor, cutoff: int, no_relevant: str) -> float:
    values = []
    for q in dataset.splits["test"].tolist():
        rows = slice(dataset.offsets[q], dataset.offsets[q + 1])
        scores, labels = (dataset.features[rows].double() @ weights).numpy(), dataset.labels[rows].tolist()
        if any(labels) or no_relevant == "zero":
            values.append(reference.ndcg(np.argsort(-scores), labels, cutoff))
    return float(np.mean(values))


class OneByOne(Evaluator):
    cells = 1


class ServedAgain(Evaluator):
    cached_bytes = 0


@pytest.mark.parametrize(("kind", "no_relevant"), [(OneByOne, "zero"), (ServedAgain, "skip")])
@pytest.mark.parametrize(("compiled", "scale"), [(False, 1.0), (True, 1.0), (True, 1e-20), (True, 1e20)])
def test_evaluation_is_its_definition(kind, no_relevant, compiled, scale):
    lists = [torch.randint(0, 5, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (1, 2, 9, 31, 200)]
    dataset = handmade([*lists, [0, 0, 0]])
    weights = deployed(3)
    evaluate = kind(dataset, "test", SEEDS, no_relevant, torch.float64, measures(), compiled=compiled)
    values = evaluate(linear(dataset), weights * scale)
    for cutoff in CUTOFFS:
        expected = [[by_definition(dataset, one, cutoff, no_relevant) for one in both] for both in weights]
        torch.testing.assert_close(values[f"ndcg_{cutoff}"], torch.tensor(expected).double(), rtol=0, atol=1e-7)


@pytest.mark.parametrize("compiled", [True, False])
def test_evaluations_share_what_is_not_of_their_seeds(compiled):
    """A batch of runs gathers the features once; values are those of an evaluation that has the data for itself."""
    dataset = handmade([[2, 0, 1, 0], [0, 0, 3]] * 3)
    seeds = torch.tensor([[3, 4], [7, 9]])
    first, second = (evaluator(dataset, "test", numbers, compiled=compiled) for numbers in seeds)
    assert first.served is second.served is not None
    assert first.tables is second.tables
    apart = evaluator(replace(dataset), "test", seeds[1], compiled=compiled)
    assert apart.served is not second.served
    equal, ranker = torch.ones(2, 2, 4, dtype=torch.float64), linear(dataset)
    torch.testing.assert_close(apart(ranker, equal), second(ranker, equal), rtol=0, atol=0)
    assert not torch.equal(first.tails[0], second.tails[0])


def some(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def of_sizes(*sizes: float) -> torch.Tensor:
    """Features of which each has one of these sizes."""
    drawn = torch.randint(len(sizes), (600, 4), generator=torch.Generator().manual_seed(3))
    return some(600, 4) * torch.tensor(sizes)[drawn]


SIZES = [(1e20,), (1e36,), (1e-30,), (1.0, 1e20), (1e-30, 1e15), (1e-40, 1.0, 1e19), (0.0, 1e36)]
TABLES = {  # single precision overflows or underflows, has most sums out of order, or has them as equal as they are
    **{str(sizes): of_sizes(*sizes) for sizes in SIZES},
    "differ in the last bits": (1 + some(600, 136).round().abs() * 2.0**-22) * some(136).abs(),
    "whole numbers": some(600, 4).round(),
}


@pytest.mark.parametrize("table", TABLES)
def test_compiled_evaluation_is_exact_for_features_of_any_size(table):
    """It decides in double precision what single precision leaves open, also with weights of zero."""
    dataset = with_features([[2] * 3 + [1] * 3 + [0] * 24] * 20, TABLES[table])
    features = dataset.features.shape[1]
    scales = [0.0, 1e-300, 1e-200, 1e-30, 1.0, 1e15 / max(1.0, float(dataset.features.abs().max()) / 1e20)]
    weights = deployed(len(scales), features) * torch.tensor(scales)[:, None, None]
    weights[:, 1, 0] = 0
    if table == "whole numbers":  # sums are exact, and many are equal: above, at and below 0
        weights = weights.sign()
    tensors, compiled = (
        offline_ndcg(dataset, "test", SEEDS, compiled=each)(linear(dataset), weights) for each in (False, True)
    )
    assert torch.equal(compiled, tensors)
    assert compiled[0].max() < 0.5, "weights of zero do not rank by file order"


@pytest.mark.parametrize("compiled", [True, False])
def test_the_bound_of_single_precision_is_wide_enough(compiled):
    """Weights are rounded to 1 and -1.5, so that A, whose score is 5 x .98 u, has 0 and is below B, whose score is 4 u.

    u = 2^-24. Partial sums are multiples of 1/2: this does not depend on the order of summation. The bound is 86 u; of
    a 64th of it the difference of 4 u would be certain.
    """
    u = 2.0**-24
    rounded = 63 / 64 * u
    weights = torch.tensor([1 + rounded] * 3 + [-1.5 + rounded] * 2 + [4 * u], dtype=torch.float64)
    assert weights[:5].float().tolist() == [1, 1, 1, -1.5, -1.5]
    dataset = with_features([[1, 0]], torch.tensor([[1.0] * 5 + [0], [0] * 5 + [1]]))
    evaluate = offline_ndcg(dataset, "test", SEEDS[:1], compiled=compiled)
    assert evaluate(linear(dataset, 1), weights[None, None]).tolist() == [[[1.0] * 4]]


@pytest.mark.parametrize("compiled", [True, False])
def test_scores_beyond_single_precision_are_refused(compiled):
    """They are finite in double precision, and would be compared as infinite."""
    dataset = with_features([[0, 1, 2], [1], [0, 0, 3, 0]], some(8, 4).abs() * 1e22)
    weights = torch.zeros(2, 2, 4, dtype=torch.float64)
    weights[1, 1] = 1e17
    evaluate, ranker = evaluator(dataset, "test", SEEDS, compiled=compiled), linear(dataset)
    evaluate(ranker, weights[:1])
    for call in (lambda: evaluate(ranker, weights), lambda: list(evaluate.lists(ranker, weights[1]))):
        with pytest.raises(ScoresOverflow, match=r"test queries must be finite .* dataset\.normalise") as error:
            call()
        assert error.value.replicas == [1]


def test_scores_of_a_class_of_ones_own_are_evaluated():
    """It may be a linear ranker that is made to score in another way: here, documents in reverse."""
    dataset = handmade([[0, 1, 2], [3, 0, 0, 0, 1]])
    ranker, weights, evaluate = linear(dataset), deployed(1), offline_ndcg(dataset, "test", SEEDS, compiled=True)
    reverse = evaluate(ranker, -weights)

    class Reverse(type(ranker)):
        def score(self, deployed, candidates):
            return -super().score(deployed, candidates)

    ranker.__class__ = Reverse
    assert torch.equal(evaluate(ranker, weights), reverse)
    assert not torch.equal(evaluate(ranker, -weights), reverse)


def test_lists_are_those_that_the_mean_is_over():
    dataset = handmade([[0, 1, 2], [3, 0, 0, 0, 1], [1], [0] * 9 + [4] * 30])
    evaluate, ranker, weights = evaluator(dataset, "test", SEEDS), linear(dataset), deployed(1)
    values = {}
    for lists in evaluate.lists(ranker, weights[0]):
        for b, (number, query) in product(range(2), enumerate(lists.query.tolist())):
            rows, scores, labels = (
                each[b, number, : lists.length[number]] for each in (lists.document, lists.score, lists.label)
            )
            assert sorted(rows.tolist()) == [*range(*dataset.offsets[query : query + 2])]
            assert torch.equal(labels, dataset.labels[rows].long())
            torch.testing.assert_close(scores, dataset.features[rows].double() @ weights[0, b])
            assert torch.equal(scores, scores.sort(descending=True).values)
            values[b, query] = reference.ndcg(range(len(labels)), labels.tolist(), 10)
    means = [sum(values[b, query] for query in range(4)) / 4 for b in range(2)]
    assert evaluate(ranker, weights)["ndcg_10"][0].tolist() == pytest.approx(means)


def test_equal_scores_are_broken_at_random_but_repeatably():
    """The relevant document stands first in the file: with all scores equal that must not help."""
    dataset, seeds = handmade([[1, 0, 0, 0, 0]] * 40), torch.arange(30)
    ranker = simulate(tiny("ranker=random"), seeds.tolist(), 1, dataset).ranker
    without_parameters = torch.zeros(1, 30, 0)
    found, again, other = (
        offline_ndcg(dataset, split, seeds)(ranker, without_parameters)[0, :, 0]
        for split in ("test", "test", "validation")
    )
    assert torch.equal(found, again)
    assert not torch.equal(found, other)
    assert abs(float(found.mean()) - 0.2) < 0.05  # 1200 draws with probability 1/5: 4 standard errors


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
