"""docs/reference/reproduced.md has the claims of all recipes of runs, and what is seen of each."""

from __future__ import annotations

from scripts import reproduced


def test_the_page_is_what_the_script_writes():
    text = reproduced.PAGE.read_text(encoding="utf-8")
    assert reproduced.page() == text, "type python scripts/reproduced.py"
    assert "| **no**, it is first early on only;" in text
