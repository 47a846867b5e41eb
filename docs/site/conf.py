"""How `make docs` builds the site: Markdown of the repository, and docstrings. Warnings are errors there."""

from __future__ import annotations

import tomllib
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from ol2r_cli import __version__

SETTINGS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
project = "ol2r"
release = version = __version__
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_copybutton"]

# The sources are those that GitHub shows: README and docs/ of the repository, which is the source folder.
include_patterns = ["README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**"]
exclude_patterns = ["docs/site/**"]
external_toc_path = "docs/site/navigation.yml"
smartquotes = False  # --out stays two hyphens
myst_enable_extensions = ["dollarmath"]  # formulas, as on GitHub
myst_dmath_allow_digits = False  # $1 is money
myst_dmath_allow_space = False
html_math_renderer = "mathml"
myst_heading_anchors = 4  # anchors of headings as on GitHub

html_theme = "furo"
html_title = f"ol2r {version}"
html_theme_options = {  # of every page, a link to its file in the repository, once that has an address
    "source_repository": SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"],
    "source_branch": f"v{version}",
    "source_directory": "",
    "top_of_page_buttons": ["view"],
}
templates_path = ["templates"]
html_sidebars = {  # those of the theme, and versions
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_additional_pages = {"index": "index.html"}  # leads to README.html
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False  # no page of the index: pages are found by search
linkcheck_retries = 3  # of `make links`
copybutton_prompt_text = "$ "  # commands are copied without what they print


def setup(app: Sphinx) -> None:
    """Write formulas as MathML, which browsers show without a script of another machine."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))


def write_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def write_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own, which scrolls where the window is narrower."""
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode
