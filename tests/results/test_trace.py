from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli.results.directory import RunDirectory
from ol2r_cli.results.schema import BLOCKS, EVALUATION, TRACE
from ol2r_cli.results.trace import Trace


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path)


def test_one_row_per_seed_and_round_in_that_order(directory):
    trace = Trace(directory, [7, 3], capacity=2)
    for t in range(1, 6):  # more rounds than the buffer had room for
        trace.record(t, {"query": torch.tensor([10 * t, 10 * t + 1]), "cumulative_ndcg": torch.tensor([t / 3, t / 7])})
    trace.flush()
    found = TRACE.read(directory)
    assert found["seed"].to_list() == [3] * 5 + [7] * 5
    assert found["round"].to_list() == [1, 2, 3, 4, 5] * 2
    assert found["query"].to_list() == [11, 21, 31, 41, 51, 10, 20, 30, 40, 50]
    assert found.filter(seed=7)["cumulative_ndcg"].to_list() == [torch.tensor(t / 3).item() for t in range(1, 6)]


def test_what_is_recorded_is_a_copy(directory):
    trace, sums = Trace(directory, [1]), torch.zeros(1)
    for t in (1, 2, 3):
        sums += t
        trace.record(t, {"cumulative_ndcg": sums})
    trace.flush()
    assert TRACE.read(directory)["cumulative_ndcg"].to_list() == [1.0, 3.0, 6.0]


def test_what_does_not_apply_is_null(directory):
    trace = Trace(directory, [1, 2])
    trace.record(1, {"blocks": torch.tensor([3, -1]), "certain_top10": torch.tensor([float("nan"), 0.25])})
    trace.record(2, {"unfairness": torch.tensor([-0.5, 0.5])})
    trace.flush()
    found = TRACE.read(directory)
    assert found["blocks"].to_list() == [3, None, None, None]
    assert found["certain_top10"].to_list() == [None, None, 0.25, None]
    assert found["unfairness"].to_list() == [None, -0.5, None, 0.5], "below zero is an ordinary value here"
    assert found["clicks"].null_count() == 4


def test_rounds_may_come_in_blocks(directory):
    """One [R, B] block equals R calls with [B]."""
    clicks, query = torch.arange(6).reshape(3, 2), torch.tensor([8, 9])
    trace = Trace(directory, [1, 2])
    trace.record(1, {"clicks": clicks, "query": query})
    trace.record(4, {"clicks": clicks[0], "query": query})
    trace.flush()
    found = TRACE.read(directory)
    assert found["clicks"].to_list() == [0, 2, 4, 0, 1, 3, 5, 1]
    assert found["query"].to_list() == [8, 8, 8, 8, 9, 9, 9, 9]
    assert found["round"].to_list() == [1, 2, 3, 4] * 2


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,), ()])
def test_a_wrong_shape_is_refused(directory, shape):
    with pytest.raises(ValueError, match=r"measures must be \[2\] or \[rounds, 2\], got"):
        Trace(directory, [1, 2]).record(1, {"clicks": torch.zeros(shape), "query": torch.zeros(2)})


def test_unknown_names_are_refused_and_the_known_ones_listed(directory):
    trace = Trace(directory, [1])
    with pytest.raises(
        ValueError, match=r"a measure in trace\.parquet must be one of query, online_ndcg, .*, got ndcg"
    ):
        trace.record(1, {"ndcg": torch.zeros(1)})
    with pytest.raises(ValueError, match="must be one of ndcg_1, ndcg_3, ndcg_5, ndcg_10, cosine, got round"):
        trace.record_evaluation(1, "test", {"round": torch.zeros(1)})
    with pytest.raises(ValueError, match="split must be validation or test, got train"):
        trace.record_evaluation(1, "train", {"ndcg_10": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"seeds must differ from each other, got \[1, 1\]"):
        Trace(directory, [1, 1])


def test_a_count_too_large_for_its_column_is_an_error_not_a_wrong_number(directory):
    trace = Trace(directory, [1])
    trace.record(1, {"pairs": torch.tensor([2**15])})
    with pytest.raises(pl.exceptions.InvalidOperationError, match="pairs"):
        trace.flush()


def test_flushes_add_up_and_a_repeated_row_takes_the_place_of_the_first(directory):
    trace = Trace(directory, [1, 2])
    for t in (1, 2):
        trace.record(t, {"clicks": torch.tensor([t, t])})
        trace.flush()
        trace.flush()  # nothing new: nothing happens
    trace.record(2, {"clicks": torch.tensor([8, 9])})
    trace.flush()
    assert TRACE.read(directory).select("seed", "round", "clicks").rows() == [
        (1, 1, 1),
        (1, 2, 8),
        (2, 1, 2 - 1),
        (2, 2, 9),
    ]


def test_truncation_drops_all_beyond_the_checkpoint(directory):
    trace = Trace(directory, [1, 2])
    for t in range(1, 7):
        trace.record(t, {"clicks": torch.tensor([t, t])})
        trace.record_evaluation(t, "test", {"ndcg_10": torch.tensor([0.0, 0.0])})
        trace.record_blocks(t, torch.tensor([[1], [1]]))
        if t == 5:
            trace.flush()
    trace.truncate(3)
    trace.flush()  # round 6 was not on disk yet, and must not come back
    for table in (TRACE, EVALUATION, BLOCKS):
        assert table.read(directory)["round"].to_list() == [1, 2, 3] * 2
    trace.record(4, {"clicks": torch.tensor([44, 44])})
    trace.flush()
    assert TRACE.read(directory)["clicks"].to_list() == [1, 2, 3, 44] * 2
    trace.truncate(0)
    assert TRACE.read(directory).is_empty()


def test_truncating_nothing_writes_nothing(directory):
    Trace(directory, [1]).truncate(0)
    assert list(directory.path.iterdir()) == []


def test_recording_works_inside_and_outside_of_inference_mode(directory):
    trace = Trace(directory, [1])
    with torch.inference_mode():
        trace.record(1, {"clicks": torch.tensor([1])})
    trace.record(2, {"clicks": torch.tensor([2.0], requires_grad=True)})
    trace.flush()
    assert TRACE.read(directory)["clicks"].to_list() == [1, 2]


def test_large_seeds_are_exact(directory):
    seeds = [2**62 + 1, 2**53 + 1]
    trace = Trace(directory, seeds)
    trace.record(1, {"clicks": torch.tensor([1, 2])})
    trace.flush()
    assert TRACE.read(directory)["seed"].to_list() == sorted(seeds)
    assert np.array_equal(TRACE.read(directory)["clicks"], [2, 1])
