from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest
import torch

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import BLOCKS, EVALUATION, INTERACTIONS, TRACE
from ol2r_cli.results.trace import Trace


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path)


def test_the_schemas_are_public(directory):
    """As promised in the manual: whoever changes a name or a type here breaks the scripts of users."""
    trace = Trace(directory, [1])
    trace.record(1, {"clicks": torch.tensor([2])})
    trace.record_evaluation(0, "test", {"ndcg_10": torch.tensor([0.5])})
    trace.record_blocks(1, torch.tensor([[1]]))
    trace.flush()
    assert pl.read_parquet_schema(directory / "trace.parquet") == {
        "seed": pl.Int64,
        "round": pl.Int64,
        "query": pl.Int64,
        "online_ndcg": pl.Float32,
        "cumulative_ndcg": pl.Float64,
        "regret": pl.Int64,
        "clicks": pl.Int16,
        "pairs": pl.Int16,
        "blocks": pl.Int32,
        "block_size_1": pl.Int32,
        "block_size_5": pl.Int32,
        "block_size_10": pl.Int32,
        "certain_top10": pl.Float32,
        "unfairness": pl.Float64,
        "exposure_0": pl.Float32,
        "exposure_1": pl.Float32,
        "violations": pl.Int16,
    }
    assert pl.read_parquet_schema(directory / "evaluation.parquet") == {
        "seed": pl.Int64,
        "round": pl.Int64,
        "split": pl.String,
        "ndcg_1": pl.Float32,
        "ndcg_3": pl.Float32,
        "ndcg_5": pl.Float32,
        "ndcg_10": pl.Float32,
        "cosine": pl.Float32,
    }
    assert pl.read_parquet_schema(directory / "blocks.parquet") == {
        "seed": pl.Int64,
        "round": pl.Int64,
        "rank": pl.Int32,
        "block_size": pl.Int32,
    }
    for table in (TRACE, EVALUATION, BLOCKS):
        empty = table.read(RunDirectory(directory.path / "nowhere"))
        assert empty.schema == pl.read_parquet_schema(directory / table.file)
        assert empty.is_empty()


def test_several_rounds_of_evaluation_at_once(directory):
    trace = Trace(directory, [1, 2])
    trace.record_evaluation(0, "test", {"ndcg_10": torch.tensor([0.125, 0.25]), "cosine": torch.tensor([-1.0, 0.5])})
    trace.record_evaluation([10, 20], "test", {"ndcg_10": torch.tensor([[0.5, 0.625], [0.75, 0.875]])})
    trace.record_evaluation([10, 20], "validation", {"ndcg_10": torch.zeros(2, 2)})
    trace.flush()
    test = EVALUATION.read(directory).filter(split="test")
    assert test.select("seed", "round", "ndcg_10", "cosine").rows() == [
        (1, 0, 0.125, -1.0),
        (1, 10, 0.5, None),
        (1, 20, 0.75, None),
        (2, 0, 0.25, 0.5),
        (2, 10, 0.625, None),
        (2, 20, 0.875, None),
    ]
    assert EVALUATION.read(directory).height == 6 + 4


def test_block_sizes_of_queries_of_different_length(directory):
    trace = Trace(directory, [1, 2])
    trace.record_blocks(10, torch.tensor([[1, 2, 2], [2, 2, 0]]))
    trace.flush()
    assert BLOCKS.read(directory).rows() == [(1, 10, 1, 1), (1, 10, 2, 2), (1, 10, 3, 2), (2, 10, 1, 2), (2, 10, 2, 2)]


def test_interactions_are_what_was_shown(directory):
    """Two replicas, lists of two; the second query has a single document. Document numbers are rows of the table."""
    interaction = SimpleNamespace(
        candidates=SimpleNamespace(query=torch.tensor([5, 6]), document=torch.tensor([[70, 71, 72], [90, 0, 0]])),
        ranking=torch.tensor([[2, 0], [0, 1]]),
        shown=torch.tensor([[True, True], [True, False]]),
        clicks=torch.tensor([[False, True], [True, False]]),
    )
    trace = Trace(directory, [1, 2])
    for t in (1, 2):
        trace.record_interaction(t, interaction)
    trace.flush()
    found = INTERACTIONS.read(directory)
    assert found.schema == {
        "seed": pl.Int64,
        "round": pl.Int64,
        "rank": pl.Int32,
        "query": pl.Int64,
        "document": pl.Int64,
        "click": pl.Boolean,
    }
    once = [(1, 1, 1, 5, 72, False), (1, 1, 2, 5, 70, True), (2, 1, 1, 6, 90, True)]
    assert found.filter(round=1).rows() == once
    assert found.filter(round=2).drop("round").rows() == [(seed, *rest) for seed, _, *rest in once]
    trace.truncate(1)
    assert INTERACTIONS.read(directory).rows() == once
