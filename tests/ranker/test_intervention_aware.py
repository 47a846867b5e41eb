"""The intervention-aware ranker round by round against a plain port, and its estimates against what is true."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.learning.refit import Adam
from tests.reference import intervention_aware as reference
from tests.reference.plackett_luce import order_of
from tests.rounds import LISTS, SEEDS, fresh, rounds
from tests.worlds import handmade, simulate, tiny

FEATURES, STEPS, BATCH, LISTS_DRAWN, RATE = 4, 3, 4, 5, 3.0
SETTINGS = (
    *("ranker=intervention_aware", "ranker.every=6", "ranker.growth=1.5", "ranker.propensity_lists=7"),
    *(f"ranker.steps={STEPS}", f"ranker.batch={BATCH}", f"ranker.gradient_lists={LISTS_DRAWN}"),
    f"ranker.learning_rate={RATE}",
)
CURVES = {
    "position_based": lambda rank: (1 / rank, 0.0),
    "trust_bias": lambda rank: (
        (0.35 / rank + 0.65 / (1 + 0.05 * (rank - 1))) * (1 / (1 + 0.005 * (rank - 1)) - 0.65 / rank),
        (0.35 / rank + 0.65 / (1 + 0.05 * (rank - 1))) * 0.65 / rank,
    ),
}
REFITS = {6: 12, 12: 18, 18: 27, 27: 41, 41: 62}  # rounds after which the policy is optimised, and the next of them


class Port:
    """One replica: what it has seen of each query, and the policy."""

    def __init__(self, dataset, clip, restart, places):
        self.features, self.clip, self.restart, self.places = dataset.features.double().numpy(), clip, restart, places
        self.theta, self.served, self.estimators = np.zeros(FEATURES), [], {}
        self.seen = defaultdict(list)  # query: clicked documents, and lists, scores of each round
        self.log = []

    def clocks(self, streams, b, t, width):
        every = streams.at("learn/ranker", t).exponential(7 * width, "policy")[b].numpy()
        return [[every[document * 7 + drawn] for document in range(width)] for drawn in range(7)]

    def see(self, query, rows, ranking, clicks, clocks):
        scores = [float(self.features[row] @ self.theta) for row in rows]
        lists = [order_of(scores, each[: len(rows)])[: self.places] for each in clocks]
        clicked = [document for document, click in zip(ranking, clicks, strict=True) if click]
        self.seen[query].append((clicked, lists, scores))
        self.served.append((query, rows))
        self.log.append(([self.features[rows[document]] for document in ranking], clicks))

    def estimates(self, query, documents, alpha, beta, t):
        estimator = reference.Estimator(documents)
        for clicked, lists, scores in self.seen[query]:
            estimator.add(clicked, *(reference.expected(lists, scores, values) for values in (alpha, beta)))
        return estimator.estimates(self.clip, t)

    def optimise(self, random, b, longest, alpha, beta, t):
        clocks = random.exponential(STEPS * LISTS_DRAWN * longest, "lists")[b].numpy()
        clocks = clocks.reshape(STEPS, LISTS_DRAWN, longest)
        drawn = random.uniform(STEPS * BATCH, "batch")[b].numpy().reshape(STEPS, BATCH)
        weight = [a + c for a, c in zip(alpha, beta, strict=True)]
        if self.restart:
            self.theta = np.zeros(FEATURES)
        negative = 0
        for step in range(STEPS):
            total = np.zeros(FEATURES)
            for number in drawn[step]:
                query, rows = self.served[int(number * len(self.served))]
                reward = self.estimates(query, len(rows), alpha, beta, t)
                negative += min(reward) < 0
                scores = [float(self.features[row] @ self.theta) for row in rows]
                lists = [order_of(scores, each[: len(rows)])[: self.places] for each in clocks[step]]
                for row, slope in zip(rows, reference.gradient(lists, scores, reward, weight), strict=True):
                    total += slope * self.features[row] / BATCH
            self.theta = self.theta + RATE * total
        return negative


@pytest.mark.parametrize(
    ("propensities", "clip", "restart", "positions"),
    [("trust_bias", 2.0, False, 5), ("position_based", 0.5, True, 20), ("estimated", 3.0, False, 5)],
)
def test_every_round_is_that_of_the_definition(propensities, clip, restart, positions):
    """The port remembers, estimates and optimises; we only show it lists and clicks."""
    words = f"ranker.propensities={propensities}", f"ranker.clip={clip}", f"ranker.restart={str(restart).lower()}"
    em = "ranker.em.iterations=2", "ranker.em.steps=3", "ranker.em.batch=5", "ranker.em.learning_rate=0.05"
    config = tiny(*SETTINGS, *words, *em, "click=trust_bias", f"positions={positions}")
    dataset, streams, longest = handmade(LISTS, FEATURES), fresh(), max(map(len, LISTS))
    places = min(positions, longest)
    simulation = simulate(config, SEEDS, 45, dataset, loops=True, trace_blocks=False, trace_regret=False)
    ports = [Port(dataset, clip, restart, places) for _ in SEEDS]
    models = [(np.append(np.zeros(FEATURES), np.log(1 / 9)), [(1 / (k + 2),) * 2 for k in range(places)])] * len(SEEDS)
    curves = [CURVES.get(propensities, CURVES["trust_bias"])(rank) for rank in range(1, places + 1)]
    negative = 0
    for t, one in rounds(simulation):
        width = one.candidates.mask.shape[1]
        for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
            port, rows = ports[b], one.candidates.document[b, :length].tolist()
            ranking, clicks = one.ranking[b, :length].tolist(), one.clicks[b, :length].tolist()
            scores = [float(port.features[row] @ port.theta) for row in rows]
            assert one.prediction.scores[b, 0, :length].tolist() == pytest.approx(scores, abs=1e-8), f"round {t}"
            port.see(int(one.candidates.query[b]), rows, ranking, clicks, port.clocks(streams, b, t, width))
            if t + 1 in REFITS:
                random = streams.at("learn/ranker", t)
                if propensities == "estimated":
                    models[b] = estimated(port.log, *models[b], random.uniform(2 * 3 * 5, "batch")[b].tolist())
                    curves = models[b][1]
                    found = simulation.ranker.em.propensity[b]
                    assert found.numpy() == pytest.approx(np.array(curves), abs=1e-8)
                    assert simulation.ranker.em.relevance[b, 0].numpy() == pytest.approx(models[b][0], abs=1e-8)
                negative += port.optimise(random, b, longest, *zip(*curves, strict=True), t + 1)
            assert simulation.ranker.theta[b, 0].numpy() == pytest.approx(port.theta, abs=1e-8), f"round {t}"
    if propensities != "position_based":
        assert negative > 5, "estimates of relevance are kept where they are negative"
    assert all(np.abs(port.theta).max() > 0.1 for port in ports)


def estimated(log, weights, curves, drawn):
    """Two updates of alpha and beta, each with three steps of the relevance model on five rounds."""
    adam = Adam(torch.tensor(weights), epsilon=1e-7)
    for iteration in range(2):
        curves = reference.propensities(log, weights, *zip(*curves, strict=True))
        for step in range(3):
            first = 5 * (3 * iteration + step)
            batch = [log[int(number * len(log))] for number in drawn[first : first + 5]]
            slope = reference.relevance_gradient(batch, weights, *zip(*curves, strict=True))
            weights = weights + 0.05 * adam(torch.tensor(slope)).numpy()
    return weights, curves


def test_one_list_without_trust_bias_is_inverse_propensity_scoring():
    """Where the policy always shows the same list, alpha_bar is the propensity of the document's place."""
    words = "ranker.propensities=position_based", "ranker.clip=0", "ranker.every=1000"
    simulation = simulate(
        tiny(*SETTINGS, *words, "click=position_based", "positions=3"), [4], 60, handmade([[3, 0, 4]])
    )
    simulation.ranker.theta.copy_(1e5 * torch.randn(1, 1, 4, generator=torch.Generator().manual_seed(1)))
    clicks, places = np.zeros(3), set()
    for _, one in rounds(simulation):
        places.add(tuple(one.ranking[0].tolist()))
        clicks[one.ranking[0][one.clicks[0]].numpy()] += 1
    (ranking,) = places
    expected = [clicks[document] / 60 * (ranking.index(document) + 1) for document in range(3)]
    found = simulation.ranker.rewards.estimates(torch.arange(3)[None, None], 60)
    assert found[0, 0].tolist() == pytest.approx(expected)
    assert clicks.min() > 0


