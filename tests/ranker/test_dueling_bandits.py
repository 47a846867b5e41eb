"""DBGD, MGD and NSGD, also with document space projection, against plain ports: directions, lists, credit and steps of
every round on the same numbers."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from ol2r_cli.interfaces import Proposal
from ol2r_cli.loops import dueling
from ol2r_cli.ranker.dueling_bandits import orthonormal_basis
from tests.choices import play, seen, simulation
from tests.networks import NETWORK, weights
from tests.reference import document_space, interleaving, network, nsgd
from tests.reference.dueling import members, step, unit, winners
from tests.rounds import LISTS, SEEDS, fresh, ranked, replicas, rounds, shown
from tests.worlds import handmade, simulate, tiny


def listed_by_team_draft(random, b, rankings, positions, documents):
    """The list of replica b, and what clicks on it are worth."""
    count = len(rankings)
    circles = -(-min(positions, documents) // count)
    turns = random.uniform(circles * count, "turns")[b].unflatten(0, (circles, count)).argsort(1).flatten().tolist()
    listed, authors = interleaving.team_draft(rankings, turns, positions)
    return listed, lambda clicks: interleaving.credit_team_draft(authors, clicks, count)


def listed_by_chance(random, b, rankings, positions, documents):
    """The list of replica b by probabilistic interleaving, and what clicks on it are worth."""
    shown = min(positions, documents)
    authors = (random.uniform(shown, "author")[b] * len(rankings)).int().tolist()
    listed = interleaving.probabilistic(rankings, authors, random.uniform(shown, "document")[b].tolist(), positions)
    return listed, lambda clicks: interleaving.credit_probabilistic(rankings, listed, clicks)


EXPLORATIONS = {"team_draft": listed_by_team_draft, "probabilistic_interleaving": listed_by_chance}


def test_every_round_is_that_of_the_definition():
    """The port draws directions of all parameters, makes the list and moves by itself; we only show it the clicks.
    Directions are of theta also with a network, and their rate is what it says."""
    mlp = ("ranker/model=mlp", "ranker.model.init=standard", *NETWORK)
    for case in [
        ("team_draft", "dbgd", (), 10, "perfect", 0.5, 0.9, 0.1),
        ("probabilistic_interleaving", "mgd", (), 5, "random", 0.1, 0.9, 0.3),
        ("team_draft", "dbgd", mlp, 5, "perfect", 0.5, 0.9, 1.0),
        ("probabilistic_interleaving", "mgd", mlp, 5, "random", 0.1, 1.0, 2.0),
    ]:
        exploration, ranker, model, positions, click, rate, decay, delta = case
        words = f"ranker={ranker}", f"exploration={exploration}", f"click={click}", f"positions={positions}", *model
        settings = f"ranker.learning_rate={rate}", f"ranker.decay={decay}", f"ranker.delta={delta}"
        config, count = tiny(*words, *settings), 15 if model else 60
        made = (simulate(config, SEEDS, count, handmade(LISTS), trace_regret=regret) for regret in (False, True))
        simulation, traced = made
        own, candidates, streams = simulation.ranker, config.ranker.candidates, fresh()
        learned = [(theta, rate) for theta in own.theta.numpy().astype(float)]
        near, happened = 1e-6 if model else 1e-9, Counter[str]()
        for (t, one), (_, other) in zip(rounds(simulation), rounds(traced), strict=True):
            lengths = one.candidates.mask.sum(1).tolist()
            assert shown(one.ranking, lengths) == shown(other.ranking, lengths), "whether all places are drawn or not"
            documents, explore, size = one.candidates.mask.shape[1], streams.at("explore", t), own.theta.shape[1]
            normals = streams.at("judge", t).normal(candidates * size).unflatten(1, (candidates, size)).numpy()
            for b, seen_here in replicas(one):
                directions = [unit(normal) for normal in normals[b]]
                compared = members(learned[b][0], delta, directions)
                if model:
                    scores = [network.scores(weights(member), seen_here.features) for member in compared]
                else:
                    scores = [seen_here.features @ member for member in compared]
                assert seen_here.scores == pytest.approx(np.array(scores), abs=near), (case, t, b)
                chance = explore.uniform(documents)[b, : lengths[b]].tolist()
                rankings = [ranked(row, chance) for row in seen_here.scores.tolist()]
                listed, credit = EXPLORATIONS[exploration](explore, b, rankings, positions, documents)
                assert seen_here.ranking == listed, (case, t, b)
                earned = credit(seen_here.clicks)
                learned[b] = step(*learned[b], directions, earned, decay)
                happened["steps"] += bool(winners(earned))
                happened["ties"] += any(seen_here.clicks) and not winners(earned)
                assert own.theta[b].tolist() == pytest.approx(learned[b][0], abs=near / 10), (case, t, b)
                assert float(own.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), case
            assert torch.equal(own.deploy(), own.theta), case
        assert count / 8 < happened["steps"] < count * len(SEEDS), case
        assert happened["ties"] > 10 or model, case


EARNED = [  # by the current ranker and three candidates -> the winners
    ([0.0, 0.0, 0.0, 0.0], []),
    ([1.0, 1.0, 1.0, 0.0], []),
    ([0.0, 1.0, 0.0, 0.0], [1]),
    ([1.0, 0.0, 2.0, 1.5], [2, 3]),
    ([0.5, 0.6, 0.7, 0.8], [1, 2, 3]),
    ([0.3, 0.3, 0.2, 0.1], []),
]


def test_moves_to_the_mean_of_the_winners_and_decays_only_then():
    """Document 0 is clicked, document 1 is not: what it would be worth to the losers does not count."""
    count = len(EARNED)
    settings = "ranker.candidates=3", "ranker.learning_rate=0.1", "ranker.decay=0.5", "positions=2"
    simulation = simulate(tiny("ranker=mgd", *settings), list(range(count)), 1, handmade([[0, 0]]))
    ((_, one),) = simulation.play()
    own = simulation.ranker
    own.theta.zero_()
    own.rate.fill_(0.1)
    order, directions = torch.tensor([[0, 1]]).expand(count, -1), own.directions
    torch.testing.assert_close(directions.norm(dim=2), torch.ones(count, 3, dtype=torch.float64))
    earned = torch.tensor([earned for earned, _ in EARNED], dtype=torch.float64)
    proposal = Proposal(order, one.prediction.scores[:, 0], credit=torch.stack([earned, 2 - earned], dim=2))
    clicks = torch.tensor([[True, False]]).expand(count, -1)
    again = dataclasses.replace(one, proposal=proposal, order=order, ranking=order, clicks=clicks)
    own.learn(again, simulation.streams.at("learn/ranker", 0))
    for b, (_, won) in enumerate(EARNED):
        moved = 0.1 * directions[b, [n - 1 for n in won]].mean(0) if won else torch.zeros(4, dtype=torch.float64)
        torch.testing.assert_close(own.theta[b], moved)
        assert float(own.rate[b]) == pytest.approx(0.05 if won else 0.1)


def test_identical_rankings_never_move():
    """All documents are equal: all members break ties alike, so that none of them can be better."""
    dataset = handmade(LISTS)
    alike = dataclasses.replace(dataset, features=torch.ones_like(dataset.features))
    for exploration in EXPLORATIONS:
        config = tiny("ranker=mgd", f"exploration={exploration}", "click=random", "positions=5")
        simulation = simulate(config, SEEDS, 40, alike)
        assert sum(int(one.clicks.sum()) for _, one in rounds(simulation)) > 50
        assert (simulation.ranker.theta == 0).all(), exploration
        assert (simulation.ranker.rate == config.ranker.learning_rate).all(), exploration


def test_directions_are_uniform_on_the_sphere():
    """No axis and no side is preferred: mean 0 and covariance 1/F, within 4 standard errors."""
    simulation = simulate(tiny("ranker=mgd", "ranker.candidates=100"), list(range(100)), 1, handmade([[0, 1]]))
    next(simulation.play())
    u = simulation.ranker.directions.flatten(0, 1)
    assert u.mean(0).abs().max() < 4 * (0.25 / len(u)) ** 0.5
    spread = u.mT @ u / len(u) - torch.eye(4, dtype=torch.float64) / 4
    assert spread.abs().max() < 4 * (3 / (4 * 6) / len(u)) ** 0.5, "E[u^4] = 3 / (F (F + 2))"


# NSGD and document space projection.

FEATURES, RATE, DECAY = 7, 0.4, 0.9
DSP = "ranker.projection=document_space"
NSGD = (
    *("ranker=nsgd", "ranker.candidates=6", "ranker.drawn=12", "ranker.memory=13", "ranker.avoided=5"),
    *("ranker.difficult_queries=3", "ranker.window=6"),
)


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


def test_every_round_of_nsgd_and_of_projection():
    """The port draws, lists, chooses among winners, projects, moves and stores; we only show it the clicks."""
    for case in [
        (NSGD, "team_draft", 10, "informational"),
        ((*NSGD, DSP), "probabilistic_interleaving", 5, "random"),
        ((*NSGD, "ranker.difficult_queries=9", "ranker.window=2"), "team_draft", 5, "navigational"),
        (("ranker=dbgd", DSP), "team_draft", 5, "navigational"),
        (("ranker=mgd", DSP, "ranker.document_space.normalise=false"), "team_draft", 10, "informational"),
    ]:
        words, exploration, positions, click = case
        settings = f"ranker.learning_rate={RATE}", f"ranker.decay={DECAY}", f"exploration={exploration}"
        config = tiny(*words, *settings, f"click={click}", f"positions={positions}")
        own, dataset, streams = config.ranker, with_equal_documents(), fresh()
        simulation = simulate(config, SEEDS, 70, dataset, loops=True, trace_blocks=False, trace_regret=False)
        is_nsgd, count = words[0] == "ranker=nsgd", own.candidates
        drawn = own.drawn if is_nsgd else count
        learned = [(np.zeros(FEATURES), RATE) for _ in SEEDS]
        lost = [nsgd.LostDirections(own.get("memory", 1)) for _ in SEEDS]
        queries = [nsgd.StoredQueries(own.get("difficult_queries", 0), own.get("window", 0)) for _ in SEEDS]
        recent: list[list[int]] = [[] for _ in SEEDS]
        happened = Counter[str]()
        for t, one in rounds(simulation):
            width, explore = one.candidates.mask.shape[1], streams.at("explore", t)
            normals = streams.at("judge", t).normal(drawn * FEATURES).unflatten(1, (drawn, FEATURES)).numpy()
            for b, here in replicas(one):
                rows, place = one.candidates.document[b].tolist(), (case, t, b)
                avoided = lost[b].worst(own.avoided) if is_nsgd else []
                directions = [nsgd.null_space_direction(normal, avoided) for normal in normals[b]]
                directions = nsgd.preselected(directions, here.features, count)
                drawn_here = simulation.ranker.directions[b].numpy().copy()
                assert drawn_here == pytest.approx(np.array(directions), abs=1e-7), place
                directions = list(drawn_here)  # rounding errors grow where directions that lost are nearly dependent
                theta, rate = learned[b]
                compared = members(theta, own.delta, directions)
                assert here.scores == pytest.approx(np.array(compared) @ here.features.T, abs=1e-9), place
                chance = explore.uniform(width)[b, : len(here.features)].tolist()
                rankings = [ranked(row, chance) for row in here.scores.astype(np.float32).tolist()]
                listed, credit = EXPLORATIONS[exploration](explore, b, rankings, positions, width)
                assert here.ranking == listed, place
                earned = credit(here.clicks)
                won = winners(earned)
                happened["several winners"] += len(won) > 1
                if queries[b].room:
                    before = [query.round for query in queries[b].queries]
                    queries[b].store(here.features, listed, here.clicks, t)
                    after = [query.round for query in queries[b].queries]
                    replaced = [t - old for old, new in zip(before, after, strict=False) if new != old]
                    happened["replaced, old"] += any(age > own.window for age in replaced)
                    happened["replaced, easier"] += any(age <= own.window for age in replaced)
                    won = nsgd.winner(won, compared, queries[b])
                found = document_space.examined(
                    [rows[document] for document in listed], here.clicks, own.document_space.below
                )
                if won:
                    moved = sum(directions[member - 1] for member in won) / len(won)
                    if own.projection == "document_space":
                        space = dataset.features[recent[b] + found].double().numpy()
                        moved = document_space.project(moved, space, own.document_space.normalise)
                    learned[b] = theta + rate * moved, rate * DECAY
                recent[b] = document_space.newest(recent[b], found, own.document_space.earlier)
                lost[b].store(directions, earned)
                happened["steps"] += bool(won)
                assert simulation.ranker.theta[b].numpy() == pytest.approx(learned[b][0], abs=1e-9), place
                assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12), place
        assert happened["steps"] > 20, case
        if own.candidates > 1:
            assert happened["several winners"] > 5, case
        if is_nsgd:
            assert min(len(each.values) for each in lost) == own.memory, "the ring has been filled"
        if own.get("difficult_queries", 0):
            assert happened["replaced, old"] > 3, case
            assert happened["replaced, easier"] > 3 or own.window < own.difficult_queries, case


def test_with_nothing_avoided_and_nothing_selected_it_is_mgd():
    """No memory is used, as many are drawn as are tried, and all winners count."""
    plain = "ranker.avoided=0", "ranker.drawn=9", "ranker.difficult_queries=0"
    lists, learned = [], []
    for words in ("ranker=mgd",), ("ranker=nsgd", *plain):
        with torch.inference_mode():
            running = simulation(words, rounds=60)
            lists.append(seen(play(running, 60)))
            learned.append(running.ranker.theta)
    assert lists[0] == lists[1]
    torch.testing.assert_close(learned[0], learned[1])
    assert (learned[0] != 0).any()


def test_directions_are_uniform_in_the_null_space():
    """Mean 0, and mean uu' is projector / rank, within 4 standard errors: E u_i^2 u_j^2 <= 3 / (r (r + 2))."""
    replicas, count, avoided = 100, 100, 4
    words = f"ranker.candidates={count}", f"ranker.drawn={count}", f"ranker.memory={count}", f"ranker.avoided={avoided}"
    running = simulate(tiny("ranker=nsgd", *words), list(range(replicas)), 1, handmade([[0, 1]], FEATURES))
    rows = torch.randn(3, FEATURES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows = torch.cat([rows, rows[:1] - 2 * rows[1:2]])  # of rank 3
    running.ranker.lost[:, :avoided] = rows
    running.ranker.loss[:, :avoided] = -1
    candidates, _ = running.train_split.serve(torch.zeros(replicas, dtype=torch.int64))
    u = running.ranker.draw(candidates, running.streams.at("judge", 0)).flatten(0, 1)
    rank = FEATURES - 3
    projector = torch.eye(FEATURES, dtype=torch.float64) - torch.linalg.pinv(rows) @ rows
    assert u.mean(0).abs().max() < 4 * (1 / rank / len(u)) ** 0.5
    spread = u.mT @ u / len(u) - projector / rank
    assert spread.abs().max() < 4 * (3 / (rank * (rank + 2)) / len(u)) ** 0.5


def test_with_few_features_one_direction_is_left_and_that_is_told():
    running = simulate(tiny("ranker=nsgd"), SEEDS, 60, handmade(LISTS, 4))
    told = "ranker.avoided is 25, but with 4 features 3 directions are avoided"
    assert running.ranker.warnings == (told,)
    for _, _ in rounds(running):
        assert running.ranker.theta.isfinite().all()
    assert not simulate(tiny("ranker=nsgd"), SEEDS, 1, handmade(LISTS, 26)).ranker.warnings


def test_settings_that_do_not_go_together_are_refused():
    for words, message in (
        (("ranker=nsgd", "ranker.drawn=8"), "ranker.drawn must be at least ranker.candidates, 9, got 8"),
        (("ranker=nsgd", "ranker.memory=8"), "ranker.memory must be at least ranker.candidates, 9, got 8"),
        (("ranker=nsgd", "ranker.avoided=61"), "ranker.avoided must be at most ranker.memory, 60, got 61"),
        (
            ("ranker=mgd", DSP, "ranker/model=mlp"),
            "ranker.projection=document_space needs a linear model: use ranker/model=linear",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            build(tiny(*words).ranker)


def test_a_basis_spans_what_may_be_zero_equal_or_collinear():
    """Against the singular value decomposition; repeated vectors and zeros change nothing. The last is a full ring of
    lost directions, in the precision of a GPU."""
    for count, parameters, rank in ((1, 1, 0), (1, 4, 1), (6, 4, 2), (30, 12, 10), (5, 12, 5), (9, 3, 3), (60, 46, 46)):
        random = np.random.default_rng(count)
        few = random.random((2, rank, parameters)).astype(np.float32)
        vectors = torch.from_numpy(random.integers(-2, 3, size=(2, count, rank)) @ few.astype(np.float64))
        vectors = vectors.float() if count == 60 else vectors
        basis, ranks = orthonormal_basis(vectors), torch.linalg.matrix_rank(vectors, rtol=1e-6)
        assert basis.shape == (2, min(count, parameters), parameters)
        lengths = torch.arange(basis.shape[1]) < ranks[:, None]
        torch.testing.assert_close(basis @ basis.mT, torch.diag_embed(lengths.double()), atol=1e-10, rtol=0)
        normal = torch.randn(2, 3, parameters, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        inside = normal @ basis.mT @ basis
        for rows, before, after in zip(vectors.double().numpy(), normal.numpy(), inside.numpy(), strict=True):
            expected = np.array([document_space.project(each, rows, False) for each in before])
            assert after == pytest.approx(expected, abs=1e-8 if count < 60 else 1e-4), (count, parameters, rank)
        more = orthonormal_basis(torch.cat([vectors, 2 * vectors[:, :1], torch.zeros_like(vectors[:, :1]), vectors], 1))
        torch.testing.assert_close(normal @ more.mT @ more, inside, atol=1e-4 if count == 60 else 1e-8, rtol=0)


def test_queries_of_equal_ease_do_not_replace_each_other():
    """1 = 1/2 + 1/3 + 1/6, in whatever order they are added."""
    with torch.inference_mode():
        running = simulation(("ranker=nsgd", "ranker.difficult_queries=1"), rounds=1, loops=True, positions=10)
        happened, queries = next(running.play())[1], running.ranker.queries
        queries.ease.fill_(torch.inf)
        for t, clicked in enumerate(([0], [1, 2, 5], [1, 2])):
            clicks = torch.zeros_like(happened.clicks)
            clicks[:, clicked] = True
            by_loops = tuple(np.copy(part) for part in queries.for_loops())
            start, documents = (int(part[0]) for part in (happened.candidates.document[:, 0], queries.length))
            ranking = happened.ranking[0].numpy()
            dueling.store_query(t, 0, by_loops, start, documents, ranking, clicks[0].numpy())
            queries.store(dataclasses.replace(happened, clicks=clicks), t)
            assert by_loops[1][0, 0] == queries.ease[0, 0], t
            assert int(queries.stored[0, 0]) == int(by_loops[2][0, 0]) == (0, 0, 2)[t], t
