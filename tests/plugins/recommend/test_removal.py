"""Everything else works without recommendation: no other file names it."""

from __future__ import annotations

import re
from pathlib import Path

from ol2r_cli.config.catalogue import Catalogue
from ol2r_cli.plugins.recommend.plugin import PLUGIN

ROOT = Path(__file__).parents[3]
OWN = ("ol2r_cli/plugins/recommend", "tests/plugins/recommend", *PLUGIN.files)
INDEXES = (  # have lines that name what there is
    *("README.md", "docs/README.md", "docs/how-to/reproduce.md", "docs/explanation/architecture.md"),
    *("docs/reference/commands.md", "docs/reference/settings.md"),
)
WORDS = ("recommend", "reviews?", "list model", "users as units", *Catalogue(root="recommend").choices["model"])


def own_files() -> set[Path]:
    return {path for pattern in OWN for path in ROOT.glob(pattern)}


def other_files(*folders: str) -> list[Path]:
    """The files of text of these folders that are not of recommendation."""
    own, suffixes = own_files(), (".py", ".yaml", ".jinja", ".css", ".bib", ".md", ".sh")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    return [path for path in files if not own & {path, *path.parents}]


def test_no_other_code_names_it():
    named = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in other_files("ol2r_cli", "configs", "scripts", "tests")
        for line in path.read_text(encoding="utf-8").splitlines()
        if named.search(line)
    ]
    assert lines == []


def test_no_other_page_leads_to_it():
    names = [path.stem for path in own_files() if path.suffix in (".md", ".py") or path.parent.name == "reproduce"]
    pages = [path for path in other_files("docs") if path.relative_to(ROOT).as_posix() not in INDEXES]
    leading = [f"{page.name}: {name}" for page in pages for name in names if f"{name}.md" in page.read_text()]
    assert leading == []
    assert not [page.name for page in pages if "ol2r recommend" in page.read_text()]
