"""The tables of a run: their public columns, and what `Trace` writes to them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch

from ol2r_cli.columns import TRACE_COLUMNS, Column, RunColumns
from ol2r_cli.run import table_file, tables
from ol2r_cli.run.directory import DirectoryLost, RunDirectory
from ol2r_cli.run.integrity import DamagedTable, missing_rows, read_table
from ol2r_cli.run.tables import BLOCKS, EVALUATION, INTERACTIONS, TRACE, Trace


@pytest.fixture
def directory(tmp_path):
    return RunDirectory(tmp_path)


def test_names_and_types_of_columns_are_public(directory):
    """docs/outputs.md promises them: a change of a name or a type breaks scripts of users."""
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


def test_interactions_are_the_shown_documents(directory):
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
    frame = INTERACTIONS.read(directory)
    assert frame.schema == {
        "seed": pl.Int64,
        "round": pl.Int64,
        "rank": pl.Int32,
        "query": pl.Int64,
        "document": pl.Int64,
        "click": pl.Boolean,
    }
    once = [(1, 1, 1, 5, 72, False), (1, 1, 2, 5, 70, True), (2, 1, 1, 6, 90, True)]
    assert frame.filter(round=1).rows() == once
    assert frame.filter(round=2).drop("round").rows() == [(seed, *rest) for seed, _, *rest in once]
    trace.truncate(1)
    assert INTERACTIONS.read(directory).rows() == once


def test_one_row_per_seed_and_round_in_that_order(directory):
    trace = Trace(directory, [7, 3], capacity=2)
    for t in range(1, 6):  # more rounds than the buffer had room for
        trace.record(t, {"query": torch.tensor([10 * t, 10 * t + 1]), "cumulative_ndcg": torch.tensor([t / 3, t / 7])})
    trace.flush()
    frame = TRACE.read(directory)
    assert frame["seed"].to_list() == [3] * 5 + [7] * 5
    assert frame["round"].to_list() == [1, 2, 3, 4, 5] * 2
    assert frame["query"].to_list() == [11, 21, 31, 41, 51, 10, 20, 30, 40, 50]
    assert frame.filter(seed=7)["cumulative_ndcg"].to_list() == [torch.tensor(t / 3).item() for t in range(1, 6)]


def test_recorded_values_are_copies(directory):
    trace, sums = Trace(directory, [1]), torch.zeros(1)
    for t in (1, 2, 3):
        sums += t
        trace.record(t, {"cumulative_ndcg": sums})
    trace.flush()
    assert TRACE.read(directory)["cumulative_ndcg"].to_list() == [1.0, 3.0, 6.0]


def test_measures_that_do_not_apply_are_null(directory):
    trace = Trace(directory, [1, 2])
    trace.record(1, {"blocks": torch.tensor([3, -1]), "certain_top10": torch.tensor([float("nan"), 0.25])})
    trace.record(2, {"unfairness": torch.tensor([-0.5, 0.5])})
    trace.flush()
    frame = TRACE.read(directory)
    assert frame["blocks"].to_list() == [3, None, None, None]
    assert frame["certain_top10"].to_list() == [None, None, 0.25, None]
    assert frame["unfairness"].to_list() == [None, -0.5, None, 0.5], "a negative value is not a count here"
    assert frame["clicks"].null_count() == 4


def test_several_rounds_can_be_recorded_at_once(directory):
    """One call with [R, B] equals R calls with [B]."""
    clicks, query = torch.arange(6).reshape(3, 2), torch.tensor([8, 9])
    trace = Trace(directory, [1, 2])
    trace.record(1, {"clicks": clicks, "query": query})
    trace.record(4, {"clicks": clicks[0], "query": query})
    trace.flush()
    frame = TRACE.read(directory)
    assert frame["clicks"].to_list() == [0, 2, 4, 0, 1, 3, 5, 1]
    assert frame["query"].to_list() == [8, 8, 8, 8, 9, 9, 9, 9]
    assert frame["round"].to_list() == [1, 2, 3, 4] * 2


def test_a_wrong_shape_is_refused(directory):
    for shape in (3,), (2, 3), (1,), ():
        with pytest.raises(ValueError, match=r"measures must be \[2\] or \[rounds, 2\], got"):
            Trace(directory, [1, 2]).record(1, {"clicks": torch.zeros(shape), "query": torch.zeros(2)})


def test_unknown_measures_are_refused_with_the_known_ones(directory):
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


def test_flushes_append_and_a_repeated_row_replaces_the_first(directory):
    trace = Trace(directory, [1, 2])
    for t in (1, 2):
        trace.record(t, {"clicks": torch.tensor([t, t])})
        trace.flush()
        trace.flush()  # there is nothing new
    trace.record(2, {"clicks": torch.tensor([8, 9])})
    trace.flush()
    assert TRACE.read(directory).select("seed", "round", "clicks").rows() == [
        (1, 1, 1),
        (1, 2, 8),
        (2, 1, 2 - 1),
        (2, 2, 9),
    ]


def test_truncation_removes_all_rows_after_the_checkpoint(directory):
    trace = Trace(directory, [1, 2])
    for t in range(1, 7):
        trace.record(t, {"clicks": torch.tensor([t, t])})
        trace.record_evaluation(t, "test", {"ndcg_10": torch.tensor([0.0, 0.0])})
        trace.record_blocks(t, torch.tensor([[1], [1]]))
        if t == 5:
            trace.flush()
    trace.truncate(3)
    trace.flush()  # round 6 was only recorded, and must not be written
    for table in (TRACE, EVALUATION, BLOCKS):
        assert table.read(directory)["round"].to_list() == [1, 2, 3] * 2
    trace.record(4, {"clicks": torch.tensor([44, 44])})
    trace.flush()
    assert TRACE.read(directory)["clicks"].to_list() == [1, 2, 3, 44] * 2
    trace.truncate(0)
    assert TRACE.read(directory).is_empty()


def test_truncating_without_files_writes_nothing(directory):
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


def test_a_table_with_fewer_columns_goes_on(directory):
    """What was not measured is null."""
    earlier = pl.DataFrame({"seed": [1, 1], "round": [1, 2], "online_ndcg": [0.25, 0.5]}).cast(
        {"online_ndcg": pl.Float32}
    )
    TRACE.write(directory, earlier)
    trace = Trace(directory, [1])
    trace.record(3, {"online_ndcg": torch.tensor([0.75]), "clicks": torch.tensor([2])})
    trace.flush()
    frame = TRACE.read(directory)
    assert frame.columns == list(TRACE.columns)
    assert frame["online_ndcg"].to_list() == [0.25, 0.5, 0.75]
    assert frame["clicks"].to_list() == [None, None, 2]


def test_a_table_with_more_columns_keeps_them(directory):
    """As a measure wrote it that is not taken any more."""
    column = Column("mine", type="Int16", summary="sum")
    measured = RunColumns({**TRACE_COLUMNS, "mine": column})
    first = Trace(directory, [1], columns=measured)
    first.record(1, {"mine": torch.tensor([7])})
    first.flush()
    then = Trace(directory, [1])
    then.truncate(1)
    then.record(2, {"clicks": torch.tensor([3])})
    then.flush()
    frame = TRACE.read(directory)
    assert frame.columns == [*TRACE.columns, "mine"]
    assert frame.schema["mine"] == pl.Int16
    assert frame["mine"].to_list() == [7, None]
    assert frame["clicks"].to_list() == [None, 3]


def test_columns_of_measures_are_written_in_their_types(directory):
    columns = [Column("whole", type="Int8", summary="sum"), Column("real", type="Float64")]
    trace = Trace(directory, [1], columns=RunColumns({**TRACE_COLUMNS, **{each.name: each for each in columns}}))
    trace.record(1, {"whole": torch.tensor([-5]), "real": torch.tensor([1 / 3], dtype=torch.float64)})
    trace.flush()
    frame = pl.read_parquet(directory / "trace.parquet")
    assert frame.columns[-2:] == ["whole", "real"]
    assert frame.select("whole", "real").rows() == [(-5, 1 / 3)]
    assert [frame.schema[name] for name in ("whole", "real")] == [pl.Int8, pl.Float64]
    with pytest.raises(ValueError, match=r"must be one of .*whole, real, got other"):
        trace.record(2, {"other": torch.tensor([5])})


@pytest.fixture
def in_parts(directory, monkeypatch):
    """Rounds 1 to 10 of two seeds, three rounds in each part, and the recorder."""
    monkeypatch.setattr(table_file, "PART_ROWS", 6)
    trace = Trace(directory, [2, 1])
    for t in range(1, 11):
        trace.record(t, {"clicks": torch.tensor([t, 10 * t])})
        trace.flush()
    return trace


def names(directory):
    return sorted(path.name for path in directory.path.iterdir())


def test_a_part_is_not_written_again(directory, in_parts):
    parts = [f"trace.part{number:05}.parquet" for number in (1, 2, 3)]
    assert names(directory) == ["trace.parquet", *parts]
    assert read_table(directory / parts[1]).select("seed", "round").rows() == [
        (s, t) for s in (1, 2) for t in (4, 5, 6)
    ]
    assert TRACE.read(directory)["round"].to_list() == [*range(1, 11)] * 2
    assert TRACE.last_round(directory) == 10
    assert [set(piece["seed"]) for piece in TRACE.pieces(directory)] == [{1}, {2}]


def test_parts_become_one_file(directory, in_parts):
    rows = TRACE.read(directory)
    in_parts.finish()
    assert names(directory) == ["trace.parquet"]
    assert read_table(directory / "trace.parquet", run=directory.id).equals(rows)
    assert rows["clicks"].to_list() == [*range(10, 101, 10), *range(1, 11)]
    in_parts.finish()
    assert missing_rows(directory, {"trace.parquet": 20}) == ""
    assert missing_rows(directory, {"trace.parquet": 21}) == "trace.parquet has 20 rows, and 21 were written"


def test_rows_of_a_changed_file_are_not_counted(directory, in_parts):
    in_parts.finish()
    content = bytearray((directory / "trace.parquet").read_bytes())
    content[100] ^= 1
    (directory / "trace.parquet").write_bytes(content)
    assert missing_rows(directory, {"trace.parquet": 20}) == "trace.parquet was changed after it was written"


def test_truncation_removes_rows_of_parts(directory, in_parts):
    for round, parts in (8, 2), (4, 1), (3, 1), (0, 0):
        in_parts.truncate(round)
        assert TRACE.read(directory)["round"].to_list() == [*range(1, round + 1)] * 2
        assert in_parts.rows == {name: 2 * round if name == "trace.parquet" else 0 for name in in_parts.rows}
        assert len(directory.parts("trace.parquet")) >= parts
    in_parts.record(1, {"clicks": torch.tensor([5, 6])})
    in_parts.flush()
    assert TRACE.read(directory)["clicks"].to_list() == [6, 5]


def test_parts_that_a_killed_process_has_left_after_merging_do_not_count(directory, in_parts):
    parts = {path: path.read_bytes() for path in directory.parts("trace.parquet")}
    in_parts.finish()
    for path, content in parts.items():
        path.write_bytes(content)
    assert len(TRACE.read(directory)) == 20
    in_parts.truncate(9)
    assert names(directory) == ["trace.parquet"]
    in_parts.record(10, {"clicks": torch.tensor([10, 100])})
    in_parts.finish()
    assert TRACE.read(directory)["clicks"].to_list() == [*range(10, 101, 10), *range(1, 11)]


def test_a_lost_or_changed_part_is_noticed(directory, in_parts):
    part = directory / "trace.part00002.parquet"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    for read in TRACE.read, in_parts.trace.merge:
        with pytest.raises(DamagedTable, match=r"trace\.part00002\.parquet was changed after it was written"):
            read(directory)
    part.unlink()
    in_parts.record(11, {"clicks": torch.tensor([1, 1])})
    with pytest.raises(DirectoryLost, match=r"trace\.parquet has 14 rows, and 20 were written"):
        in_parts.flush()
    directory.clear()
    assert names(directory) == []


def test_a_full_buffer_is_written(directory, monkeypatch):
    monkeypatch.setattr(tables, "FLUSH_ROWS", 6)
    trace = Trace(directory, [1, 2])
    for t in (1, 2, 3, 4):
        trace.record(t, {"clicks": torch.tensor([t, t])})
    assert TRACE.read(directory)["round"].to_list() == [1, 2, 3] * 2
