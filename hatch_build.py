"""What an index of packages shows of ol2r: its addresses, and README with links that lead somewhere outside a clone.

hatchling runs this in every build. The address of the repository is `repository` below
`[tool.hatch.metadata.hooks.custom]` in pyproject.toml. While it is empty, there are no addresses, and README is shown
as it stands.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REPOSITORY = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+)")
_RELATIVE = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")  # the target of [text](target) and of ![text](target)


class Description(MetadataHookInterface):
    """The fields `urls` and `readme`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write both fields."""
        repository, text = self.config["repository"], Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = addresses(repository)
        if repository:
            text = with_addresses(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def addresses(repository: str) -> dict[str, str]:
    """Return the addresses of a project by their name; none of a repository without an address."""
    if not repository:
        return {}
    found = _REPOSITORY.fullmatch(repository)
    if not found:
        raise ValueError(f"repository must be https://github.com/OWNER/NAME, got {repository}")
    owner, name = found.groups()
    return {
        "Documentation": f"https://{owner.lower()}.github.io/{name}/",
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
    }


def with_addresses(text: str, repository: str, version: str) -> str:
    """Return Markdown whose relative links and pictures lead to the files of the tag of a version."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if PurePosixPath(found[1]).suffix == ".svg" else "blob"
        return f"]({repository}/{kind}/v{version}/{found[1]})"

    return _RELATIVE.sub(absolute, text)
