"""Columns: what may be declared, the metrics that follow from a declaration, and the tables of columns in docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ol2r_cli.columns import Column, RunColumns, metrics_of, weighed_rounds
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.run.run import EVALUATION, TRACE

DOCS = Path(__file__).parents[1] / "docs/reference"
BETTER = {True: "higher", False: "lower", None: ""}


def test_a_column_that_cannot_be_written_is_refused():
    for settings, message in [
        ({"name": "My Column"}, "the name of a column must be of small letters, digits and _, got 'My Column'"),
        ({"name": "mine", "type": "Text"}, "the type of column mine must be one of Float32, .*, got 'Text'"),
        ({"name": "mine", "summary": "median"}, "the summary of column mine must be one of mean, .*, got 'median'"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}$"):
            Column(**settings)


def test_metrics_follow_from_columns():
    metrics = metrics_of([RunColumns()])
    assert metrics["test_ndcg_10"].heading == "test NDCG@10"
    assert metrics["online_ndcg_last_tenth"].axis == "online NDCG@10, last tenth"
    assert metrics["unfairness"].higher_is_better is False
    assert (metrics["unfairness"].heading, metrics["unfairness"].axis) == ("|unfairness|", "|cumulative unfairness|")
    assert metrics["best_round"].digits == 2
    assert "query" not in metrics
    traced = Column("mine", "my own"), Column("added", summary="sum"), Column("kept", summary="none")
    metrics = metrics_of([RunColumns({column.name: column for column in traced}, {})])
    assert list(metrics) == ["mine", "mine_last_tenth", "added", "best_round"]
    assert metrics["mine_last_tenth"].heading == "my own last tenth"
    size = metrics_of([RunColumns({"mine": Column("mine", "my own", summary="size")}, {})])["mine"]
    assert (size.heading, size.axis) == ("|my own|", "|my own|"), "of any column whose sign is lost"
    metrics = metrics_of([RunColumns({}, {"mine": Column("mine", "my own", higher_is_better=False)})])
    assert {name: (column.heading, column.higher_is_better) for name, column in metrics.items()} == {
        "test_mine": ("test my own", False),
        "test_mine_untrained": ("test my own, untrained", False),
        "validation_mine": ("validation my own", False),
        "validation_mine_untrained": ("validation my own, untrained", False),
        "best_round": ("best round", None),
    }


@pytest.mark.parametrize(
    ("discount", "rounds", "count"),
    [(1, 100, 95), (0.9995, 10**6, 5990), (0.9995, 5000, 4112), (0.5, 3, 3), (0.9, 1, 1)],
)
def test_a_discount_weighs_the_first_rounds(discount, rounds, count):
    """That many have 95 % of the weight, and one less has not, by the sum itself."""
    assert weighed_rounds(discount, rounds) == count
    weights = discount ** np.arange(rounds, dtype=float)
    assert weights[: count - 1].sum() < 0.95 * weights.sum() <= weights[:count].sum() * (1 + 1e-12)


def test_declared_columns_survive_the_manifest():
    """Declared columns survive the manifest, and those of another version are left out."""
    mine = Column("mine", "my own", "Int16", "sum", False, 1, "an axis")
    columns = RunColumns({**RunColumns().trace, "mine": mine}, RunColumns().evaluation)
    declared = columns.declared()
    assert list(declared) == ["trace"]
    assert RunColumns.of({"columns": declared}) == columns
    assert RunColumns.of({}) == RunColumns.of({"columns": None}) == RunColumns()
    assert not RunColumns().declared()
    declared = {"trace": [{"name": "mine", "colour": "red"}, {"name": "ours"}, "nonsense"], "evaluation": "nonsense"}
    assert RunColumns.of({"columns": declared}).trace.keys() - RunColumns().trace.keys() == {"ours"}


def rows(page: str, title: str) -> list[tuple[str, ...]]:
    """The cells of the rows of all tables below a heading whose first cell is code, without backquotes."""
    text = (DOCS / page).read_text()
    (section,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    lines = re.findall(r"^\| (`.*) ?\|$", section, re.M)
    return [tuple(cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)) for line in lines]


def declared(name: str) -> Iterator[tuple[str, ...]]:
    """The rows of a measure, from its class: names, types, summaries (of an evaluation the last value), directions."""
    (measure,) = (build(node) for node in compose([f"measures=[{name}]"]).config.measure.values())
    for table, columns in {"trace": measure.trace, "evaluation": measure.evaluation}.items():
        for column in columns:
            summary = "last" if table == "evaluation" else column.summary
            yield name, column.name, table, column.type, summary, BETTER[column.higher_is_better]


def test_pages_have_every_column_of_measures_and_runs():
    """Pages have every column of every measure and of every run."""
    names = Catalogue().choices["measure"]
    stated = [
        (name, column, *of) for name, columns, *of in rows("measures.md", "Columns") for column in columns.split(", ")
    ]
    assert stated == [row for name in names for row in declared(name)]
    assert {row[0] for row in rows("measures.md", "The measures of ol2r")} == set(names)
    for table in TRACE, EVALUATION:
        stated = rows("files.md", f"`{table.file}`")
        assert {name: kind for names, kind, _ in stated for name in names.split(", ")} == dict(table.columns)
