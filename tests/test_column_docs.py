"""The tables of columns in docs/ are those of the code: names, types, summaries and directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ol2r_cli.columns import Column
from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.config.composer import compose
from ol2r_cli.config.instantiate import build
from ol2r_cli.run.tables import EVALUATION, TRACE

ROOT = Path(__file__).parents[1]
BETTER = {True: "higher", False: "lower", None: ""}
MEASURES = (ROOT / "docs" / "measures.md").read_text()


def section(page: str, title: str) -> str:
    """The text below a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    return text


def rows(text: str) -> list[tuple[str, ...]]:
    """The cells of the rows of all tables whose first cell is code, without backquotes."""
    lines = re.findall(r"^\| (`.*) ?\|$", text, re.M)
    return [tuple(cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line)) for line in lines]


def declared(name: str) -> Iterator[tuple[str, ...]]:
    """The rows of a measure, from its class."""
    (measure,) = (build(node) for node in compose([f"measures=[{name}]"]).config.measure.values())
    for table, columns in {"trace": measure.trace, "evaluation": measure.evaluation}.items():
        for column in columns:
            yield name, column.name, table, column.type, summary(table, column), BETTER[column.higher_is_better]


def summary(table: str, column: Column) -> str:
    """What summary.json has of a column; of an evaluation always the last value."""
    return "last" if table == "evaluation" else column.summary


def test_the_page_has_every_column_of_every_measure():
    names = Catalogue().choices["measure"]
    assert rows(section(MEASURES, "Columns")) == [row for name in names for row in declared(name)]
    assert {row[0] for row in rows(section(MEASURES, "The measures of ol2r"))} == set(names)


def test_the_columns_of_every_run_are_in_outputs():
    page = (ROOT / "docs" / "outputs.md").read_text()
    for table in TRACE, EVALUATION:
        stated = rows(section(page, f"`{table.file}`"))
        assert {name: kind for names, kind, _ in stated for name in names.split(", ")} == dict(table.columns)
