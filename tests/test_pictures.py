"""`make pictures` draws the files in docs/pictures, and the one of PairRank shows what its definitions say."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
pictures = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts/pictures.py")))


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_that_of_the_script(name: str):
    drawn, file = str(pictures.PICTURES[name]()), ROOT / f"docs/pictures/{name}.svg"
    assert file.read_text() == drawn
    assert len(drawn) < 60_000
    ElementTree.fromstring(drawn)


def test_the_picture_of_pairrank_keeps_its_definitions():
    """Closure is the smallest transitive relation, blocks are the finest partition, lists keep every certain pair."""
    found = pictures.divided(lists=4)
    documents = len(found.scores)
    stated, closed = np.array(found.stated), np.array(found.closed)
    paths = np.linalg.matrix_power(np.eye(documents) + stated, documents) - np.eye(documents)
    assert np.array_equal(closed, paths > 0)
    assert not np.array_equal(closed, stated)
    assert found.scores == sorted(found.scores, reverse=True)
    begins = [closed[:end, end:].all() for end in range(documents)]
    assert found.blocks == [sum(begins[1 : document + 1]) for document in range(documents)]
    for order in found.lists:
        assert sorted(order) == list(range(documents))
        assert not np.tril(closed[np.ix_(order, order)]).any(), "a document is below one that is certainly worse"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_shown_with_words(name: str):
    """A page that shows it says in its alternative text what is seen."""
    pages = "\n".join(path.read_text() for path in (ROOT / "docs/explanation").glob("*.md"))
    (words,) = pages.partition(f"](../pictures/{name}.svg)")[0].rpartition("![")[2:]
    assert len(words) > 60