def test_relevance_is_recovered_across_policies():
    """Two policies, of which the first hardly ever shows the last document; replicas are independent estimates."""
    replicas, count = 400, 60
    world = handmade([[0, 1, 2, 3, 4, 2]])
    config = tiny(*SETTINGS, "ranker.clip=0", "ranker.every=1000", "click=trust_bias", "positions=3")
    simulation = simulate(config, list(range(replicas)), count, world, loops=False)
    first = torch.randn(1, 4, generator=torch.Generator().manual_seed(2))
    for t, _ in rounds(simulation):
        policy = 3 * first if t < count // 2 else -2 * first
        simulation.ranker.theta.copy_(policy.expand(replicas, 1, 4))
    rows = torch.arange(6).expand(replicas, 1, 6)
    found = simulation.ranker.rewards.estimates(rows, count)[:, 0]
    error = found.std(0) / replicas**0.5
    truth = torch.tensor([0, 0.25, 0.5, 0.75, 1, 0.5])
    assert (error < 0.1).all(), "otherwise the test could not fail"
    assert ((found.mean(0) - truth).abs() < 4 * error).all()


def test_expectations_of_a_query_sum_to_those_of_its_places():
    simulation = simulate(tiny(*SETTINGS, "click=trust_bias", "positions=5"), SEEDS, 40, handmade(LISTS))
    for _, _ in rounds(simulation):
        pass
    alpha, beta = zip(*map(CURVES["trust_bias"], range(1, 6)), strict=True)
    sums, first = simulation.ranker.rewards.sums, 0
    for labels in LISTS:
        rows = sums[:, first : first + len(labels)]
        served, shown = rows[:, 0, 1], min(5, len(labels))
        assert (rows[:, :, 1] == served[:, None]).all()
        torch.testing.assert_close(rows[:, :, 2].sum(1), served * sum(alpha[:shown]))
        torch.testing.assert_close(rows[:, :, 3].sum(1), served * sum(beta[:shown]))
        first += len(labels)
    assert float(sums[:, :, 0].sum()) > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("ranker.propensities=estimated", "ranker.alpha=[1,1]"),
            "ranker.alpha must be null with ranker.propensities=estimated",
        ),
        (("ranker.em.steps=0",), "ranker.em.steps must be 1 or more, got 0"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(words, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build(tiny("ranker=intervention_aware", *words).ranker)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ranker.beta=[0.1,0.2]",), "ranker.beta must be 10 numbers, one per place, got [0.1, 0.2]"),
        (("positions=2", "ranker.alpha=[0,0]"), "ranker.alpha must be above 0 at one place at least, got [0, 0]"),
    ],
)
def test_curves_that_do_not_suit_the_places_are_refused(words, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        simulate(tiny("ranker=intervention_aware", *words), [0], 1)


def test_given_curves_take_the_place_of_a_user():
    words = "positions=2", "ranker.alpha=[.5,.25,.1]", "ranker.propensities=position_based", "ranker.beta=[.2,.1]"
    simulation = simulate(tiny("ranker=intervention_aware", *words), [0], 1)
    assert simulation.ranker.rewards.propensity.tolist() == [[[0.5, 0.2], [0.25, 0.1]]]
