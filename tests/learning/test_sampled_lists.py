"""Expectations over Plackett-Luce lists and their gradients, against all lists of four documents."""

from __future__ import annotations

import pytest
import torch

from ol2r_cli.learning.counterfactual import SampledLists
from tests.reference.intervention_aware import expected, gradient
from tests.reference.plackett_luce import enumerate_rankings, order_of, probability

SCORES = [0.5, -1.0, 2.0, 0.1]
WEIGHT = [1.0, 0.6, 0.3, 0.25]
REWARD = [0.4, -0.7, 0.1, 1.3]  # estimates of relevance may be negative


def each_list(places: int) -> tuple[SampledLists, torch.Tensor]:
    """All lists, each drawn once by clocks that ring in its order, and their probabilities."""
    lists = enumerate_rankings(4, places)
    scores = torch.tensor(SCORES, dtype=torch.float64).expand(len(lists), -1)
    ranks = torch.full((len(lists), 4), 9.0, dtype=torch.float64)
    for row, ranking in enumerate(lists):
        ranks[row, list(ranking)] = torch.arange(len(ranking), dtype=torch.float64)
    sampled = SampledLists(scores, torch.ones(len(lists), 4, dtype=torch.bool), (scores + ranks).exp()[:, None], places)
    assert [tuple(shown) for shown in sampled.document[:, 0].tolist()] == lists
    return sampled, torch.tensor([probability(ranking, SCORES) for ranking in lists], dtype=torch.float64)


def reward_of(scores: list[float], places: int) -> float:
    """J: the expected reward."""
    return sum(
        probability(ranking, scores) * sum(w * REWARD[d] for w, d in zip(WEIGHT, ranking, strict=False))
        for ranking in enumerate_rankings(4, places)
    )


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_the_gradient_is_that_of_the_expected_reward(places):
    sampled, chance = each_list(places)
    reward = torch.tensor(REWARD, dtype=torch.float64).expand(len(chance), -1)
    found = chance @ sampled.gradient(reward, torch.tensor(WEIGHT, dtype=torch.float64))
    step = 1e-5
    for document in range(4):
        up, down = list(SCORES), list(SCORES)
        up[document] += step
        down[document] -= step
        slope = (reward_of(up, places) - reward_of(down, places)) / (2 * step)
        assert float(found[document]) == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_expectations_are_those_over_all_lists(places):
    sampled, chance = each_list(places)
    values = torch.tensor([WEIGHT, REWARD], dtype=torch.float64).T
    found = torch.einsum("q,qdc->dc", chance, sampled.expected(values))
    for document in range(4):
        for column, value in enumerate((WEIGHT, REWARD)):
            exact = sum(
                probability(ranking, SCORES) * value[ranking.index(document)]
                for ranking in enumerate_rankings(4, places)
                if document in ranking
            )
            assert float(found[document, column]) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("places", [1, 3, 5, 20])
@pytest.mark.parametrize("spread", [1, 30])
def test_lists_and_sums_are_those_of_the_definition(places, spread):
    """Queries of several lengths, whatever the scores of padding; every list adds up to the same."""
    generator = torch.Generator().manual_seed(places)
    lengths = [8, 5, 2, 1]
    scores = spread * torch.randn(4, 8, generator=generator, dtype=torch.float64)
    clocks = torch.rand(4, 6, 8, generator=generator, dtype=torch.float64)
    reward = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    mask = torch.arange(8) < torch.tensor(lengths)[:, None]
    weight = torch.rand(20, generator=generator, dtype=torch.float64)
    sampled = SampledLists(scores.masked_fill(~mask, 1e3), mask, clocks, places)
    found = sampled.expected(weight[:, None])[..., 0], sampled.gradient(reward, weight)
    assert found[0].isfinite().all()
    for q, length in enumerate(lengths):
        own = scores[q, :length].tolist()
        lists = [order_of(own, each[:length].tolist())[:places] for each in clocks[q]]
        assert [tuple(shown[: len(lists[0])]) for shown in sampled.document[q].tolist()] == lists
        values = weight.tolist()
        assert found[0][q, :length].tolist() == pytest.approx(expected(lists, own, values), abs=1e-9)
        assert float(found[0][q, :length].sum()) == pytest.approx(sum(values[: min(places, length)]))
        slope = gradient(lists, own, reward[q, :length].tolist(), values)
        assert found[1][q, :length].tolist() == pytest.approx(slope, abs=1e-9)


def test_scores_far_apart_do_not_overflow():
    scores = torch.tensor([[0.0, -900.0, 900.0, -3000.0]], dtype=torch.float64)
    sampled = SampledLists(scores, torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 2, 4, dtype=torch.float64), 2)
    weight = torch.tensor([1.0, 0.5], dtype=torch.float64)
    assert sampled.expected(weight[:, None])[0, :, 0].tolist() == pytest.approx([0.5, 0, 1, 0])
    assert sampled.gradient(torch.ones_like(scores), weight).tolist()[0] == pytest.approx([0] * 4, abs=1e-12)
