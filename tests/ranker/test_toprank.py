"""TopRank round by round against the plain port of algorithm 1, on the same clicks; and what it keeps."""

from __future__ import annotations

from itertools import product

import torch

from ol2r_cli.cli import main
from ol2r_cli.run.run import Run, find_runs
from tests.reference.toprank import TopRank as Reference
from tests.rounds import replicas, rounds
from tests.worlds import TINY, handmade, simulate, tiny

LISTS = [[4, 0, 2, 1], [0, 3], [2, 1, 0, 4, 0, 3], [1], [0, 0, 2]]
SEEDS = [0, 1, 2]


def toprank(*overrides, seeds=SEEDS, lists=LISTS, total=600):
    return simulate(tiny("ranker=toprank", *overrides), seeds, total, handmade(lists))


def square(ranker, name, b, query, length):
    """The documented layout of a pool: length^2 numbers from `start`."""
    first = int(ranker.start[b, query])
    return getattr(ranker, name)[first : first + length**2].view(length, length)


def in_step(simulation, oracles):
    """Play, and compare layers before each round; S, N and G after it."""
    for t, one in rounds(simulation):
        for b, here in replicas(one):
            query, n = int(one.candidates.query[b]), len(here.features)
            oracle, place = oracles[b][query], f"round {t}, replica {b}"
            layers = oracle.partition()
            expected = {document: number for number, layer in enumerate(layers) for document in layer}
            assert one.proposal.block[b, :n].tolist() == list(map(expected.get, range(n))), place
            oracle.learn(layers, dict(zip(here.ranking, map(int, here.clicks), strict=True)))
            wins, above = (square(simulation.ranker, name, b, query, n) for name in ("wins", "above"))
            kept = [[oracle.s[i, j], oracle.n[i, j], (j, i) in oracle.worse] for i, j in product(range(n), repeat=2)]
            assert torch.stack([wins - wins.T, wins + wins.T, above], 2).flatten(0, 1).tolist() == kept, place
        yield t


def test_every_round_is_that_of_algorithm_1():
    """Exactly, for every query of every replica."""
    delta, lists = 0.5, LISTS[:4]
    simulation = toprank("click=perfect", "positions=3", f"ranker.delta={delta}", lists=lists, total=400)
    oracles = [[Reference(len(labels), delta) for labels in lists] for _ in SEEDS]
    assert len(list(in_step(simulation, oracles))) == 400
    depth = [len(oracle.partition()) for replica in oracles for oracle in replica]
    assert sum(layers > 1 for layers in depth) > len(depth) / 2, "too little was decided to compare"


def test_certain_pairs_stay_certain_even_on_a_cycle():
    """G only grows. A cycle has next to no chance to come about, so it is put there by hand: 0 over 1 over 2 over 0."""
    simulation = toprank("click=perfect", "ranker.delta=0.5", lists=[[4, 0, 2, 1]], total=300)
    oracles = [[Reference(4, 0.5)] for _ in SEEDS]
    for t in in_step(simulation, oracles):
        for b, (oracle,) in enumerate(oracles if t == 0 else []):
            for i, j in (0, 1), (1, 2), (2, 0):
                square(simulation.ranker, "above", b, 0, 4)[i, j] = True
                oracle.worse.add((j, i))
    assert all({(1, 0), (2, 1), (0, 2)} <= oracle.worse for (oracle,) in oracles)


def test_state_grows_with_the_queries_seen():
    lists, total = [[0, 1, 2, 0, 3]] * 2000 + [[1] * 30] * 2000, 40
    simulation = toprank("click=random", lists=lists, total=total)
    served, ranker = [set() for _ in SEEDS], simulation.ranker
    assert len(ranker.wins) == len(ranker.above) == 0
    for _, one in rounds(simulation):
        for queries, query in zip(served, one.candidates.query.tolist(), strict=True):
            queries.add(query)
        needed = sum(len(lists[query]) ** 2 for queries in served for query in queries)
        assert int(ranker.used) == needed
        assert needed <= len(ranker.wins) == len(ranker.above) <= 2 * needed
    assert min(map(len, served)) < total, "no query came twice"
    assert (ranker.start >= 0).sum(1).tolist() == [len(queries) for queries in served]


def test_a_run_has_no_offline_evaluation(tmp_path, capsys):
    assert main(["run", *TINY, "ranker=toprank", "rounds=30", "evaluate_every=10", f"output_dir={tmp_path}"]) == 0
    assert "test NDCG" not in (output := capsys.readouterr().out)
    assert "online NDCG" in output
    run = Run.read_finished(next(find_runs(tmp_path)))
    assert (run.evaluation.height, run.trace.height) == (0, 30)
    assert "online_ndcg" in run.summary
    assert not [name for name in run.summary if name.startswith(("test", "validation", "best"))]
