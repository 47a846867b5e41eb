"""Where the numbers of a run come from: the line that was typed, the versions, the commit."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ol2r_cli import __version__


def command_line(arguments: Sequence[str] | None = None) -> str:
    """What to type to run this again; `arguments` as in `sys.argv`."""
    program, *rest = sys.argv if arguments is None else arguments
    name = Path(program).name
    words = {"ol2r": ["ol2r"], "__main__.py": ["python", "-m", "ol2r_cli"]}.get(name, ["python", program])
    return shlex.join([*words, *rest])


def versions() -> dict[str, str | None]:
    """Version of each package that decides numbers, from its metadata, so that nothing is imported for it."""
    found: dict[str, str | None] = {"ol2r": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy"):
        found[package] = None
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def checkout(root: Path | None = None) -> dict[str, Any] | None:
    """Commit and dirty flag of the git checkout whose top holds this package; None for an installed package."""
    root = Path(__file__).parents[2] if root is None else root
    if not (root / ".git").exists():  # an environment inside somebody's repository is not a checkout of ours
        return None
    describe = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=True, env=clean)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, dirty = answer.stdout.strip().partition("-")
    return {"commit": commit, "dirty": bool(dirty)}
