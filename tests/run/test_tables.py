"""The tables of a run: their public columns, and what `Trace` writes to them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli.columns import TRACE_COLUMNS, Column, RunColumns
from ol2r_cli.run.run import BLOCKS, EVALUATION, TRACE, DamagedFile, Run, parts, read_checkpoint
from ol2r_cli.run.store import RunDirectory, restore_checkpoint, save_checkpoint
from ol2r_cli.run.trace import Trace


@pytest.fixture
def directory(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path)


def written(directory) -> Run:
    """The run as it has been written so far."""
    return Run(directory.path, {}, files=directory.files)


def test_names_and_types_of_columns_are_public(directory):
    """docs/reference/files.md promises them: a change of a name or a type breaks scripts of users."""
    trace = Trace(directory, [1], tables=[BLOCKS])
    trace.record(1, {"clicks": torch.tensor([2])})
    trace.record_evaluation([0], "test", {"ndcg_10": torch.tensor([0.5])})
    trace.record_places(BLOCKS, 1, np.array([[True]]), {"block_size": np.array([[1]])})
    trace.finish()
    by_round = {"seed": pl.Int64, "round": pl.Int64}
    assert pl.read_parquet_schema(directory / "trace.parquet") == by_round | {
        "query": pl.Int64,
        "online_ndcg": pl.Float32,
        "cumulative_ndcg": pl.Float64,
        "regret": pl.Int64,
        **dict.fromkeys(("clicks", "pairs"), pl.Int16),
        **dict.fromkeys(("blocks", "block_size_1", "block_size_5", "block_size_10"), pl.Int32),
        "certain_top10": pl.Float32,
        "unfairness": pl.Float64,
        **dict.fromkeys(("exposure_0", "exposure_1"), pl.Float32),
        "violations": pl.Int16,
    }
    measured = dict.fromkeys(("ndcg_1", "ndcg_3", "ndcg_5", "ndcg_10", "cosine"), pl.Float32)
    schema = pl.read_parquet_schema(directory / "evaluation.parquet")
    assert schema == by_round | {"split": pl.String} | measured
    assert pl.read_parquet_schema(directory / "blocks.parquet") == by_round | {"rank": pl.Int32, "block_size": pl.Int32}
    for table in (TRACE, EVALUATION, BLOCKS):
        empty = Run(directory.path, {}, files={}).table(table)
        assert empty.schema == pl.read_parquet_schema(directory / table.file)
        assert empty.is_empty()


def test_evaluations_and_blocks_of_different_length(directory):
    """Evaluations of several rounds and blocks of queries of different length."""
    trace, sizes = Trace(directory, [1, 2], tables=[BLOCKS]), np.array([[1, 2, 2], [2, 2, 0]])
    trace.record_evaluation([0], "test", {"ndcg_10": torch.tensor([0.125, 0.25]), "cosine": torch.tensor([-1.0, 0.5])})
    trace.record_evaluation([10, 20], "test", {"ndcg_10": torch.tensor([[0.5, 0.625], [0.75, 0.875]])})
    trace.record_evaluation([10, 20], "validation", {"ndcg_10": torch.zeros(2, 2)})
    trace.record_places(BLOCKS, 10, sizes > 0, {"block_size": sizes})
    trace.flush()
    run = written(directory)
    of_one = [(1, 0, 0.125, -1.0), (1, 10, 0.5, None), (1, 20, 0.75, None)]
    of_two = [(2, 0, 0.25, 0.5), (2, 10, 0.625, None), (2, 20, 0.875, None)]
    assert run.evaluation.filter(split="test").select("seed", "round", "ndcg_10", "cosine").rows() == of_one + of_two
    assert run.evaluation.height == 6 + 4
    assert run.blocks.rows() == [(1, 10, 1, 1), (1, 10, 2, 2), (1, 10, 3, 2), (2, 10, 1, 2), (2, 10, 2, 2)]


def test_one_row_per_seed_and_round_with_null_for_nan(directory):
    """One row per seed and round, with null where a measure does not apply.

    Seeds of 63 bits are exact, recorded values are copies, and [R, B] is R times [B], also in inference mode.
    """
    large = 2**62 + 1
    trace, sums = Trace(directory, [large, 3]), torch.zeros(2)
    for t in range(1, 4):
        sums += t / 7
        trace.record(t, {"query": torch.tensor([10 * t, 10 * t + 1]), "cumulative_ndcg": sums})
    with torch.inference_mode():
        trace.record(4, {"clicks": torch.arange(4).reshape(2, 2), "blocks": torch.tensor([[3, -1]] * 2)})
    nothing = {"certain_top10": torch.tensor([torch.nan, 0.25]), "unfairness": torch.tensor([-0.5, 0.5])}
    trace.record(6, nothing | {"clicks": torch.ones(2).requires_grad_()})
    trace.flush()
    frame = written(directory).trace
    sums_by_round = [t * (t + 1) / 14 for t in range(1, 4)]
    assert frame["cumulative_ndcg"].drop_nulls().to_list() == pytest.approx(sums_by_round * 2)
    names = "seed", "round", "query", "clicks", "blocks", "certain_top10", "unfairness"
    assert frame.select(names).rows() == [
        *((3, t, 10 * t + 1, None, None, None, None) for t in (1, 2, 3)),
        (3, 4, None, 1, None, None, None),
        (3, 5, None, 3, None, None, None),
        (3, 6, None, 1, None, 0.25, 0.5),
        *((large, t, 10 * t, None, None, None, None) for t in (1, 2, 3)),
        (large, 4, None, 0, 3, None, None),
        (large, 5, None, 2, 3, None, None),
        (large, 6, None, 1, None, None, -0.5),  # a negative value is not a count here
    ]


def test_counts_beyond_sixteen_bits_are_kept(directory):
    """As of 900 places with all pairs. Such a column is Int64."""
    whole = Column("whole", type="Int8", summary="sum")
    columns = RunColumns({**TRACE_COLUMNS, "whole": whole})
    trace = Trace(directory, [1], columns=columns)
    numbers = [(2**15 - 1, -128), (2**15, 127), (202_500, -129)]
    for t, (pairs, of_measure) in enumerate(numbers, 1):
        trace.record(t, {"pairs": torch.tensor([pairs]), "whole": torch.tensor([of_measure])})
        trace.flush()
    trace.finish()
    frame = pl.read_parquet(directory / "trace.parquet")
    assert frame.select("pairs", "whole").rows() == numbers
    assert [frame.schema[name] for name in ("pairs", "whole", "clicks")] == [pl.Int64, pl.Int64, pl.Int16]
    assert written(directory).table(TRACE.with_columns({"whole": whole})).equals(frame)


def test_tables_with_other_columns_go_on(directory):
    """Columns of measures have the types that they declare; what was not measured is null."""
    columns = [Column("whole", type="Int8", summary="sum"), Column("real", type="Float64")]
    measured = RunColumns({**TRACE_COLUMNS, **{each.name: each for each in columns}})
    first = Trace(directory, [1], columns=measured)
    first.record(1, {"whole": torch.tensor([-5]), "real": torch.tensor([1 / 3], dtype=torch.float64)})
    first.flush()
    then = Trace(directory, [1])
    then.record(2, {"clicks": torch.tensor([3])})
    then.finish()
    frame = pl.read_parquet(directory / "trace.parquet")
    assert frame.columns == [*TRACE.columns, "whole", "real"]
    assert [frame.schema[name] for name in ("whole", "real")] == [pl.Int8, pl.Float64]
    assert frame.select("clicks", "whole", "real").rows() == [(None, -5, 1 / 3), (3, None, None)]
    assert written(directory).table(TRACE, ["real", "clicks", "none"]).equals(frame.select("real", "clicks"))
    directory.write_parquet("trace.parquet", frame.select("seed", "round", clicks=pl.lit("three")))
    with pytest.raises(DamagedFile, match=r"trace\.parquet must have Int16 as clicks, got String"):
        _ = written(directory).trace


def played(directory: RunDirectory, rounds: int, saved: int = 0, last: int = 0) -> Trace:
    """A run of two seeds that flushes every round but the `last` ones, with a checkpoint after one of them."""
    trace = Trace(directory, [2, 1])
    for t in range(1, rounds + 1):
        trace.record(t, {"clicks": torch.tensor([t, 10 * t])})
        if t <= rounds - last:
            trace.flush()
        if t == saved:
            save_checkpoint(directory, {"round": t}, "id")
    return trace


@pytest.mark.parametrize("count", [4, 1], ids=["large parts", "small parts, which are joined"])
def test_a_flush_changes_no_file_of_the_checkpoint(directory, request, count):
    if count > 1:
        request.getfixturevalue("small_parts")
    played(directory, 5, saved=4)
    kept = read_checkpoint(directory.path)["files"]
    assert len(kept) == count
    assert Run(directory.path, {"status": "running"}).trace["round"].to_list() == [1, 2, 3, 4] * 2
    assert written(directory).trace["round"].to_list() == [1, 2, 3, 4, 5] * 2
    again = RunDirectory(directory.path)
    assert restore_checkpoint(again, "id") == {"round": 4}
    assert sorted(path.name for path in directory.path.iterdir()) == ["checkpoint.pt", *kept]
    trace = Trace(again, [2, 1])
    trace.record(5, {"clicks": torch.tensor([5, 50])})
    trace.finish()
    assert written(again).trace["clicks"].to_list() == [10, 20, 30, 40, 50, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("small_parts")
def test_parts_become_one_file_which_does_not_depend_on_them(directory, tmp_path):
    trace = played(directory, 10, saved=7, last=2)
    assert parts(directory.files, TRACE) == [f"trace.part{number:05}.parquet" for number in range(1, 9)]
    trace.finish()
    trace.finish()  # there is nothing new
    assert list(directory.files) == ["trace.parquet"]
    assert written(directory).trace["clicks"].to_list() == [*range(10, 101, 10), *range(1, 11)]
    directory.clean_up(keep_checkpoint=False)
    assert [path.name for path in directory.path.iterdir()] == ["trace.parquet"]
    played(RunDirectory(tmp_path / "once"), 10, last=10).finish()
    assert (tmp_path / "once" / "trace.parquet").read_bytes() == (directory / "trace.parquet").read_bytes()


@pytest.mark.usefixtures("small_parts")
def test_a_full_buffer_is_written_and_parts_are_in_order(directory):
    """Also after 99999."""
    trace = Trace(directory, [1, 2])
    for t in (1, 2, 3, 4):
        trace.record(t, {"clicks": torch.tensor([t, t])})
    assert written(directory).trace["round"].to_list() == [1, 2, 3] * 2
    directory.write_bytes("trace.part99999.parquet", (directory / "trace.part00001.parquet").read_bytes())
    trace.flush()
    assert parts(directory.files, TRACE) == [f"trace.part{number}.parquet" for number in ("00001", "99999", "100000")]
