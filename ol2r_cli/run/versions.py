"""The program that plays a run: versions of ol2r and of the packages that decide numbers, and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ol2r_cli import __version__
from ol2r_cli.source import code_hash

_version = cache(version)


def versions(packages: Sequence[str] = ()) -> dict[str, str | None]:
    """Return the versions of the packages that decide numbers, from their metadata, so that none has to be imported.

    `packages` are more than those of every run. A package that is not installed has None.
    `ol2r_code` is the hash of all files of ol2r.
    """
    versions: dict[str, str | None] = {"ol2r": __version__, "ol2r_code": code_hash()[:12]}
    versions["python"] = platform.python_version()
    for package in ("torch", "numpy", "numba", *packages):
        versions[package] = None
        with suppress(PackageNotFoundError):
            versions[package] = _version(package)
    return versions


def version_line() -> str:
    """Return the version, with the commit where the package is a checkout: `0.2.0 (commit 0123abc, modified)`."""
    git = checkout()
    if git is None:
        return __version__
    modified = ", modified" if git["dirty"] else ""
    return f"{__version__} (commit {git['commit'][:7]}{modified})"


def checkout(root: Path | None = None) -> dict[str, Any] | None:
    """Return the commit and the dirty flag of the git checkout that contains this package at its top level.

    None for an installed package, also if its environment is inside another project's repository.
    """
    root = Path(__file__).parents[2] if root is None else root
    if not (root / ".git").exists():
        return None
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=True, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, dirty = answer.stdout.strip().partition("-")
    return {"commit": commit, "dirty": bool(dirty)}
