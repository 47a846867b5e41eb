"""Columns: what may be declared, and the metrics that follow from a declaration."""

from __future__ import annotations

import pytest

from ol2r_cli.columns import Column, RunColumns, metrics_of, metrics_of_evaluation, metrics_of_trace


def test_a_column_that_cannot_be_written_is_refused():
    for settings, message in [
        ({"name": "My Column"}, "the name of a column must be of small letters, digits and _, got 'My Column'"),
        ({"name": "mine", "type": "Text"}, "the type of column mine must be one of Float32, .*, got 'Text'"),
        ({"name": "mine", "summary": "median"}, "the summary of column mine must be one of mean, .*, got 'median'"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            Column(**settings)


def test_metrics_of_a_column_of_the_trace():
    assert list(metrics_of_trace(Column("mine"))) == ["mine", "mine_last_tenth"]
    assert list(metrics_of_trace(Column("mine", summary="sum"))) == ["mine"]
    assert list(metrics_of_trace(Column("mine", summary="none"))) == []
    assert metrics_of_trace(Column("mine", "my own"))["mine_last_tenth"].heading == "my own last tenth"


def test_metrics_of_a_column_of_the_evaluation():
    metrics = metrics_of_evaluation(Column("mine", "my own", higher_is_better=False))
    assert {name: column.heading for name, column in metrics.items()} == {
        "test_mine": "test my own",
        "test_mine_untrained": "test my own, untrained",
        "validation_mine": "validation my own",
        "validation_mine_untrained": "validation my own, untrained",
    }
    assert not any(column.higher_is_better for column in metrics.values())


def test_declared_columns_survive_the_manifest():
    mine = Column("mine", "my own", "Int16", "sum", False, 1, "an axis")
    columns = RunColumns({**RunColumns().trace, "mine": mine}, RunColumns().evaluation)
    declared = columns.declared()
    assert list(declared) == ["trace"]
    assert RunColumns.of({"columns": declared}) == columns
    assert RunColumns.of({}) == RunColumns.of({"columns": None}) == RunColumns()
    assert not RunColumns().declared()


def test_a_declaration_of_another_version_is_left_out():
    declared = {"trace": [{"name": "mine", "colour": "red"}, {"name": "ours"}, "nonsense"], "evaluation": "nonsense"}
    assert RunColumns.of({"columns": declared}).trace.keys() - RunColumns().trace.keys() == {"ours"}


def test_every_metric_of_a_default_run_is_described():
    metrics = metrics_of([RunColumns()])
    assert metrics["test_ndcg_10"].heading == "test NDCG@10"
    assert metrics["online_ndcg_last_tenth"].axis == "online NDCG@10, last tenth"
    assert metrics["unfairness"].higher_is_better is False
    assert metrics["best_round"].digits == 2
    assert "query" not in metrics
