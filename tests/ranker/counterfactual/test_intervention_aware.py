"""The intervention-aware ranker round by round against a plain port, and its estimates against what is true."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.refit import Adam
from ol2r_cli.loops.workspace import Workspace
from ol2r_cli.ranker.counterfactual import ClickEM, SampledLists, click_curve
from ol2r_cli.ranker.counterfactual import policy_loops as policy
from ol2r_cli.ranker.model.linear import Linear
from ol2r_cli.tensor.streams import Streams
from tests.reference import intervention_aware as reference
from tests.reference.plackett_luce import enumerate_rankings, order_of, probability
from tests.rounds import LISTS, SEEDS, fresh, replicas, rounds
from tests.worlds import handmade, simulate, tiny

FEATURES, STEPS, BATCH, LISTS_DRAWN, RATE = 4, 3, 4, 5, 3.0
SETTINGS = (
    *("ranker=intervention_aware", "ranker.every=6", "ranker.growth=1.5", "ranker.propensity_lists=7"),
    *(f"ranker.steps={STEPS}", f"ranker.batch={BATCH}", f"ranker.gradient_lists={LISTS_DRAWN}"),
    f"ranker.learning_rate={RATE}",
)
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
    [
        ("trust_bias", 2.0, False, 5),
        ("position_based", 0.5, True, 20),
        ("estimated", 3.0, False, 5),
    ],
)
def test_every_round_is_that_of_the_definition(propensities, clip, restart, positions):
    """The port remembers, estimates and optimises; we only show it lists and clicks."""
    words = f"ranker.propensities={propensities}", f"ranker.clip={clip}", f"ranker.restart={str(restart).lower()}"
    em = "ranker.em.iterations=2", "ranker.em.steps=3", "ranker.em.batch=5", "ranker.em.learning_rate=0.05"
    config = tiny(*SETTINGS, *words, *em, "click=trust_bias", f"positions={positions}")
    dataset, streams, longest = handmade(LISTS, FEATURES), fresh(), max(map(len, LISTS))
    places = min(positions, longest)
    simulation = simulate(config, SEEDS, 45, dataset, blocks=False, regret=False)
    ports = [Port(dataset, clip, restart, places) for _ in SEEDS]
    start = np.append(np.zeros(FEATURES), np.log(1 / 9)), [(1 / (k + 2),) * 2 for k in range(places)]
    models, curves = [start] * len(SEEDS), [click_curve(propensities, rank) for rank in range(1, places + 1)]
    own, negative = simulation.ranker, 0
    for t, one in rounds(simulation):
        width = one.candidates.mask.shape[1]
        for b, here in replicas(one):
            port, case = ports[b], f"{propensities}, round {t}, replica {b}"
            rows = one.candidates.document[b, : len(here.features)].tolist()
            scores = [float(port.features[row] @ port.theta) for row in rows]
            assert here.scores[0] == pytest.approx(scores, abs=1e-8), case
            query, clocks = int(one.candidates.query[b]), port.clocks(streams, b, t, width)
            port.see(query, rows, here.ranking, here.clicks, clocks)
            if t + 1 in REFITS:
                random = streams.at("learn/ranker", t)
                if propensities == "estimated":
                    models[b] = estimated(port.log, *models[b], random.uniform(2 * 3 * 5, "batch")[b].tolist())
                    curves = models[b][1]
                    assert own.em.propensity[b].numpy() == pytest.approx(np.array(curves), abs=1e-8), case
                    assert own.em.relevance[b, 0].numpy() == pytest.approx(models[b][0], abs=1e-8), case
                negative += port.optimise(random, b, longest, *zip(*curves, strict=True), t + 1)
            assert own.theta[b, 0].numpy() == pytest.approx(port.theta, abs=1e-8), case
    if propensities != "position_based":
        assert negative > 5, "estimates of relevance are kept where they are negative"
    assert all(np.abs(port.theta).max() > 0.1 for port in ports), propensities


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


def test_relevance_is_recovered_across_policies():
    """Two policies, of which the first hardly ever shows the last document; replicas are independent estimates."""
    replicas, count = 400, 60
    world = handmade([[0, 1, 2, 3, 4, 2]])
    config = tiny(*SETTINGS, "ranker.clip=0", "ranker.every=1000", "click=trust_bias", "positions=3")
    simulation = simulate(config, list(range(replicas)), count, world)
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


def test_curves_are_those_of_the_users_or_given():
    """P(click) of every grade and place, as the click model has it."""
    for user in "trust_bias", "position_based":
        model = simulate(tiny(f"click={user}"), [0], 1).click
        for place, clicks in enumerate(model.probability):
            alpha, beta = click_curve(user, place + 1)
            assert (alpha * model.click_probability + beta).tolist() == pytest.approx(clicks.tolist(), abs=1e-12)
    words = "positions=2", "ranker.alpha=[.5,.25,.1]", "ranker.propensities=position_based", "ranker.beta=[.2,.1]"
    simulation = simulate(tiny("ranker=intervention_aware", *words), [0], 1)
    assert simulation.ranker.rewards.propensity.tolist() == [[[0.5, 0.2], [0.25, 0.1]]]


def test_the_oracle_has_gradients_over_all_lists_of_four():
    """Gradients and expectations of the oracle are those over all lists of four documents.

    Of the expected reward J, by its difference quotient; estimates of relevance may be negative.
    """
    scores, weight, reward = [0.5, -1.0, 2.0, 0.1], [1.0, 0.6, 0.3, 0.25], [0.4, -0.7, 0.1, 1.3]

    def j(scores: list[float], lists: list[tuple[int, ...]]) -> float:
        shown = ((probability(ranking, scores), zip(weight, ranking, strict=False)) for ranking in lists)
        return sum(chance * sum(w * reward[d] for w, d in places) for chance, places in shown)

    for places in 1, 2, 3, 4:
        lists = enumerate_rankings(4, places)
        chance = [probability(ranking, scores) for ranking in lists]
        slopes = [reference.gradient([ranking], scores, reward, weight) for ranking in lists]
        found = [reference.expected([ranking], scores, weight) for ranking in lists]
        for document in range(4):
            up, down = list(scores), list(scores)
            up[document] += 1e-5
            down[document] -= 1e-5
            difference = (j(up, lists) - j(down, lists)) / 2e-5
            slope = sum(share * each[document] for share, each in zip(chance, slopes, strict=True))
            assert slope == pytest.approx(difference, abs=1e-8), places
            seen = [(share, ranking) for share, ranking in zip(chance, lists, strict=True) if document in ranking]
            exact = sum(share * weight[ranking.index(document)] for share, ranking in seen)
            expected = sum(share * each[document] for share, each in zip(chance, found, strict=True))
            assert expected == pytest.approx(exact, abs=1e-12), places


def test_scores_far_apart_do_not_overflow():
    scores = torch.tensor([[0.0, -900.0, 900.0, -3000.0]], dtype=torch.float64)
    sampled = SampledLists(scores, torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 2, 4, dtype=torch.float64), 2)
    weight = torch.tensor([1.0, 0.5], dtype=torch.float64)
    assert sampled.gradient(torch.ones_like(scores), weight).tolist()[0] == pytest.approx([0] * 4, abs=1e-12)
    space, share, mean = Workspace(np.empty(99), np.zeros(2, np.int64)), np.empty(4), np.empty((4, 1))
    policy.shares(np.array([0.0, -250, 250, -300]), share, space)  # loops take scores as at most 600 apart
    policy.expected(share, -1 / share[None], weight[:, None].numpy(), mean, space)
    assert mean[:, 0].tolist() == pytest.approx([0.5, 0, 1, 0])
    slope = np.empty(4)
    policy.gradient(share, np.ones((1, 4)), np.ones(4), weight.numpy(), slope, space)
    assert slope.tolist() == pytest.approx([0] * 4, abs=1e-12)


# alpha and beta by expectation maximisation.


def made(rounds: int, features: torch.Tensor, **settings) -> ClickEM:
    em = ClickEM(**{"iterations": 1, "steps": 1, "learning_rate": 0.05, "batch": 64, **settings})
    context = RunContext(1, 50, features.shape[1], 3, queries=1, rounds=rounds, grades=2)
    em.setup(context, features)
    return em


def test_a_place_without_a_click_is_not_given_up():
    """alpha = beta = 0 would explain any later click by nothing."""
    em = made(40, torch.zeros(50, 2), iterations=3)
    em.outcome[0, :20] = torch.tensor([1, 0, -1])
    em.count += 20
    em.estimate(Linear(), Streams(torch.tensor([0])).at("learn/ranker", 19))
    alpha, beta = em.propensity[0].unbind(1)
    assert (alpha + beta > 0).all()
    assert (beta > 0).all()
    assert [float(alpha[2]), float(beta[2])] == pytest.approx([1 / 4, 1 / 4]), "it was never shown"


def test_rounding_of_certain_clicks_does_no_harm():
    """At the first place P(click | relevant) starts at 1; alpha + beta may be more than that in the last bit."""
    em = made(1, torch.zeros(50, 2))
    em.propensity[0, 0] = torch.tensor([0.7 + 3e-16, 0.3], dtype=torch.float64)
    assert float(em.propensity[0, 0].sum()) > 1
    prior = torch.ones(1, 1, 3, dtype=torch.float64)
    found = em._posterior(prior, torch.full((1, 1, 3), 0, dtype=torch.int8))
    assert ((found >= 0) & (found <= 1)).all()
