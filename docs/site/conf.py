"""How `make docs` builds the site: Markdown of the repository, and docstrings. Warnings are errors there."""

from __future__ import annotations

from ol2r_cli import __version__

project = "ol2r"
release = version = __version__
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_copybutton"]

# The sources are those that GitHub shows: README and docs/ of the repository, which is the source folder.
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**"]
exclude_patterns = ["docs/site/**"]
external_toc_path = "docs/site/navigation.yml"
smartquotes = False  # --out stays two hyphens
myst_heading_anchors = 4  # anchors of headings as on GitHub

html_theme = "furo"
html_title = f"ol2r {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False  # no page of the index: pages are found by search
copybutton_prompt_text = "$ "  # commands are copied without what they print
