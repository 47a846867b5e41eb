"""`make pictures` draws the files in docs/pictures, and the one of PairRank shows what its definitions say."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

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
    documents = range(len(found.scores))
    closed = [list(row) for row in found.stated]
    for middle in documents:
        for i in documents:
            for j in documents:
                closed[i][j] = closed[i][j] or (closed[i][middle] and closed[middle][j])
    assert closed == found.closed != found.stated
    assert found.scores == sorted(found.scores, reverse=True)
    begins = [all(closed[i][j] for i in range(end) for j in documents[end:]) for end in documents]
    assert found.blocks == [sum(begins[1 : document + 1]) for document in documents]
    for order in found.lists:
        assert sorted(order) == list(documents)
        for above, document in enumerate(order):
            assert not any(closed[below][document] for below in order[above:])


def test_every_picture_is_shown_with_words():
    """A page that shows a picture says in its alternative text what is seen."""
    pages = "\n".join(path.read_text() for path in (ROOT / "docs/explanation").glob("*.md"))
    for name in pictures.PICTURES:
        (words,) = pages.partition(f"](../pictures/{name}.svg)")[0].rpartition("![")[2:]
        assert len(words) > 60, name
