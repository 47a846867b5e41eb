"""README.md begins with the two commands that set everything up; links of all pages lead somewhere.

What its other commands print is compared in tests/test_pages.py.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_set_up_stands_first_and_then_a_command_that_works():
    commands = re.findall(r"^    (?:\$ )?((?:make|\.|ol2r) .*?)(?:  +#.*)?$", README, re.MULTILINE)
    assert commands[:4] == ["make run", "make test", ". .venv/bin/activate", "ol2r run"]
    assert README.splitlines()[2].startswith("    make run")


def test_it_is_one_page():
    assert len(README.split()) <= 900


def test_links_lead_somewhere():
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")):
        text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            path, _, place = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            assert target.exists(), (file, link)
            assert not place or place in _headings(target.read_text()), (file, link)


def _headings(text: str) -> set[str]:
    """The names that a heading is linked by: small letters, blanks as hyphens, without other signs; a number for the
    second heading of a name."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    names = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return {f"{name}-{count}" if count else name for name, count in zip(names, before, strict=True)}
