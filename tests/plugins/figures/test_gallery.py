"""The page of figures has every kind: its needs and options, a picture, and the command that draws it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from ol2r_cli.plugins.figures.kinds import KINDS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "how-to/figures.md").read_text()


def test_every_kind_has_a_picture_with_words():
    shown = re.findall(r"!\[([^]]+)\]\(\.\./pictures/gallery/(\w+)\.svg\)", PAGE)
    assert sorted(name for _, name in shown) == sorted(KINDS)
    assert all(len(words) > 30 for words, _ in shown)


def test_every_picture_is_drawn_by_a_command():
    commands = PAGE.partition("## Gallery")[2].replace("\\\n", " ")
    drawn = re.findall(r"^    \$ ol2r report .*?--figure ((?:\w+ )+)", commands, re.MULTILINE)
    assert sorted(name for names in drawn for name in names.split()) == sorted(KINDS)


def test_pictures_are_small_and_well_formed():
    files = sorted((DOCS / "pictures/gallery").iterdir())
    assert [file.stem for file in files] == sorted(KINDS)
    for file in files:
        ElementTree.parse(file)
        assert file.stat().st_size < 60_000, file


def test_the_table_has_every_kind_and_its_options():
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", PAGE.partition("## Options")[0], re.MULTILINE))
    assert sorted(rows) == sorted(KINDS)
    for name, kind in KINDS.items():
        assert all(f"`{option}`" in rows[name] or f"`--{option}" in rows[name] for option in kind.options), name
