"""The loss over labelled lists against a loop over all pairs in float64, and its history against a list of queries."""

from __future__ import annotations

import numpy as np
import torch

from ol2r_cli.interfaces import Candidates, Interaction, Oracle, Prediction, Preferences, Proposal, RunContext
from ol2r_cli.learning import losses as labelled
from ol2r_cli.learning.tangents import LinearTangent
from ol2r_cli.tensor.streams import Streams
from tests.reference.objective import sigmoid
from tests.reference.ollambdarank import swap_effect

LISTS = [[2, 0, 1], [3], [4, 4], [1, 0, 0, 4, 2, 2, 0, 0, 1, 0, 3], [0] * 6, [0, 2], [0, 3, 0, 1, 1, 2, 0]]
BEFORE = [0, 1, 4]  # labels of documents of other splits, in front of the first list
CPU = torch.device("cpu")


def oracle(lists=LISTS):
    length = torch.tensor([len(labels) for labels in lists])
    labels = torch.tensor([*BEFORE, *(label for labels in lists for label in labels), 4], dtype=torch.int8)
    return Oracle(labels, len(BEFORE) + length.cumsum(0) - length, length, "by hand")


def pairs(labels):
    return [(i, j) for i in range(len(labels)) for j in range(len(labels)) if labels[i] > labels[j]]


def forces(labels, scores, weighed):
    """One list, pair by pair: the winner rises and the loser falls by sigma(s_loser - s_winner)."""
    total = np.zeros(len(labels))
    for i, j in pairs(labels):
        force = sigmoid(scores[j] - scores[i]) * (swap_effect(labels, scores, (i, j)) if weighed else 1)
        total[i] += force
        total[j] -= force
    return total


def some_scores(*shape, ties=False, seed=0):
    scores = 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return scores.round() if ties else scores


def test_forces_are_those_of_all_pairs(monkeypatch):
    for weighed in [True, False]:
        for ties in [True, False]:
            for cells in [1, 200, labelled.CELLS]:
                monkeypatch.setattr(labelled, "CELLS", cells)
                query = torch.tensor([[0, 3, 6, 3, 1], [5, 2, 4, 6, 0]])
                counted = torch.tensor([[True, True, True, True, True], [True, True, True, False, True]])
                sample = labelled.LabelledLists(oracle(), weighed, CPU).sample(query, counted)
                longest = sample.document.shape[1] // query.shape[1]
                scores = some_scores(2, 3, sample.document.shape[1], ties=ties)
                found = sample.pull(scores).unflatten(2, (-1, longest))
                for replica in range(2):
                    assert sample.pairs[replica] == sum(
                        len(pairs(LISTS[q]))
                        for q, counts in zip(query[replica], counted[replica], strict=True)
                        if counts
                    ), (weighed, ties, cells)
                    for place, number in enumerate(query[replica].tolist()):
                        labels = LISTS[number] if counted[replica, place] else []
                        own = sample.document[replica].view(-1, longest)[place, : len(labels)]
                        first = int(oracle().start[number])
                        assert own.tolist() == list(range(first, first + len(labels))), (weighed, ties, cells)
                        for member in range(3):
                            values = scores[replica, member].view(-1, longest)[place, : len(labels)].tolist()
                            expected = np.pad(forces(labels, values, weighed), (0, longest - len(labels)))
                            np.testing.assert_allclose(found[replica, member, place], expected, rtol=0, atol=1e-12)


def history(served, rounds=None, weighed=True):
    """A loss that has seen these queries, a row per replica."""
    served = torch.tensor(served)
    loss, features = labelled.LabelledLoss(oracle(), weighed), torch.rand(len(oracle().labels), 2)
    loss.setup(RunContext(len(served), 11, 2, 3, len(LISTS), rounds or served.shape[1], 5), features, 0)
    for query in served.T:
        loss.append(round_of(query))
    return loss


def round_of(query):
    """A round in which these queries were served, one a replica; of whatever happened then nothing matters."""
    grid = torch.zeros(len(query), 1, dtype=torch.int64)
    no, zero = grid.bool(), grid[..., None].double()
    candidates = Candidates(query, grid, zero, no)
    prediction, proposal = Prediction(zero, lambda: LinearTangent(zero)), Proposal(grid, zero[..., 0])
    return Interaction(candidates, prediction, proposal, grid, grid, no, no, Preferences(grid, grid, no))


SERVED = [[3, 1, 0, 3, 5, 2], [4, 1, 2, 4, 6, 1]]
TAUGHT = [[3, 0, 3, 5], [6]]


def test_the_whole_history_is_every_list_once():
    for chunk in [1, 3, 64]:
        loss = history(SERVED)
        loss.chunk = chunk
        start, found = oracle().start, [[], []]
        for sample in loss.whole():
            real = sample.pull(some_scores(2, 1, sample.document.shape[1]))[:, 0] != 0
            for replica in range(2):
                found[replica] += sample.document[replica][real[replica]].tolist()
        for own, taught in zip(found, TAUGHT, strict=True):
            expected = [int(start[q]) + place for q in taught for place in range(len(LISTS[q]))]
            assert own == expected, chunk
        assert sum(sample.pairs for sample in loss.whole()).tolist() == loss.total.tolist(), chunk


def test_without_a_pair_nothing_pulls():
    loss = history([[1, 2], [4, 1]])
    assert list(loss.whole()) == []
    (sample,) = loss.draw(Streams(torch.tensor([0, 1])).at("learn", 0), 5, 1)
    assert not sample.pull(some_scores(2, 1, sample.document.shape[1])).any()
    assert sample.pairs.tolist() == [0, 0]
