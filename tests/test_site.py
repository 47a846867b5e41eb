"""The site of `make docs`: its navigation has every page once, and nothing of it comes from another machine."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from ol2r_cli import __version__
from scripts import versions

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
REPOSITORY = "https://github.com/learners/ol2r"
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}  # and not only linked


def test_navigation_has_every_page_once():
    navigation = yaml.safe_load((SITE / "navigation.yml").read_text())
    listed = [navigation["root"]] + [page["file"] for part in navigation["subtrees"] for page in part["entries"]]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert sorted(listed) == sorted(page.relative_to(ROOT).with_suffix("").as_posix() for page in pages)


def test_titles_in_the_sidebar_are_short():
    navigation = yaml.safe_load((SITE / "navigation.yml").read_text())
    titles = [page["title"] for part in navigation["subtrees"] for page in part["entries"]]
    assert [title for title in titles if len(title) > 30] == []


class References(HTMLParser):
    """What a page of HTML loads, and what it links to."""

    def __init__(self, text: str):
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get(LOADED.get(tag)):
            self.loaded.append(values[LOADED[tag]])
        if tag == "a" and values.get("href"):
            self.linked.append(values["href"])


@pytest.mark.slow
def test_the_site_needs_no_network_and_has_all_its_files(tmp_path):
    """It is the one of a version beside others, as it is published: pages lead to the list of versions, too."""
    pytest.importorskip("sphinx")
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-c", str(SITE), "-d", str(tmp_path / "state")]
    published = ["-A", "versions=1", "-D", f"html_theme_options.source_repository={REPOSITORY}"]
    done = subprocess.run([*build, *published, str(ROOT), str(tmp_path / "site")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    versions.main([str(tmp_path / "site"), str(tmp_path / "pages"), "dev"])
    pages = list(tmp_path.glob("pages/**/*.html"))
    assert len(pages) > 60
    for page in pages:
        references = References(page.read_text())
        assert [link for link in references.loaded if urlsplit(link).netloc] == [], page
        for link in references.loaded + references.linked:
            target = urlsplit(link)
            if not target.scheme and target.path:
                assert (page.parent / unquote(target.path)).exists(), (page, link)
    assert not [sheet for sheet in tmp_path.glob("pages/**/*.css") if "@import" in sheet.read_text()]
    install = References((tmp_path / "pages/dev/docs/how-to/install.html").read_text()).linked
    assert "../../../versions.html" in install
    assert f"{REPOSITORY}/blob/v{__version__}/docs/how-to/install.md?plain=true" in install
