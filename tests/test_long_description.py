"""What an index of packages shows: README with links and pictures that lead to the repository, and its addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ol2r_cli import __version__
from tests import cases
from tests.test_readme import README, _headings
from tests.test_site import References

pytest.importorskip("hatchling")
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/Learners/ol2r"
CPU = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


def built(repository: str):
    """The metadata of a package that is built of this clone, with the address of a repository in pyproject.toml."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    config["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"] = repository
    return ProjectMetadata(str(ROOT), PluginManager(), config).core


def rendered(text: str) -> References:
    """What the page of an index loads and links to, other than places of its own, such as its headings."""
    markdown = pytest.importorskip("readme_renderer.markdown")
    html = markdown.render(text)
    assert html is not None
    page = References(html)
    own = {f"#{place}" for place in re.findall(r' id="([^"]*)"', html)}
    page.linked = [link for link in page.linked if link not in own]
    return page


def is_broken(link: str, kind: str) -> bool:
    """Whether a link does not lead to a file of this version, as a page (blob) or as it is (raw), or out of here."""
    if not link.startswith(REPOSITORY):
        return urlsplit(link).scheme != "https"
    path, _, place = link.removeprefix(f"{REPOSITORY}/{kind}/v{__version__}/").partition("#")
    return not (ROOT / path).exists() or bool(place and place not in _headings((ROOT / path).read_text()))


def test_an_index_shows_no_broken_link_and_no_broken_picture():
    page = rendered(built(REPOSITORY).readme)
    assert [link for link in page.linked if is_broken(link, "blob")] == []
    assert [picture for picture in page.loaded if is_broken(picture, "raw")] == []
    assert len(page.linked) == len(re.findall(r"(?<!!)\[[^]]*\]\(", README))
    assert len(page.loaded) == README.count("![")


LINKS = f"""
docs/README.md | broken
{REPOSITORY}/blob/v{__version__}/docs/README.md | sound
{REPOSITORY}/raw/v{__version__}/docs/README.md | broken
{REPOSITORY}/blob/v{__version__}/docs/nothing.md | broken
{REPOSITORY}/blob/v{__version__}/docs/README.md#do | sound
{REPOSITORY}/blob/v{__version__}/docs/README.md#nothing | broken
{REPOSITORY}/blob/v0/docs/README.md | broken
https://example.org | sound
"""


@pytest.mark.parametrize(("link", "state"), cases.lines(LINKS))
def test_broken_links_are_found(link, state):
    assert is_broken(link, "blob") is (state == "broken")


def test_only_the_targets_of_links_differ_from_readme():
    text = built(REPOSITORY).readme
    assert text != README
    assert re.sub(rf"{REPOSITORY}/(blob|raw)/v{re.escape(__version__)}/", "", text) == README


def test_addresses_follow_from_that_of_the_repository():
    assert built(REPOSITORY).urls == {
        "Documentation": "https://learners.github.io/ol2r/",
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/HEAD/CHANGELOG.md",
    }


def test_without_an_address_a_package_has_readme_as_it_stands():
    assert (built("").readme, built("").urls) == (README, {})


@pytest.mark.parametrize("given", [f"{REPOSITORY}/", f"{REPOSITORY}.git/tree", "github.com/Learners/ol2r", "ol2r"])
def test_an_address_of_another_form_is_refused(given):
    with pytest.raises(ValueError, match=f"repository must be https://github.com/OWNER/NAME, got {given}$"):
        _ = built(given).urls


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_what_is_typed_first_without_a_gpu_comes_first(page):
    """PyPI's torch for Linux is the build for CUDA, which pip takes where no torch is there."""
    lines = (ROOT / page).read_text().splitlines()
    (first,) = (number for number, line in enumerate(lines) if line.startswith(f"    {CPU}"))
    packages = [number for number, line in enumerate(lines) if re.match(r"    pip install '?ol2r", line)]
    assert first + 1 == packages[0]
