"""The metadata of published tables say what is in them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[3]
WRITTEN = runpy.run_path(str(ROOT / "scripts" / "croissant.py"), run_name="croissant")


def test_metadata_are_those_of_the_tables():
    """`python scripts/croissant.py` writes them again."""
    assert json.loads(WRITTEN["FILE"].read_text()) == WRITTEN["croissant"]()


def test_persons_and_organisations_of_the_citation_are_creators():
    authors = [
        {"name": "A Laboratory"},
        {"family-names": "Hopper", "given-names": "Grace", "orcid": "https://orcid.org/0"},
    ]
    assert WRITTEN["creators"](authors) == [
        {"@type": "sc:Organization", "name": "A Laboratory"},
        {"@type": "sc:Person", "name": "Grace Hopper"},
    ]


def test_every_column_is_described():
    for path in WRITTEN["FOLDER"].glob("*.parquet"):
        fields = WRITTEN["record_set"](path)["field"]
        described = {field["source"]["extract"]["column"]: field["description"] for field in fields}
        assert list(described) == list(pl.read_parquet_schema(path))
        assert not [name for name, text in described.items() if text == name], "a column without words"
