"""Metrics by hand and against scikit-learn and scipy."""

from __future__ import annotations

from math import isnan, log2

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import ndcg_score

from tests.reference.metrics import (
    block_size_at,
    certain_ratio,
    cumulative_ndcg,
    dcg,
    mean_ndcg,
    ndcg,
    pairwise_regret,
)
from tests.reference.relations import figure_1

pytestmark = pytest.mark.slow  # tests of the oracle itself


def test_dcg_by_hand():
    assert dcg([3, 0, 2]) == pytest.approx((8 - 1) / log2(2) + 0 + (4 - 1) / log2(4))
    assert dcg([3, 0, 2], k=2) == pytest.approx(7)
    assert dcg([]) == 0


def test_ndcg_by_hand():
    labels = [0, 2, 1]
    ideal = 3 / log2(2) + 1 / log2(3)
    assert ndcg([1, 2, 0], labels) == pytest.approx(1)
    assert ndcg([0, 1, 2], labels) == pytest.approx((3 / log2(3) + 1 / log2(4)) / ideal)
    assert ndcg([0, 2], labels) == pytest.approx((1 / log2(3)) / ideal)  # shown without the best document
    assert ndcg([2, 1, 0], labels, k=1) == pytest.approx(1 / 3)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_is_that_of_scikit_learn(k):
    rng = np.random.default_rng(1)
    for _ in range(30):
        labels, scores = rng.integers(0, 5, size=12), rng.normal(size=12)
        other = ndcg_score([2.0**labels - 1], [scores], k=k, ignore_ties=True)
        assert ndcg(np.argsort(-scores).tolist(), labels.tolist(), k) == pytest.approx(other)


def test_queries_without_a_relevant_document():
    orders, labels = [[0, 1], [0, 1]], [[0, 0], [1, 0]]
    assert ndcg([0, 1], [0, 0], no_relevant="zero") == 0
    assert isnan(ndcg([0, 1], [0, 0], no_relevant="skip"))
    assert mean_ndcg(orders, labels, no_relevant="zero") == pytest.approx(1 / 2)
    assert mean_ndcg(orders, labels, no_relevant="skip") == pytest.approx(1)
    assert isnan(mean_ndcg(orders[:1], labels[:1], no_relevant="skip"))
    with pytest.raises(ValueError, match="no_relevant must be 'zero' or 'skip', got 'purge'"):
        ndcg([0, 1], [1, 0], no_relevant="purge")


def test_cumulative_ndcg_discounts_from_the_second_round():
    assert cumulative_ndcg([0.5, 0.25, 1.0], gamma=0.9) == pytest.approx(0.5 + 0.25 * 0.9 + 0.81)
    assert cumulative_ndcg([1.0] * 5000) == pytest.approx((1 - 0.9995**5000) / (1 - 0.9995))
    assert cumulative_ndcg([]) == 0


def test_regret_by_hand():
    # Figure 1: the best order is 1 > 2 > 3 > 4 > 5, counted from 0 here
    labels = [5, 4, 3, 2, 1]
    assert pairwise_regret([0, 1, 2, 3, 4], labels) == 0
    assert pairwise_regret([1, 0, 3, 4, 2], labels) == 3  # (1,2) (3,4) (3,5) are swapped
    assert pairwise_regret([0, 1, 4, 2, 3], labels) == 2  # (3,5) (4,5) are swapped
    assert pairwise_regret([4, 3, 2, 1, 0], labels) == 10
    assert pairwise_regret([1, 0, 2], [1, 1, 0]) == 0  # equal labels are free
    assert pairwise_regret([2, 1, 0], [0, 1, 1]) == 0
    assert pairwise_regret([0, 1, 2], [0, 1, 1]) == 2


def test_regret_is_the_discordance_in_kendall_tau():
    # tau_b = (C - D) / sqrt(P n0), with n0 pairs in all, P = C + D of them untied
    rng = np.random.default_rng(2)
    for _ in range(30):
        labels, order = rng.integers(0, 3, size=9), rng.permutation(9)
        if len(set(labels.tolist())) == 1:
            continue
        tau = kendalltau(-np.arange(9), labels[order], variant="b").statistic
        untied = sum(labels[i] != labels[j] for i in range(9) for j in range(i))
        assert pairwise_regret(order.tolist(), labels.tolist()) == pytest.approx(
            (untied - tau * np.sqrt(untied * 36)) / 2
        )


def test_block_size_by_rank():
    blocks = [{0, 1}, {2, 3, 4}]
    assert [block_size_at(rank, [1, 0, 4, 2, 3], blocks) for rank in range(1, 6)] == [2, 2, 3, 3, 3]
    with pytest.raises(ValueError, match="rank must be between 1 and 5, got 6"):
        block_size_at(6, [1, 0, 4, 2, 3], blocks)


def test_certain_ratio_by_hand():
    certain = figure_1()  # uncertain: (0, 1), (2, 4), (3, 4)
    assert certain_ratio([1, 0, 4, 2, 3], certain) == pytest.approx(7 / 10)
    assert certain_ratio([1, 0, 4, 2, 3], certain, k=3) == pytest.approx(2 / 3)
    assert certain_ratio([1, 0, 4, 2, 3], certain, k=2) == 0
    assert certain_ratio([4, 2, 0], certain) == pytest.approx(2 / 3)
    assert isnan(certain_ratio([2], certain))
