"""Put a built site among those of other versions.

    python scripts/versions.py dist/site PAGES 0.3.0      of a release
    python scripts/versions.py dist/site PAGES dev        of what is not released

The site becomes PAGES/0.3.0, in place of what was there. PAGES/index.html leads to the newest release, or to `dev`
before there is one, and PAGES/versions.html lists all. `.github/workflows/pages.yml` publishes PAGES.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

DEV = "dev"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>ol2r</title>
{head}</head>
<body>
{body}
</body>
</html>
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Copy the site, and write both pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("pages", type=Path)
    parser.add_argument("version")
    given = parser.parse_args(arguments)
    if given.version != DEV and not _is_release(given.version):
        parser.error(f"the version must be {DEV} or as in 0.3.0, got {given.version}")
    if (given.pages / given.version).exists():
        shutil.rmtree(given.pages / given.version)
    shutil.copytree(given.site, given.pages / given.version)
    versions = in_order([folder.name for folder in given.pages.iterdir() if folder.is_dir()])
    head = f'<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">\n'
    body = f'<p><a href="{versions[0]}/index.html">ol2r {versions[0]}</a></p>'
    (given.pages / "index.html").write_text(PAGE.format(head=head, body=body), encoding="utf-8")
    links = [f'<li><a href="{version}/index.html">ol2r {version}</a></li>' for version in versions]
    body = "\n".join(["<h1>Versions of ol2r</h1>", "<ul>", *links, "</ul>"])
    (given.pages / "versions.html").write_text(PAGE.format(head="", body=body), encoding="utf-8")
    (given.pages / ".nojekyll").touch()  # otherwise GitHub leaves out folders such as _static


def in_order(names: Sequence[str]) -> list[str]:
    """Return the versions among names: releases from the newest, then those before a release, then `dev`."""
    releases = sorted(filter(_is_release, names), key=Version, reverse=True)
    before = [name for name in releases if Version(name).is_prerelease]
    return [name for name in releases if name not in before] + before + [name for name in names if name == DEV]


def _is_release(name: str) -> bool:
    try:
        return str(Version(name)) == name
    except InvalidVersion:
        return False


if __name__ == "__main__":
    main()
