"""NSGD, and document space projection over DBGD, MGD and NSGD, round by round against plain ports."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest
import torch

from ol2r_cli.config.instantiate import build
from ol2r_cli.dataset.table import Dataset
from tests.choices import play, seen, simulation
from tests.ranker.test_dueling_bandits import EXPLORATIONS
from tests.reference import document_space, dueling, nsgd
from tests.rounds import LISTS, SEEDS, fresh, ranked, rounds
from tests.worlds import handmade, simulate, tiny

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


@pytest.mark.parametrize(
    ("words", "exploration", "positions", "click"),
    [
        (NSGD, "team_draft", 10, "informational"),
        ((*NSGD, DSP), "probabilistic_interleaving", 5, "random"),
        ((*NSGD, "ranker.difficult_queries=9", "ranker.window=2"), "team_draft", 5, "navigational"),
        (("ranker=dbgd", DSP), "team_draft", 5, "navigational"),
        (("ranker=mgd", DSP, "ranker.document_space.normalise=false"), "team_draft", 10, "informational"),
        pytest.param((*NSGD, DSP), "team_draft", 10, "perfect", marks=pytest.mark.slow),
        pytest.param(
            (*NSGD, "ranker.difficult_queries=0"), "probabilistic_interleaving", 5, "random", marks=pytest.mark.slow
        ),
        pytest.param(
            ("ranker=mgd", DSP, "ranker.document_space.earlier=0", "ranker.document_space.below=0"),
            *("probabilistic_interleaving", 5, "random"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_round_is_that_of_the_definition(words, exploration, positions, click):
    """The port draws, lists, chooses among winners, projects, moves and stores; we only show it the clicks."""
    settings = f"ranker.learning_rate={RATE}", f"ranker.decay={DECAY}", f"exploration={exploration}"
    config = tiny(*words, *settings, f"click={click}", f"positions={positions}")
    own, dataset, streams = config.ranker, with_equal_documents(), fresh()
    simulation = simulate(config, SEEDS, 120, dataset, loops=True, trace_blocks=False, trace_regret=False)
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
        for b, length in enumerate(one.candidates.mask.sum(1).tolist()):
            rows = one.candidates.document[b, :length].tolist()
            documents = dataset.features[rows].double().numpy()
            avoided = lost[b].worst(own.avoided) if is_nsgd else []
            directions = [nsgd.null_space_direction(normal, avoided) for normal in normals[b]]
            directions = nsgd.preselected(directions, documents, count)
            drawn_here = simulation.ranker.directions[b].numpy().copy()
            assert drawn_here == pytest.approx(np.array(directions), abs=1e-7)
            directions = list(drawn_here)  # rounding errors grow where directions that lost are nearly dependent
            theta, rate = learned[b]
            members = dueling.members(theta, own.delta, directions)
            scores = one.prediction.scores[b, :, :length].numpy()
            assert scores == pytest.approx(np.array(members) @ documents.T, abs=1e-9)
            chance = explore.uniform(width)[b, :length].tolist()
            rankings = [ranked(row, chance) for row in scores.astype(np.float32).tolist()]
            listed, credit = EXPLORATIONS[exploration](explore, b, rankings, positions, width)
            assert one.ranking[b, :length].tolist() == listed, f"round {t}, replica {b}"
            clicks = one.clicks[b, : len(listed)].tolist()
            earned = credit(clicks)
            won = dueling.winners(earned)
            happened["several winners"] += len(won) > 1
            if queries[b].room:
                before = [query.round for query in queries[b].queries]
                queries[b].store(documents, listed, clicks, t)
                after = [query.round for query in queries[b].queries]
                replaced = [t - old for old, new in zip(before, after, strict=False) if new != old]
                happened["replaced, old"] += any(age > own.window for age in replaced)
                happened["replaced, easier"] += any(age <= own.window for age in replaced)
                won = nsgd.winner(won, members, queries[b])
            found = document_space.examined([rows[document] for document in listed], clicks, own.document_space.below)
            if won:
                step = sum(directions[member - 1] for member in won) / len(won)
                if own.projection == "document_space":
                    space = dataset.features[recent[b] + found].double().numpy()
                    step = document_space.project(step, space, own.document_space.normalise)
                learned[b] = theta + rate * step, rate * DECAY
            recent[b] = document_space.newest(recent[b], found, own.document_space.earlier)
            lost[b].store(directions, earned)
            happened["steps"] += bool(won)
            assert simulation.ranker.theta[b].numpy() == pytest.approx(learned[b][0], abs=1e-9), f"round {t}"
            assert float(simulation.ranker.rate[b]) == pytest.approx(learned[b][1], rel=1e-12)
    assert happened["steps"] > 20
    if own.candidates > 1:
        assert happened["several winners"] > 5
    if is_nsgd:
        assert min(len(each.values) for each in lost) == own.memory, "the ring has been filled"
    if own.get("difficult_queries", 0):
        assert happened["replaced, old"] > 3
        assert happened["replaced, easier"] > 3 or own.window < own.difficult_queries


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


def test_directions_are_orthogonal_to_the_worst_that_lost():
    """With the settings that it comes with, once it has stored as many as it can."""
    dataset = handmade(LISTS, 46)
    running = simulate(tiny("ranker=nsgd", "click=informational"), SEEDS, 150, dataset)
    for _, _ in rounds(running):
        loss, lost = running.ranker.loss.clone(), running.ranker.lost.clone()
    assert (loss < 0).all()
    candidates, _ = running.train_split.serve(torch.tensor([3, 3, 3]))
    directions = running.ranker.draw(candidates, running.streams.at("judge", 150))
    assert directions.shape == (3, 9, 46)
    torch.testing.assert_close(directions.norm(dim=2), torch.ones(3, 9, dtype=torch.float64))
    for b in range(3):
        order = sorted(range(60), key=lambda place: (loss[b, place].item(), -place))
        cosines = (directions[b] @ lost[b].mT).abs().amax(0)
        assert cosines[order[:25]].max() < 1e-12
        assert cosines[order[25:]].min() > 1e-3


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ranker=nsgd", "ranker.drawn=8"), "ranker.drawn must be at least ranker.candidates, 9, got 8"),
        (("ranker=nsgd", "ranker.memory=8"), "ranker.memory must be at least ranker.candidates, 9, got 8"),
        (("ranker=nsgd", "ranker.avoided=61"), "ranker.avoided must be at most ranker.memory, 60, got 61"),
        (
            ("ranker=mgd", DSP, "ranker/model=mlp"),
            "ranker.projection=document_space needs a linear model: use ranker/model=linear",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(words, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        build(tiny(*words).ranker)
