"""The intervention-aware ranker round by round against a plain port, and its estimates against what is true."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch

from ol2r_cli.interfaces import RunContext
from ol2r_cli.learning.refit import Adam
from ol2r_cli.loops.workspace import Workspace
from ol2r_cli.ranker.counterfactual import ClickEM, EstimatedRewards, SampledLists, click_curve
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
REFITS = 6, 12, 18, 27, 41  # rounds after which the policy is optimised


class Port:
    """One replica: what it has seen of each query, and the policy. `curves` are alpha and beta of each place."""

    def __init__(self, features, clip, restart, curves):
        self.features, self.clip, self.restart, self.curves = features.double().numpy(), clip, restart, curves
        self.theta, self.relevance = np.zeros(FEATURES), np.append(np.zeros(FEATURES), np.log(1 / 9))
        self.seen = defaultdict(list)  # query: clicked documents, and lists, scores of each round
        self.served, self.log, self.negative = [], [], 0

    def scores(self, rows):
        return (self.features[rows] @ self.theta).tolist()

    def see(self, query, rows, ranking, clicks, clocks):
        """Remember a round; the lists of its policy are drawn by these clocks."""
        scores = self.scores(rows)
        lists = [order_of(scores, each[: len(rows)])[: len(self.curves)] for each in clocks]
        clicked = [document for document, click in zip(ranking, clicks, strict=True) if click]
        self.seen[query].append((clicked, lists, scores))
        self.served.append((query, rows))
        self.log.append((self.features[[rows[document] for document in ranking]], clicks))

    def estimates(self, query, documents):
        estimator = reference.Estimator(documents)
        for clicked, lists, scores in self.seen[query]:
            curves = zip(*self.curves, strict=True)
            estimator.add(clicked, *(reference.expected(lists, scores, values) for values in curves))
        return estimator.estimates(self.clip, len(self.served))

    def optimise(self, clocks, drawn):
        """Steps on queries that are drawn of all that were served, each with lists by these clocks."""
        weight = [alpha + beta for alpha, beta in self.curves]
        if self.restart:
            self.theta = np.zeros(FEATURES)
        for of_step, numbers in zip(clocks, drawn, strict=True):
            total = np.zeros(FEATURES)
            for number in numbers:
                query, rows = self.served[int(number * len(self.served))]
                reward, scores = self.estimates(query, len(rows)), self.scores(rows)
                self.negative += min(reward) < 0
                lists = [order_of(scores, each[: len(rows)])[: len(weight)] for each in of_step]
                total += reference.gradient(lists, scores, reward, weight) @ self.features[rows] / BATCH
            self.theta = self.theta + RATE * total

    def estimate_curves(self, drawn):
        """Two updates of alpha and beta, each with three steps of the relevance model on five rounds."""
        adam = Adam(torch.tensor(self.relevance), epsilon=1e-7)
        for steps in drawn:
            self.curves = reference.propensities(self.log, self.relevance, *zip(*self.curves, strict=True))
            for numbers in steps:
                batch = [self.log[int(number * len(self.log))] for number in numbers]
                slope = reference.relevance_gradient(batch, self.relevance, *zip(*self.curves, strict=True))
                self.relevance = self.relevance + 0.05 * adam(torch.tensor(slope)).numpy()


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
    places, is_estimated = range(1, min(positions, longest) + 1), propensities == "estimated"
    simulation = simulate(config, SEEDS, 45, dataset, blocks=False, regret=False)
    curves = [(1 / (rank + 1),) * 2 if is_estimated else click_curve(propensities, rank) for rank in places]
    own, ports = simulation.ranker, [Port(dataset.features, clip, restart, curves) for _ in SEEDS]
    for t, one in rounds(simulation):
        width, random = one.candidates.mask.shape[1], streams.at("learn/ranker", t)
        clocks = random.exponential(7 * width, "policy").unflatten(1, (width, 7)).mT.tolist()
        for b, here in replicas(one):
            port, place = ports[b], f"round {t}, replica {b}"
            rows = one.candidates.document[b, : len(here.features)].tolist()
            assert here.scores[0] == pytest.approx(port.scores(rows), abs=1e-8), place
            port.see(int(one.candidates.query[b]), rows, here.ranking, here.clicks, clocks[b])
            if t + 1 in REFITS:
                if is_estimated:
                    port.estimate_curves(random.uniform(2 * 3 * 5, "batch")[b].view(2, 3, 5).tolist())
                    found = torch.cat([own.em.propensity[b].flatten(), own.em.relevance[b, 0]]).numpy()
                    assert found == pytest.approx(np.append(port.curves, port.relevance), abs=1e-8), place
                lists = random.exponential(STEPS * LISTS_DRAWN * longest, "lists")[b]
                drawn = random.uniform(STEPS * BATCH, "batch")[b].view(STEPS, BATCH).tolist()
                port.optimise(lists.view(STEPS, LISTS_DRAWN, longest).tolist(), drawn)
            assert own.theta[b, 0].numpy() == pytest.approx(port.theta, abs=1e-8), place
    negative, moved = zip(*((port.negative, abs(port.theta).max()) for port in ports), strict=True)
    assert sum(negative) > 5 or propensities == "position_based", "estimates stay where they are negative"
    assert min(moved) > 0.1


class NoReward(EstimatedRewards):
    def estimates(self, document, rounds):
        return 0 * super().estimates(document, rounds)


@pytest.mark.parametrize("what", ["a subclass of rewards", "a method that is set later"])
def test_a_changed_part_of_rewards_is_what_optimises(what, monkeypatch):
    """The loop of ol2r does not know it: without a reward nothing moves."""
    simulation = simulate(tiny(*SETTINGS, "click=trust_bias"), SEEDS, 13, handmade(LISTS, FEATURES), blocks=False)
    if what == "a subclass of rewards":
        simulation.ranker.rewards.__class__ = NoReward
    else:
        monkeypatch.setattr(
            EstimatedRewards,
            "estimates",
            lambda self, document, rounds: torch.zeros(document.shape, dtype=torch.float64),
        )
    assert [t for t, _ in rounds(simulation)][-1] == 12
    assert (simulation.ranker.theta == 0).all()


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


@pytest.mark.parametrize("user", ["trust_bias", "position_based"])
def test_curves_are_those_of_the_users(user):
    """P(click) of every grade and place, as the click model has it."""
    model = simulate(tiny(f"click={user}"), [0], 1).click
    for place, clicks in enumerate(model.probability):
        alpha, beta = click_curve(user, place + 1)
        assert (alpha * model.click_probability + beta).tolist() == pytest.approx(clicks.tolist(), abs=1e-12)


def test_curves_that_are_given_count():
    words = "positions=2", "ranker.alpha=[.5,.25,.1]", "ranker.propensities=position_based", "ranker.beta=[.2,.1]"
    simulation = simulate(tiny("ranker=intervention_aware", *words), [0], 1)
    assert simulation.ranker.rewards.propensity.tolist() == [[[0.5, 0.2], [0.25, 0.1]]]


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_the_oracle_has_gradients_over_all_lists_of_four(places):
    """Gradients and expectations of the oracle are those over all lists of four documents: of the expected reward J, by
    its difference quotient; estimates of relevance may be negative."""
    scores, weight, reward = [0.5, -1.0, 2.0, 0.1], [1.0, 0.6, 0.3, 0.25], [0.4, -0.7, 0.1, 1.3]
    lists = enumerate_rankings(4, places)

    def mean(values, scores=scores):
        return sum(probability(ranking, scores) * np.array(values(ranking)) for ranking in lists)

    def j(scores):
        return mean(lambda ranking: sum(w * reward[d] for w, d in zip(weight, ranking, strict=False)), scores)

    slope = mean(lambda ranking: reference.gradient([ranking], scores, reward, weight))
    steps = 1e-5 * np.eye(4)
    assert slope == pytest.approx([(j(scores + step) - j(scores - step)) / 2e-5 for step in steps], abs=1e-8)
    expected = mean(lambda ranking: reference.expected([ranking], scores, weight))
    exact = mean(lambda ranking: [weight[ranking.index(d)] if d in ranking else 0 for d in range(4)])
    assert expected == pytest.approx(exact, abs=1e-12)


def test_scores_far_apart_do_not_overflow():
    scores = torch.tensor([[0.0, -900.0, 900.0, -3000.0]], dtype=torch.float64)
    sampled = SampledLists(scores, torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 2, 4, dtype=torch.float64), 2)
    slope = sampled.gradient(torch.ones_like(scores), torch.tensor([1.0, 0.5], dtype=torch.float64))
    assert slope.tolist()[0] == pytest.approx([0] * 4, abs=1e-12)


def test_scores_far_apart_do_not_overflow_in_loops():
    """Which take them as at most 600 apart."""
    space, share, mean, slope = Workspace(np.empty(99), np.zeros(2, np.int64)), *np.empty((3, 4))
    weight = np.array([1.0, 0.5])
    policy.shares(np.array([0.0, -250, 250, -300]), share, space)
    policy.expected(share, -1 / share[None], weight[:, None], mean[:, None], space)
    assert mean.tolist() == pytest.approx([0.5, 0, 1, 0])
    policy.gradient(share, np.ones((1, 4)), np.ones(4), weight, slope, space)
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
    """At the first place P(click | relevant) starts at 1; alpha + beta may be more than that in the last bit. There a
    document was not clicked that is surely relevant."""
    em = made(1, torch.zeros(50, 2))
    em.propensity[0, 0] = torch.tensor([0.7 + 3e-16, 0.3], dtype=torch.float64)
    assert float(em.propensity[0, 0].sum()) > 1
    em.relevance[..., -1] = 800
    em.outcome[0, 0] = torch.tensor([0, -1, -1])
    em.count += 1
    em.estimate(Linear(), Streams(torch.tensor([0])).at("learn/ranker", 0))
    assert ((em.propensity >= 0) & (em.propensity <= 1)).all()
