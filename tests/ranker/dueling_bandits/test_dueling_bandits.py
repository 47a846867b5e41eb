"""DBGD, MGD and NSGD, also with document space projection, against plain ports: directions, lists, credit and steps of
every round on the same numbers."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.dataset.table import Dataset
from ol2r_cli.ranker import dueling_bandits
from tests.choices import simulation
from tests.exploration.interleaved import by_chance, by_team_draft
from tests.networks import NETWORK, weights
from tests.reference import document_space, network, nsgd
from tests.reference.dueling import members, winners
from tests.rounds import LISTS, SEEDS, fresh, ranked, replicas, rounds
from tests.worlds import handmade, simulate, tiny

EXPLORATIONS = {"team_draft": by_team_draft, "probabilistic_interleaving": by_chance}
FEATURES = 7
DSP = "ranker.projection=document_space"
MLP = ("ranker/model=mlp", "ranker.model.init=standard", *NETWORK)
NSGD = (
    *("ranker=nsgd", "ranker.candidates=6", "ranker.drawn=12", "ranker.memory=13", "ranker.avoided=5"),
    *("ranker.difficult_queries=3", "ranker.window=6"),
)
CASES = [  # learning rate, decay and delta come last
    (("ranker=dbgd",), "team_draft", 10, "perfect", 0.5, 0.9, 0.1),
    (("ranker=mgd",), "probabilistic_interleaving", 5, "random", 0.1, 0.9, 0.3),
    (("ranker=dbgd", *MLP), "team_draft", 5, "perfect", 0.5, 0.9, 1.0),
    (("ranker=mgd", *MLP), "probabilistic_interleaving", 5, "random", 0.1, 1.0, 2.0),
    (NSGD, "team_draft", 10, "informational", 0.4, 0.9, 1.0),
    ((*NSGD, DSP), "probabilistic_interleaving", 5, "random", 0.4, 0.9, 1.0),
    ((*NSGD, "ranker.difficult_queries=9", "ranker.window=2"), "team_draft", 5, "navigational", 0.4, 0.9, 1.0),
    (("ranker=dbgd", DSP), "team_draft", 5, "navigational", 0.4, 0.9, 1.0),
    (("ranker=mgd", DSP, "ranker.document_space.normalise=false"), "team_draft", 10, "informational", 0.4, 0.9, 1.0),
]


def with_equal_documents() -> Dataset:
    """Lists of which some have two equal documents, two collinear ones, and one whose features are all zero."""
    dataset = handmade(LISTS, FEATURES)
    features = dataset.features.clone()
    for first, last in zip(dataset.offsets[:-1].tolist(), dataset.offsets[1:].tolist(), strict=True):
        if last - first > 5:
            features[first + 1] = features[first]
            features[first + 2] = 2 * features[first + 3]
            features[first + 4] = 0
    return dataclasses.replace(dataset, features=features)


class Port:
    """One replica, with the settings of its ranker: theta, the rate, and what NSGD and document space projection
    store."""

    def __init__(self, own, theta, rate, dataset):
        self.own, self.theta, self.rate, self.dataset = own, theta, rate, dataset
        self.lost = nsgd.LostDirections(own.get("memory", 1))
        self.queries = nsgd.StoredQueries(own.get("difficult_queries", 0), own.get("window", 0))
        self.recent: list[int] = []
        self.happened = Counter[str]()

    def directions(self, normals, here):
        avoided = self.lost.worst(self.own.get("avoided", 0))
        drawn = [nsgd.null_space_direction(normal, avoided) for normal in normals]
        return nsgd.preselected(drawn, here.features, self.own.candidates)

    def learn(self, t, here, rows, directions, earned):
        """Move theta by the directions that won, and store what is to be stored; `rows` are those of the list."""
        won, own = winners(earned), self.own
        self.happened["several winners"] += len(won) > 1
        self.happened["ties"] += any(here.clicks) and not won
        if self.queries.room:
            self.store(t, here)
            won = nsgd.winner(won, members(self.theta, own.delta, directions), self.queries)
        found = document_space.examined(rows, here.clicks, own.document_space.below)
        if won:
            moved = sum(directions[member - 1] for member in won) / len(won)
            if own.projection == "document_space":
                space = self.dataset.features[self.recent + found].double().numpy()
                moved = document_space.project(moved, space, own.document_space.normalise)
            self.theta, self.rate = self.theta + self.rate * moved, self.rate * own.decay
        self.recent = document_space.newest(self.recent, found, own.document_space.earlier)
        self.lost.store(directions, earned)
        self.happened["steps"] += bool(won)

    def store(self, t, here):
        before = [query.round for query in self.queries.queries]
        self.queries.store(here.features, here.ranking, here.clicks, t)
        after = zip(before, self.queries.queries, strict=False)
        for age in (t - old for old, query in after if query.round != old):
            self.happened["replaced, old" if age > self.own.window else "replaced, easier"] += 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_round_is_that_of_the_definition(case):
    """The port draws directions, makes the list, chooses among winners, projects, moves and stores; we only show it the
    clicks. Directions are of theta also with a network, and their rate is what it says."""
    words, exploration, positions, click, rate, decay, delta = case
    settings = f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"ranker.delta={delta}"
    config = tiny(*words, *settings, f"exploration={exploration}", f"click={click}", f"positions={positions}")
    is_network, own, dataset, streams = MLP[0] in words, config.ranker, with_equal_documents(), fresh()
    total, near = (15, 1e-6) if is_network else (70, 1e-9)
    simulation = simulate(config, SEEDS, total, dataset, blocks=False, regret=False)
    ranker = simulation.ranker
    drawn, size = own.get("drawn", own.candidates), ranker.theta.shape[1]
    ports = [Port(own, theta, rate, dataset) for theta in ranker.theta.numpy().astype(float)]
    for t, one in rounds(simulation):
        width, explore = one.candidates.mask.shape[1], streams.at("explore", t)
        normals = streams.at("judge", t).normal(drawn * size).unflatten(1, (drawn, size)).numpy()
        for b, here in replicas(one):
            port, place = ports[b], (t, b)
            directions = ranker.directions[b].numpy().copy()
            assert directions == pytest.approx(np.array(port.directions(normals[b], here)), abs=1e-7), place
            # ours from here on: rounding errors grow where directions that lost are nearly dependent
            compared = members(port.theta, delta, list(directions))
            scoring = [weights(member, FEATURES) for member in compared] if is_network else compared
            score = network.scores if is_network else lambda member, features: features @ member
            scores = [score(member, here.features) for member in scoring]
            assert here.scores == pytest.approx(np.array(scores), abs=near), place
            chance = explore.uniform(width)[b, : len(here.features)].tolist()
            rankings = [ranked(row, chance) for row in here.scores.astype(np.float32).tolist()]
            listed, credit = EXPLORATIONS[exploration](explore, b, rankings, positions)
            assert here.ranking == listed, place
            rows = one.candidates.document[b][listed].tolist()
            port.learn(t, here, rows, list(directions), credit(here.clicks))
            assert ranker.theta[b].numpy() == pytest.approx(port.theta, abs=near / 10), place
            assert float(ranker.rate[b]) == pytest.approx(port.rate, rel=1e-12), place
    check_that_it_happened(ports, total, is_network)


def check_that_it_happened(ports, total, is_network):
    """Steps, ties, several winners, and in NSGD what is stored in place of something."""
    happened, own = sum((port.happened for port in ports), Counter[str]()), ports[0].own
    assert total / 8 < happened["steps"] < total * len(SEEDS)
    assert happened["ties"] > 10 or is_network
    assert happened["several winners"] > 5 or own.candidates == 1 or is_network
    if "drawn" in own:
        assert min(len(port.lost.values) for port in ports) == own.memory, "the ring has been filled"
        assert happened["replaced, old"] > 3
        assert happened["replaced, easier"] > 3 or own.window < own.difficult_queries


def test_with_few_features_one_direction_is_left():
    """And that is told."""
    running = simulate(tiny("ranker=nsgd"), SEEDS, 60, handmade(LISTS, 4))
    told = "ranker.avoided is 25, but with 4 features 3 directions are avoided"
    assert running.ranker.warnings == (told,)
    for _, _ in rounds(running):
        assert running.ranker.theta.isfinite().all()
    assert not simulate(tiny("ranker=nsgd"), SEEDS, 1, handmade(LISTS, 26)).ranker.warnings


def test_queries_of_equal_ease_do_not_replace_each_other():
    """1 = 1/2 + 1/3 + 1/6, in whatever order they are added."""
    with torch.inference_mode():
        running = simulation(("ranker=nsgd", "ranker.difficult_queries=1"), rounds=1, positions=10)
        happened, ranker = next(running.play())[1], running.ranker
        ranker.queries.ease.fill_(torch.inf)
        b = int(happened.shown.sum(1).argmax())
        for t, clicked in enumerate(([0], [1, 2, 5], [1, 2])):
            clicks = torch.zeros_like(happened.clicks)
            clicks[:, clicked] = True
            ranker.learn(dataclasses.replace(happened, clicks=clicks), running.streams.at("learn/ranker", t))
            assert int(ranker.queries.stored[b, 0]) == (0, 0, 2)[t], t


def test_a_method_that_loops_would_leave_out_is_refused():
    """Loops decide who has won in NSGD; a class that learns by itself may do otherwise."""
    with pytest.raises(ValueError, match=r"^OwnNSGD must define learn where it defines winners, which loops"):
        simulation(("ranker=nsgd", f"ranker._target_={__name__}.OwnNSGD"))
    simulation(("ranker=nsgd", f"ranker._target_={__name__}.OwnLearning"))


def test_a_projected_step_is_moved_by_the_method_of_a_subclass():
    """Twice as far: a step in the document space is one of `move`, too."""
    words = "ranker=mgd", "ranker.projection=document_space", "ranker.decay=1", "click=random"
    moved = []
    for name in "ol2r_cli.ranker.dueling_bandits.DuelingBandits", f"{__name__}.OwnSteps":
        running = simulation((*words, f"ranker._target_={name}"), rounds=3)
        with torch.inference_mode():
            for _ in running.play():
                if running.ranker.theta.any():
                    break
        moved.append(running.ranker.theta.clone())
    assert moved[0].any()
    torch.testing.assert_close(moved[1], 2 * moved[0])


class OwnNSGD(dueling_bandits.NSGD):
    def winners(self, interaction, random):
        return super().winners(interaction, random)


class OwnSteps(dueling_bandits.DuelingBandits):
    def move(self, direction, moved):
        super().move(2 * direction, moved)


class OwnLearning(OwnNSGD):
    def learn(self, interaction, random):
        self.move(self.directions[:, 0], self.winners(interaction, random)[:, 0])
