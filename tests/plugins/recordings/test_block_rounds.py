"""Block rounds against the definition of a block, from the command line to the table."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ol2r_cli.plugins.recordings.block_rounds import sizes_at_every_rank
from tests.finished import run_in
from tests.reference import metrics as reference
from tests.worlds import handmade, simulate, tiny

SMALL = ["dataset.queries={train: 12, validation: 4, test: 4}", "dataset.documents=8", "rounds=30", "replicas=2"]


def test_the_size_at_every_rank_is_its_definition():
    """Also of short queries, behind whose documents is padding."""
    lists = [[0, 0, 0], [2], [0, 1, 4, 2, 0, 0, 3, 1, 0, 0, 1, 2, 0], [1, 0, 0, 2, 0]]
    simulation, largest = simulate(tiny("exploration.alpha=0.2"), [3, 4], 36, handmade(lists)), 0
    for _, one in simulation.play():
        sizes = sizes_at_every_rank(one)
        for b, query in enumerate(one.candidates.query.tolist()):
            length = len(lists[query])
            order, block = one.proposal.order[b, :length].tolist(), one.proposal.block[b].tolist()
            blocks = [{d for d in range(length) if block[d] == n} for n in range(max(block[:length]) + 1)]
            expected = [reference.block_size_at(rank + 1, order, blocks) for rank in range(length)]
            assert sizes[b].tolist() == expected + [0] * (sizes.shape[1] - length)
            largest = max(largest, len(blocks))
    assert largest > 2, "or this tests nothing"


def test_only_these_rounds_are_kept_and_nothing_else_changes(tmp_path: Path):
    """Also where no measure is of blocks. A ranker without blocks has no table."""
    kept = run_in(tmp_path / "kept", *SMALL, "block_rounds=[3,30]", "measures=[ndcg]")
    without = run_in(tmp_path / "without", *SMALL, "measures=[ndcg]")
    none = run_in(tmp_path / "no blocks", *SMALL, "block_rounds=[3]", "ranker=pdgd")
    lengths = kept.blocks.group_by("seed", "round").agg(first=pl.col("rank").min()).sort("seed", "round")
    assert lengths.select("seed", "round", "first").rows() == [(0, 3, 1), (0, 30, 1), (1, 3, 1), (1, 30, 1)]
    assert kept.trace.equals(without.trace)
    assert none.blocks.is_empty()
    assert not (none.path / "blocks.parquet").exists()
